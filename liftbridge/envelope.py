"""The envelope of Liftbridge messages on NATS: a header in front of a protobuf payload. Pure.

    0  4  magic B9 0E 43 B4, which is no valid UTF-8
    4  1  version, 0
    5  1  header length: where the payload begins, 8, or 12 with a checksum
    6  1  flags: bit 0 = a checksum is there; the others have no meaning and are ignored
    7  1  message type: 0 a publish, 1 an ack, 2 to 14 between Liftbridge servers
    8  4  CRC-32C of the payload, if bit 0 of the flags is set

Numbers are big-endian. A NATS subject carries anything, so what is not an envelope is no error: it
is a plain message, stored whole. `decode_envelope` says why, and never fails.

Always: nothing is copied; a payload is a slice of what came.
"""

import struct
from enum import Enum
from typing import Final, NamedTuple

import google_crc32c

MAGIC: Final = b"\xb9\x0e\x43\xb4"
VERSION: Final = 0
HEADER: Final = struct.Struct(">4sBBBB")  # magic, version, header length, flags, message type
CHECKSUM: Final = struct.Struct(">I")
CHECKSUM_FLAG: Final = 1
CHECKED_HEADER_SIZE: Final = HEADER.size + CHECKSUM.size

PUBLISH: Final = 0
ACK: Final = 1


class Envelope(NamedTuple):
    """What an envelope holds."""

    message_type: int
    payload: memoryview


class Plain(Enum):
    """Why bytes are no envelope. All but the first began like one, and are counted."""

    UNMARKED = "no magic number"
    VERSION = "unknown version"
    HEADER = "header length out of bounds"
    CHECKSUM = "wrong checksum"
    TYPE = "message type is not publish"
    PAYLOAD = "payload is no protobuf message"


def encode_envelope(message_type: int, payload: bytes, *, checked: bool = False) -> bytes:
    """The bytes of an envelope, with a checksum if it is to be `checked`."""
    if not checked:
        return HEADER.pack(MAGIC, VERSION, HEADER.size, 0, message_type) + payload
    head = HEADER.pack(MAGIC, VERSION, CHECKED_HEADER_SIZE, CHECKSUM_FLAG, message_type)
    return head + CHECKSUM.pack(google_crc32c.value(payload)) + payload


def decode_envelope(data: bytes) -> Envelope | Plain:
    """The envelope that bytes are, or why they are none.

    The Go server dies of a header length beyond the end, and takes one below 8 for granted. Here
    both are plain. A longer header without a checksum is accepted as there: fields to come.
    """
    if len(data) < HEADER.size or not data.startswith(MAGIC):
        return Plain.UNMARKED
    _, version, header_length, flags, message_type = HEADER.unpack_from(data)
    if version != VERSION:
        return Plain.VERSION
    if not HEADER.size <= header_length <= len(data):
        return Plain.HEADER
    payload = memoryview(data)[header_length:]
    if flags & CHECKSUM_FLAG:
        if header_length != CHECKED_HEADER_SIZE:
            return Plain.HEADER
        (expected,) = CHECKSUM.unpack_from(data, HEADER.size)
        if google_crc32c.value(bytes(payload)) != expected:
            return Plain.CHECKSUM
    return Envelope(message_type, payload)
