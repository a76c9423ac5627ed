"""What a read of a partition comes to: messages, or what has to happen before there are some.

Plain values. A reader returns them; the caller that can fetch, load, decrypt or have an index
checked does that and reads again. `Encrypted`, the fifth of them, is in decryption.py.
"""

from typing import Final, NamedTuple

from borzoi.protocol.errors import BrokerError
from borzoi.storage.compressed_file import MissingBlocks


class Slices(NamedTuple):
    """Messages as they lie in the files: consecutive offsets, in a few contiguous runs."""

    views: list[memoryview]
    message_count: int
    first_offset: int
    size: int


class Extent(NamedTuple):
    """Which messages a read returns, without their bytes."""

    first_offset: int
    message_count: int


class Cold(NamedTuple):
    """Bytes of a file that are not in the page cache; read them once, then read again."""

    path: str
    start: int
    end: int


class Packed:
    """Bytes that are wanted lie in compressed blocks; load them, then read again."""

    __slots__ = ("missing", "size_max")

    def __init__(self, missing: list[MissingBlocks]) -> None:
        self.missing = missing
        self.size_max = sum(one.size_max for one in missing)

    def __str__(self) -> str:
        return ", ".join(one.path for one in self.missing)


class Doubt(NamedTuple):
    """The index of a segment may be to blame for an error: the owner of the partition can tell.

    The error stands if the index proves right.
    """

    segment: int
    error: BrokerError


def nothing_from(offset: int) -> Slices:
    """No messages."""
    return Slices([], 0, offset, 0)


NO_SLICES: Final = nothing_from(0)
