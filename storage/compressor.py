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
from borzoi.storage.encrypted import PartitionCipher, SegmentCipher
from borzoi.storage.files import Files
from borzoi.storage.layout import compressing_path, index_path, log_path
from borzoi.storage.scan import LogFile
from borzoi.storage.sealed_blocks import SealedBlocks, SegmentStays, cipher_to_read
from borzoi.storage.segment import SealedSegment
from borzoi.storage.segment_form import PLAIN, SegmentForm

SYNC_EVERY: Final = 16 * 1024 * 1024
"""So much is written between two syncs: the last one, and a stop of the broker, wait for little."""

SAMPLE_SIZE: Final = 4 * 1024 * 1024
SAVED_MIN: Final = 1 / 32
"""A segment whose first bytes do not shrink by this part is left plain: readers map it."""


class NotCompressed(SegmentStays):
    """Compressed it would not be what it is now, or hardly smaller."""


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

    OSError, SegmentStays or CompressionStopped: then there is no temporary.
    """
    temporary = compressing_path(directory, segment.first_offset, codec)
    log = files.open(log_path(directory, segment.first_offset), os.O_RDONLY)
    try:
        index = files.open(index_path(directory, segment.first_offset), os.O_RDONLY)
        try:
            out = files.open(temporary, os.O_RDWR | os.O_CREAT | os.O_TRUNC)
            try:
                written = LogFile(files, log, segment.first_offset, files.size(log), segment.form)
                decipher = cipher_to_read(segment, cipher)
                blocks = SealedBlocks(segment, files, written, index, decipher, block_size)
                job = _Job(segment, codec, files, written, blocks, out, is_stopped, saved_min)
                if decipher is not None and cipher is not None:
                    job.cipher = cipher.begin(segment.first_offset)
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
    blocks: SealedBlocks
    out: int
    is_stopped: Callable[[], bool]
    saved_min: float
    cipher: SegmentCipher | None = None  # of the new file
    plain_ends: list[int] = field(default_factory=list)
    file_ends: list[int] = field(default_factory=list)
    checksums: list[bytes] = field(default_factory=list)

    @property
    def new_form(self) -> SegmentForm:
        return PLAIN if self.cipher is None else self.cipher.form

    def write(self) -> int:
        segment, files = self.segment, self.files
        header = encode_header(segment.first_offset, self.new_form)
        at = files.write_all(self.out, [header], 0)
        plain_at = position = synced_to = 0
        end = self.log.size - self.log.form.start
        of_index = xxhash.xxh3_64()
        for each in self.blocks:
            if self.is_stopped():
                raise CompressionStopped
            of_index.update(each.entries)
            block = encode_block(self.codec, plain_at, each.plain, self.cipher)
            at += files.write_all(self.out, [block], at)
            position += each.stored_size
            plain_at += len(each.plain)
            self.plain_ends.append(plain_at)
            self.file_ends.append(at)
            self.checksums.append(xxhash.xxh3_128_digest(each.plain))
            if position >= SAMPLE_SIZE or position == end:
                self._judge_sample(plain_at, at)
            if at - synced_to >= SYNC_EVERY:
                files.fdatasync(self.out)
                synced_to = at
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

    def _judge_sample(self, plain: int, stored: int) -> None:
        if stored > plain * (1 - self.saved_min):
            raise NotCompressed(f"{plain} bytes would still be {stored}")
