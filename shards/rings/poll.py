"""A poll as it travels from a session to the shard that decides it."""

from enum import IntEnum
from typing import Final, NamedTuple

UNKNOWN_USER: Final = 0xFFFF_FFFF
"""The user of a group's poll, where another shard asks: the words of a ring have no room for it."""


class AnswerCut(IntEnum):
    """How long the answer to a poll may be."""

    SERVER = 0
    STORED = 1  # a client that reads a bounded answer, of messages as they are stored
    CONVERTED = 2  # the same, of messages that are converted, which makes some of them longer


ANSWER_SIZES: Final = {AnswerCut.STORED: 9_999_000, AnswerCut.CONVERTED: 2_000_000}
"""Stored bytes whose answer fits into the 10,000,000 that QUIC clients read. A message without a
payload is 64 bytes, and 304 as a batch record of its own."""


class Poll(NamedTuple):
    """What is wanted of a partition, for which consumer, and by which user."""

    strategy: int
    value: int
    count_max: int
    consumer_kind: int
    consumer: int
    auto_commit: bool
    user: int
    cut: AnswerCut = AnswerCut.SERVER

    @property
    def option(self) -> int:
        """Strategy, consumer kind, auto-commit and cut, in 24 bits."""
        return self.strategy | self.consumer_kind << 8 | self.auto_commit << 16 | self.cut << 17

    @property
    def reach(self) -> int:
        """Count and consumer, in one word."""
        return self.count_max | self.consumer << 32


def poll_of(option: int, value: int, reach: int, user: int) -> Poll:
    """The poll that words of a ring mean."""
    return Poll(
        strategy=option & 0xFF,
        value=value,
        count_max=reach & 0xFFFFFFFF,
        consumer_kind=option >> 8 & 0xFF,
        consumer=reach >> 32,
        auto_commit=bool(option >> 16 & 1),
        user=user,
        cut=AnswerCut(option >> 17 & 3),
    )
