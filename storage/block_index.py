"""The file of a compressed segment: blocks of messages, each for itself, and where they lie.

    header       32   magic | first offset of the segment u64 | 8 zeros | checksum u64
    key         128   if it is encrypted: the header of an encrypted segment (segment_form.py)
    block         .   again and again: a block header and the stored bytes
    block index   .   for each block where it ends: in plain bytes u64, in this file u64
    footer       64   magic | block count u32 | message count u32 | plain size u64 |
                      first offset u64 | first timestamp u64 | last timestamp u64 |
                      checksum of the .index file u64 | checksum u64 of block index and footer

    block header 24   plain start u32 | plain size u32 | stored size u32 | codec u32 |
                      checksum u64 of these 16 bytes and of the stored bytes

A block holds whole messages: as many as fit into BLOCK_SIZE, or a single larger one. Bytes that
do not shrink are stored as they are (codec 1). The .index of the segment counts in plain bytes,
so nothing in it changes. Checksums are XXH3-64 of what is stored: verifying them needs no key.
Every block says itself what it is: if the block index is damaged, the blocks can still be found
one behind the other.

**Encrypted**, if the segment was: its messages are decrypted, compressed and then encrypted block
by block. The other way round nothing would shrink, as encrypted bytes look random. The stored bytes
of a block are AES-256-GCM of the compressed ones, a tag and a nonce. The codec has another bit, and
the first 16 bytes of the block header are authenticated with them. The file has a key of its own,
which is bound to its place. The .index still counts as the encrypted .log did: from the number of a
message follows where it is in plain bytes (SegmentForm.message_bytes).

Pure but for nonces: bytes in, values out. Nothing is believed or allocated before it was checked.
"""

import struct
from bisect import bisect_right
from collections.abc import Callable
from typing import Final, NamedTuple

import xxhash

from borzoi.storage.codecs import Bytes, Codec, NotDecompressed, compress, decompress
from borzoi.storage.encrypted import CannotOpenSegment, SegmentCipher
from borzoi.storage.scan import MESSAGE_SIZE_MAX
from borzoi.storage.segment_form import HEADER_SIZE as KEY_SIZE
from borzoi.storage.segment_form import MESSAGE_OVERHEAD, PLAIN, SegmentForm, form_of

BLOCK_SIZE: Final = 256 * 1024

HEADER: Final = struct.Struct("<8sQ8xQ")
HEADER_MAGIC: Final = b"BZSEGM01"
BLOCK_HEADER: Final = struct.Struct("<IIIIQ")
PLACE: Final = struct.Struct("<QQ")
FOOTER: Final = struct.Struct("<8sIIQQQQQQ")
FOOTER_MAGIC: Final = b"BZBLCK01"
CHECKSUM_SIZE: Final = 8
ENCRYPTED: Final = 0x100
"""The bit of a block's codec which says that it was encrypted then."""

STORED_SIZE_MAX: Final = BLOCK_HEADER.size + MESSAGE_SIZE_MAX + MESSAGE_OVERHEAD
INDEX_SIZE_MAX: Final = 64 * 1024 * 1024
"""More than any block index can have: positions of messages are 32 bits."""

Read = Callable[[int, int], bytes]
"""Bytes of the file: how many, from where. Fewer at its end."""


class BlockDamaged(Exception):
    """A block is not what was written. The ones around it can still be read."""


class BlockIndexDamaged(Exception):
    """The file does not say where its blocks are."""


class BlockPlace(NamedTuple):
    """Where a block lies: in the plain bytes of its segment, and in the file."""

    plain_start: int
    plain_end: int
    file_start: int
    file_end: int


class SegmentFacts(NamedTuple):
    """What is known about a segment without reading a block."""

    message_count: int
    first_timestamp: int
    last_timestamp: int
    index_checksum: int


class BlockIndex(NamedTuple):
    """Where all blocks lie. `facts` are lost with the footer.

    `form`: encrypted or not; and how the segment was written before, which its .index goes by.
    """

    plain_ends: list[int]
    file_ends: list[int]
    facts: SegmentFacts | None
    form: SegmentForm = PLAIN

    @property
    def plain_size(self) -> int:
        """How many bytes all blocks are when decompressed."""
        return self.plain_ends[-1] if self.plain_ends else 0

    @property
    def block_count(self) -> int:
        """The number of blocks."""
        return len(self.plain_ends)

    def number_of(self, position: int) -> int:
        """The block in which this plain byte lies."""
        return bisect_right(self.plain_ends, position)

    def numbers_of(self, start: int, end: int) -> range:
        """The blocks in which these plain bytes lie."""
        return range(self.number_of(start), self.number_of(end - 1) + 1)

    def place(self, number: int) -> BlockPlace:
        """Returns where a block lies, in the plain bytes and in the file."""
        return BlockPlace(
            self.plain_ends[number - 1] if number else 0,
            self.plain_ends[number],
            self.file_ends[number - 1] if number else HEADER.size + self.form.start,
            self.file_ends[number],
        )


