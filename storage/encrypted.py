"""Encrypted segments: AES-256-GCM over payload and user headers of every message.

A sealed one may be compressed as well: then each block is compressed first and encrypted as a
whole, with a key of that file (block_index.py draws it).

How a segment and its messages lie in the file is drawn in segment_form.py. What is secret: the
payload and the user headers. What stays in clear: ids, offsets, times and sizes of messages; but
none of it can be changed unnoticed.

**No nonce is used twice with one key.** A repeated nonce would give away both messages and the
key of the authentication, so it must hold through restarts, crashes and everything that gives an
offset out again: a failed write, a torn tail, a purge, an id that is given to another partition.
Nothing here therefore follows from offsets or from what lies on the disk:

* Every segment file has its own key, derived from the configured one with 128 random bits that
  are drawn when the file is begun (`begin`), and with namespace, birth and first offset. A file
  that is made again under the same name, after a failed write or a purge, has another key.
* The nonce is 64 random bits, drawn whenever a process takes a segment to append to it (`begin`,
  `resume`), followed by a counter of 32 bits. The counter moves with every message that is
  encrypted, whether or not its write succeeds, and never goes back; before it would run over, new
  random bits are drawn. A worker that dies takes its counter along; its successor, or the next
  start of the broker, draws bits of its own, so an offset that was torn or cut off gets another
  nonce.
* So a repetition needs two processes that drew the same 64 bits for the same segment. For a
  segment that was taken 1,000 times the chance is below 2**-45, and it does not grow with the
  number of messages, segments or partitions. The nonce lies behind the message: reading relies on
  none of this.
* A running machine that is cloned (a snapshot of its memory, started twice) would go on with the
  same bits and counter in both. Then restart the broker in one of them first.

**Messages keep their place.** The key of the file is bound to partition, birth and first offset,
and what is authenticated with each message is its header as stored: id, offset, times, lengths.
A message that is moved, changed, swapped or cut does not open. What this cannot tell: that a
whole segment was put back to an older state, or replaced by a plain one, as plain segments are
read too.

Cost: some 2 us for each message and 0.3 us for each KB, in Python, on the loop
(docs/BENCHMARKS.md).
The library holds the interpreter's lock, so threads would not make it faster; large reads are
decrypted by a thread only so that the loop keeps turning.
"""

import os
import struct
from collections.abc import Iterator
from typing import Final, NamedTuple

import xxhash
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from borzoi.protocol.message import CHECKSUM_SIZE, MESSAGE_HEADER, MESSAGE_HEADER_SIZE
from borzoi.storage.encryption_key import SALT_SIZE, EncryptionKey
from borzoi.storage.segment_form import (
    ENCRYPTED_MARK,
    MESSAGE_OVERHEAD,
    NONCE_SIZE,
    TAG_SIZE,
    SegmentForm,
    SegmentHeader,
)

PLACE: Final = struct.Struct("<QQQ")  # namespace, birth, first offset
U32: Final = struct.Struct("<I")
U64: Final = struct.Struct("<Q")
USER_HEADERS_LENGTH_AT: Final = 48
MARKED_BYTE_AT: Final = 31  # the highest byte of the offset
MARKED_BIT: Final = 0x80
NONCE_PREFIX_SIZE: Final = 8
COUNTER_SIZE: Final = NONCE_SIZE - NONCE_PREFIX_SIZE
NONCES_MAX: Final = 1 << 8 * COUNTER_SIZE


class CannotOpenSegment(Exception):
    """An encrypted segment that cannot be read with the key there is, or not in this place."""


class Opened(NamedTuple):
    """How many messages were decrypted, and how many bytes they have."""

    message_count: int
    size: int


class Encryption:
    """The key, and whether what is written from now on is encrypted with it."""

    __slots__ = ("encrypts", "key")

    def __init__(self, key: EncryptionKey, *, encrypts: bool) -> None:
        self.key = key
        self.encrypts = encrypts

    def partition(self, namespace: int, birth: int) -> "PartitionCipher":
        """The cipher of one life of a partition."""
        return PartitionCipher(self, namespace, birth)


class PartitionCipher:
    """What encrypts and decrypts the segments of one life of a partition."""

    __slots__ = ("_birth", "_key", "_namespace", "encrypts")

    def __init__(self, encryption: Encryption, namespace: int, birth: int) -> None:
        self._key = encryption.key
        self.encrypts = encryption.encrypts
        self._namespace = namespace
        self._birth = birth

    def begin(self, first_offset: int) -> "SegmentCipher":
        """For a segment whose file is made now."""
        salt = os.urandom(SALT_SIZE)
        header = SegmentHeader(self._namespace, self._birth, first_offset, self._key.id, salt)
        return SegmentCipher(self._key, header)

    def resume(self, first_offset: int, header: SegmentHeader) -> "SegmentCipher":
        """For a segment that is there; CannotOpenSegment if it does not belong there."""
        if header[:3] != (self._namespace, self._birth, first_offset):
            raise CannotOpenSegment(
                f"the segment was written for namespace {header.namespace:#x}, birth"
                f" {header.birth}, offset {header.first_offset}, not for {self._namespace:#x},"
                f" {self._birth}, {first_offset}"
            )
        if header.key_id != self._key.id:
            raise CannotOpenSegment("the segment was encrypted with another key")
        return SegmentCipher(self._key, header)


