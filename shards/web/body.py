"""The body of a request: read within its bounds of size, time and memory, and decompressed.

Always: no more than the allowed size of a body is held, neither as it came nor decompressed, and
the bodies of all requests of a shard share one budget.
"""

import asyncio
import sys
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final, Protocol

from aiohttp import web

from borzoi.quantities import KIB
from borzoi.shards.web_forms.failures import plain
from borzoi.shares import Shares

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

GZIP_WINDOW: Final = 31  # the largest window, with the head of gzip
DEFLATE_WINDOW: Final = 15
ZSTD_WINDOW_LOG_MAX: Final = 23
"""A frame may ask for a window of 2 GiB; more than 8 MiB is refused, as by most readers."""

MEMBERS_MAX: Final = 64
"""Parts of a packed body: packers write one, or one for each of some files or blocks."""

PORTION_SIZE: Final = 64 * KIB

CONTINUE: Final = b"HTTP/1.1 100 Continue\r\n\r\n"


class Decompressor(Protocol):
    """One member of a compressed body."""

    eof: bool
    unused_data: bytes

    def decompress(self, data: memoryview, max_length: int, /) -> bytes:
        """At most so many bytes more."""


@contextmanager
def room_for_body(
    request: web.BaseRequest, size_max: int, bodies: Shares, taker: str
) -> Iterator[None]:
    """Takes what the body may need from the budget of the shard. 413 or 503 if that is too much."""
    size = request.content_length
    if size is not None and size > size_max:
        raise plain(413, f"a body of {size} bytes where {size_max} are allowed")
    # A compressed body and one without a length may be anything up to the limit.
    amount = size_max if size is None or "Content-Encoding" in request.headers else size
    if not request.body_exists or not amount:
        yield
        return
    if not bodies.take(taker, amount):
        bodies.note_refusal(taker, amount)
        raise plain(503, "no memory for this body at the moment", Retry_After="1")
    try:
        yield
    finally:
        bodies.give_back(taker, amount)


async def read_body(request: web.BaseRequest, size_max: int, time_max_s: float) -> bytes:
    """The whole body, decompressed. 408 if it is late, 413 if too large, 415 if packed oddly."""
    if not request.body_exists:
        return b""
    packing = request.headers.get("Content-Encoding", "").strip().lower()
    if packing not in PACKINGS:
        raise plain(
            415,
            f"Content-Encoding is {packing!r}: needs one of {', '.join(filter(None, PACKINGS))}",
        )
    if request.headers.get("Expect", "").lower() == "100-continue":
        await _say_continue(request)
    try:
        async with asyncio.timeout(time_max_s):
            body = await _read(request, size_max)
    except TimeoutError:
        raise plain(408, f"the body did not come within {time_max_s:.0f} s") from None
    return unpack(body, packing, size_max)


def unpack(body: bytes, packing: str, size_max: int) -> bytes:
    """A body as it was before it was packed. 413 if that is more than `size_max`, 400 if broken."""
    if packing in ("", "identity"):
        return body
    try:
        return b"".join(_unpacked(body, PACKINGS[packing], size_max))
    except (zlib.error, zstd.ZstdError) as error:
        raise plain(400, f"the body is no {packing}: {error}") from None


def _unpacked(body: bytes, new: Callable[[], Decompressor], size_max: int) -> Iterator[bytes]:
    """What is in the members of a packed body, one behind the other.

    A member is fed in small portions: what is left over behind its end is copied by the library,
    and many small members would make that the square of the body.
    """
    view = memoryview(body)
    member: Decompressor | None = None
    at = count = size = 0
    while at < len(view):
        if member is None:
            count += 1
            if count > MEMBERS_MAX:
                raise plain(400, f"a packed body of more than {MEMBERS_MAX} parts")
            member = new()
        portion = view[at : at + PORTION_SIZE]
        # One byte more than allowed tells a body that is too large from one that just fits.
        piece = member.decompress(portion, size_max - size + 1)
        size += len(piece)
        if size > size_max:
            raise plain(413, f"more than {size_max} bytes when unpacked")
        yield piece
        at += len(portion)
        if member.eof:
            at -= len(member.unused_data)
            member = None
    if member is not None:
        raise plain(400, "the packed body is cut short")


async def _read(request: web.BaseRequest, size_max: int) -> bytes:
    pieces: list[bytes] = []
    size = 0
    while piece := await request.content.readany():
        size += len(piece)
        if size > size_max:
            raise plain(413, f"a body of more than {size_max} bytes")
        pieces.append(piece)
    return b"".join(pieces)


async def _say_continue(request: web.BaseRequest) -> None:
    """The peer waits for this before it sends a large body."""
    transport = request.transport
    if transport is not None and request.version >= (1, 1):
        transport.write(CONTINUE)


def _gzip() -> Any:
    return zlib.decompressobj(GZIP_WINDOW)


def _deflate() -> Any:
    return zlib.decompressobj(DEFLATE_WINDOW)


def _zstd() -> Any:
    limit: dict[int, int] = {zstd.DecompressionParameter.window_log_max: ZSTD_WINDOW_LOG_MAX}
    return zstd.ZstdDecompressor(options=limit)


PACKINGS: Final[dict[str, Any]] = {
    "": None,
    "identity": None,
    "gzip": _gzip,
    "deflate": _deflate,
    "zstd": _zstd,
}
"""How a body may be packed, and what unpacks one member of it."""
