"""Where a poll begins: every strategy against an empty, a whole and a shortened partition."""

import pytest

from borzoi.protocol.identifiers import ConsumerKind, StrategyKind
from borzoi.shards.ports.reads import poll_start
from borzoi.shards.rings.poll import Poll
from borzoi.storage.published import Published

EMPTY = Published.empty(7)
WHOLE = EMPTY._replace(next_offset=10)
SHORTENED = EMPTY._replace(first_offset=4, next_offset=10)
GONE = EMPTY._replace(first_offset=10, next_offset=10)


def start_of(
    strategy: StrategyKind,
    published: Published,
    value: int = 0,
    count: int = 3,
    committed: int | None = None,
) -> int | None:
    poll = Poll(strategy, value, count, ConsumerKind.CONSUMER, 1, False, 0)
    # Times are offsets times ten here.
    return poll_start(poll, published, committed, min(10, -(-value // 10)))


@pytest.mark.parametrize("strategy", list(StrategyKind))
@pytest.mark.parametrize("published", [EMPTY, GONE])
def test_nothing_to_return(strategy: StrategyKind, published: Published) -> None:
    assert start_of(strategy, published) is None


@pytest.mark.parametrize("strategy", list(StrategyKind))
def test_nothing_is_wanted(strategy: StrategyKind) -> None:
    assert start_of(strategy, WHOLE, count=0) is None


@pytest.mark.parametrize(
    ("strategy", "published", "value", "count", "committed", "expected"),
    [
        (StrategyKind.OFFSET, WHOLE, 0, 3, None, 0),
        (StrategyKind.OFFSET, WHOLE, 9, 3, None, 9),
        (StrategyKind.OFFSET, WHOLE, 10, 3, None, None),
        (StrategyKind.OFFSET, SHORTENED, 1, 3, None, 4),
        (StrategyKind.TIMESTAMP, WHOLE, 0, 3, None, 0),
        (StrategyKind.TIMESTAMP, WHOLE, 41, 3, None, 5),
        (StrategyKind.TIMESTAMP, WHOLE, 1000, 3, None, None),
        (StrategyKind.FIRST, WHOLE, 5, 3, None, 0),
        (StrategyKind.FIRST, SHORTENED, 0, 3, None, 4),
        (StrategyKind.LAST, WHOLE, 0, 3, None, 7),
        (StrategyKind.LAST, WHOLE, 0, 100, None, 0),
        (StrategyKind.LAST, SHORTENED, 0, 100, None, 4),
        (StrategyKind.NEXT, WHOLE, 0, 3, None, 0),
        (StrategyKind.NEXT, WHOLE, 0, 3, 4, 5),
        (StrategyKind.NEXT, WHOLE, 0, 3, 9, None),
        (StrategyKind.NEXT, SHORTENED, 0, 3, 1, 4),
    ],
)
def test_where_it_begins(
    strategy: StrategyKind,
    published: Published,
    value: int,
    count: int,
    committed: int | None,
    expected: int | None,
) -> None:
    assert start_of(strategy, published, value, count, committed) == expected


def test_the_current_offset_is_that_of_the_last_message() -> None:
    assert [one.current_offset for one in (EMPTY, WHOLE, SHORTENED, GONE)] == [0, 9, 9, 9]
