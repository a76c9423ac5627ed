"""A connection by HTTP against a scripted server: cut answers, chunks, closes, time-outs."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from borzoi.client.connection import RequestTimeout
from borzoi.client.reply_reader import ResponseTooBig
from borzoi.client.web.answers import size_of
from borzoi.client.web.connection import WebConnection
from borzoi.protocol import commands
from borzoi.protocol.errors import (
    ConnectionClosed,
    HttpResponseError,
    InvalidFormat,
    StreamIdNotFound,
)
from tests.client.conftest import Run

JSON = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
NO_STREAMS = JSON + b"Content-Length: 2\r\n\r\n[]"
CHUNKED = JSON + b"Transfer-Encoding: chunked\r\n\r\n1\r\n[\r\n1\r\n]\r\n0\r\n\r\n"


@asynccontextmanager
async def answering(
    *answers: bytes, piece_size: int = 1 << 20, **options: float
) -> AsyncIterator[WebConnection]:
    """A connection to a server that gives these answers, in pieces; after the last it closes."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for answer in answers:
            head = await reader.readuntil(b"\r\n\r\n")
            size = head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0]
            await reader.readexactly(int(size or 0))
            for start in range(0, len(answer), piece_size):
                writer.write(answer[start : start + piece_size])
                await writer.drain()
                await asyncio.sleep(0)
            if not answer:
                await reader.read()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with server:
        link = await WebConnection.open("127.0.0.1", port, **options)  # type: ignore[arg-type]
        try:
            yield link
        finally:
            await link.close()


@pytest.mark.parametrize("piece_size", [1, 7, 1 << 20])
@pytest.mark.parametrize("answer", [NO_STREAMS, CHUNKED, b"HTTP/1.1 100 C\r\n\r\n" + NO_STREAMS])
def test_answers_may_be_cut_anywhere(run: Run, answer: bytes, piece_size: int) -> None:
    async def test() -> None:
        async with answering(answer, answer, piece_size=piece_size) as link:
            assert await link.request(commands.GetStreams()) == ()
            assert await link.request(commands.GetStreams()) == ()

    run(test())


@pytest.mark.parametrize(
    ("answer", "error", "says"),
    [
        (b"", RequestTimeout, "GET /streams had no answer in 2.0 s"),
        (b"HTTP/1.1 200 OK\r\n\r\n", ConnectionClosed, "a body without a length"),
        (b"\x00\x00\x00\x00", ConnectionClosed, "is no HTTP"),
        (NO_STREAMS + b"more", ConnectionClosed, "4 bytes behind the body"),
        (JSON + b"Content-Length: 2000\r\n\r\n", ResponseTooBig, "2000 bytes; at most 1000"),
        (JSON + b"Transfer-Encoding: chunked\r\n\r\n3e9\r\n", ResponseTooBig, "more than 1000"),
        (JSON + b"Content-Length: 5\r\n\r\n[", ConnectionClosed, "in its answer"),
        (JSON + b"Content-Length: 3\r\n\r\n[1]", InvalidFormat, "unreadable"),
        (JSON + b"Content-Length: 1\r\n\r\n[", InvalidFormat, "unreadable"),
        (
            b"HTTP/1.1 503 S\r\nContent-Type: text/plain\r\nContent-Length: 4\r\n\r\nbusy",
            HttpResponseError,
            "HTTP status 503: busy",
        ),
    ],
)
def test_what_an_answer_can_be_instead(
    run: Run, answer: bytes, error: type[Exception], says: str
) -> None:
    async def test() -> None:
        async with answering(answer, timeout_s=2.0, response_size_max=1000) as link:
            with pytest.raises(error, match=says):
                await link.request(commands.GetStreams())

    run(test())


def test_an_error_keeps_its_number_and_reason(run: Run) -> None:
    body = b'{"id":1009,"code":"stream_id_not_found","reason":"no stream 7","field":null}'
    answer = b"HTTP/1.1 404 N\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%b" % (
        len(body),
        body,
    )

    async def test() -> None:
        async with answering(answer, answer) as link:
            with pytest.raises(StreamIdNotFound, match="no stream 7"):
                await link.request(commands.DeleteStream(7))
            assert await link.request(commands.GetStream(7)) is None

    run(test())


def test_a_connection_that_the_server_closes_is_not_open(run: Run) -> None:
    answer = JSON + b"Connection: close\r\nContent-Length: 2\r\n\r\n[]"

    async def test() -> None:
        async with answering(answer) as link:
            assert await link.request(commands.GetStreams()) == ()
            assert not link.is_open
            with pytest.raises(ConnectionClosed):
                await link.request(commands.GetStreams())

    run(test())


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("0 B", 0),
        ("147412 KiB", 150949888),
        ("1.5 KB", 1500),
        ("2 TiB", 2 << 40),
        ("1.001 MB", 1001000),
    ],
)
def test_sizes(text: str, size: int) -> None:
    assert size_of(text) == size
