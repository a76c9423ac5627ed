"""Frames: what surrounds every payload on TCP, QUIC and WebSocket alike.

    request     length u32 | code u32 | payload       length counts code and payload
    response    status u32 | length u32 | payload     length counts the payload only

A response that is not a success is its eight bytes and nothing else. cut_frame() looks at bytes
that lie somewhere in the caller's buffer and copies none of them.
"""

import struct
from typing import Final, NamedTuple

from borzoi.protocol.codes import Code

REQUEST_HEADER: Final = struct.Struct("<II")  # length of code + payload, code
RESPONSE_HEADER: Final = struct.Struct("<II")  # status, length of payload
LENGTH_SIZE: Final = 4
CODE_SIZE: Final = 4

CONTROL_PAYLOAD_SIZE_MAX: Final = 10 * 1024 * 1024  # of every command but SEND_MESSAGES


class Frame(NamedTuple):
    """One whole request; it occupied `frame_size(payload)` bytes."""

    code: int
    payload: memoryview


class Need(NamedTuple):
    """The frame is not complete before this many bytes, counted from its own start."""

    total: int


class FrameTooBig(Exception):
    """A frame larger than allowed. Its payload was not read: the stream cannot be cut further."""


class FrameTooShort(Exception):
    """A length that does not even cover the code. Only the header's eight bytes are consumed."""


def cut_frame(view: memoryview, start: int, end: int, frame_size_max: int) -> Frame | Need:
    """The frame that begins at `start`, or how many bytes it needs; bytes end at `end`.

    `frame_size_max` bounds the length field, that is code and payload.
    """
    present = end - start
    if present < REQUEST_HEADER.size:
        return Need(REQUEST_HEADER.size)
    length, code = REQUEST_HEADER.unpack_from(view, start)
    # Both limits come before waiting for the body: a hostile length must not make us reserve it.
    if length < CODE_SIZE:
        raise FrameTooShort(f"length {length}")
    if length > frame_size_max:
        raise FrameTooBig(f"length {length} exceeds {frame_size_max}")
    if length - CODE_SIZE > CONTROL_PAYLOAD_SIZE_MAX and code != Code.SEND_MESSAGES:
        raise FrameTooBig(f"length {length} is too much for command {code}")
    total = LENGTH_SIZE + length
    if present < total:
        return Need(total)
    return Frame(code, view[start + REQUEST_HEADER.size : start + total])


def frame_size(payload: memoryview) -> int:
    """How many bytes of the stream a request with this payload occupied."""
    return REQUEST_HEADER.size + len(payload)


def encode_request(code: int, payload: bytes = b"") -> bytes:
    return REQUEST_HEADER.pack(CODE_SIZE + len(payload), code) + payload


def encode_response(status: int, payload: bytes = b"") -> bytes:
    assert status == 0 or not payload, "clients do not read a payload behind an error"
    return RESPONSE_HEADER.pack(status, len(payload)) + payload


OK: Final = encode_response(0)
