"""Planning of batches: positions, limits, tasks, lost data. Values in, values out."""

import json
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from borzoi.spark.admission import admit, capped, holds_back
from borzoi.spark.boundaries import (
    EARLIEST,
    LATEST,
    Ago,
    AtOffset,
    AtTime,
    Boundary,
    Extent,
    LastRows,
    Word,
    resolve,
)
from borzoi.spark.data_loss import judge, rows_to_compare
from borzoi.spark.failures import InvalidOption, OffsetOutOfRange
from borzoi.spark.option_texts import duration_us
from borzoi.spark.options import Tasks
from borzoi.spark.positions import (
    Known,
    Partition,
    Position,
    Range,
    RowTime,
    advanced,
    beginning,
    from_json,
    held,
    last_rows,
    out_of_range,
    ranges_between,
    row_count,
    stamped,
    to_json,
    within,
    witnessed,
)
from borzoi.spark.splitting import plan_tasks

P0, P1, P2 = Partition("t", 0), Partition("t", 1), Partition("u", 0)
PARTITIONS = st.builds(Partition, st.sampled_from(["a", "b"]), st.integers(0, 12))
KNOWN = st.builds(
    lambda first, count, size: Known(first, first + count, count * size, 77),
    st.integers(0, 1000),
    st.integers(0, 10_000),
    st.integers(65, 5000),
)
STATES = st.dictionaries(PARTITIONS, KNOWN, max_size=8)
RANGES = st.lists(
    st.builds(
        lambda partition, begin, count: Range("t", partition, begin, begin + count),
        st.integers(0, 20),
        st.integers(0, 1000),
        st.integers(0, 300),
    ),
    max_size=10,
    unique_by=lambda one: one.partition,
)


def rows_of(tasks: list[list[Range]]) -> list[tuple[int, int]]:
    return sorted(
        (one.partition, offset)
        for task in tasks
        for one in task
        for offset in range(one.begin, one.end)
    )


@given(positions=st.dictionaries(PARTITIONS, st.builds(Position, *[st.integers(0)] * 4)))
def test_positions_are_the_same_text_however_they_were_put_together(
    positions: dict[Partition, Position],
) -> None:
    text = json.dumps(to_json(positions))
    assert from_json(json.loads(text)) == positions
    assert json.dumps(to_json(dict(reversed(positions.items())))) == text


@pytest.mark.parametrize("value", [{"t": 1}, {"t": {"x": {}}}, {"t": {"0": 5}}, {"t": {"0": {}}}])
def test_offsets_of_another_source(value: dict[str, object]) -> None:
    with pytest.raises(InvalidOption, match="this source did not write"):
        from_json(value)


@given(
    known=STATES, rows=st.none() | st.integers(1, 20_000), size=st.none() | st.integers(1, 10**8)
)
def test_limits_hold_and_every_batch_gets_somewhere(
    known: dict[Partition, Known], rows: int | None, size: int | None
) -> None:
    begins = {partition: one.first for partition, one in known.items()}
    ends = admit(begins, known, rows, size)
    waiting = {one: known[one].next - begins[one] for one in known if known[one].next > begins[one]}
    taken = {one: ends[one] - begins[one] for one in ends}
    assert set(ends) == set(begins)
    assert all(0 <= taken[one] <= waiting.get(one, 0) for one in ends)
    assert all(taken[one] >= 1 for one in waiting)
    if rows is not None:
        assert sum(taken.values()) <= max(rows, len(waiting))
    if size is not None:
        first_rows = sum(known[one].mean_size for one in waiting)
        assert sum(taken[one] * known[one].mean_size for one in waiting) <= max(size, first_rows)
    if rows is None and size is None:
        assert taken == {one: waiting.get(one, 0) for one in ends}


def test_limits_are_shared_in_proportion() -> None:
    known = {P0: Known(0, 1000, 0, 1), P1: Known(0, 3000, 0, 1)}
    ends = admit({P0: 0, P1: 0}, known, 400, None)
    assert sum(ends.values()) == 400
    assert 99 <= ends[P0] <= 101


@given(ranges=RANGES, count=st.integers(1, 30), rows=st.integers(0, 1000))
def test_every_row_is_in_one_task(ranges: list[Range], count: int, rows: int) -> None:
    tasks = plan_tasks(ranges, Tasks(count, None, None, rows))
    assert rows_of(tasks) == rows_of([ranges])
    assert all(row_count(task) > 0 for task in tasks)
    assert len(tasks) >= min(count, row_count(ranges))
    assert plan_tasks(ranges, Tasks(count, None, None, rows)) == tasks


