"""The times of requests: compiled and plain count the same, and strangers add no rows."""

from types import ModuleType

import pytest

from borzoi.shards.tallies import plain_meter
from borzoi.shards.tallies.meters import BOUNDS_S, CODES, times_of
from borzoi.shards.tallies.plain_meter import BITS, BYTES_AT, CELLS, SUM_AT, UNKNOWN

SEND, POLL = 101, 100
HOUR_NS = 3600 * 10**9


@pytest.fixture(params=["plain", "compiled"])
def meter(request: pytest.FixtureRequest) -> ModuleType:
    if request.param == "plain":
        return plain_meter
    compiled: ModuleType = pytest.importorskip("borzoi.shards.tallies._meter")
    return compiled


def test_a_request_falls_into_one_cell_and_adds_to_the_sums(meter: ModuleType) -> None:
    door = meter.DoorMeter(CODES, HOUR_NS)
    timer = meter.RequestTimer(door)
    total = 0
    for _ in range(100):
        timer.begin(SEND, 70)
        assert not timer.end()
        total += timer.took_ns
    (found,) = door.cells().items()
    code, cells = found
    assert (code, len(cells)) == (SEND, CELLS)
    assert sum(cells[:BITS]) == 100
    assert (cells[SUM_AT], cells[BYTES_AT]) == (total, 7000)


def test_the_cell_is_the_number_of_bits_of_the_time(meter: ModuleType) -> None:
    door = meter.DoorMeter(CODES, 0)
    timer = meter.RequestTimer(door)
    expected = [0] * BITS
    for _ in range(50):
        timer.begin(POLL, 1)
        assert timer.end()  # everything is slow where nothing may take any time
        expected[timer.took_ns.bit_length()] += 1
    assert door.cells()[POLL][:BITS] == expected


@pytest.mark.parametrize("code", [2, 99, 1023, 1024, 2**32 - 1])
def test_unknown_commands_share_one_row(meter: ModuleType, code: int) -> None:
    door = meter.DoorMeter(CODES, HOUR_NS)
    timer = meter.RequestTimer(door)
    timer.begin(code, 5)
    timer.end()
    assert list(door.cells()) == [UNKNOWN]


def test_what_polls_are_answered_with(meter: ModuleType) -> None:
    door = meter.DoorMeter(CODES, HOUR_NS)
    timer = meter.RequestTimer(door)
    timer.polled(3, 300)
    timer.polled(1, 2**33)
    assert (door.polled_messages, door.polled_bytes) == (4, 300 + 2**33)


@pytest.mark.parametrize("codes", [range(64), [1024]])
def test_more_commands_than_there_is_room_for(meter: ModuleType, codes: list[int]) -> None:
    with pytest.raises(ValueError, match="commands up to"):
        meter.DoorMeter([*codes, 500], 0)


def test_both_have_the_same_version() -> None:
    compiled = pytest.importorskip("borzoi.shards.tallies._meter")
    assert compiled.METER_VERSION == plain_meter.METER_VERSION


@pytest.mark.parametrize(
    ("took_ns", "bound_s"),
    [
        (0, BOUNDS_S[0]),
        (2**14 - 1, BOUNDS_S[0]),
        (2**14, BOUNDS_S[1]),
        (10**6, 2**20 / 1e9),
        (2**34 - 1, BOUNDS_S[-1]),
        (2**34, None),
        (HOUR_NS, None),
    ],
)
def test_the_first_bound_above_a_time_counts_it(took_ns: int, bound_s: float | None) -> None:
    cells = [0] * CELLS
    cells[took_ns.bit_length()] = 1
    times = times_of(cells)
    assert times.count == 1
    at = times.counts.index(1)
    assert (BOUNDS_S[at] if at < len(BOUNDS_S) else None) == bound_s
