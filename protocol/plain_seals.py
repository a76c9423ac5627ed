"""Bodies and headers of messages apart, and together again, for encryption: the twin of _seals.pyx.

A *seal* is a run of messages that are encrypted as one: their bodies, one behind the other, and
beside them their headers without the checksums, which are authenticated. As stored, a message has
the highest bit of its offset set, `TAIL_SIZE` bytes more of user headers, and in `reserved` its
number in the seal (the lower half) and how many messages this has (the upper half); 0 if it is
alone. The tail, behind the body, is the same in all messages of a seal.

How twins are kept equal, and why they look as they do, stands in plain_requests.py.
"""

import struct
from typing import Final, NamedTuple

import xxhash

from borzoi.protocol.message import (
    CHECKSUM_SIZE,
    ENCRYPTED_MARK,
    LENGTHS_AT,
    MESSAGE_HEADER_SIZE,
)
from borzoi.protocol.payload import U64

BESIDE_SIZE: Final = MESSAGE_HEADER_SIZE - CHECKSUM_SIZE
"""What is authenticated of each header."""

TAIL_SIZE: Final = 28
ALONE: Final = 0

# Without the checksum: id, offset, both times, both lengths, reserved.
BESIDE: Final = struct.Struct("<16sQQQIIQ")
LENGTHS: Final = struct.Struct("<II")  # user headers, payload


class Split(NamedTuple):
    """Messages taken apart: where they end, how many they are, and the size of their bodies."""

    end: int
    message_count: int
    size: int


NOTHING: Final = Split(0, 0, 0)


def split_plain(batch: memoryview, at: int, bodies: memoryview, beside: memoryview) -> Split:
    """Take apart as many messages of a stamped batch as there is room for, as they are stored.

    None if the first one does not fit, or is not whole.
    """
    size = count = 0
    count_max = len(beside) // BESIDE_SIZE
    while count < count_max and len(batch) - at >= MESSAGE_HEADER_SIZE:
        fields = BESIDE.unpack_from(batch, at + CHECKSUM_SIZE)
        id_bytes, offset, timestamp, origin, headers_length, payload_length, _ = fields
        body = at + MESSAGE_HEADER_SIZE
        end = body + headers_length + payload_length
        if end > len(batch) or end - body > len(bodies) - size:
            break
        bodies[size : size + end - body] = batch[body:end]
        BESIDE.pack_into(
            beside, count * BESIDE_SIZE, id_bytes, offset | ENCRYPTED_MARK, timestamp, origin,
            headers_length + TAIL_SIZE, payload_length, ALONE,
        )  # fmt: skip
        size += end - body
        count += 1
        at = end
    if count > 1:
        for number in range(count):
            reserved_at = (number + 1) * BESIDE_SIZE - U64.size
            U64.pack_into(beside, reserved_at, number | count << 32)
    return Split(at, count, size)


def join_sealed(
    stored: memoryview,
    at: int,
    beside: memoryview,
    message_count: int,
    bodies: memoryview,
    tail: bytes,
) -> int:
    """Write messages as they are stored, but for their checksums; return where they end."""
    assert len(tail) == TAIL_SIZE, "a tail of another size"
    taken = 0
    for number in range(message_count):
        header = beside[number * BESIDE_SIZE : (number + 1) * BESIDE_SIZE]
        lengths = LENGTHS.unpack_from(header, LENGTHS_AT - CHECKSUM_SIZE)
        size = sum(lengths) - TAIL_SIZE
        body = at + MESSAGE_HEADER_SIZE
        end = body + size + TAIL_SIZE
        assert 0 <= size <= len(bodies) - taken, "bodies that do not fit their headers"
        assert end <= len(stored), "no room for a message"
        stored[at + CHECKSUM_SIZE : body] = header
        stored[body : body + size] = bodies[taken : taken + size]
        stored[body + size : end] = tail
        taken += size
        at = end
    return at


def split_sealed(
    stored: memoryview, at: int, first_offset: int, bodies: memoryview, beside: memoryview
) -> Split:
    """Take apart the one seal that begins at `at` with this offset.

    Nothing if that is not one: another offset, cut short, numbered otherwise, tails that differ.
    """
    size = number = 0
    count, tail = 1, b""
    while number < count:
        body = at + MESSAGE_HEADER_SIZE
        if body > len(stored):
            return NOTHING
        fields = BESIDE.unpack_from(stored, at + CHECKSUM_SIZE)
        _, offset, _, _, headers_length, payload_length, reserved = fields
        tail_at = body + headers_length + payload_length - TAIL_SIZE
        end = tail_at + TAIL_SIZE
        if number == 0:
            count = reserved >> 32 or 1
            tail = bytes(stored[tail_at:end])
        if (
            offset != first_offset + number | ENCRYPTED_MARK
            or reserved != (number | count << 32 if count > 1 else ALONE)
            or headers_length < TAIL_SIZE
            or end > len(stored)
            or tail_at - body > len(bodies) - size
            or (number + 1) * BESIDE_SIZE > len(beside)
            or stored[tail_at:end] != tail
        ):
            return NOTHING
        bodies[size : size + tail_at - body] = stored[body:tail_at]
        beside[number * BESIDE_SIZE : (number + 1) * BESIDE_SIZE] = stored[
            at + CHECKSUM_SIZE : body
        ]
        size += tail_at - body
        number += 1
        at = end
    return Split(at, count, size)


def join_plain(
    beside: memoryview, bodies: memoryview, first: int, last: int, plain: memoryview
) -> int:
    """Write the messages from number `first` to before `last` as clients see them; their size."""
    taken = at = 0
    for number in range(last):
        fields = BESIDE.unpack_from(beside, number * BESIDE_SIZE)
        id_bytes, offset, timestamp, origin, headers_length, payload_length, _ = fields
        size = headers_length + payload_length - TAIL_SIZE
        assert headers_length >= TAIL_SIZE, "a header of no stored message"
        assert size <= len(bodies) - taken, "bodies that do not fit their headers"
        if number >= first:
            body = at + MESSAGE_HEADER_SIZE
            end = body + size
            assert end <= len(plain), "no room for a message"
            BESIDE.pack_into(
                plain, at + CHECKSUM_SIZE, id_bytes, offset & ~ENCRYPTED_MARK, timestamp, origin,
                headers_length - TAIL_SIZE, payload_length, 0,
            )  # fmt: skip
            plain[body:end] = bodies[taken : taken + size]
            digest = xxhash.xxh3_64_intdigest(plain[at + CHECKSUM_SIZE : end])
            U64.pack_into(plain, at, digest)
            at = end
        taken += size
    return at
