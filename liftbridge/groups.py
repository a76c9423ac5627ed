"""Consumer groups: who has which partition. Pure.

A group is members with the streams that each wants. Streams are looked at in the order of their
names; each partition goes to the member that wants the stream and has fewest partitions by then, of
equals to the one whose id comes first. So it follows from the members alone, on every shard alike.
"""

from collections.abc import Mapping, Sequence
from typing import TypeAlias

Assignments: TypeAlias = dict[str, dict[str, list[int]]]
"""Partitions by stream, by member."""


def assignments(members: Mapping[str, Sequence[str]], partitions: Mapping[str, int]) -> Assignments:
    """Which member has which partitions of which streams; unknown streams have none."""
    found: Assignments = {member: {} for member in members}
    counts = dict.fromkeys(members, 0)
    wanted = {stream for streams in members.values() for stream in streams}
    for stream in sorted(wanted):
        subscribed = [member for member, streams in members.items() if stream in streams]
        for number in range(partitions.get(stream, 0)):
            member = min(subscribed, key=lambda one: (counts[one], one))
            counts[member] += 1
            found[member].setdefault(stream, []).append(number)
    return found
