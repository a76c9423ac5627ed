"""Framing: what surrounds every payload on TCP, QUIC and WebSocket alike.

    request     length u32 | code u32 | payload       length counts code and payload
    response    status u32 | length u32 | payload     length counts the payload only

A response that is not a success is its eight bytes and nothing else.

A framing is a pure machine: bytes that lie in the caller's buffer go in, a frame or what is
missing comes out, and nothing is copied. One class for each way in which clients frame; a
connection has an instance, because a framing may echo fields of the request in its response.
ClassicFraming is the one of most generations (generations.py). Bounds of size are the door's: it
knows who sends.

Always: the eight bytes before the payload of a whole frame in writable memory are its classic
header, once it is cut. A framing with another header writes them there. What reads the request of
a dead worker (shards/faults/in_work.py) needs to know no other.
"""

import struct
from typing import Final, NamedTuple, Protocol, TypeAlias

from borzoi.protocol.errors import InvalidCommand
from borzoi.protocol.responses.polled import POLLED_HEADER

REQUEST_HEADER: Final = struct.Struct("<II")  # length of code + payload, code
RESPONSE_HEADER: Final = struct.Struct("<II")  # status, length of payload
# Both headers of a poll's answer: status, length; partition, current offset, message count.
POLL_RESPONSE: Final = struct.Struct(RESPONSE_HEADER.format + POLLED_HEADER.format.lstrip("<"))
LENGTH_SIZE: Final = 4
CODE_SIZE: Final = 4

CONTROL_PAYLOAD_SIZE_MAX: Final = 10 * 1024 * 1024  # of every command but SEND_MESSAGES

NOT_WHOLE: Final = -1

# By names of their own: they run for every request, and each attribute costs a look-up.
_HEADER_SIZE: Final = REQUEST_HEADER.size
_unpack_request: Final = REQUEST_HEADER.unpack_from
_POLLED_SIZE: Final = POLLED_HEADER.size
_pack_polled: Final = POLL_RESPONSE.pack


class Frame(NamedTuple):
    """One whole request, which occupies `total` bytes of the stream."""

    code: int
    payload: memoryview
    total: int


class Need(NamedTuple):
    """The frame is not complete before this many bytes, counted from its own start."""

    total: int
    code: int | None = None  # None: not even the header is there


class Refused(NamedTuple):
    """What the framing itself answers: a header that frames nothing, a request that is none.

    The next one begins `total` bytes behind its start.
    """

    total: int
    answer: bytes
    close: bool = False  # nothing is read behind it


Cut: TypeAlias = Frame | Need | Refused


class Bound(NamedTuple):
    """The session that all requests of a connection have to be of, and the client's id for it."""

    session: int
    client: bytes


UNBOUND: Final = Bound(0, b"")
"""Of a connection whose requests carry no session, or which is not logged in."""


class Framing(Protocol):
    """How the requests of one client are cut, and how its responses begin."""

    header_size: int
    """Of a request; the payload lies behind it."""

    def cut(self, view: memoryview, start: int, end: int) -> Cut:
        """What begins at `start`; bytes end at `end`."""

    def whole(self, view: memoryview, start: int, end: int) -> int:
        """The code of the one frame that fills these bytes exactly, otherwise NOT_WHOLE."""

    def status(self, status: int) -> bytes:
        """A whole response without a payload."""

    def success(self, size: int) -> bytes:
        """What stands before a payload of `size` bytes."""

    def answer(self, payload: bytes) -> bytes:
        """A whole response."""

    def polled(self, partition_id: int, current_offset: int, count: int, size: int) -> bytes:
        """What stands before the messages of a poll, `size` bytes."""

    def parting(self, status: int) -> bytes:
        """Last words before the broker closes, while no request is in work."""

    def bind(self, session: int) -> None:
        """The request in work begins this session, where requests carry one; 0: it ends one."""

    def bound(self) -> Bound:
        """The session that requests have to be of."""

    def adopt(self, bound: Bound) -> None:
        """Go on with the session of a connection that has moved here."""

    def number(self) -> int:
        """The number of the request that was cut last; 0: it has none."""


class ClassicFraming:
    """Eight bytes before each payload, in both directions."""

    __slots__ = ()

    header_size: int = REQUEST_HEADER.size

    def cut(self, view: memoryview, start: int, end: int) -> Cut:
        """What begins at `start`; bytes end at `end`."""
        present = end - start
        if present < REQUEST_HEADER.size:
            return Need(REQUEST_HEADER.size)
        length, code = REQUEST_HEADER.unpack_from(view, start)
        if length < CODE_SIZE:
            return Refused(REQUEST_HEADER.size, self.status(InvalidCommand.status))
        total = LENGTH_SIZE + length
        if present < total:
            return Need(total, code)
        return Frame(code, view[start + REQUEST_HEADER.size : start + total], total)

    def whole(self, view: memoryview, start: int, end: int) -> int:
        """The code of the one frame that fills these bytes exactly, otherwise NOT_WHOLE."""
        size = end - start
        if size < _HEADER_SIZE:
            return NOT_WHOLE
        length, code = _unpack_request(view, start)
        return code if length == size - LENGTH_SIZE else NOT_WHOLE

    def status(self, status: int) -> bytes:
        """A whole response without a payload."""
        return RESPONSE_HEADER.pack(status, 0) if status else OK

    def success(self, size: int) -> bytes:
        """What stands before a payload of `size` bytes."""
        return RESPONSE_HEADER.pack(0, size)

    def answer(self, payload: bytes) -> bytes:
        """A whole response."""
        return RESPONSE_HEADER.pack(0, len(payload)) + payload

    def polled(self, partition_id: int, current_offset: int, count: int, size: int) -> bytes:
        """What stands before the messages of a poll, `size` bytes."""
        return _pack_polled(0, _POLLED_SIZE + size, partition_id, current_offset, count)

    def parting(self, status: int) -> bytes:
        """Last words before the broker closes, while no request is in work."""
        return self.status(status)

    def bind(self, session: int) -> None:
        """Requests carry no session."""

    def bound(self) -> Bound:
        """None."""
        return UNBOUND

    def adopt(self, bound: Bound) -> None:
        """There is nothing to go on with."""

    def number(self) -> int:
        """Requests have none."""
        return 0


def encode_request(code: int, payload: bytes = b"") -> bytes:
    """A whole classic request."""
    return REQUEST_HEADER.pack(CODE_SIZE + len(payload), code) + payload


def encode_response(status: int, payload: bytes = b"") -> bytes:
    """A whole classic response. Only clients that have asked for texts read one behind an error."""
    return RESPONSE_HEADER.pack(status, len(payload)) + payload


OK: Final = encode_response(0)
