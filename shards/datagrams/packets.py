"""What the door itself reads of a datagram: whose it is, and whether it begins a connection.

Pure. Everything behind the first packet's header belongs to the library.

    long    1 form, fixed, type, 4 bits | version u32 | dcid_length u8, dcid | scid_length u8, scid
            an Initial goes on with token_length (variable), token
    short   0 form, ... | dcid, CONNECTION_ID_SIZE bytes

A stateless reset looks like a short packet, and its last 16 bytes are the token that the client was
given when it connected (tokens.py).
"""

import os
from typing import Final, NamedTuple

CONNECTION_ID_SIZE: Final = 8
"""Of the ids that this door gives out."""

FOREIGN_ID_SIZE_MAX: Final = 20
INITIAL_SIZE_MIN: Final = 1200
"""A datagram that begins a connection is at least so long; what answers it is shorter."""

LONG: Final = 0x80
FIXED: Final = 0x40
TYPE_MASK: Final = 0x30
INITIAL: Final = 0x00
NEGOTIATION: Final = 0
IDS_AT: Final = 5

RESET_SIZE_MIN: Final = 21
RESET_SIZE_MAX: Final = 43
"""As long as a short packet with little in it."""


class LongHeader(NamedTuple):
    """The first packet of a datagram that may begin a connection."""

    version: int
    is_initial: bool
    destination: bytes
    source: bytes
    token: bytes


def destination_of(datagram: bytes) -> bytes:
    """The connection id that a datagram is for; empty if it is too short to have one."""
    if not datagram:
        return b""
    if not datagram[0] & LONG:
        found = datagram[1 : 1 + CONNECTION_ID_SIZE]
        return found if len(found) == CONNECTION_ID_SIZE else b""
    found_id, _ = _opaque(datagram, IDS_AT)
    return found_id or b""


def read_long(datagram: bytes) -> LongHeader | None:
    """The long header of a datagram; None if there is none."""
    if not datagram or not datagram[0] & LONG:
        return None
    version = int.from_bytes(datagram[1:IDS_AT], "big")
    destination, at = _opaque(datagram, IDS_AT)
    source, at = _opaque(datagram, at)
    if destination is None or source is None:
        return None
    is_initial = datagram[0] & (FIXED | TYPE_MASK) == FIXED | INITIAL
    token = _token(datagram, at) if is_initial else b""
    if token is None:
        return None
    return LongHeader(version, is_initial, destination, source, token)


def stateless_reset(datagram: bytes, token: bytes) -> bytes | None:
    """What answers a packet of a connection that is not known here any more.

    Always shorter than what it answers, so that two ends cannot reset each other for ever; None if
    that would be too short.
    """
    size = min(len(datagram) - 1, RESET_SIZE_MAX)
    if size < RESET_SIZE_MIN:
        return None
    noise = bytearray(os.urandom(size - len(token)))
    noise[0] = noise[0] & ~LONG | FIXED
    return bytes(noise) + token


def _opaque(datagram: bytes, at: int) -> tuple[bytes | None, int]:
    """A connection id behind its length, and where it ends."""
    if at >= len(datagram) or datagram[at] > FOREIGN_ID_SIZE_MAX:
        return None, at
    end = at + 1 + datagram[at]
    return (datagram[at + 1 : end], end) if end <= len(datagram) else (None, at)


def _token(datagram: bytes, at: int) -> bytes | None:
    """What an Initial brings along; None if it says more than there is."""
    if at >= len(datagram):
        return None
    width = 1 << (datagram[at] >> 6)
    start = at + width
    size = int.from_bytes(datagram[at:start], "big") & (1 << 8 * width - 2) - 1
    return datagram[start : start + size] if start + size <= len(datagram) else None
