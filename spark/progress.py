"""How far a stream is behind: lag() for a progress report, and a listener that logs it.

Spark has no room for a Python source's own metrics in its progress reports. What it does report
is how far the query came and how far the broker was, and the difference is the lag.
"""

import json
import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    from pyspark.sql.streaming.listener import (
        QueryIdleEvent,
        QueryProgressEvent,
        QueryStartedEvent,
        QueryTerminatedEvent,
    )

from pyspark.sql.streaming.listener import StreamingQueryListener

LOG: Final = logging.getLogger("borzoi.spark")
OURS: Final = "iggy"


class Lag(NamedTuple):
    """Rows that wait: all, the most in one partition, and by (topic, partition)."""

    total: int
    largest: int
    by_partition: Mapping[tuple[str, int], int]


def lag(progress: Any) -> Lag:
    """Of a StreamingQueryProgress, its JSON text, or the dict of it."""
    if hasattr(progress, "json"):
        progress = progress.json
    if isinstance(progress, str):
        progress = json.loads(progress)
    waiting: dict[tuple[str, int], int] = {}
    for source in progress["sources"]:
        end, latest = _offsets(source.get("endOffset")), _offsets(source.get("latestOffset"))
        for place, next_offset in latest.items():
            waiting[place] = max(0, next_offset - end.get(place, 0))
    return Lag(sum(waiting.values()), max(waiting.values(), default=0), waiting)


class ProgressListener(StreamingQueryListener):
    """Logs each batch of every query: rows, rate, duration, lag.

    spark.streams.addListener(ProgressListener())
    """

    def onQueryStarted(self, event: "QueryStartedEvent") -> None:
        """Logs the name of the query. Called by Spark, as all of these."""
        LOG.info("query %s started (run %s)", event.name or event.id, event.runId)

    def onQueryProgress(self, event: "QueryProgressEvent") -> None:
        """Logs the figures of a batch."""
        LOG.info("%s", summary(json.loads(event.progress.json)))

    def onQueryIdle(self, event: "QueryIdleEvent") -> None:
        """Logs an idle query, for debugging only."""
        LOG.debug("query %s has nothing to do", event.id)

    def onQueryTerminated(self, event: "QueryTerminatedEvent") -> None:
        """Logs the end of a query, and its error if it failed."""
        if event.exception:
            LOG.error("query %s failed: %s", event.id, event.exception)
        else:
            LOG.info("query %s ended", event.id)


def summary(progress: Mapping[str, Any]) -> str:
    """One line about one batch."""
    behind = lag(progress)
    rate = progress.get("processedRowsPerSecond") or 0.0
    duration_ms = progress.get("durationMs", {}).get("triggerExecution", 0)
    return (
        f"batch {progress['batchId']}: {progress['numInputRows']:,} rows in {duration_ms:,} ms"
        f" ({rate:,.0f} rows/s), {behind.total:,} waiting"
    )


def _offsets(value: Any) -> dict[tuple[str, int], int]:
    """The next offsets of one of our sources; nothing for any other."""
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except ValueError:
            return {}
    if not isinstance(value, dict):
        return {}
    try:
        return {
            (topic, int(number)): fields["next"]
            for topic, partitions in value.items()
            for number, fields in partitions.items()
        }
    except (AttributeError, KeyError, TypeError, ValueError):
        return {}
