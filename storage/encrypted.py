"""Encrypted segments: AES-256-GCM over payloads and user headers, many messages at once.

The messages of a batch are encrypted in *seals* of up to 64 KiB: one nonce and one tag for each.
Encrypting a seal takes little more than one message alone would; reading one message decrypts
its seal.

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
  `resume`), followed by a counter of 32 bits. The counter moves with every seal that is
  encrypted, whether or not its write succeeds, and never goes back; before it would run over, new
  random bits are drawn. A worker that dies takes its counter along; its successor, or the next
  start of the broker, draws bits of its own, so an offset that was torn or cut off gets another
  nonce.
* So a repetition needs two processes that drew the same 64 bits for the same segment. For a
  segment that was taken 1,000 times the chance is below 2**-45, and it does not grow with the
  number of messages, segments or partitions. The nonce lies behind each message: reading relies
  on none of this.
* A running machine that is cloned (a snapshot of its memory, started twice) would go on with the
  same bits and counter in both. Then restart the broker in one of them first.

**Messages keep their place.** The key of the file is bound to partition, birth and first offset,
and what is authenticated with each seal are the headers of its messages as stored: id, offset,
times, lengths, place in the seal. A message that is moved, changed, swapped or cut does not open,
nor do the others of its seal. What this cannot tell: that a
whole segment was put back to an older state, or replaced by a plain one, as plain segments are
read too.

Cost: some 12 us for 64 KiB, on the loop (docs/BENCHMARKS.md). The library holds the interpreter's
lock, so threads would not make it faster; large reads are decrypted by a thread only so that the
loop keeps turning.
"""

import os
import struct
import threading
from collections.abc import Sequence
from typing import Final, NamedTuple

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from borzoi.protocol.batch import join_plain, join_sealed, split_plain, split_sealed
from borzoi.protocol.errors import InvalidMessagesSize
from borzoi.protocol.message import CHECKSUM_SIZE, MESSAGE_HEADER_SIZE
from borzoi.protocol.plain_seals import BESIDE, BESIDE_SIZE
from borzoi.storage.encryption_key import SALT_SIZE, EncryptionKey
from borzoi.storage.segment_form import (
    ENCRYPTED_MARK,
    MESSAGE_OVERHEAD,
    NONCE_SIZE,
    TAG_SIZE,
    SegmentForm,
    SegmentHeader,
)

SEAL_SIZE_MAX: Final = 64 * 1024
"""The bodies of a seal together; a larger message has one of its own."""

SEAL_MESSAGES_MAX: Final = 1024

PLACE: Final = struct.Struct("<QQQ")  # namespace, birth, first offset
NONCE_PREFIX_SIZE: Final = 8
COUNTER_SIZE: Final = NONCE_SIZE - NONCE_PREFIX_SIZE
NONCES_MAX: Final = 1 << 8 * COUNTER_SIZE


class CannotOpenSegment(Exception):
    """An encrypted segment that cannot be read with the key there is, or not in this place."""


class Opened(NamedTuple):
    """How many messages were decrypted, how many bytes they have, and what was read for it."""

    message_count: int
    size: int
    end: int


class Encryption:
    """The keys, and whether what is written from now on is encrypted with the first of them.

    The others open what was encrypted before, until nothing needs them any more.
    """

    __slots__ = ("_by_id", "encrypts", "key", "keys")

    def __init__(
        self, key: EncryptionKey, *, encrypts: bool, old: Sequence[EncryptionKey] = ()
    ) -> None:
        self.encrypts = encrypts
        self.take((key, *old))

    def take(self, keys: Sequence[EncryptionKey]) -> None:
        """From now on these are the keys; the first one encrypts. At once for all partitions."""
        # Threads read meanwhile: what was encrypted with the new key must open from the first on.
        self._by_id = {key.id: key for key in keys}
        self.keys = tuple(keys)
        self.key = keys[0]

    def key_of(self, key_id: bytes) -> EncryptionKey | None:
        """The key of this id."""
        return self._by_id.get(key_id)

    def partition(self, namespace: int, birth: int) -> "PartitionCipher":
        """The cipher of one life of a partition."""
        return PartitionCipher(self, namespace, birth)


