"""A poll as it travels from a session to whoever decides it."""

from typing import NamedTuple


class Poll(NamedTuple):
    """What is wanted of a partition, and for whom."""

    strategy: int
    value: int
    count_max: int
    consumer_kind: int
    consumer: int
    auto_commit: bool
