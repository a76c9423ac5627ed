"""How much the next batch of a stream takes.

Limits are shared by the partitions in proportion to what they have. Each one that has anything
gives at least one row, so that none starves behind a large one. With more partitions than rows
allowed, a batch is therefore as large as the number of partitions. Bytes are estimated by the mean
size of a partition's messages, which is what a broker tells.
"""

from collections.abc import Mapping

from borzoi.spark.positions import Known, Partition


def admit(
    begins: Mapping[Partition, int],
    known: Mapping[Partition, Known],
    rows_max: int | None,
    bytes_max: int | None,
) -> dict[Partition, int]:
    """The end of the next batch, for each partition of `begins`."""
    waiting = {
        partition: known[partition].next - begin
        for partition, begin in begins.items()
        if known[partition].next > begin
    }
    sizes = {partition: known[partition].mean_size for partition in waiting}
    shares = [(1, 1)]  # numerator and denominator of what is taken beyond the first rows
    if rows_max is not None:
        shares.append((rows_max - len(waiting), sum(waiting.values()) - len(waiting)))
    if bytes_max is not None:
        first_rows = sum(sizes.values())
        others = sum((count - 1) * sizes[partition] for partition, count in waiting.items())
        shares.append((bytes_max - first_rows, others))
    numerator, denominator = 1, 1
    for upper, lower in shares:
        upper = max(upper, 0)
        if lower > 0 and upper * denominator < numerator * lower:
            numerator, denominator = upper, lower
    taken = {
        partition: 1 + (count - 1) * numerator // denominator
        for partition, count in waiting.items()
    }
    if rows_max is not None and (numerator, denominator) == shares[1]:
        # Rounding has left less than a row per partition; the first ones get it.
        left = rows_max - sum(taken.values())
        for partition in sorted(taken):
            if left > 0 and taken[partition] < waiting[partition]:
                taken[partition] += 1
                left -= 1
    return {partition: begin + taken.get(partition, 0) for partition, begin in begins.items()}


def holds_back(waiting: int, rows_min: int, waited_s: float, delay_max_s: float) -> bool:
    """Whether a batch is put off because too little has come, and not for too long yet."""
    return waiting < rows_min and waited_s < delay_max_s


def capped(
    known: Mapping[Partition, Known], targets: Mapping[Partition, int] | None
) -> dict[Partition, Known]:
    """What is known, as if nothing had come behind `targets`; None changes nothing."""
    if targets is None:
        return dict(known)
    return {
        partition: one._replace(next=min(one.next, targets[partition]))
        for partition, one in known.items()
        if partition in targets
    }
