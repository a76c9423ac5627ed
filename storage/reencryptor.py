"""The reencryptor: writes a sealed segment once more, encrypted with the key of now.

For a thread: reads the file of the segment once, writes a temporary beside it, syncs it, reads it
back and compares. The caller puts the file in its place (SealedSegments) or removes it.

The new file has a salt, and with it a key, of its own, so no nonce of the old one can come again.
Every message keeps its place and its size, whatever seals it is in now. So the index stays as it
is, byte for byte, and so does the block index of a compressed segment, whose blocks are opened and
sealed again but not decompressed.

Always: what does not verify stays as it is, with its old key.
"""

import os
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

import xxhash

from borzoi.protocol.batch import INDEX_ENTRY, INDEX_ENTRY_SIZE, stamp_batch
from borzoi.storage.block_index import (
    HEADER,
    BlockDamaged,
    BlockIndex,
    BlockIndexDamaged,
    encode_header,
    open_block,
    read_block_index,
    seal_block,
)
from borzoi.storage.codecs import Codec
from borzoi.storage.encrypted import PartitionCipher, SegmentCipher
from borzoi.storage.files import Files
from borzoi.storage.layout import compressing_path, index_path
from borzoi.storage.scan import LogFile
from borzoi.storage.sealed_blocks import SealedBlock, SealedBlocks, SegmentStays, cipher_to_read
from borzoi.storage.segment import SealedSegment
from borzoi.storage.segment_form import ENCRYPTED_MARK, SegmentForm

BLOCK_SIZE: Final = 256 * 1024
SYNC_EVERY: Final = 16 * 1024 * 1024
TIMESTAMPS: Final = INDEX_ENTRY_SIZE // 8


class ReencryptionStopped(Exception):
    """The broker stops; the next start begins again."""


class Reencrypted(NamedTuple):
    """The form of the new file, and the old one, which the caller closes when that has its name."""

    form: SegmentForm
    old_file: int


def reencrypt_segment(
    directory: str,
    segment: SealedSegment,
    files: Files,
    is_stopped: Callable[[], bool],
    cipher: PartitionCipher,
) -> Reencrypted:
    """Write the temporary. Durable when it returns, but for its name.

    OSError, SegmentStays or ReencryptionStopped: then there is no temporary, and nothing is open.
    """
    temporary = compressing_path(directory, segment.first_offset, segment.codec)
    old = files.open(segment.log_path(directory), os.O_RDONLY)
    try:
        out = files.open(temporary, os.O_RDWR | os.O_CREAT | os.O_TRUNC)
        try:
            job = _Copying(directory, segment, files, is_stopped, cipher, old, out)
            return Reencrypted(job.run(), old)
        except BaseException:
            files.unlink_if_there(temporary)
            raise
        finally:
            files.close(out)
    except BaseException:
        files.close(old)
        raise


