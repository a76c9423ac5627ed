"""Free address space: cut from both ends, joined again."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from borzoi.router.extents import Extents


def test_lowest_and_highest() -> None:
    extents = Extents(100)
    assert extents.cut_lowest(10) == 0
    assert extents.cut_highest(10) == 90
    assert extents.gaps() == [(10, 80)]
    assert extents.cut_lowest(81) is None
    assert extents.cut_highest(81) is None
    assert extents.cut_lowest(80) == 10
    assert extents.gaps() == []
    assert extents.cut_highest(1) is None


def test_gaps_that_touch_are_joined() -> None:
    extents = Extents(40)
    for _ in range(4):
        extents.cut_lowest(10)
    extents.add(10, 10)
    extents.add(30, 10)
    assert extents.gaps() == [(10, 10), (30, 10)]
    assert extents.cut_lowest(11) is None
    extents.add(20, 10)
    assert extents.gaps() == [(10, 30)]
    extents.add(0, 10)
    assert extents.gaps() == [(0, 40)]


@pytest.mark.parametrize(("start", "length"), [(0, 10), (5, 10), (15, 10), (12, 2)])
def test_giving_back_twice_is_noticed(start: int, length: int) -> None:
    extents = Extents(30)
    extents.cut_lowest(10)
    extents.cut_lowest(10)
    extents.add(0, 10)
    extents.add(10, 10)
    with pytest.raises(AssertionError, match="twice"):
        extents.add(start, length)


@given(st.lists(st.tuples(st.sampled_from(["low", "high", "back"]), st.integers(1, 12))))
def test_agrees_with_a_map_of_bytes(steps: list[tuple[str, int]]) -> None:
    size = 40
    extents = Extents(size)
    used = [False] * size
    pieces: list[tuple[int, int]] = []
    for action, number in steps:
        if action == "back":
            if pieces:
                start, length = pieces.pop(number % len(pieces))
                used[start : start + length] = [False] * length
                extents.add(start, length)
        else:
            fitting = [
                start for start in range(size - number + 1) if not any(used[start : start + number])
            ]
            cut = extents.cut_lowest if action == "low" else extents.cut_highest
            expected = (fitting[0] if action == "low" else fitting[-1]) if fitting else None
            assert cut(number) == expected
            if expected is not None:
                used[expected : expected + number] = [True] * number
                pieces.append((expected, number))
        assert sum(length for _, length in extents.gaps()) == used.count(False)
    for start, length in pieces:
        extents.add(start, length)
    assert extents.gaps() == [(0, size)]