@given(ranges=RANGES, limit=st.integers(10, 1000), rows=st.integers(0, 1000))
def test_no_task_is_larger_than_allowed(ranges: list[Range], limit: int, rows: int) -> None:
    tasks = plan_tasks(ranges, Tasks(1, None, limit, rows))
    assert rows_of(tasks) == rows_of([ranges])
    assert all(row_count(task) <= limit for task in tasks)


def test_small_ranges_share_a_task_and_large_ones_do_not() -> None:
    small = [Range("t", number, 0, 100) for number in range(10)]
    assert len(plan_tasks(small, Tasks(1, None, None, 100_000))) == 1
    assert len(plan_tasks(small, Tasks(1, None, None, 500))) == 2
    assert len(plan_tasks(small, Tasks(1, None, None, 0))) == 10
    large = [Range("t", number, 0, 250_000) for number in range(4)]
    assert len(plan_tasks(large, Tasks(1, None, None, 100_000))) == 4


def test_there_are_no_more_tasks_than_wanted() -> None:
    ranges = [Range("t", number, 0, 250_000) for number in range(4)]
    two = plan_tasks(ranges, Tasks(1, 2, None, 100_000))
    assert [row_count(task) for task in two] == [500_000, 500_000]
    assert len(plan_tasks(ranges, Tasks(1, 8, None, 100_000))) == 4
    assert len(plan_tasks(ranges, Tasks(6, 2, None, 100_000))) == 6  # more were asked for
    assert len(plan_tasks(ranges, Tasks(1, 2, 100_000, 0))) == 12  # or none may be so large


def test_more_tasks_come_from_the_largest_range() -> None:
    skewed = [Range("t", 0, 0, 1000), Range("t", 1, 0, 10)]
    tasks = plan_tasks(skewed, Tasks(5, None, None, 0))
    assert sorted(row_count(task) for task in tasks) == [10, 250, 250, 250, 250]


@given(known=STATES, limit=st.integers(2000, 50_000))
def test_batch_after_batch_reads_every_row_once(known: dict[Partition, Known], limit: int) -> None:
    firsts = {partition: one.first for partition, one in known.items()}
    at = beginning(firsts, known)
    seen: list[Range] = []
    while True:
        begins, losses = judge(at, known, {})
        assert losses == []
        end = advanced(at, begins, admit(begins, known, limit, None), known)
        ranges = ranges_between(at, end)
        assert (end == at) == (not ranges)
        if not ranges:
            break
        assert ranges_between(at, from_json(to_json(end))) == ranges
        seen += ranges
        at = end
    wanted = [Range(*one, known[one].first, known[one].next) for one in known]
    assert row_count(seen) == row_count(wanted)
    for one in wanted:
        mine = [part for part in seen if (part.topic, part.partition) == one[:2]]
        edges = [one.begin, *(part.end for part in mine)]
        assert [part.begin for part in mine] == edges[:-1]
        assert edges[-1] == one.end


READ_TO_10 = {P0: Position(0, 10, 555, 1)}


@pytest.mark.parametrize(
    ("now", "times", "says", "begin"),
    [
        (Known(0, 10, 0, 1), {}, None, 10),
        (Known(0, 20, 0, 1), {P0: 555}, None, 10),
        (Known(10, 20, 0, 1), {}, None, 10),
        (Known(12, 20, 0, 1), {}, "2 rows from offset 10 on were deleted", 12),
        (Known(0, 20, 0, 2), {}, "deleted and created again", 0),
        (Known(0, 5, 0, 1), {}, "it was purged", 0),
        (Known(0, 20, 0, 1), {P0: 556}, "purged and has grown since", 0),
    ],
)
def test_what_happened_to_a_partition(
    now: Known, times: dict[Partition, int], says: str | None, begin: int
) -> None:
    begins, losses = judge(READ_TO_10, {P0: now}, times)
    assert begins == {P0: begin}
    if says is None:
        assert losses == []
    else:
        assert len(losses) == 1
        assert says in losses[0]


def test_partitions_that_went_and_came() -> None:
    begins, losses = judge(READ_TO_10, {P1: Known(3, 9, 0, 1)}, {})
    assert begins == {P1: 3}
    assert losses == ["partition 0 of topic t is gone; it was read up to offset 10"]
    end = advanced(READ_TO_10, begins, {P1: 9}, {P1: Known(3, 9, 0, 1)})
    assert set(end) == {P0, P1}, "what was once known is carried on"
    assert ranges_between(READ_TO_10, end) == [Range("t", 1, 3, 9)]


def test_after_a_loss_the_batch_can_be_repeated_from_its_offsets_alone() -> None:
    now = {P0: Known(0, 6, 0, 2)}
    begins, _ = judge(READ_TO_10, now, {})
    end = stamped(advanced(READ_TO_10, begins, admit(begins, now, None, None), now), {P0: 9})
    wanted = Range("t", 0, 0, 6, witness=RowTime(5, 9))
    assert ranges_between(READ_TO_10, from_json(to_json(end))) == [wanted]
    assert end[P0] == Position(0, 6, 9, 2)


