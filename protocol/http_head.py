"""The head of an HTTP/1 request, and that of an answer: as much of it as a GET needs. Pure.

Strict where tolerance has been the way in (RFC 9112): lines end with CR LF, no space before a
colon, no folded lines, no control characters, one Host. The connection ends with the answer,
so a body that comes with the request is never read.
"""

import re
from typing import Final, NamedTuple

HEAD_SIZE_MAX: Final = 8192
"""A request's line and fields together; more is answered 431."""

HEAD_END: Final = b"\r\n\r\n"

OK: Final = 200
METHOD_NOT_ALLOWED: Final = 405

REASONS: Final = {
    OK: "OK",
    400: "Bad Request",
    403: "Forbidden",
    404: "Not Found",
    METHOD_NOT_ALLOWED: "Method Not Allowed",
    408: "Request Timeout",
    426: "Upgrade Required",
    431: "Request Header Fields Too Large",
    500: "Internal Server Error",
    503: "Service Unavailable",
    505: "HTTP Version Not Supported",
}

_TOKEN: Final = rb"[!#$%&'*+\-.^_`|~0-9A-Za-z]+"
_LINE: Final = re.compile(rb"(%b) ([\x21-\x7e]+) HTTP/(\d)\.(\d)" % _TOKEN)
_FIELD: Final = re.compile(rb"(%b):([^\x00-\x08\x0a-\x1f\x7f]*)" % _TOKEN)
_ABSOLUTE: Final = re.compile(r"https?://[^/?#]*", re.IGNORECASE)
_BARE_LF: Final = re.compile(rb"(?<!\r)\n")


class HttpRefused(Exception):
    """What cannot be served, by the status it is answered with."""

    def __init__(self, status: int) -> None:
        super().__init__(f"{status} {REASONS[status]}")
        self.status = status


class HttpRequest(NamedTuple):
    """What is wanted. The path is as it was sent, without the query."""

    method: str
    path: str


class HttpHead(NamedTuple):
    """A request with its fields, by names in small letters, and the bytes of its head."""

    request: HttpRequest
    fields: dict[str, str]
    size: int


def read_head(data: bytes | bytearray) -> HttpRequest | None:
    """The request that begins `data`; None: more bytes are needed. Raises HttpRefused."""
    found = read_whole_head(data)
    return None if found is None else found.request


def read_whole_head(data: bytes | bytearray) -> HttpHead | None:
    """The same with its fields; those of one name are joined by commas."""
    end = data.find(HEAD_END, 0, HEAD_SIZE_MAX)
    head = bytes(data[: HEAD_SIZE_MAX if end < 0 else end])
    # Such a head would never end, and its sender wait in vain.
    if _BARE_LF.search(head):
        raise HttpRefused(400)
    if end >= 0:
        return _parsed(head)
    if len(data) >= HEAD_SIZE_MAX:
        raise HttpRefused(431)
    return None


def _parsed(head: bytes) -> HttpHead:
    line, *fields = head.split(b"\r\n")
    parts = _LINE.fullmatch(line)
    if parts is None:
        raise HttpRefused(400)
    method, target, major, minor = parts.groups()
    if major != b"1":
        raise HttpRefused(505)
    named: dict[str, str] = {}
    hosts = 0
    for field in fields:
        found = _FIELD.fullmatch(field)
        if found is None:
            raise HttpRefused(400)
        name, value = found[1].decode("ascii").lower(), found[2].decode("latin-1").strip(" \t")
        named[name] = f"{named[name]}, {value}" if name in named else value
        hosts += name == "host"
    if hosts > 1 or (minor != b"0" and hosts == 0):
        raise HttpRefused(400)
    path = _ABSOLUTE.sub("", target.decode("ascii"), count=1).partition("?")[0]
    request = HttpRequest(method.decode("ascii"), path)
    return HttpHead(request, named, len(head) + len(HEAD_END))


def response_head(status: int, content_type: str, length: int) -> bytes:
    """Everything before the body of an answer that is the last one of its connection."""
    fields = [
        f"HTTP/1.1 {status} {REASONS[status]}",
        f"Content-Type: {content_type}",
        f"Content-Length: {length}",
        "Cache-Control: no-store",
        "X-Content-Type-Options: nosniff",
        "Connection: close",
    ]
    if status == METHOD_NOT_ALLOWED:
        fields.append("Allow: GET, HEAD")
    return "\r\n".join(fields).encode("ascii") + HEAD_END
