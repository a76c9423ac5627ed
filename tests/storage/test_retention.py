"""Which segments may go: the decisions, against slower and plainer ones."""

from hypothesis import given
from hypothesis import strategies as st

from borzoi.storage.retention import (
    UNLIMITED,
    Candidate,
    Choice,
    Cut,
    choose,
    expired_count,
    over_size,
    read_count,
    size_threshold,
    spare_last,
)
from borzoi.storage.segment import SealedSegment

NOW_US = 1_700_000_000_000_000


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
        # The first that stays holds something that somebody has not read.
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


@given(sealed_segments())
def test_a_size_limit_leaves_something_to_read(sealed: list[SealedSegment]) -> None:
    assert list(spare_last(sealed, active_is_empty=False)) == sealed
    assert list(spare_last(sealed, active_is_empty=True)) == sealed[:-1]


@st.composite
def topics(draw: st.DrawFn) -> dict[int, list[Candidate]]:
    """The sealed segments of some partitions; in each somebody may have read up to a point."""
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
    size: int, max_size: int, left: dict[int, list[Candidate]], until_full: bool
) -> tuple[int, dict[int, Cut]]:
    """One segment after the other, each time the oldest of all that may go."""
    left = {partition: list(segments) for partition, segments in left.items()}
    cuts: dict[int, Cut] = {}
    while size >= size_threshold(max_size):
        heads = [(part, one[0]) for part, one in left.items() if one]
        may_go = [(part, head) for part, head in heads if not head.is_unread]
        if not may_go:
            break
        part, head = min(may_go, key=lambda pair: (pair[1].first_timestamp, pair[0]))
        left[part].pop(0)
        size -= head.size_bytes
        cuts[part] = Cut(head.end_offset, False)
    while until_full and size >= max_size:
        heads = [(part, one[0]) for part, one in left.items() if one]
        if not heads:
            break
        part, head = min(heads, key=lambda pair: (pair[1].first_timestamp, pair[0]))
        left[part].pop(0)
        size -= head.size_bytes
        cuts[part] = Cut(head.end_offset, True)
    return size, cuts


@given(topics(), st.integers(0, 2000), st.integers(1, 3000), st.booleans())
def test_a_topic_loses_its_oldest_segments_and_no_more_than_it_must(
    candidates: dict[int, list[Candidate]], active_bytes: int, max_size: int, until_full: bool
) -> None:
    size = active_bytes + sum(one.size_bytes for each in candidates.values() for one in each)
    plan = over_size(size, max_size, candidates, unread_until_full=until_full)
    size_left, expected = plainly(size, max_size, candidates, until_full)
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