def encode_header(first_offset: int, form: SegmentForm = PLAIN) -> bytes:
    """Returns the bytes that a compressed file begins with."""
    start = HEADER.pack(HEADER_MAGIC, first_offset, 0)[:-CHECKSUM_SIZE]
    return start + _checksum(start) + (form.header.encode() if form.header is not None else b"")


def encode_block(
    codec: Codec, plain_start: int, plain: bytes | memoryview, cipher: SegmentCipher | None = None
) -> bytes:
    """A block as it lies in the file, compressed if that makes it smaller."""
    stored: bytes | memoryview = compress(codec, plain)
    if len(stored) >= len(plain):
        codec, stored = Codec.NONE, plain
    code, size = int(codec), len(stored)
    if cipher is not None:
        code, size = code | ENCRYPTED, size + MESSAGE_OVERHEAD
    head = BLOCK_HEADER.pack(plain_start, len(plain), size, code, 0)[:-CHECKSUM_SIZE]
    if cipher is not None:
        stored = cipher.encrypt_block(stored, head)
    return b"".join((head, _checksum(head, stored), stored))


def decode_block(data: bytes, place: BlockPlace, cipher: SegmentCipher | None = None) -> bytes:
    """The plain bytes of the block that lies at this place."""
    head, stored = _verified(data, place)
    _, plain_size, _, code = struct.unpack("<IIII", head)
    if bool(code & ENCRYPTED) != (cipher is not None):
        raise BlockDamaged("it is encrypted and its key is not there, or the other way round")
    try:
        if cipher is not None:
            stored = memoryview(cipher.decrypt_block(stored, head))
        return decompress(Codec(code & ~ENCRYPTED), stored, plain_size)
    except (ValueError, NotDecompressed, CannotOpenSegment) as error:
        raise BlockDamaged(str(error)) from error


def open_block(data: bytes, place: BlockPlace, cipher: SegmentCipher) -> bytes:
    """The compressed bytes of an encrypted block. BlockDamaged."""
    head, stored = _verified(data, place)
    try:
        return cipher.decrypt_block(stored, head)
    except CannotOpenSegment as error:
        raise BlockDamaged(str(error)) from error


def seal_block(data: bytes, packed: bytes, cipher: SegmentCipher) -> bytes:
    """The same block in another file: its compressed bytes, encrypted with the key of that."""
    head = data[: BLOCK_HEADER.size - CHECKSUM_SIZE]
    stored = cipher.encrypt_block(packed, head)
    return b"".join((head, _checksum(head, stored), stored))


def check_block(data: bytes, place: BlockPlace) -> None:
    """Verify a block as far as that goes without a key. BlockDamaged."""
    _verified(data, place)


def _verified(data: bytes, place: BlockPlace) -> tuple[memoryview, memoryview]:
    """Header and stored bytes of a block."""
    view = memoryview(data)
    if len(data) != place.file_end - place.file_start or len(data) < BLOCK_HEADER.size:
        raise BlockDamaged(f"{len(data)} bytes")
    plain_start, plain_size, stored_size, _, _ = BLOCK_HEADER.unpack_from(view)
    head, stored = view[: BLOCK_HEADER.size - CHECKSUM_SIZE], view[BLOCK_HEADER.size :]
    if view[len(head) : BLOCK_HEADER.size] != _checksum(head, stored):
        raise BlockDamaged("wrong checksum")
    if (plain_start, plain_start + plain_size, stored_size) != (
        place.plain_start,
        place.plain_end,
        len(stored),
    ):
        raise BlockDamaged("it is another block")
    return head, stored


