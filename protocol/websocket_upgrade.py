"""How an HTTP request becomes a WebSocket (RFC 6455, section 4): the request judged, the answer.

Pure. No subprotocol and no extension is ever agreed on, so frames mean what RFC 6455 says. What is
refused gets an HTTP status and a sentence, and the connection ends.
"""

import base64
import binascii
import hashlib
from collections.abc import Collection, Iterator
from typing import Final, NamedTuple

from borzoi.protocol.http_head import REASONS, HttpHead, HttpRefused, read_whole_head

PATH: Final = "/"
VERSION: Final = "13"
KEY_SIZE: Final = 16
GUID: Final = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"

ACCEPTED: Final = (
    "HTTP/1.1 101 Switching Protocols\r\n"
    "Upgrade: websocket\r\n"
    "Connection: Upgrade\r\n"
    "Sec-WebSocket-Accept: {}\r\n"
    "\r\n"
)
REFUSED: Final = (
    "HTTP/1.1 {status} {reason}\r\n"
    "Content-Type: text/plain; charset=utf-8\r\n"
    "Content-Length: {length}\r\n"
    "{more}"
    "Connection: close\r\n"
    "\r\n"
    "{text}"
)
MORE: Final = {
    405: "Allow: GET\r\n",
    426: f"Upgrade: websocket\r\nSec-WebSocket-Version: {VERSION}\r\n",
}


class Upgrade(NamedTuple):
    """What is answered, and how many bytes the request had; 0: it was refused."""

    answer: bytes
    size: int


def read_upgrade(data: bytes | bytearray, origins: Collection[str] | None) -> Upgrade | None:
    """The answer to the request that begins `data`; None: more bytes are needed.

    `origins` are the web sites whose pages may come; None: all of them. A client that is no browser
    names no origin.
    """
    try:
        head = read_whole_head(data)
    except HttpRefused as refused:
        return _refused(refused.status, "this is no HTTP request that can be understood")
    if head is None:
        return None
    for status, text in _objections(head, origins):
        return _refused(status, text)
    accept = accept_of(head.fields["sec-websocket-key"])
    return Upgrade(ACCEPTED.format(accept).encode("ascii"), head.size)


def _objections(head: HttpHead, origins: Collection[str] | None) -> Iterator[tuple[int, str]]:
    """Everything that is wrong with a request; the first of it is the answer."""
    request, fields = head.request, head.fields
    if request.method != "GET":
        yield 405, "a WebSocket begins with GET"
    if request.path != PATH:
        yield 404, f"the WebSocket is at {PATH}"
    if not (_names(fields, "upgrade", "websocket") and _names(fields, "connection", "upgrade")):
        yield 426, "this door speaks WebSocket alone"
    if fields.get("sec-websocket-version") != VERSION:
        yield 426, f"needs version {VERSION} of WebSocket"
    if origins is not None and "origin" in fields and fields["origin"].lower() not in origins:
        yield 403, "pages of this origin are not let in: http.cors.allowed_origins"
    if not _is_key(fields.get("sec-websocket-key", "")):
        yield 400, f"needs a Sec-WebSocket-Key of {KEY_SIZE} bytes in base64"


def accept_of(key: str) -> str:
    """What proves that a server has understood the request with this key."""
    digest = hashlib.sha1(key.encode("ascii") + GUID, usedforsecurity=False).digest()
    return base64.b64encode(digest).decode("ascii")


def _names(fields: dict[str, str], field: str, wanted: str) -> bool:
    return wanted in (one.strip().lower() for one in fields.get(field, "").split(","))


def _is_key(text: str) -> bool:
    try:
        return len(base64.b64decode(text.encode("ascii"), validate=True)) == KEY_SIZE
    except (binascii.Error, UnicodeEncodeError):
        return False


def _refused(status: int, text: str) -> Upgrade:
    text += "\n"
    answer = REFUSED.format(
        status=status,
        reason=REASONS[status],
        length=len(text),
        more=MORE.get(status, ""),
        text=text,
    )
    return Upgrade(answer.encode("ascii"), 0)
