"""The places where a poll can start, by name."""

from typing import Final

from borzoi.protocol.identifiers import PollingStrategy, StrategyKind

FIRST: Final = PollingStrategy(StrategyKind.FIRST)  # the oldest message there is
LAST: Final = PollingStrategy(StrategyKind.LAST)  # as many as asked for, up to the newest
NEXT: Final = PollingStrategy(StrategyKind.NEXT)  # behind what the consumer has committed


def from_offset(offset: int) -> PollingStrategy:
    """Returns the strategy that begins at an offset."""
    return PollingStrategy(StrategyKind.OFFSET, offset)


def from_timestamp(timestamp_us: int) -> PollingStrategy:
    """The first message the server received at this time or later."""
    return PollingStrategy(StrategyKind.TIMESTAMP, timestamp_us)
