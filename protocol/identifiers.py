"""How requests point at things: identifiers, consumers, partitionings, polling strategies.

Values only, plus the one hash that turns a consumer's name into its number. Their bytes are
written and read by payload.py.
"""

from dataclasses import dataclass
from enum import IntEnum
from typing import Final, TypeAlias

import xxhash

U32_MAX: Final = 0xFFFF_FFFF
U64_MAX: Final = 0xFFFF_FFFF_FFFF_FFFF

NAME_SIZE_MAX: Final = 255  # bytes of UTF-8; the length travels in one byte

# A number is an id, a text is a name. The number 0 is an id like any other.
Identifier: TypeAlias = int | str


class ConsumerKind(IntEnum):
    """Whose offsets a poll moves: those of one consumer, or those of a group."""

    CONSUMER = 1
    GROUP = 2


@dataclass(frozen=True, slots=True)
class Consumer:
    """Who polls and commits: a single consumer, or the group a session is a member of."""

    kind: ConsumerKind
    id: Identifier


@dataclass(frozen=True, slots=True)
class Balanced:
    """The server spreads requests over the partitions of the topic."""


@dataclass(frozen=True, slots=True)
class PartitionId:
    """The client names the partition itself."""

    partition_id: int


@dataclass(frozen=True, slots=True)
class MessagesKey:
    """Equal keys land in the same partition."""

    key: bytes


Partitioning: TypeAlias = Balanced | PartitionId | MessagesKey


class StrategyKind(IntEnum):
    """What a poll counts from."""

    OFFSET = 1
    TIMESTAMP = 2
    FIRST = 3
    LAST = 4
    NEXT = 5


@dataclass(frozen=True, slots=True)
class PollingStrategy:
    """Where a poll starts; `value` is an offset or a time in microseconds, else 0."""

    kind: StrategyKind
    value: int = 0


def consumer_number(identifier: Identifier) -> int:
    """The number under which a single consumer's offsets are kept."""
    if isinstance(identifier, int):
        return identifier
    return xxhash.xxh32_intdigest(identifier.encode("utf-8", "surrogateescape"))
