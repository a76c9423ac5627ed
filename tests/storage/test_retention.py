"""Which segments may go: the decisions, against slower and plainer ones."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from borzoi.storage.retention import (
    UNLIMITED,
    Candidate,
    Choice,
    Cut,
    Protection,
    Unread,
    choose,
    choose_expired,
    choose_up_to,
    expired_count,
    over_size,
    read_count,
    size_threshold,
    spare_last,
)
from borzoi.storage.segment import SealedSegment

NOW_US = 1_700_000_000_000_000
PROTECTIONS = st.sampled_from(Protection)


@st.composite
def sealed_segments(draw: st.DrawFn) -> list[SealedSegment]:
    """Segments of a log: offsets rise, with gaps where messages were lost; so do the times."""
    found: list[SealedSegment] = []
    offset, timestamp = draw(st.integers(0, 50)), draw(st.integers(1, 50))
    for _ in range(draw(st.integers(0, 8))):
        count = draw(st.integers(0, 9))
        first, last = timestamp, timestamp + draw(st.integers(0, 20))
        size = count * draw(st.integers(64, 100))
        found.append(SealedSegment(offset, count, size, first, last))
        offset += count + draw(st.integers(0, 2))
        timestamp = last + draw(st.integers(0, 5))
    return found


@given(sealed_segments(), st.integers(0, 12), st.none() | st.integers(0, 120))
def test_what_is_chosen_is_read_and_from_the_front(
    sealed: list[SealedSegment], wanted: int, committed: int | None
) -> None:
    choice = choose(sealed, wanted, committed)
    assert 0 <= choice.segments <= wanted
    assert choice.segments + choice.unread == min(wanted, len(sealed))
    for segment in sealed[: choice.segments]:
        assert committed is None or segment.end_offset - 1 <= committed
    if choice.unread:
        # The first that stays holds something that a consumer has not read.
        assert committed is not None
        assert sealed[choice.segments].end_offset - 1 > committed


@given(sealed_segments(), st.integers(0, 300), st.integers(0, 200) | st.just(UNLIMITED))
def test_only_segments_that_are_old_as_a_whole_expire(
    sealed: list[SealedSegment], now_us: int, expiry_us: int
) -> None:
    count = expired_count(sealed, now_us, expiry_us)
    expected = [
        expiry_us not in (0, UNLIMITED) and segment.last_timestamp + expiry_us <= now_us
        for segment in sealed
    ]
    assert expected == [True] * count + [False] * (len(sealed) - count)


def test_at_the_edges() -> None:
    segment = SealedSegment(10, 5, 500, NOW_US, NOW_US + 7)
    assert expired_count([segment], NOW_US + 7 + 99, 100) == 0
    assert expired_count([segment], NOW_US + 7 + 100, 100) == 1
    assert expired_count([segment._replace(last_timestamp=0)], NOW_US, 1) == 0
    assert read_count([segment], 13) == 0
    assert read_count([segment], 14) == 1
    assert choose([segment], 3, 13) == Choice(0, 1)
    assert size_threshold(100) == 90
    assert size_threshold(101) == 90


@given(
    sealed_segments(),
    st.integers(0, 500),
    st.integers(0, 200) | st.just(UNLIMITED),
    st.none() | st.integers(0, 120),
    PROTECTIONS,
    st.integers(0, 100),
)
def test_what_is_too_old_goes_as_far_as_it_is_not_protected(
    sealed: list[SealedSegment],
    now_us: int,
    expiry_us: int,
    committed: int | None,
    protection: Protection,
    grace_us: int,
) -> None:
    """Segment by segment, as the rules are worded."""

    def is_due(segment: SealedSegment) -> bool:
        never = expiry_us in (0, UNLIMITED)
        return not never and segment.last_timestamp + expiry_us <= now_us

    def is_unread(segment: SealedSegment) -> bool:
        return committed is not None and segment.end_offset - 1 > committed

    def may_go(segment: SealedSegment) -> bool:
        if not is_unread(segment) or protection is Protection.NEVER:
            return True
        late = now_us - (segment.last_timestamp + expiry_us)
        return protection is Protection.BOUNDED and late >= max(expiry_us, grace_us)

    choice = choose_expired(sealed, now_us, expiry_us, committed, Unread(protection, grace_us))
    due = [one for one in sealed if is_due(one)]
    going = due[: choice.segments]
    assert choice.segments + choice.unread == len(due)
    assert all(map(may_go, going))
    if choice.unread:
        assert not may_go(due[choice.segments])
    # Segments without messages count as read if all before them do.
    read = read_count(sealed, committed)
    assert choice.missed == max(0, choice.segments - read)


HOUR = 3_600_000_000
DAY = 24 * HOUR


@pytest.mark.parametrize("kind", ["consumer", "group"])
@pytest.mark.parametrize(
    ("protection", "expiry_us", "late_us", "goes"),
    [
        # Late means: so long after the expiry. An hour's grace, or the expiry if that is longer.
        (Protection.ALWAYS, HOUR, 1000 * DAY, False),
        (Protection.UNTIL_FULL, HOUR, 1000 * DAY, False),
        (Protection.BOUNDED, HOUR, HOUR - 1, False),
        (Protection.BOUNDED, HOUR, HOUR, True),
        (Protection.BOUNDED, HOUR // 60, HOUR - 1, False),
        (Protection.BOUNDED, HOUR // 60, HOUR, True),
        (Protection.BOUNDED, DAY, DAY - 1, False),
        (Protection.BOUNDED, DAY, DAY, True),
        (Protection.NEVER, HOUR, 0, True),
        (Protection.NEVER, HOUR, -1, False),
        # A topic that never expires, whatever the protection is.
        (Protection.BOUNDED, UNLIMITED, 1000 * DAY, False),
        (Protection.NEVER, UNLIMITED, 1000 * DAY, False),
        (Protection.BOUNDED, UNLIMITED - 1, 1000 * DAY, False),
    ],
)
def test_how_long_an_expired_segment_waits_for_a_reader(
    kind: str, protection: Protection, expiry_us: int, late_us: int, goes: bool
) -> None:
    """Consumers and groups count alike: what is asked for is the least of their offsets."""
    segment = SealedSegment(0, 10, 1000, NOW_US - 5, NOW_US)
    committed = {"consumer": 3, "group": 0}[kind]
    now_us = NOW_US + (expiry_us if expiry_us < UNLIMITED - 1 else 0) + late_us
    unread = Unread(protection, HOUR)
    choice = choose_expired([segment], now_us, expiry_us, committed, unread)
    assert choice.segments == goes
    assert choice.missed == goes
    # Read, or without any reader, it goes at once.
    for nothing_unread in (None, 9):
        choice = choose_expired([segment], now_us, expiry_us, nothing_unread, unread)
        due = expiry_us < UNLIMITED - 1 and late_us >= 0
        assert choice == Choice(int(due), 0, 0)


@pytest.mark.parametrize(
    ("protection", "size", "left"),
    [
        (Protection.ALWAYS, 100, [10, 20, 30]),
        (Protection.ALWAYS, 1000, [10, 20, 30]),
        (Protection.UNTIL_FULL, 99, [10, 20, 30]),
        (Protection.UNTIL_FULL, 100, [20, 30]),
        (Protection.BOUNDED, 89, [10, 20, 30]),
        (Protection.BOUNDED, 99, [10, 20, 30]),
        (Protection.BOUNDED, 100, [20, 30]),
        (Protection.BOUNDED, 1000, []),
        (Protection.NEVER, 89, [10, 20, 30]),
        (Protection.NEVER, 90, [20, 30]),
        (Protection.NEVER, 1000, []),
    ],
)
def test_how_large_a_topic_gets_for_a_reader(
    protection: Protection, size: int, left: list[int]
) -> None:
    """A limit of 100 bytes and segments of 30, none of them read."""
    unread = [Candidate(end, 30, end, True) for end in (10, 20, 30)]
    plan = over_size(size, 100, {0: unread}, protection)
    end = plan.delete[0].end_offset if plan.delete else 0
    assert [one.end_offset for one in unread if one.end_offset > end] == left
    assert bool(plan.kept_unread) == (bool(left) and (not plan.delete and size >= 90))
    # Where everything is read, all protections are one: nine tenths.
    read = [one._replace(is_unread=False) for one in unread]
    plan = over_size(size, 100, {0: read}, protection)
    assert bool(plan.delete) == (size >= 90)
    assert not plan.kept_unread


def test_a_decided_cut_is_carried_out_and_no_more() -> None:
    sealed = [SealedSegment(start, 10, 30, 1, 2) for start in (0, 10, 20)]
    assert choose_up_to(sealed, Cut(20, False), 9) == Choice(1, 1)
    assert choose_up_to(sealed, Cut(20, True), 9) == Choice(2, 0, 1)
    assert choose_up_to(sealed, Cut(20, True), None) == Choice(2, 0, 0)
    assert choose_up_to(sealed, Cut(20, False), None) == Choice(2, 0, 0)


@given(sealed_segments())
def test_a_size_limit_leaves_something_to_read(sealed: list[SealedSegment]) -> None:
    assert list(spare_last(sealed, active_is_empty=False)) == sealed
    assert list(spare_last(sealed, active_is_empty=True)) == sealed[:-1]


@st.composite
def topics(draw: st.DrawFn) -> dict[int, list[Candidate]]:
    """The sealed segments of some partitions; in each a consumer may have read up to a point."""
    found: dict[int, list[Candidate]] = {}
    for partition in range(draw(st.integers(0, 4))):
        sealed = draw(sealed_segments())
        read = read_count(sealed, draw(st.none() | st.integers(0, 120)))
        found[partition] = [
            Candidate(one.end_offset, one.size_bytes, one.first_timestamp, number >= read)
            for number, one in enumerate(sealed)
        ]
    return found


def plainly(
    size: int, max_size: int, left: dict[int, list[Candidate]], protection: Protection
) -> tuple[int, dict[int, Cut]]:
    """One segment after the other, each time the oldest of all that may go."""
    left = {partition: list(segments) for partition, segments in left.items()}
    cuts: dict[int, Cut] = {}
    while size >= size_threshold(max_size):
        heads = [(part, one[0]) for part, one in left.items() if one]
        never = protection is Protection.NEVER
        may_go = [(part, head) for part, head in heads if never or not head.is_unread]
        if not may_go:
            break
        part, head = min(may_go, key=lambda pair: (pair[1].first_timestamp, pair[0]))
        left[part].pop(0)
        size -= head.size_bytes
        cuts[part] = Cut(head.end_offset, never)
    until_full = protection in (Protection.UNTIL_FULL, Protection.BOUNDED)
    while until_full and size >= max_size:
        heads = [(part, one[0]) for part, one in left.items() if one]
        if not heads:
            break
        part, head = min(heads, key=lambda pair: (pair[1].first_timestamp, pair[0]))
        left[part].pop(0)
        size -= head.size_bytes
        cuts[part] = Cut(head.end_offset, True)
    return size, cuts


@given(topics(), st.integers(0, 2000), st.integers(1, 3000), PROTECTIONS)
def test_a_topic_loses_its_oldest_segments_and_no_more_than_it_must(
    candidates: dict[int, list[Candidate]],
    active_bytes: int,
    max_size: int,
    protection: Protection,
) -> None:
    size = active_bytes + sum(one.size_bytes for each in candidates.values() for one in each)
    plan = over_size(size, max_size, candidates, protection)
    size_left, expected = plainly(size, max_size, candidates, protection)
    assert plan.delete == expected
    for partition, cut in plan.delete.items():
        gone = [one for one in candidates[partition] if one.end_offset <= cut.end_offset]
        assert cut.even_unread or not any(one.is_unread for one in gone if one.size_bytes)
    if plan.kept_unread:
        assert size_left >= size_threshold(max_size)
    for partition, cut in plan.kept_unread.items():
        assert not cut.even_unread
        kept = next(one for one in candidates[partition] if one.end_offset == cut.end_offset)
        assert kept.is_unread or not kept.size_bytes
