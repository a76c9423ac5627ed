"""A poll as it travels from a session to the shard that decides it."""

from typing import Final, NamedTuple

UNKNOWN_USER: Final = 0xFFFF_FFFF
"""The user of a group's poll, where another shard asks: the words of a ring have no room for it."""


class Poll(NamedTuple):
    """What is wanted of a partition, for which consumer, and by which user."""

    strategy: int
    value: int
    count_max: int
    consumer_kind: int
    consumer: int
    auto_commit: bool
    user: int
