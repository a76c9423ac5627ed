"""Where a poll begins: the five strategies, decided from values alone."""

from collections.abc import Callable

from borzoi.protocol.identifiers import StrategyKind
from borzoi.shards.rings.poll import Poll
from borzoi.storage.published import Published


def poll_start(
    poll: Poll,
    published: Published,
    committed: int | None,
    find_timestamp: Callable[[int], int],
) -> int | None:
    """The first offset to return, or None when there is nothing to return.

    Offsets that retention has taken away are raised to the oldest one available.
    `find_timestamp` gives the first offset at or after a time, or the next offset to be written.
    """
    if poll.count_max == 0 or published.next_offset == published.first_offset:
        return None
    match poll.strategy:
        case StrategyKind.OFFSET:
            start = poll.value
        case StrategyKind.TIMESTAMP:
            start = find_timestamp(poll.value)
        case StrategyKind.FIRST:
            start = published.first_offset
        case StrategyKind.LAST:
            start = max(0, published.next_offset - poll.count_max)
        case StrategyKind.NEXT:
            start = published.first_offset if committed is None else committed + 1
        case _:
            raise AssertionError(f"strategy {poll.strategy} passed the decoder")
    start = max(start, published.first_offset)
    return start if start < published.next_offset else None


def current_offset(published: Published) -> int:
    """The offset of the last message, 0 while there has been none."""
    return published.next_offset - 1 if published.next_offset else 0
