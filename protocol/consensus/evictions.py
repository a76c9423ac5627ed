"""Evictions: 256 bytes in place of a reply, with a reason instead of a status.

They refuse logins and end sessions; the clients of this generation connect and log in again after
some of them. An eviction may also come between two answers: the client takes it as the answer to
its next request, which it then repeats.

    48 size u32 = 256 | 60 kind u8 = 13 | 128 client u128 | 144 newest u32 | 148 oldest u32 | 255
    reason u8; all else is zero, the versions too unless the reason is INCOMPATIBLE_PROTOCOL
"""

import struct
from enum import IntEnum
from typing import Final

HEADER_SIZE: Final = 256
EVICTION: Final = 13
LAYOUT: Final = struct.Struct("<48xI8xB67x16sII103xB")
NO_CLIENT: Final = bytes(16)


class Reason(IntEnum):
    """Why a request, a login or a session is refused. Those that are never given are left out."""

    NO_SESSION = 1
    INVALID_OPERATION = 4
    INVALID_BODY = 5
    INVALID_BODY_SIZE = 6
    INVALID_CREDENTIALS = 9
    INVALID_TOKEN = 10
    STALE_CLIENT = 13
    INCOMPATIBLE_PROTOCOL = 14
    MALFORMED_LOGIN = 15


def protocol_version(major: int, minor: int, patch: int) -> int:
    """A version as one number, as it stands in a login."""
    return major << 20 | minor << 10 | patch


OLDEST: Final = protocol_version(0, 1, 0)
NEWEST: Final = protocol_version(0, 1023, 1023)
"""Versions whose logins are accepted: every 0.x, because the bodies tell by themselves whether they
can be read."""


def eviction(client: bytes, reason: Reason, *, oldest: int = OLDEST, newest: int = NEWEST) -> bytes:
    """The whole frame. `client` is the id that the client gave itself."""
    versions = (newest, oldest) if reason is Reason.INCOMPATIBLE_PROTOCOL else (0, 0)
    return LAYOUT.pack(HEADER_SIZE, EVICTION, client, *versions, reason)
