r"""Read a range of time again, into files of its own: a replay after a fixed bug, a backfill.

The same range gives the same rows, so a backfill may be repeated: the day's files are replaced.

    python -m borzoi.spark.examples.backfill orders/events --to lake/again \
        --since 2030-01-31T00:00:00Z --until 2030-02-01T00:00:00Z
"""

from typing import TYPE_CHECKING

import click

from borzoi.spark.pipeline import BrokerTopic, place_options, with_payload, with_spark
from borzoi.terminal import VisibleErrors, say

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def run(spark: "SparkSession", place: BrokerTopic, target: str, since: str, until: str) -> int:
    """How many rows there were in that time."""
    rows = (
        spark.read.format("iggy")
        .options(**place.options, stream=str(place.stream), topic=str(place.topic))
        .option("startingTimestamp", since)
        .option("startingOffsetsByTimestampStrategy", "latest")
        .option("endingTimestamp", until)
        .load()
    )
    frame = with_payload(rows, None)
    frame.write.mode("overwrite").option("partitionOverwriteMode", "dynamic").partitionBy(
        "topic", "date"
    ).parquet(target)
    count: int = frame.count()
    return count


@click.command(cls=VisibleErrors)
@place_options
@click.option("--to", "target", required=True)
@click.option("--since", required=True, help="A time such as 2030-01-31T12:00:00Z, or -2h.")
@click.option("--until", required=True)
def main(
    place: BrokerTopic,
    master: str,
    target: str,
    since: str,
    until: str,
) -> None:
    """Read a range of time again, into files of its own."""
    count = with_spark(master, lambda spark: run(spark, place, target, since, until))
    say(f"{count:,} rows")


if __name__ == "__main__":
    main()
