"""The frames of a WebSocket (RFC 6455): what leaves, and what the end of a connection says. Pure.

Requests and replies are a stream of bytes in binary messages; what takes them out again is in
plain_websocket.py. What the broker sends is never masked and never cut into fragments.
"""

import struct
from typing import Final

from borzoi.protocol.loops import LOOPS
from borzoi.protocol.plain_websocket import (
    BINARY,
    CLOSE,
    FINAL,
    FROM_CLIENT,
    FROM_EITHER,
    FROM_SERVER,
    LENGTH_16,
    LENGTH_64,
    LENGTH_MAX,
    MASKED,
    PING,
    PONG,
    PROTOCOL_ERROR,
)

if LOOPS == "compiled":
    from borzoi.protocol._websocket import Unframer, masked
else:
    from borzoi.protocol.plain_websocket import Unframer, masked

__all__ = [
    "FROM_CLIENT",
    "FROM_EITHER",
    "FROM_SERVER",
    "LENGTH_MAX",
    "NORMAL",
    "Unframer",
    "answer_to_close",
    "binary_head",
    "close_frame",
    "masked",
    "masked_binary_head",
    "ping_frame",
    "pong_frame",
]

NORMAL: Final = 1000
INVALID_TEXT: Final = 1007

_CODE: Final = struct.Struct(">H")
_HEAD_16: Final = struct.Struct(">BBH")
_HEAD_64: Final = struct.Struct(">BBQ")
_SMALL_HEADS: Final = tuple(bytes((FINAL | BINARY, size)) for size in range(LENGTH_16))

CODES: Final = frozenset({*range(1000, 1004), *range(1007, 1015), *range(3000, 5000)})
"""What may stand in a close frame; the others are reserved, or for the inside of a program."""


def binary_head(size: int) -> bytes:
    """What stands before `size` bytes to make them a binary message."""
    if size < LENGTH_16:
        return _SMALL_HEADS[size]
    return _long_head(FINAL | BINARY, size, 0)


def masked_binary_head(size: int, mask: bytes) -> bytes:
    """The same for a client, whose bytes are masked."""
    if size < LENGTH_16:
        return bytes((FINAL | BINARY, MASKED | size)) + mask
    return _long_head(FINAL | BINARY, size, MASKED) + mask


def _long_head(first: int, size: int, masks: int) -> bytes:
    if size < 1 << 16:
        return _HEAD_16.pack(first, masks | LENGTH_16, size)
    return _HEAD_64.pack(first, masks | LENGTH_64, size)


def ping_frame(carried: bytes) -> bytes:
    """A ping of the broker."""
    return bytes((FINAL | PING, len(carried))) + carried


def pong_frame(carried: bytes) -> bytes:
    """The answer to a ping that carried this."""
    return bytes((FINAL | PONG, len(carried))) + carried


def close_frame(code: int, reason: str = "") -> bytes:
    """The last frame of a side."""
    carried = _CODE.pack(code) + reason.encode()
    return bytes((FINAL | CLOSE, len(carried))) + carried


def answer_to_close(carried: bytes) -> bytes:
    """The close frame that answers one that carried this."""
    if not carried:
        return close_frame(NORMAL)
    code = _CODE.unpack_from(carried)[0] if len(carried) >= _CODE.size else 0
    if code not in CODES:
        return close_frame(PROTOCOL_ERROR)
    try:
        carried[_CODE.size :].decode()
    except UnicodeDecodeError:
        return close_frame(INVALID_TEXT)
    return close_frame(code)
