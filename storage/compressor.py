"""The compressor: writes the compressed file of a sealed segment, beside the plain one.

For a thread: reads the log and its index once, writes a temporary, syncs it, reads it back and
compares a checksum of each block. An encrypted segment is decrypted, and its blocks are encrypted
again. The caller puts the file in its place (PartitionLog) or removes it.

Always: what does not verify is not compressed. A damaged segment stays as it is, and as much of it
can be read as before.
"""

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

import xxhash

from borzoi.protocol.batch import INDEX_ENTRY_SIZE, scan_log
from borzoi.storage.block_index import (
    BLOCK_SIZE,
    BlockDamaged,
    BlockIndex,
    SegmentFacts,
    encode_block,
    encode_header,
    encode_tail,
)
from borzoi.storage.codecs import Codec
from borzoi.storage.compressed_log import open_compressed
from borzoi.storage.encrypted import CannotOpenSegment, PartitionCipher, SegmentCipher
from borzoi.storage.files import Files
from borzoi.storage.layout import compressing_path, index_path, log_path
from borzoi.storage.scan import LogFile, message_size, whole_seals
from borzoi.storage.segment import SealedSegment
from borzoi.storage.segment_form import PLAIN, SegmentForm, SegmentHeader

SYNC_EVERY: Final = 16 * 1024 * 1024
"""So much is written between two syncs: the last one, and a stop of the broker, wait for little."""

SAMPLE_SIZE: Final = 4 * 1024 * 1024
SAVED_MIN: Final = 1 / 32
"""A segment whose first bytes do not shrink by this part is left plain: readers map it."""


class NotCompressed(Exception):
    """The segment stays as it is, for good: damaged, or not worth it."""


class CompressionStopped(Exception):
    """The broker stops; the next start begins again."""


def compress_segment(
    directory: str,
    segment: SealedSegment,
    codec: Codec,
    files: Files,
    is_stopped: Callable[[], bool],
    *,
    cipher: PartitionCipher | None = None,
    block_size: int = BLOCK_SIZE,
    saved_min: float = SAVED_MIN,
) -> int:
    """Write the temporary; return its size. Durable when it returns, but for its name.

    OSError, NotCompressed or CompressionStopped: then there is no temporary.
    """
    temporary = compressing_path(directory, segment.first_offset, codec)
    log = files.open(log_path(directory, segment.first_offset), os.O_RDONLY)
    try:
        index = files.open(index_path(directory, segment.first_offset), os.O_RDONLY)
        try:
            out = files.open(temporary, os.O_RDWR | os.O_CREAT | os.O_TRUNC)
            try:
                written = LogFile(files, log, segment.first_offset, files.size(log), segment.form)
                job = _Job(
                    segment, codec, files, written, index, out, is_stopped, block_size, saved_min
                )
                if segment.form.header is not None:
                    job.take_ciphers(cipher, segment.form.header)
                size = job.write()
                job.compare(temporary, cipher)
                return size
            except BaseException:
                files.unlink_if_there(temporary)
                raise
            finally:
                files.close(out)
        finally:
            files.close(index)
    finally:
        files.close(log)


