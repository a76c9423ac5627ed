"""The values that describe segments: a finished one, and the end of the one still growing.

offsets   first_offset ...... next_offset
.log      message message message|          <- position: bytes so far
.index    entry   entry   entry  |          <- 16 bytes for each message
"""

from typing import Final, NamedTuple

from borzoi.protocol.batch import INDEX_ENTRY, INDEX_ENTRY_SIZE
from borzoi.storage.codecs import Codec
from borzoi.storage.layout import stored_log_path
from borzoi.storage.segment_form import PLAIN, SegmentForm

POSITION_MAX: Final = 0xFFFF_FFFF  # index entries hold positions in 32 bits


class Compressed(NamedTuple):
    """How a compressed segment lies on the disk."""

    codec: Codec
    stored_bytes: int


class SealedSegment(NamedTuple):
    """A segment that will never change again, only be compressed or deleted."""

    first_offset: int
    message_count: int
    size_bytes: int  # of its messages as on the wire, whatever they take on the disk
    first_timestamp: int
    last_timestamp: int
    form: SegmentForm = PLAIN
    compressed: Compressed | None = None

    @property
    def codec(self) -> Codec:
        """The codec that the segment is compressed with."""
        return self.compressed.codec if self.compressed is not None else Codec.NONE

    def log_path(self, directory: str) -> str:
        """The file that holds its messages."""
        return stored_log_path(directory, self.first_offset, self.codec)

    @property
    def end_offset(self) -> int:
        """The offset after its last message. The next segment may begin later, never earlier."""
        return self.first_offset + self.message_count


class LogEnd(NamedTuple):
    """Where a log ends, and so where the next batch goes."""

    segment: int  # first offset of the active segment
    position: int  # bytes in it
    next_offset: int
    last_timestamp: int  # of all messages seen: what comes next is not older
    first_timestamp: int  # of the active segment, 0 while it is empty
    form: SegmentForm = PLAIN  # of the active segment

    @property
    def message_count(self) -> int:
        """Messages in the active segment."""
        return self.next_offset - self.segment

    @property
    def index_size(self) -> int:
        """The size of the active segment's index."""
        return self.message_count * INDEX_ENTRY_SIZE

    @property
    def message_bytes(self) -> int:
        """What the messages of the active segment have on the wire."""
        return self.form.message_bytes(self.position, self.message_count)

    def sealed(self) -> SealedSegment:
        """Returns the active segment as a sealed one."""
        return SealedSegment(
            self.segment,
            self.message_count,
            self.message_bytes,
            self.first_timestamp,
            self.last_timestamp,
            self.form,
        )

    def rolled(self) -> "LogEnd":
        """The end of the empty segment that follows, which is plain."""
        return LogEnd(self.next_offset, 0, self.next_offset, self.last_timestamp, 0)


class IndexEntry(NamedTuple):
    """What an index says of one message."""

    relative_offset: int
    position: int  # where the message ends
    timestamp: int

    @classmethod
    def at(cls, entries: bytes | bytearray | memoryview, number: int) -> "IndexEntry":
        """Returns the entry with this number."""
        return cls(*INDEX_ENTRY.unpack_from(entries, number * INDEX_ENTRY_SIZE))
