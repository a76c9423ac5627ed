"""The rows about NATS: only of shards that have NATS servers configured."""

from collections.abc import Iterator, Mapping
from typing import Final

from borzoi.protocol.openmetrics import Family, MetricKind
from borzoi.shards.metrics.shard_figures import NatsFigures, ShardFigures

GAUGES: Final = {
    "connected": "1 if the shard is connected to a NATS server.",
    "subscriptions": "Partitions of the shard that listen on their subjects.",
    "pending_bytes": "Bytes of NATS messages on their way into the log.",
}
COUNTERS: Final = {
    "disconnects": "How often the connection to NATS was lost.",
    "received_messages": "Messages that NATS has delivered.",
    "stored_messages": "Those that are in the log.",
    "enveloped_messages": "Those that were a Liftbridge envelope.",
    "malformed_envelopes": "Those that began like an envelope and were stored as plain messages.",
    "acks": "Acks that were sent.",
    "unsent_acks": "Acks that were not: no connection, too many that waited, or no legal inbox.",
}
DROPPED: Final = "Messages of NATS that were not stored."
REASONS: Final = ("overflowed", "refused", "failed", "unreadable")


def nats_families(shards: Mapping[int, ShardFigures]) -> Iterator[Family]:
    """All families about NATS."""
    found = {number: one.nats for number, one in shards.items() if one.nats is not None}
    for name, help in GAUGES.items():
        yield _family(name, MetricKind.GAUGE, help, found)
    for name, help in COUNTERS.items():
        yield _family(name, MetricKind.COUNTER, help, found)
    rows = [
        ((number, reason), getattr(one, reason))
        for number, one in found.items()
        for reason in REASONS
    ]
    labels = ("shard", "reason")
    yield Family("borzoi_nats_dropped_messages", MetricKind.COUNTER, DROPPED, labels, rows)


def _family(name: str, kind: MetricKind, help: str, found: Mapping[int, NatsFigures]) -> Family:
    rows = [((number,), int(getattr(one, name))) for number, one in found.items()]
    return Family(f"borzoi_nats_{name}", kind, help, ("shard",), rows)
