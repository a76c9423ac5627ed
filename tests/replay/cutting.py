"""Where frames begin and end, written from the specification of the wire and from nothing else.

    request     length u32 | code u32 | payload       length counts code and payload
    answer      status u32 | length u32 | payload     length counts the payload only

A request length below 4 is answered, and eight bytes are skipped. Any other malformed stream ends
with an answer and the end of the connection, so what lies behind it needs no cutting.
"""

import struct
from typing import Final, NamedTuple

HEADER: Final = struct.Struct("<II")
CODE_SIZE: Final = 4
LENGTH_SIZE: Final = 4


class Request(NamedTuple):
    """One whole request."""

    code: int
    payload: bytes


class RequestCutter:
    """The requests of one connection, in pieces as they come."""

    def __init__(self) -> None:
        self._waiting = bytearray()

    def cut(self, data: bytes) -> list[Request]:
        """The requests that are complete now."""
        self._waiting += data
        found = []
        while len(self._waiting) >= HEADER.size:
            length, code = HEADER.unpack_from(self._waiting)
            end = LENGTH_SIZE + max(length, CODE_SIZE)
            if len(self._waiting) < end:
                break
            found.append(Request(code, bytes(self._waiting[HEADER.size : end])))
            del self._waiting[:end]
        return found


class AnswerCutter:
    """The answers of one connection, in pieces as they come."""

    def __init__(self) -> None:
        self.waiting = bytearray()

    def cut(self, data: bytes) -> list[bytes]:
        """The answers that are complete now, each with its header."""
        self.waiting += data
        found = []
        while len(self.waiting) >= HEADER.size:
            _status, length = HEADER.unpack_from(self.waiting)
            end = HEADER.size + length
            if len(self.waiting) < end:
                break
            found.append(bytes(self.waiting[:end]))
            del self.waiting[:end]
        return found