def encode_tail(index: BlockIndex, first_offset: int) -> bytes:
    """Block index and footer."""
    facts = index.facts
    assert facts is not None
    places = b"".join(map(PLACE.pack, index.plain_ends, index.file_ends))
    footer = FOOTER.pack(
        FOOTER_MAGIC, index.block_count, facts.message_count, index.plain_size, first_offset,
        facts.first_timestamp, facts.last_timestamp, facts.index_checksum, 0,
    )[:-CHECKSUM_SIZE]  # fmt: skip
    return b"".join((places, footer, _checksum(places, footer)))


def read_block_index(read: Read, file_size: int, first_offset: int) -> BlockIndex:
    """The block index of a file, by its footer. BlockIndexDamaged if it is not to be trusted."""
    form = read_packed_form(read)
    footer_at = file_size - FOOTER.size
    if footer_at < HEADER.size + form.start:
        raise BlockIndexDamaged(f"a file of {file_size} bytes")
    footer = read(FOOTER.size, footer_at)
    if len(footer) != FOOTER.size or not footer.startswith(FOOTER_MAGIC):
        raise BlockIndexDamaged("it has no footer")
    _, count, messages, plain_size, first, first_time, last_time, of_index, _ = FOOTER.unpack(
        footer
    )
    index_at = footer_at - count * PLACE.size
    if index_at < HEADER.size + form.start or footer_at - index_at > INDEX_SIZE_MAX:
        raise BlockIndexDamaged(f"{count} blocks in {file_size} bytes")
    places = read(footer_at - index_at, index_at)
    if _checksum(places, footer[:-CHECKSUM_SIZE]) != footer[-CHECKSUM_SIZE:]:
        raise BlockIndexDamaged("wrong checksum")
    ends = list(PLACE.iter_unpack(places))
    index = BlockIndex(
        [plain for plain, _ in ends],
        [at for _, at in ends],
        SegmentFacts(messages, first_time, last_time, of_index),
        form,
    )
    if first != first_offset or index.plain_size != plain_size or not _is_sound(index, index_at):
        raise BlockIndexDamaged("it belongs to another segment")
    return index


def read_plain_size(read: Read, file_size: int) -> int:
    """How many plain bytes a file stands for, by its footer alone: for figures."""
    footer = read(FOOTER.size, max(0, file_size - FOOTER.size))
    if len(footer) != FOOTER.size or not footer.startswith(FOOTER_MAGIC):
        raise BlockIndexDamaged("it has no footer")
    plain_size: int = FOOTER.unpack(footer)[3]
    return plain_size


def walk_blocks(read: Read, file_size: int) -> BlockIndex:
    """The blocks of a file whose block index is damaged: one behind the other, as far as it goes.

    Headers that follow each other without a gap are believed; each block has a checksum of its
    own for when it is read.
    """
    plain_ends: list[int] = []
    file_ends: list[int] = []
    form = read_packed_form(read)
    at, plain_at = HEADER.size + form.start, 0
    while at + BLOCK_HEADER.size <= file_size:
        plain_start, plain_size, stored_size, _, _ = BLOCK_HEADER.unpack(
            read(BLOCK_HEADER.size, at)
        )
        following = at + BLOCK_HEADER.size + stored_size
        if (
            plain_start != plain_at
            or not 0 < plain_size <= MESSAGE_SIZE_MAX
            or not 0 < stored_size <= plain_size + MESSAGE_OVERHEAD
            or following > file_size
        ):
            break
        at, plain_at = following, plain_at + plain_size
        plain_ends.append(plain_at)
        file_ends.append(at)
    return BlockIndex(plain_ends, file_ends, None, form)


def read_packed_form(read: Read) -> SegmentForm:
    """How a compressed file is encrypted; PLAIN if it is not."""
    # The first block of a file that is not encrypted begins with zeros here.
    return form_of(read(KEY_SIZE, HEADER.size))


def _is_sound(index: BlockIndex, index_at: int) -> bool:
    """Blocks without a gap, none larger than a block may be."""
    plain_at, at = 0, HEADER.size + index.form.start
    for plain_end, file_end in zip(index.plain_ends, index.file_ends, strict=True):
        if not 0 < plain_end - plain_at <= MESSAGE_SIZE_MAX:
            return False
        if not BLOCK_HEADER.size < file_end - at <= STORED_SIZE_MAX:
            return False
        plain_at, at = plain_end, file_end
    return at == index_at


def _checksum(*parts: Bytes) -> bytes:
    state = xxhash.xxh3_64()
    for part in parts:
        state.update(part)
    return state.intdigest().to_bytes(CHECKSUM_SIZE, "little")
