"""The 256 bytes before consensus requests and replies, in plain Python.

Names and behaviour are those of the compiled twin, _heads.pyx; callers import neither, but
consensus/heads.py. Both functions run once for every request of that framing: together they take
1.3 us, compiled 0.4.
"""

from typing import Final

import xxhash

from borzoi.protocol.consensus.layout import (
    CLASSIC_HEADER_AT,
    FIELDS,
    FIELDS_AT,
    HEADER_SIZE,
    NOT_STAMPED,
    REPLY,
    REPLY_LAYOUT,
    REQUEST,
    STAMP,
)
from borzoi.protocol.consensus.operations import (
    CODE_OF,
    LOGINS_IN_QUERIES,
    NO_CODE,
    QUERY,
    REGISTER,
    STAMPED,
)
from borzoi.protocol.framing import CODE_SIZE, REQUEST_HEADER

_fields: Final = FIELDS.unpack_from
_leave_classic_header: Final = REQUEST_HEADER.pack_into


def read_request(
    view: memoryview, start: int, end: int, session: int, bound_client: bytes
) -> tuple[int, bytes, bytes, int, int] | None:
    """Code, client, stamp, number and operation of the one request that fills these bytes exactly.

    None: there is none, or one that is refused by its header or its stamp. `session`, unless it is
    0, and `bound_client` are what all requests but logins have to be of. The view can be written
    to: a classic header is left before the payload.
    """
    if end - start < HEADER_SIZE:
        return None
    size, kind, client, checksum, number, operation, its_session, code = _fields(
        view, start + FIELDS_AT
    )
    if operation != QUERY:
        code = CODE_OF[operation]
    elif code in LOGINS_IN_QUERIES:
        code = NO_CODE
    if (
        size != end - start
        or kind != REQUEST
        or code == NO_CODE
        or not (
            session == 0
            or operation == REGISTER
            or (its_session == session and client == bound_client)
        )
        or not (
            checksum == NOT_STAMPED
            or operation not in STAMPED
            or checksum == stamp(view[start + HEADER_SIZE : end])
        )
    ):
        return None
    _leave_classic_header(view, start + CLASSIC_HEADER_AT, size - HEADER_SIZE + CODE_SIZE, code)
    return code, client, checksum, number, operation


def reply_with(
    size: int,
    checksum: bytes,
    client: bytes,
    count: int,
    number: int,
    operation: int,
    status: int,
    beginning: bytes,
) -> bytes:
    """The header of a reply with `size` bytes behind it, and the first of these."""
    return (
        REPLY_LAYOUT.pack(
            HEADER_SIZE + size, REPLY, checksum, client, count, count, number, operation, status
        )
        + beginning
    )


def stamp(payload: bytes | memoryview) -> bytes:
    """The hash of a payload as the request_checksum carries it."""
    return STAMP.pack(xxhash.xxh3_64_intdigest(payload), 0)