class PartitionCipher:
    """What encrypts and decrypts the segments of one life of a partition."""

    __slots__ = ("_birth", "_encryption", "_namespace", "encrypts")

    def __init__(self, encryption: Encryption, namespace: int, birth: int) -> None:
        self._encryption = encryption
        self.encrypts = encryption.encrypts
        self._namespace = namespace
        self._birth = birth

    def begin(self, first_offset: int) -> "SegmentCipher":
        """For a segment whose file is made now."""
        key, salt = self._encryption.key, os.urandom(SALT_SIZE)
        header = SegmentHeader(self._namespace, self._birth, first_offset, key.id, salt)
        return SegmentCipher(key, header)

    @property
    def key_id(self) -> bytes:
        """The id of the key that encrypts what is written from now on."""
        return self._encryption.key.id

    def is_outdated(self, form: SegmentForm) -> bool:
        """Whether a segment of this form was encrypted with another key than the one of now."""
        return form.header is not None and form.header.key_id != self._encryption.key.id

    def resume(self, first_offset: int, header: SegmentHeader) -> "SegmentCipher":
        """For a segment that is there; CannotOpenSegment if it does not belong there."""
        if header[:3] != (self._namespace, self._birth, first_offset):
            raise CannotOpenSegment(
                f"the segment was written for namespace {header.namespace:#x}, birth"
                f" {header.birth}, offset {header.first_offset}, not for {self._namespace:#x},"
                f" {self._birth}, {first_offset}"
            )
        key = self._encryption.key_of(header.key_id)
        if key is None:
            raise CannotOpenSegment(
                f"the segment was encrypted with another key, {header.key_id.hex()}"
            )
        return SegmentCipher(key, header)


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

    def encrypt(self, batch: memoryview, message_count: int) -> memoryview:
        """The stored form of a stamped batch; it lacks its checksums."""
        stored = memoryview(bytearray(batch.nbytes + message_count * MESSAGE_OVERHEAD))
        room = _ROOM
        bodies, beside, sealed = room.bodies[:SEAL_SIZE_MAX], room.beside, room.sealed
        at = stored_at = 0
        while at < batch.nbytes:
            end, count, size = split_plain(batch, at, bodies, beside)
            if count == 0:
                end = self._encrypt_alone(batch, at, stored, stored_at)
                stored_at += end - at + MESSAGE_OVERHEAD
            else:
                nonce = self._nonce()
                self._aead.encrypt_into(
                    nonce,
                    bodies[:size],
                    beside[: count * BESIDE_SIZE],
                    sealed[: size + TAG_SIZE],
                )
                tail = bytes(sealed[size : size + TAG_SIZE]) + nonce
                stored_at = join_sealed(stored, stored_at, beside, count, sealed[:size], tail)
            at = end
        return stored

    def decrypt(
        self,
        stored: memoryview,
        first_offset: int,
        skipped: int,
        message_count: int,
        plain: memoryview,
    ) -> Opened:
        """Restore messages, with valid checksums, up to the first seal that does not open.

        `stored` begins with the seal of `first_offset`, and has all seals of the messages wanted:
        those behind the first `skipped` ones. `plain` must have room for them: as much as they
        have stored is enough.
        """
        room = _ROOM
        bodies, beside = room.bodies[:SEAL_SIZE_MAX], room.beside
        at = plain_at = number = 0
        wanted_end = skipped + message_count
        while number < wanted_end:
            offset = first_offset + number
            end, count, size = split_sealed(stored, at, offset, bodies, beside)
            if count == 0:
                alone = self._decrypt_alone(stored, at, offset, plain[plain_at:])
                if alone is None:
                    break
                count = 1
                end = at + alone + MESSAGE_OVERHEAD
                plain_at += alone
            else:
                opened = self._open(stored[end - MESSAGE_OVERHEAD : end], count, size)
                if opened is None:
                    break
                first, last = max(0, skipped - number), min(count, wanted_end - number)
                plain_at += join_plain(beside, opened, first, last, plain[plain_at:])
            at = end
            number += count
        return Opened(max(0, min(number, wanted_end) - skipped), plain_at, at)

    def _open(self, tail: memoryview, count: int, size: int) -> memoryview | None:
        """The bodies of the seal in the room of this thread; None if it does not open."""
        room = _ROOM
        room.bodies[size : size + TAG_SIZE] = tail[:TAG_SIZE]
        opened = room.sealed[:size]
        try:
            self._aead.decrypt_into(
                tail[TAG_SIZE:],
                room.bodies[: size + TAG_SIZE],
                room.beside[: count * BESIDE_SIZE],
                opened,
            )
        except InvalidTag:
            return None
        return opened

    def _encrypt_alone(self, batch: memoryview, at: int, stored: memoryview, stored_at: int) -> int:
        """A message that is larger than a seal, without copies; returns where it ends."""
        body = at + MESSAGE_HEADER_SIZE
        if body > batch.nbytes:
            raise InvalidMessagesSize(f"a message header runs over the end at {batch.nbytes}")
        fields = BESIDE.unpack_from(batch, at + CHECKSUM_SIZE)
        id_bytes, offset, timestamp, origin, headers_length, payload_length, _ = fields
        end: int = body + headers_length + payload_length
        if end > batch.nbytes or stored.nbytes - stored_at < end - at + MESSAGE_OVERHEAD:
            raise InvalidMessagesSize(f"a message runs over the end at {batch.nbytes}")
        beside = BESIDE.pack(
            id_bytes, offset | ENCRYPTED_MARK, timestamp, origin,
            headers_length + MESSAGE_OVERHEAD, payload_length, 0,
        )  # fmt: skip
        stored_body = stored_at + MESSAGE_HEADER_SIZE
        stored[stored_at + CHECKSUM_SIZE : stored_body] = beside
        tag_end = stored_body + end - body + TAG_SIZE
        nonce = self._nonce()
        self._aead.encrypt_into(nonce, batch[body:end], beside, stored[stored_body:tag_end])
        stored[tag_end : tag_end + NONCE_SIZE] = nonce
        return end

    def _decrypt_alone(
        self, stored: memoryview, at: int, offset: int, plain: memoryview
    ) -> int | None:
        """The size of a message that is larger than a seal, without copies; None if it is not."""
        body = at + MESSAGE_HEADER_SIZE
        if body > stored.nbytes:
            return None
        beside = bytes(stored[at + CHECKSUM_SIZE : body])
        _, marked, _, _, headers_length, payload_length, reserved = BESIDE.unpack(beside)
        end = body + headers_length + payload_length
        if (
            marked != offset | ENCRYPTED_MARK
            or reserved
            or end > stored.nbytes
            or headers_length + payload_length <= SEAL_SIZE_MAX + MESSAGE_OVERHEAD
            or headers_length < MESSAGE_OVERHEAD
        ):
            return None
        tag_end = end - NONCE_SIZE
        opened = plain[MESSAGE_HEADER_SIZE : tag_end - TAG_SIZE - at]
        try:
            self._aead.decrypt_into(stored[tag_end:end], stored[body:tag_end], beside, opened)
        except InvalidTag:
            return None
        # The body is where it has to be: what is copied is the header.
        return join_plain(memoryview(beside), opened, 0, 1, plain)

    def encrypt_block(self, data: bytes | memoryview, beside: bytes) -> bytes:
        """A block of a compressed segment; `beside` is in clear, and authenticated as well."""
        nonce = self._nonce()
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

    def _nonce(self) -> bytes:
        # Taken before it is used: whatever fails from here on, it is gone.
        number = self._nonce_count
        if number == NONCES_MAX:
            self._nonce_prefix = os.urandom(NONCE_PREFIX_SIZE)
            number = 0
        self._nonce_count = number + 1
        return self._nonce_prefix + number.to_bytes(COUNTER_SIZE, "little")


class _Room(threading.local):
    """Where seals are put together and taken apart: once for each thread that does."""

    def __init__(self) -> None:
        self.bodies = memoryview(bytearray(SEAL_SIZE_MAX + TAG_SIZE))
        self.sealed = memoryview(bytearray(SEAL_SIZE_MAX + TAG_SIZE))
        self.beside = memoryview(bytearray(SEAL_MESSAGES_MAX * BESIDE_SIZE))


_ROOM: Final = _Room()
