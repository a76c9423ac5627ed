"""The head of an HTTP/1 answer and a body in chunks, as a client reads them. Pure.

As much of RFC 9112 as answers of a broker, or of a proxy before it, need: a body has a length,
comes in chunks, or there is none. One that ends with the connection is refused: it could be cut
short without a sign of it.
"""

import re
from typing import Final, NamedTuple

HEAD_END: Final = b"\r\n\r\n"
LINE_END: Final = b"\r\n"
LENGTH_DIGITS_MAX: Final = 19
CHUNK_LINE_MAX: Final = 256
TRAILERS_SIZE_MAX: Final = 8192
WITHOUT_BODY: Final = frozenset({204, 304})
FIRST_FINAL: Final = 200
"""Statuses below it announce an answer that is still to come."""

_LINE: Final = re.compile(rb"HTTP/1\.([01]) (\d{3})(?: [^\r\n]*)?")
_CHUNK: Final = re.compile(rb"([0-9A-Fa-f]{1,15})[ \t]*(?:;[^\r\n]*)?")


class NotHttp(Exception):
    """Bytes that are no answer."""


class HttpAnswerHead(NamedTuple):
    """What a head says, and how many bytes it has; names of fields in small letters."""

    status: int
    fields: dict[str, str]
    size: int
    length: int
    is_chunked: bool
    closes: bool

    @property
    def is_interim(self) -> bool:
        """Whether the answer itself is still to come."""
        return self.status < FIRST_FINAL


def read_answer_head(data: bytes) -> HttpAnswerHead | None:
    """The head that begins `data`; None: more bytes are needed. Raises NotHttp."""
    end = data.find(HEAD_END)
    if end < 0:
        if data and not b"HTTP/1.".startswith(data[:7]):
            raise NotHttp(f"it begins with {data[:32]!r}")
        return None
    line, *rows = data[:end].split(LINE_END)
    parts = _LINE.fullmatch(line)
    if parts is None:
        raise NotHttp(f"it begins with {line[:32]!r}")
    fields: dict[str, str] = {}
    for row in rows:
        name, colon, value = row.partition(b":")
        if not colon or not name or name != name.strip():
            raise NotHttp(f"the field {row[:32]!r}")
        key = name.decode("latin-1").lower()
        text = value.decode("latin-1").strip(" \t")
        fields[key] = f"{fields[key]}, {text}" if key in fields else text
    status = int(parts[2])
    is_chunked = fields.get("transfer-encoding", "").lower() == "chunked"
    said = fields.get("connection", "").lower()
    closes = "close" in said or (parts[1] == b"0" and "keep-alive" not in said)
    length = 0 if is_chunked else _length(status, fields)
    return HttpAnswerHead(status, fields, end + len(HEAD_END), length, is_chunked, closes)


class ChunkedBody:
    """A body that comes in chunks, put together. Always: `body` has at most `size_max` bytes."""

    def __init__(self, size_max: int) -> None:
        self.body = bytearray()
        self.is_too_big = False
        self._size_max = size_max
        self._rest = b""
        self._left: int | None = None
        """Bytes of the chunk that are still to come, with its line end; None: its size is next."""
        self._in_trailers = False

    def take(self, data: bytes) -> bool:
        """Whether the body is complete with these bytes. Raises NotHttp."""
        self._rest += data
        while not self.is_too_big:
            if self._in_trailers:
                return self._takes_trailers()
            if not (self._takes_size() if self._left is None else self._takes_data()):
                return False
        return False

    def _takes_size(self) -> bool:
        line, end, rest = self._rest.partition(LINE_END)
        if not end:
            if len(self._rest) > CHUNK_LINE_MAX:
                raise NotHttp("the size of a chunk does not end")
            return False
        found = _CHUNK.fullmatch(line)
        if found is None:
            raise NotHttp(f"a chunk of size {line[:32]!r}")
        size = int(found[1], 16)
        self._rest = rest
        self._in_trailers = size == 0
        self.is_too_big = len(self.body) + size > self._size_max
        self._left = size + len(LINE_END)
        return True

    def _takes_data(self) -> bool:
        assert self._left is not None
        data = self._rest[: max(0, self._left - len(LINE_END))]
        self.body += data
        self._left -= len(data)
        self._rest = self._rest[len(data) :]
        if self._left > len(LINE_END) or len(self._rest) < len(LINE_END):
            return False
        if not self._rest.startswith(LINE_END):
            raise NotHttp("a chunk that is longer than it says")
        self._rest = self._rest[len(LINE_END) :]
        self._left = None
        return True

    def _takes_trailers(self) -> bool:
        if self._rest.startswith(LINE_END):
            at = len(LINE_END)
        else:
            at = self._rest.find(HEAD_END) + len(HEAD_END)
            if at < len(HEAD_END):
                if len(self._rest) > TRAILERS_SIZE_MAX:
                    raise NotHttp("the fields behind the chunks do not end")
                return False
        if len(self._rest) > at:
            raise NotHttp(f"{len(self._rest) - at} bytes behind the body")
        return True


def _length(status: int, fields: dict[str, str]) -> int:
    if status < FIRST_FINAL or status in WITHOUT_BODY:
        return 0
    text = fields.get("content-length")
    if text is None:
        raise NotHttp("a body without a length")
    if not (text.isascii() and text.isdigit() and len(text) <= LENGTH_DIGITS_MAX):
        raise NotHttp(f"a length of {text[:32]!r}")
    return int(text)
