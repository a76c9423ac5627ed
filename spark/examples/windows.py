"""Events per minute and kind, as they come: windows with a watermark.

Payloads are JSON, `{"kind": "login", "at": "2030-01-31T12:00:00Z"}`. Events may come late by
`--late`; a window is written once nothing more can come for it, so the files only ever grow.

    python -m borzoi.spark.examples.windows orders/events --to lake/per-minute
"""

from typing import TYPE_CHECKING

import click

from borzoi.spark.pipeline import BrokerTopic, follow, place_options, with_spark
from borzoi.terminal import VisibleErrors, say

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SCHEMA = "kind string, at timestamp"


def per_minute(rows: "DataFrame", late: str = "10 minutes") -> "DataFrame":
    """Returns the number of events per minute and kind; rows later than `late` are dropped."""
    from pyspark.sql import functions as sql

    event = sql.from_json(sql.col("payload").cast("string"), SCHEMA)
    return (
        rows.select(event.alias("event"))
        .select("event.kind", "event.at")
        .withWatermark("at", late)
        .groupBy(sql.window("at", "1 minute"), "kind")
        .count()
        .select("window.start", "kind", "count")
    )


def run(spark: "SparkSession", place: BrokerTopic, target: str, late: str = "10 minutes") -> int:
    """Everything there is now; started again it goes on with what has come since."""
    rows = (
        spark.readStream.format("iggy")
        .options(**place.options, stream=str(place.stream), topic=str(place.topic))
        .option("startingOffsets", "earliest")
        .load()
    )
    query = (
        per_minute(rows, late)
        .writeStream.format("parquet")
        .outputMode("append")
        .option("path", target)
        .option("checkpointLocation", f"{target}/_checkpoint")
        .trigger(availableNow=True)
        .start()
    )
    return follow(query, say)


@click.command(cls=VisibleErrors)
@place_options
@click.option("--to", "target", required=True)
@click.option("--late", default="10 minutes", show_default=True)
def main(
    place: BrokerTopic,
    master: str,
    target: str,
    late: str,
) -> None:
    """Count events per minute and kind, as they come."""
    with_spark(master, lambda spark: run(spark, place, target, late))


if __name__ == "__main__":
    main()
