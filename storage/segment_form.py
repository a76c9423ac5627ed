"""How the messages of a segment file are stored: plain, or each of them encrypted.

A plain .log begins with its first message. An encrypted one begins with a header, twice, so that
one rotten sector bit does not cost the whole segment; little-endian:

     0   magic u64           says that the segment is encrypted, and how
     8   namespace u64       stream, topic and partition that the messages belong to
    16   birth u64           and in which life of it
    24   first_offset u64    as in the name of the file
    32   key_id 8 bytes      tells keys apart, tells nothing about the key
    40   salt 16 bytes       random; the key of this file follows from it (encrypted.py)
    56   checksum u64        XXH3-64 of the bytes above; never 0, where a message always has 0
    64   the same 64 bytes again
   128   messages

An encrypted message looks like any other from the outside:

     0   checksum u64             XXH3-64 of what follows, as stored: checking it needs no key
     8   id, offset, timestamp, origin_timestamp   in clear; the highest bit of the offset is set
    48   user_headers_length u32  28 more than in the plain message
    52   payload_length u32
    56   number in its seal u32   counted from 0
    60   messages in its seal u32 or 0, if it is encrypted alone
    64   payload and user headers, encrypted
     .   tag 16 bytes             of the seal: the same in all of its messages
     .   nonce 12 bytes           likewise

A seal is a run of messages that were encrypted as one (protocol/plain_seals.py): up to 64 KiB of
one batch.

So one walk verifies both forms and makes the same index from them. Because of that highest bit
neither is ever taken for the other, even where a header was lost. Everything here works without a
key. Positions, in indexes and elsewhere, are those in the file.
"""

import struct
from typing import Final, NamedTuple

import xxhash

from borzoi.protocol.message import ENCRYPTED_MARK as ENCRYPTED_MARK
from borzoi.protocol.message import RESERVED_AT
from borzoi.storage.files import Files

MAGIC: Final = b"BZAESGC1"
FIELDS: Final = struct.Struct("<8sQQQ8s16s")
CHECKSUM: Final = struct.Struct("<Q")
COPY_SIZE: Final = FIELDS.size + CHECKSUM.size
HEADER_SIZE: Final = 2 * COPY_SIZE
TAG_SIZE: Final = 16
NONCE_SIZE: Final = 12
MESSAGE_OVERHEAD: Final = TAG_SIZE + NONCE_SIZE
SEAL_PLACE: Final = struct.Struct("<II")


class SealPlace(NamedTuple):
    """Which message of its seal a message is, and how many there are."""

    number: int
    message_count: int

    @property
    def is_last(self) -> bool:
        """Whether the seal ends with it."""
        return self.number + 1 >= self.message_count


def seal_place(header: bytes | memoryview) -> SealPlace:
    """What the header of a stored message says of its seal; a message alone is one of one."""
    place = SealPlace(*SEAL_PLACE.unpack_from(header, RESERVED_AT))
    return place if place.number < place.message_count else SealPlace(0, 1)


class SegmentHeader(NamedTuple):
    """What an encrypted segment says about itself."""

    namespace: int
    birth: int
    first_offset: int
    key_id: bytes
    salt: bytes

    def encode(self) -> bytes:
        """Returns the header twice, each copy with its checksum."""
        fields = FIELDS.pack(MAGIC, *self)
        copy = fields + CHECKSUM.pack(xxhash.xxh3_64_intdigest(fields))
        return copy + copy


class SegmentForm(NamedTuple):
    """Plain, or encrypted with this header."""

    header: SegmentHeader | None = None

    @property
    def start(self) -> int:
        """Where the first message begins in the file."""
        return 0 if self.header is None else HEADER_SIZE

    @property
    def mark(self) -> int:
        """What is added to the offset of each message."""
        return 0 if self.header is None else ENCRYPTED_MARK

    def message_bytes(self, position: int, message_count: int) -> int:
        """What so many messages, which end at `position`, have on the wire."""
        if self.header is None:
            return position
        return max(0, position - HEADER_SIZE - message_count * MESSAGE_OVERHEAD)

    def as_written(self, plain_entries: bytearray) -> bytearray:
        """Index entries that count in plain bytes, as the index of this form has them."""
        if self.header is not None:
            words = memoryview(plain_entries).cast("I")
            for number, at in enumerate(range(1, len(words), 4), 1):
                words[at] += HEADER_SIZE + number * MESSAGE_OVERHEAD
        return plain_entries

    def as_plain(self, entries: bytearray, first: int) -> bytearray:
        """The same the other way round, beginning with entry number `first` of a segment."""
        if self.header is not None:
            words = memoryview(entries).cast("I")
            for number, at in enumerate(range(1, len(words), 4), first + 1):
                words[at] = self.message_bytes(words[at], number)
        return entries


PLAIN: Final = SegmentForm()


def form_of(begin: bytes | memoryview) -> SegmentForm:
    """The form of a segment whose file begins with these bytes: HEADER_SIZE, or all it has."""
    if len(begin) < HEADER_SIZE:
        # Its making was not finished, so there is no message in it.
        return PLAIN
    for at in (0, COPY_SIZE):
        fields = bytes(begin[at : at + FIELDS.size])
        checksum: int = CHECKSUM.unpack_from(begin, at + FIELDS.size)[0]
        if fields.startswith(MAGIC) and checksum == xxhash.xxh3_64_intdigest(fields) != 0:
            return SegmentForm(SegmentHeader(*FIELDS.unpack(fields)[1:]))
    return PLAIN


def read_form(files: Files, fd: int) -> SegmentForm:
    """The form of an open .log file."""
    return form_of(files.pread(fd, HEADER_SIZE, 0))