def test_an_emptied_partition_is_noticed_once() -> None:
    now = {P0: Known(0, 0, 0, 1)}
    begins, losses = judge(READ_TO_10, now, {})
    assert len(losses) == 1
    end = advanced(READ_TO_10, begins, admit(begins, now, None, None), now)
    assert judge(end, now, {}).losses == []
    assert ranges_between(READ_TO_10, end) == []


def test_which_rows_are_compared_and_stamped() -> None:
    start = {P0: Position(0, 10, 555, 1), P1: Position(0, 4, 5, 1), P2: Position(0, 0, 0, 1)}
    known = {P0: Known(0, 20, 0, 1), P1: Known(0, 4, 0, 1), P2: Known(0, 3, 0, 1)}
    assert rows_to_compare(start, known) == [(P0, 9)]
    end = advanced(start, {P0: 10, P1: 4, P2: 0}, {P0: 20, P1: 4, P2: 3}, known)
    assert last_rows(start, end) == [(P0, 19), (P2, 2)]
    assert stamped(end, {P0: 7})[P0].timestamp == 7


def test_only_rows_that_are_there_are_asked_for() -> None:
    known = {P0: Known(5, 9, 0, 1), P1: Known(7, 7, 0, 1)}
    assert held([(P0, 4), (P0, 5), (P0, 8), (P0, 9), (P1, 6), (P2, 0)], known) == [(P0, 5), (P0, 8)]


def test_every_piece_of_a_range_has_its_witness() -> None:
    ranges = [Range("t", 0, 2, 12), Range("t", 1, 0, 4)]
    tasks = plan_tasks(witnessed(ranges, {P0: 77}), Tasks(4, None, None, 0))
    found = {(one.partition, one.witness) for task in tasks for one in task}
    assert found == {(0, RowTime(11, 77)), (1, None)}
    assert rows_of(tasks) == rows_of([ranges])


def test_explicit_offsets_outside() -> None:
    known = {P0: Known(5, 9, 0, 1), P1: Known(0, 9, 0, 1)}
    assert out_of_range({P0: 4, P1: 9}, known) == [
        "partition 0 of topic t holds offsets from 5 up to 9; 4 was asked for"
    ]
    assert within({P0: 4, P1: 10}, known) == {P0: 5, P1: 9}


def test_available_now_sees_nothing_new() -> None:
    known = {P0: Known(0, 10, 0, 1), P1: Known(0, 9, 0, 1)}
    assert capped(known, {P0: 7}) == {P0: Known(0, 7, 0, 1)}
    assert capped(known, None) == known


def test_holding_back() -> None:
    assert holds_back(9, 10, 5.0, 60.0)
    assert not holds_back(10, 10, 5.0, 60.0)
    assert not holds_back(9, 10, 60.0, 60.0)
    assert not holds_back(9, 0, 0.0, 60.0)


@pytest.mark.parametrize(
    ("boundary", "offset"),
    [
        (EARLIEST, 10),
        (LATEST, 50),
        (Word.STORED, 31),
        (AtOffset(7), 7),
        (LastRows(5), 45),
        (LastRows(500), 10),
        (AtTime(1000), 20),
        (Ago(1000), 20),
        (AtTime(99_999), 50),
        (Ago(500), 50),
    ],
)
def test_boundaries_become_offsets(boundary: Boundary, offset: int) -> None:
    assert _resolved(boundary, missing_is_latest=True) == offset


def test_a_time_behind_everything_may_be_an_error() -> None:
    with pytest.raises(OffsetOutOfRange, match="no message at or after 1970-01-01T00:00:00"):
        _resolved(AtTime(99_999), missing_is_latest=False)


def test_an_age_within_which_nothing_came_is_never_one() -> None:
    assert _resolved(Ago(500), missing_is_latest=False) == 50


def _resolved(boundary: Boundary, *, missing_is_latest: bool) -> int:
    find: Callable[[int], int | None] = {1000: 20}.get
    return resolve(
        boundary,
        Extent(10, 50),
        now_us=2000,
        missing_is_latest=missing_is_latest,
        find_time=find,
        find_stored=lambda: 30,
        where="p",
    )


@pytest.mark.parametrize(
    ("text", "found"),
    [("10m", 600_000_000), ("1h 30m", 5_400_000_000), ("500ms", 500_000), ("250", 250_000)],
)
def test_durations(text: str, found: int) -> None:
    assert duration_us(text) == found


@pytest.mark.parametrize("text", ["", "x", "1 x", "1h 5", "1.5h", "0s", "9" * 30 + "s"])
def test_what_is_no_duration(text: str) -> None:
    with pytest.raises(ValueError, match="duration"):
        duration_us(text)