class _Copying:
    """One segment."""

    def __init__(
        self,
        directory: str,
        segment: SealedSegment,
        files: Files,
        is_stopped: Callable[[], bool],
        cipher: PartitionCipher,
        old: int,
        out: int,
    ) -> None:
        self._directory = directory
        self._segment = segment
        self._files = files
        self._is_stopped = is_stopped
        self._cipher = cipher
        self._old = old
        self._out = out
        self._written = 0
        self._synced = 0

    def run(self) -> SegmentForm:
        """Copy everything; the form of the copy."""
        decipher = cipher_to_read(self._segment, self._cipher)
        if decipher is None:
            raise SegmentStays("it is not encrypted")
        new = self._cipher.begin(self._segment.first_offset)
        if self._segment.codec is Codec.NONE:
            self._copy_log(decipher, new)
        else:
            self._copy_blocks(decipher, new)
        return new.form

    def _put(self, data: bytes | bytearray | memoryview) -> None:
        if self._is_stopped():
            raise ReencryptionStopped
        self._written += self._files.write_all(self._out, [data], self._written)
        if self._written - self._synced >= SYNC_EVERY:
            self._files.fdatasync(self._out)
            self._synced = self._written

    # A log of messages.

    def _copy_log(self, decipher: SegmentCipher, new: SegmentCipher) -> None:
        segment, files = self._segment, self._files
        index = files.open(index_path(self._directory, segment.first_offset), os.O_RDONLY)
        try:
            before = xxhash.xxh3_128()
            self._put(new.header.encode())
            for block in self._blocks(self._old, index, decipher):
                before.update(block.plain)
                self._put(self._sealed(block, new))
            files.fsync(self._out)
            after = xxhash.xxh3_128()
            for block in self._blocks(self._out, index, new):
                if self._is_stopped():
                    raise ReencryptionStopped
                after.update(block.plain)
        finally:
            files.close(index)
        if before.digest() != after.digest():
            raise SegmentStays("its copy is not what was encrypted")

    def _blocks(self, fd: int, index: int, cipher: SegmentCipher) -> Iterator[SealedBlock]:
        segment, files = self._segment, self._files
        log = LogFile(files, fd, segment.first_offset, files.size(fd), cipher.form)
        read = segment._replace(form=cipher.form)
        return iter(SealedBlocks(read, files, log, index, cipher, BLOCK_SIZE))

    def _sealed(self, block: SealedBlock, new: SegmentCipher) -> memoryview:
        """The messages as they are to be stored, with their checksums."""
        stored = new.encrypt(block.plain, block.message_count)
        first = self._segment.first_offset | ENCRYPTED_MARK
        timestamps = memoryview(block.entries).cast("Q")[1::TIMESTAMPS].tolist()
        start, at = 0, self._written
        while start < block.message_count:
            # Messages of one time are stamped by one call: usually all of a batch.
            end = start + 1
            while end < block.message_count and timestamps[end] == timestamps[start]:
                end += 1
            _, behind, _ = INDEX_ENTRY.unpack_from(block.entries, (end - 1) * INDEX_ENTRY_SIZE)
            begin = at - self._written
            entries = stamp_batch(
                stored[begin : behind - self._written],
                end - start,
                block.first_offset + start | ENCRYPTED_MARK,
                timestamps[start],
                _no_ids,
                first,
                at,
            )
            if entries != block.entries[start * INDEX_ENTRY_SIZE : end * INDEX_ENTRY_SIZE]:
                raise SegmentStays(f"its copy has another index at {block.first_offset + start}")
            start, at = end, behind
        return stored

    # A compressed one.

    def _copy_blocks(self, decipher: SegmentCipher, new: SegmentCipher) -> None:
        size = self._files.size(self._old)
        index = self._index_of(self._old, size)
        digests = []
        self._put(encode_header(self._segment.first_offset, new.form))
        for number in range(index.block_count):
            place = index.place(number)
            data = self._files.pread(self._old, place.file_end - place.file_start, place.file_start)
            try:
                packed = open_block(data, place, decipher)
            except BlockDamaged as error:
                raise SegmentStays(f"its block {number} is damaged: {error}") from error
            digests.append(xxhash.xxh3_128_digest(packed))
            self._put(seal_block(data, packed, new))
        end = index.file_ends[-1] if index.file_ends else HEADER.size + index.form.start
        self._put(self._files.pread(self._old, size - end, end))
        self._files.fsync(self._out)
        self._compare(index, digests, new)

    def _compare(self, index: BlockIndex, digests: list[bytes], new: SegmentCipher) -> None:
        copied = self._index_of(self._out, self._files.size(self._out))
        if copied._replace(form=index.form) != index or copied.form != new.form:
            raise SegmentStays("its copy has other blocks")
        for number in range(copied.block_count):
            if self._is_stopped():
                raise ReencryptionStopped
            place = copied.place(number)
            data = self._files.pread(self._out, place.file_end - place.file_start, place.file_start)
            try:
                packed = open_block(data, place, new)
            except BlockDamaged as error:
                raise SegmentStays(f"block {number} of its copy: {error}") from error
            if xxhash.xxh3_128_digest(packed) != digests[number]:
                raise SegmentStays(f"block {number} of its copy is another one")

    def _index_of(self, fd: int, size: int) -> BlockIndex:
        def read(count: int, at: int) -> bytes:
            return self._files.pread(fd, count, at)

        try:
            return read_block_index(read, size, self._segment.first_offset)
        except BlockIndexDamaged as error:
            raise SegmentStays(f"its block index is damaged: {error}") from error


def _no_ids(_size: int) -> bytes:
    raise SegmentStays("a message of it has no id")
