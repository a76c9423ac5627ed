"""A sealed segment read from its start to its end by those who write it once more, and verified.

For a thread. The log and its index are read once, piece by piece. Each message is checked, and what
the index says of it is compared. Of an encrypted segment a piece is whole seals, as what they have
in common is decrypted at once. Always: what does not verify is not handed out.
"""

from collections.abc import Iterator
from typing import NamedTuple

from borzoi.protocol.batch import INDEX_ENTRY_SIZE, Scan, scan_log
from borzoi.storage.encrypted import CannotOpenSegment, PartitionCipher, SegmentCipher
from borzoi.storage.files import Files
from borzoi.storage.scan import LogFile, message_size, whole_seals
from borzoi.storage.segment import SealedSegment


class SegmentStays(Exception):
    """The segment stays as it is, for good: damaged, or not worth it."""


class SealedBlock(NamedTuple):
    """Whole messages, one behind the other, as they are in clear."""

    plain: memoryview
    first_offset: int
    message_count: int
    entries: bytearray  # of the index
    stored_size: int


def cipher_to_read(segment: SealedSegment, cipher: PartitionCipher | None) -> SegmentCipher | None:
    """What decrypts the log of a segment; None if it is plain. SegmentStays without its key."""
    if segment.form.header is None:
        return None
    if cipher is None:
        raise SegmentStays("it is encrypted, and there is no key")
    try:
        return cipher.resume(segment.first_offset, segment.form.header)
    except CannotOpenSegment as error:
        raise SegmentStays(str(error)) from error


class SealedBlocks:
    """The messages of a log that is not compressed."""

    def __init__(
        self,
        segment: SealedSegment,
        files: Files,
        log: LogFile,
        index: int,
        decipher: SegmentCipher | None,
        block_size: int,
    ) -> None:
        """`index` is a descriptor; a block has `block_size` bytes, or is a single message."""
        self._segment = segment
        self._files = files
        self._log = log
        self._index = index
        self._decipher = decipher
        self._block_size = block_size

    def __iter__(self) -> Iterator[SealedBlock]:
        segment, log = self._segment, self._log
        if log.form.message_bytes(log.size, segment.message_count) != segment.size_bytes:
            raise SegmentStays(f"its log has not {segment.size_bytes} bytes of messages")
        if self._files.size(self._index) != segment.message_count * INDEX_ENTRY_SIZE:
            raise SegmentStays(f"its index has not {segment.message_count} entries")
        position, offset = log.form.start, segment.first_offset
        timestamp = segment.first_timestamp
        while position < log.size:
            stored, found = self._next_block(position, offset, timestamp)
            plain = self._decrypted(stored, offset, found.message_count)
            yield SealedBlock(plain, offset, found.message_count, found.index_entries, len(stored))
            position += len(stored)
            offset += found.message_count
            timestamp = found.last_timestamp
        if offset != segment.end_offset:
            raise SegmentStays(f"its log ends at offset {offset}, not {segment.end_offset}")

    def _next_block(self, position: int, offset: int, timestamp: int) -> tuple[memoryview, Scan]:
        """The messages that go into the next block, checked one by one, and their index."""
        size = max(self._block_size, message_size(self._log, position) or 0)
        first, mark = self._segment.first_offset, self._log.form.mark
        while True:
            stored = self._log.read(position, size)
            found = scan_log(
                stored,
                offset | mark,
                segment_first_offset=first | mark,
                position=position,
                timestamp_min=timestamp,
            )
            if found.message_count == 0:
                raise SegmentStays(f"its message at offset {offset} is damaged")
            if self._decipher is not None:
                found = whole_seals(found, self._log, position)
            if found.message_count:
                break
            if len(stored) < size:
                raise SegmentStays(f"its messages at offset {offset} are not whole")
            size *= 2
        entries = found.index_entries
        if self._files.pread(self._index, len(entries), (offset - first) * INDEX_ENTRY_SIZE) != (
            entries
        ):
            raise SegmentStays(f"its index is wrong at offset {offset} or behind it")
        return stored[: found.valid_size], found

    def _decrypted(self, stored: memoryview, offset: int, count: int) -> memoryview:
        if self._decipher is None:
            return stored
        plain = memoryview(bytearray(len(stored)))
        opened = self._decipher.decrypt(stored, offset, 0, count, plain)
        if opened.message_count != count:
            raise SegmentStays(f"its message at offset {offset + opened.message_count} is damaged")
        return plain[: opened.size]
