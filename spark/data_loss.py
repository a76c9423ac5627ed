"""Whether what a stream wants to read next is still there, and still the same.

Between two batches, or while a query was stopped, retention may have deleted rows. A topic may have
been purged, deleted, created again, or may have lost partitions. Each is noticed when the next
batch is planned, even if the partition has grown beyond the old place since. What happens then is
the user's choice: an error, or going on with what there is.
"""

from collections.abc import Mapping
from typing import NamedTuple

from borzoi.spark.positions import Known, Partition, Positions


class Judgement(NamedTuple):
    """Where each readable partition is read from, and what was lost, as sentences."""

    begins: dict[Partition, int]
    losses: list[str]


def rows_to_compare(
    start: Positions, known: Mapping[Partition, Known]
) -> list[tuple[Partition, int]]:
    """The rows read last, where they are still there and something stands behind them."""
    return [
        (partition, position.next - 1)
        for partition, position in sorted(start.items())
        if position.timestamp
        and partition in known
        and known[partition].created == position.created
        and known[partition].first < position.next < known[partition].next
    ]


def judge(
    start: Positions, known: Mapping[Partition, Known], times: Mapping[Partition, int]
) -> Judgement:
    """`times` are those of rows_to_compare(), as they are now."""
    begins: dict[Partition, int] = {}
    losses: list[str] = []
    for partition, position in sorted(start.items()):
        now = known.get(partition)
        if now is None:
            losses.append(f"{partition} is gone; it was read up to offset {position.next}")
            continue
        begins[partition] = position.next
        if now.created != position.created:
            losses.append(f"{partition} was deleted and created again since it was read")
            begins[partition] = now.first
        elif now.next < position.next:
            losses.append(
                f"{partition} ends at offset {now.next} and was read up to {position.next}:"
                " it was purged"
            )
            begins[partition] = now.first
        elif times.get(partition, position.timestamp) != position.timestamp:
            losses.append(
                f"{partition} has another row at offset {position.next - 1} than was read there:"
                " it was purged and has grown since"
            )
            begins[partition] = now.first
        elif position.next < now.first:
            losses.append(
                f"{partition} begins at offset {now.first}: {now.first - position.next} rows from"
                f" offset {position.next} on were deleted before they were read"
            )
            begins[partition] = now.first
    # New partitions are read from their first row: no batch can have read them before.
    for partition, now in known.items():
        begins.setdefault(partition, now.first)
    return Judgement(begins, losses)
