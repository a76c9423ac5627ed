"""The 256 bytes before consensus requests and replies, in plain Python.

Names and behaviour are those of the compiled twin, _heads.pyx; callers import neither, but
consensus/heads.py. A request of that framing calls two or three of these methods.
"""

from typing import Final

import xxhash

from borzoi.protocol.consensus.evictions import NO_CLIENT
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
    HAS_SECTION,
    LOGINS_IN_QUERIES,
    NO_CODE,
    QUERY,
    REGISTER,
    STAMPED,
    SUCCEEDED,
)
from borzoi.protocol.framing import CODE_SIZE, NOT_WHOLE, REQUEST_HEADER
from borzoi.protocol.responses.polled import POLLED_HEADER

_fields: Final = FIELDS.unpack_from
_leave_classic_header: Final = REQUEST_HEADER.pack_into


class Head:
    """The request that was cut last, and the session that requests have to be of.

    client, checksum, request, operation   what the request says of itself; all 0 before the first
    bound_session, bound_client            of the session, once there is one; the former is 0 before
    count                                  of the replies written so far
    """

    __slots__ = (
        "bound_client", "bound_session", "checksum", "client", "count", "operation", "request",
    )  # fmt: skip

    def __init__(self) -> None:
        self.client = NO_CLIENT
        self.checksum = NOT_STAMPED
        self.request = 0
        self.operation = QUERY
        self.bound_session = 0
        self.bound_client = NO_CLIENT
        self.count = 0

    def number(self) -> int:
        """The number of the request that was cut last; 0: it has none, because it asks only."""
        return self.request if self.operation not in (QUERY, REGISTER) else 0

    def whole(self, view: memoryview, start: int, end: int) -> int:
        """The code of the one request that fills these bytes exactly, otherwise NOT_WHOLE.

        NOT_WHOLE, too: one that is refused by its header or its stamp; nothing of it is kept then.
        The view can be written to: a classic header is left before the payload.
        """
        if end - start < HEADER_SIZE:
            return NOT_WHOLE
        size, kind, client, checksum, number, operation, session, code = _fields(
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
                self.bound_session == 0
                or operation == REGISTER
                or (session == self.bound_session and client == self.bound_client)
            )
            or not (
                checksum == NOT_STAMPED
                or operation not in STAMPED
                or checksum == stamp(view[start + HEADER_SIZE : end])
            )
        ):
            return NOT_WHOLE
        _leave_classic_header(view, start + CLASSIC_HEADER_AT, size - HEADER_SIZE + CODE_SIZE, code)
        self.client, self.checksum = client, checksum
        self.request, self.operation = number, operation
        return int(code)

    def answer(self, payload: bytes) -> bytes:
        """A whole response."""
        if HAS_SECTION[self.operation]:
            payload = SUCCEEDED + payload
        return self.reply(len(payload), 0, payload)

    def polled(self, partition_id: int, current_offset: int, count: int, size: int) -> bytes:
        """What stands before the messages of a poll, `size` bytes."""
        header = POLLED_HEADER.pack(partition_id, current_offset, count)
        return self.reply(len(header) + size, 0, header)

    def reply(self, size: int, status: int = 0, beginning: bytes = b"") -> bytes:
        """The header of a reply with `size` bytes behind it, and the first of these."""
        self.count = count = self.count + 1
        fields = (count, count, self.request, self.operation, status)
        head = REPLY_LAYOUT.pack(HEADER_SIZE + size, REPLY, self.checksum, self.client, *fields)
        return head + beginning


def stamp(payload: bytes | memoryview) -> bytes:
    """The hash of a payload as the request_checksum carries it."""
    return STAMP.pack(xxhash.xxh3_64_intdigest(payload), 0)
