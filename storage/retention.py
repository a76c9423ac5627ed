"""Which segments may go. Decisions only: values in, values out; the owner does the deleting.

Only sealed segments, only from the front: a log without its oldest part is still a log, one with a
hole is not. Whole segments or nothing. Timestamps of a partition never decrease, so the expired
segments and the segments that all consumers have read are both found at the front.

    offsets    |  0 .. 6  |  7 .. 13  |  14 .. 20  |  21 ..     <- active, never deleted
    committed                  ^ 9: the consumer that is furthest behind has read 7, 8 and 9,
                                 so 7 .. 13 and all behind it is unread

How far committed offsets protect unread segments is a setting (Protection). Whatever it says, the
rules agree on segments that are read. They go when they are too old, or from nine tenths of the
topic's size on.

    unread, and ...     too old                                 too much for the topic
    always              stays                                   stays
    until_full          stays                                   goes from the full size on
    bounded             goes max(expiry, grace) later           goes from the full size on
    never               goes                                    goes from nine tenths on

DELETE_SEGMENTS takes read segments only, in every mode.
"""

from collections.abc import Mapping, Sequence
from enum import Enum
from heapq import heapify, heappop, heappush
from itertools import takewhile
from typing import Final, NamedTuple

from borzoi.storage.segment import SealedSegment

UNLIMITED: Final = 0xFFFF_FFFF_FFFF_FFFF
"""An expiry of never, and a topic size without a limit."""

SIZE_NUMERATOR: Final = 9
SIZE_DENOMINATOR: Final = 10
"""At nine tenths of its limit a topic begins to lose its oldest segments."""


class Protection(Enum):
    """What a committed offset does for segments behind it: `system.segment.protect_unread`."""

    ALWAYS = "always"
    UNTIL_FULL = "until_full"
    BOUNDED = "bounded"
    NEVER = "never"

    @property
    def ends_when_full(self) -> bool:
        """Whether unread segments go once their topic has its full size."""
        return self in (Protection.UNTIL_FULL, Protection.BOUNDED)


class Unread(NamedTuple):
    """How unread segments are protected, and for how long at least past their expiry."""

    protection: Protection
    grace_us: int


class Choice(NamedTuple):
    """Of the oldest segments, how many go, and how many more would if they had been read.

    Of those that go, `missed` are unread: a consumer with a committed offset will never see them.
    """

    segments: int
    unread: int
    missed: int = 0


def expired_count(sealed: Sequence[SealedSegment], now_us: int, expiry_us: int) -> int:
    """How many of the oldest segments hold nothing but messages that are too old.

    0 stands for a server default that was never resolved: it expires nothing.
    """
    if expiry_us in (0, UNLIMITED):
        return 0
    return sum(
        1
        for _ in takewhile(
            lambda one: one.last_timestamp != 0 and one.last_timestamp + expiry_us <= now_us,
            sealed,
        )
    )


def count_up_to(sealed: Sequence[SealedSegment], end_offset: int) -> int:
    """How many of the oldest segments end at this offset or before it."""
    return sum(1 for _ in takewhile(lambda one: one.end_offset <= end_offset, sealed))


def read_count(sealed: Sequence[SealedSegment], committed: int | None) -> int:
    """How many of the oldest segments lie up to `committed`, the least of all committed offsets.

    None: no consumer has committed an offset, so nothing is kept for one.
    """
    return len(sealed) if committed is None else count_up_to(sealed, committed + 1)


def choose(sealed: Sequence[SealedSegment], wanted: int, committed: int | None) -> Choice:
    """Returns how many of the `wanted` oldest segments all consumers have read, and the rest."""
    wanted = min(wanted, len(sealed))
    segments = min(wanted, read_count(sealed, committed))
    return Choice(segments, wanted - segments)


def choose_expired(
    sealed: Sequence[SealedSegment],
    now_us: int,
    expiry_us: int,
    committed: int | None,
    unread: Unread,
) -> Choice:
    """Of the oldest segments those that are too old, and read or protected no longer."""
    expired = expired_count(sealed, now_us, expiry_us)
    read = min(expired, read_count(sealed, committed))
    segments = read
    if unread.protection is Protection.NEVER:
        segments = expired
    elif unread.protection is Protection.BOUNDED and expired > read:
        overdue_us = expiry_us + max(expiry_us, unread.grace_us)
        segments = max(read, expired_count(sealed, now_us, overdue_us))
    return Choice(segments, expired - segments, segments - read)


def choose_up_to(sealed: Sequence[SealedSegment], cut: "Cut", committed: int | None) -> Choice:
    """Of the oldest segments those that a size limit has decided upon."""
    wanted = count_up_to(sealed, cut.end_offset)
    choice = choose(sealed, wanted, committed)
    return Choice(wanted, 0, choice.unread) if cut.even_unread else choice


def spare_last(
    sealed: Sequence[SealedSegment], *, active_is_empty: bool
) -> Sequence[SealedSegment]:
    """The sealed segments that a size limit may take: all, unless nothing would be left to read.

    A segment is sealed one batch late, so one alone may be larger than the limit of its topic. If
    it went while the active segment is empty, acknowledged messages would be gone before a
    consumer could ask for them.
    """
    return sealed[:-1] if active_is_empty else sealed


class Candidate(NamedTuple):
    """A sealed segment as the size limit of its topic sees it."""

    end_offset: int
    size_bytes: int
    first_timestamp: int
    is_unread: bool


class Cut(NamedTuple):
    """The segments of a partition that end here or before are to go."""

    end_offset: int
    even_unread: bool


class SizePlan(NamedTuple):
    """What each partition loses, and what it keeps only because a consumer has not read it."""

    delete: dict[int, Cut]
    kept_unread: dict[int, Cut]


def size_threshold(max_topic_size: int) -> int:
    """From this size on a topic loses its oldest segments."""
    return max_topic_size * SIZE_NUMERATOR // SIZE_DENOMINATOR


def over_size(
    topic_size: int,
    max_topic_size: int,
    candidates: Mapping[int, Sequence[Candidate]],
    protection: Protection,
) -> SizePlan:
    """What a topic of this size has to lose, the oldest segment of all its partitions first.

    `candidates` are the sealed segments of each partition, oldest first.
    """
    delete: dict[int, Cut] = {}
    taken = dict.fromkeys(candidates, 0)
    size = topic_size
    passes = [(size_threshold(max_topic_size), protection is Protection.NEVER)]
    if protection.ends_when_full:
        passes.append((max_topic_size, True))
    for limit, may_be_unread in passes:
        heads = [
            (segments[taken[partition]].first_timestamp, partition)
            for partition, segments in candidates.items()
            if _may_go(segments, taken[partition], may_be_unread)
        ]
        heapify(heads)
        while heads and size >= limit:
            _, partition = heappop(heads)
            segments = candidates[partition]
            oldest = segments[taken[partition]]
            size -= oldest.size_bytes
            delete[partition] = Cut(oldest.end_offset, may_be_unread)
            taken[partition] += 1
            if _may_go(segments, taken[partition], may_be_unread):
                heappush(heads, (segments[taken[partition]].first_timestamp, partition))
    kept_unread: dict[int, Cut] = {}
    if size >= size_threshold(max_topic_size):
        for partition, segments in candidates.items():
            if taken[partition] < len(segments) and segments[taken[partition]].is_unread:
                kept_unread[partition] = Cut(segments[taken[partition]].end_offset, False)
    return SizePlan(delete, kept_unread)


def _may_go(segments: Sequence[Candidate], number: int, may_be_unread: bool) -> bool:
    return number < len(segments) and (may_be_unread or not segments[number].is_unread)