def cipher_of(encryption: Encryption | None, namespace: int, birth: int) -> PartitionCipher | None:
    """The cipher of a partition, None where there is no key."""
    return None if encryption is None else encryption.partition(namespace, birth)


class SegmentCipher:
    """Encrypts and decrypts the messages of one segment file."""

    __slots__ = ("_aead", "_nonce_count", "_nonce_prefix", "form", "header")

    def __init__(self, key: EncryptionKey, header: SegmentHeader) -> None:
        place = PLACE.pack(header.namespace, header.birth, header.first_offset)
        self._aead = AESGCM(key.derive(header.salt, b"segment" + place))
        self._nonce_prefix = b""
        self._nonce_count = NONCES_MAX
        self.header = header
        self.form = SegmentForm(header)

    def encrypt(self, batch: memoryview, ends: list[int]) -> memoryview:
        """The stored form of a stamped batch whose messages end there; lacks its checksums."""
        stored = bytearray(batch.nbytes + len(ends) * MESSAGE_OVERHEAD)
        view = memoryview(stored)
        encrypt_into = self._aead.encrypt_into
        start = at = 0
        for end, nonce in zip(ends, self._nonces(len(ends)), strict=True):
            body = at + MESSAGE_HEADER_SIZE
            tag_end = at + end - start + TAG_SIZE
            view[at:body] = batch[start : start + MESSAGE_HEADER_SIZE]
            stored[at + MARKED_BYTE_AT] |= MARKED_BIT
            lengths_at = at + USER_HEADERS_LENGTH_AT
            U32.pack_into(
                stored, lengths_at, U32.unpack_from(stored, lengths_at)[0] + MESSAGE_OVERHEAD
            )
            encrypt_into(
                nonce,
                batch[start + MESSAGE_HEADER_SIZE : end],
                view[at + CHECKSUM_SIZE : body],
                view[body:tag_end],
            )
            at = tag_end + NONCE_SIZE
            view[tag_end:at] = nonce
            start = end
        return view

    def decrypt(
        self, stored: memoryview, first_offset: int, message_count: int, plain: memoryview
    ) -> Opened:
        """Restore messages, with valid checksums, up to the first that does not open.

        `plain` must have room for all of them: as much as they have stored is enough.
        """
        decrypt_into = self._aead.decrypt_into
        read, write = MESSAGE_HEADER.unpack_from, MESSAGE_HEADER.pack_into
        digest = xxhash.xxh3_64_intdigest
        size = stored.nbytes
        at = plain_at = number = 0
        while number < message_count and size - at >= MESSAGE_HEADER_SIZE + MESSAGE_OVERHEAD:
            _, id_bytes, marked, timestamp, origin, headers_length, payload_length, reserved = read(
                stored, at
            )
            body = at + MESSAGE_HEADER_SIZE
            end = body + headers_length + payload_length
            offset = first_offset + number
            if marked != offset | ENCRYPTED_MARK or headers_length < MESSAGE_OVERHEAD or end > size:
                break
            tag_end = end - NONCE_SIZE
            plain_body = plain_at + MESSAGE_HEADER_SIZE
            plain_end = plain_body + tag_end - TAG_SIZE - body
            try:
                decrypt_into(
                    stored[tag_end:end],
                    stored[body:tag_end],
                    stored[at + CHECKSUM_SIZE : body],
                    plain[plain_body:plain_end],
                )
            except InvalidTag:
                break
            headers_length -= MESSAGE_OVERHEAD
            write(
                plain, plain_at, 0, id_bytes, offset, timestamp, origin, headers_length,
                payload_length, reserved,
            )  # fmt: skip
            U64.pack_into(plain, plain_at, digest(plain[plain_at + CHECKSUM_SIZE : plain_end]))
            at = end
            plain_at = plain_end
            number += 1
        return Opened(number, plain_at)

    def encrypt_block(self, data: bytes | memoryview, beside: bytes) -> bytes:
        """A block of a compressed segment; `beside` is in clear, and authenticated as well."""
        (nonce,) = self._nonces(1)
        return self._aead.encrypt(nonce, data, beside) + nonce

    def decrypt_block(self, stored: memoryview, beside: bytes | memoryview) -> bytes:
        """What encrypt_block() was given, else CannotOpenSegment."""
        at = len(stored) - NONCE_SIZE
        if at < TAG_SIZE:
            raise CannotOpenSegment("a block that is too short")
        try:
            return self._aead.decrypt(stored[at:], stored[:at], beside)
        except InvalidTag:
            raise CannotOpenSegment("a block was changed, or encrypted with another key") from None

    def _nonces(self, count: int) -> Iterator[bytes]:
        # Taken before the first is used: whatever fails from here on, they are gone.
        first = self._nonce_count
        if first + count > NONCES_MAX:
            assert count <= NONCES_MAX, "a batch has fewer messages than there are nonces"
            self._nonce_prefix = os.urandom(NONCE_PREFIX_SIZE)
            first = 0
        self._nonce_count = first + count
        prefix = self._nonce_prefix
        return (
            prefix + number.to_bytes(COUNTER_SIZE, "little")
            for number in range(first, first + count)
        )