@dataclass(slots=True)
class _Job:
    segment: SealedSegment
    codec: Codec
    files: Files
    log: LogFile
    index: int
    out: int
    is_stopped: Callable[[], bool]
    block_size: int
    saved_min: float
    decipher: SegmentCipher | None = None  # of the log
    cipher: SegmentCipher | None = None  # of the new file
    plain_ends: list[int] = field(default_factory=list)
    file_ends: list[int] = field(default_factory=list)
    checksums: list[bytes] = field(default_factory=list)

    def take_ciphers(self, cipher: PartitionCipher | None, header: SegmentHeader) -> None:
        if cipher is None:
            raise NotCompressed("it is encrypted, and there is no key")
        try:
            self.decipher = cipher.resume(self.segment.first_offset, header)
        except CannotOpenSegment as error:
            raise NotCompressed(str(error)) from error
        self.cipher = cipher.begin(self.segment.first_offset)

    @property
    def new_form(self) -> SegmentForm:
        return PLAIN if self.cipher is None else self.cipher.form

    def write(self) -> int:
        segment = self.segment
        files = self.files
        log = self.log
        if log.form.message_bytes(log.size, segment.message_count) != segment.size_bytes:
            raise NotCompressed(f"its log has not {segment.size_bytes} bytes of messages")
        if files.size(self.index) != segment.message_count * INDEX_ENTRY_SIZE:
            raise NotCompressed(f"its index has not {segment.message_count} entries")
        header = encode_header(segment.first_offset, self.new_form)
        at = files.write_all(self.out, [header], 0)
        position, plain_at, offset, synced_to = log.form.start, 0, segment.first_offset, 0
        timestamp = segment.first_timestamp
        of_index = xxhash.xxh3_64()
        while position < log.size:
            if self.is_stopped():
                raise CompressionStopped
            stored, count, entries, timestamp = self._next_block(position, offset, timestamp)
            of_index.update(entries)
            plain = self._decrypted(stored, offset, count)
            block = encode_block(self.codec, plain_at, plain, self.cipher)
            at += files.write_all(self.out, [block], at)
            position += len(stored)
            plain_at += len(plain)
            offset += count
            self.plain_ends.append(plain_at)
            self.file_ends.append(at)
            self.checksums.append(xxhash.xxh3_128_digest(plain))
            if position >= SAMPLE_SIZE or position == log.size:
                self._judge_sample(plain_at, at)
            if at - synced_to >= SYNC_EVERY:
                files.fdatasync(self.out)
                synced_to = at
        if offset != segment.end_offset:
            raise NotCompressed(f"its log ends at offset {offset}, not {segment.end_offset}")
        facts = SegmentFacts(
            segment.message_count,
            segment.first_timestamp,
            segment.last_timestamp,
            of_index.intdigest(),
        )
        places = BlockIndex(self.plain_ends, self.file_ends, facts, self.new_form)
        tail = encode_tail(places, segment.first_offset)
        at += files.write_all(self.out, [tail], at)
        files.fsync(self.out)
        return at

    def compare(self, temporary: str, cipher: PartitionCipher | None) -> None:
        """Read back what was written, as a reader will, and compare it with what was meant."""
        with open_compressed(temporary, self.segment.first_offset, self.files, cipher) as written:
            if written.damage or written.index.plain_ends != self.plain_ends:
                raise NotCompressed(f"it cannot be read back: {written.damage}")
            for number in range(written.index.block_count):
                if self.is_stopped():
                    raise CompressionStopped
                try:
                    plain = written.block(number)
                except BlockDamaged as error:
                    raise NotCompressed(f"block {number} cannot be read back: {error}") from error
                if xxhash.xxh3_128_digest(plain) != self.checksums[number]:
                    raise NotCompressed(f"block {number} is not what was compressed")

    def _next_block(
        self, position: int, offset: int, timestamp: int
    ) -> tuple[memoryview, int, bytearray, int]:
        """The messages that go into the next block, checked one by one, and their index.

        Of an encrypted segment whole seals: what they have in common is decrypted at once.
        """
        size = max(self.block_size, message_size(self.log, position) or 0)
        mark = self.log.form.mark
        while True:
            stored = self.log.read(position, size)
            found = scan_log(
                stored,
                offset | mark,
                segment_first_offset=self.segment.first_offset | mark,
                position=position,
                timestamp_min=timestamp,
            )
            if found.message_count == 0:
                raise NotCompressed(f"its message at offset {offset} is damaged")
            if self.decipher is not None:
                found = whole_seals(found, self.log, position)
            if found.message_count:
                break
            if len(stored) < size:
                raise NotCompressed(f"its messages at offset {offset} are not whole")
            size *= 2
        entries = found.index_entries
        at = (offset - self.segment.first_offset) * INDEX_ENTRY_SIZE
        if self.files.pread(self.index, len(entries), at) != entries:
            raise NotCompressed(f"its index is wrong at offset {offset} or behind it")
        return stored[: found.valid_size], found.message_count, entries, found.last_timestamp

    def _decrypted(self, stored: memoryview, offset: int, count: int) -> memoryview:
        if self.decipher is None:
            return stored
        plain = memoryview(bytearray(len(stored)))
        opened = self.decipher.decrypt(stored, offset, 0, count, plain)
        if opened.message_count != count:
            raise NotCompressed(f"its message at offset {offset + opened.message_count} is damaged")
        return plain[: opened.size]

    def _judge_sample(self, plain: int, stored: int) -> None:
        if stored > plain * (1 - self.saved_min):
            raise NotCompressed(f"{plain} bytes would still be {stored}")
