"""The workloads of a duel: shapes that iggy-bench has, too, from large batches to single messages.

Values only. A row is one kind of load with fixed counts; what differs between two servers is then
the server. Rows with an offered rate show latency at that rate, all others how much goes through.
"""

from dataclasses import dataclass
from typing import Final

from borzoi.bench.kinds import (
    BALANCED_BOTH,
    BALANCED_GROUP,
    BALANCED_PRODUCER,
    END_TO_END,
    PINNED_BOTH,
    PINNED_CONSUMER,
    PINNED_PRODUCER,
    Kind,
)
from borzoi.bench.quantities import MB


@dataclass(frozen=True, slots=True)
class DuelRow:
    """One workload. `rate` is offered by all producers together, in bytes per second.

    `in_pieces`: requests leave in three writes with Nagle's algorithm on, as the official clients
    write them.
    """

    name: str
    kind: Kind
    messages_per_batch: int
    message_size: int
    producers: int | None = None
    consumers: int | None = None
    partitions: int | None = None
    rate: int | None = None
    in_pieces: bool = False

    @property
    def shape(self) -> str:
        """The workload in words."""
        counts = [
            f"{count} {noun}{'' if count == 1 else 's'}"
            for count, noun in (
                (self.producers, "pair" if self.kind.pairs else "producer"),
                (self.consumers, "member" if self.kind.groups else "consumer"),
            )
            if count
        ]
        words = [
            f"{self.kind.name}, {self.messages_per_batch:,} x {self.message_size:,} B",
            *counts,
            *([f"{self.partitions} partitions"] if self.partitions else []),
            *([f"{self.rate // MB} MB/s offered"] if self.rate else []),
            *(["in pieces"] if self.in_pieces else []),
        ]
        return ", ".join(words)


DUEL_ROWS: Final = {
    row.name: row
    for row in (
        DuelRow("produce-large", PINNED_PRODUCER, 1000, 1000, producers=1),
        DuelRow("consume-large", PINNED_CONSUMER, 1000, 1000, consumers=1),
        DuelRow("produce-small", PINNED_PRODUCER, 1000, 100, producers=1),
        DuelRow("consume-small", PINNED_CONSUMER, 1000, 100, consumers=1),
        DuelRow("produce-many", PINNED_PRODUCER, 1000, 1000, producers=8),
        DuelRow("consume-many", PINNED_CONSUMER, 1000, 1000, consumers=8),
        DuelRow("produce-single-8", PINNED_PRODUCER, 1, 1000, producers=8),
        DuelRow("produce-single-32", PINNED_PRODUCER, 1, 1000, producers=32),
        DuelRow("produce-tiny-32", PINNED_PRODUCER, 1, 100, producers=32),
        DuelRow("consume-ten", PINNED_CONSUMER, 10, 1000, consumers=8),
        DuelRow("balanced", BALANCED_PRODUCER, 100, 1000, producers=8, partitions=8),
        DuelRow("group", BALANCED_GROUP, 100, 1000, consumers=8),
        DuelRow("both", PINNED_BOTH, 1000, 1000, producers=2, consumers=2),
        DuelRow("pairs", END_TO_END, 100, 1000, producers=4),
        DuelRow("offered-100", PINNED_BOTH, 100, 1000, producers=2, consumers=2, rate=100 * MB),
        DuelRow(
            "offered-50-group",
            BALANCED_BOTH,
            100,
            1000,
            producers=4,
            consumers=4,
            partitions=8,
            rate=50 * MB,
        ),
        DuelRow("offered-10", PINNED_BOTH, 10, 1000, producers=4, consumers=4, rate=10 * MB),
        DuelRow(
            "offered-10-pieces",
            PINNED_BOTH,
            10,
            1000,
            producers=4,
            consumers=4,
            rate=10 * MB,
            in_pieces=True,
        ),
    )
}
