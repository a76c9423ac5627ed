"""Which member gets which partition: an even split that moves as little as possible. Pure."""

from collections.abc import Sequence


def spread(holdings: Sequence[Sequence[int]], partitions_count: int) -> list[list[int]]:
    """The partitions of every member, in the order of `holdings`; no members, no result.

    `holdings` says what each member has now, no partition twice; it gives up from the end.
    Afterwards every partition below `partitions_count` belongs to exactly one member, and no two
    members differ by more than one. No other even split keeps more where it was. What a member
    keeps stays in its order; what it gets comes behind, ascending.
    """
    if not holdings:
        return []
    valid = [[one for one in held if one < partitions_count] for held in holdings]
    quotas = _quotas([len(held) for held in valid], partitions_count)
    result = [held[:quota] for held, quota in zip(valid, quotas, strict=True)]
    taken = {one for held in result for one in held}
    free = iter([one for one in range(partitions_count) if one not in taken])
    hungry = [number for number, quota in enumerate(quotas) if len(result[number]) < quota]
    while hungry:
        # One each in turn, so that neighbours in the topic go to different members.
        for number in hungry:
            result[number].append(next(free))
        hungry = [number for number in hungry if len(result[number]) < quotas[number]]
    return result


def _quotas(counts: list[int], partitions_count: int) -> list[int]:
    """Returns how many each member is to have; the remainder goes to those that have most now."""
    fair, remainder = divmod(partitions_count, len(counts))
    quotas = [fair] * len(counts)
    for number in sorted(range(len(counts)), key=lambda number: -counts[number])[:remainder]:
        quotas[number] += 1
    return quotas
