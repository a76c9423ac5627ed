"""Answers do not depend on how TCP cut them, and nothing is read without a request."""

import asyncio
from collections.abc import Callable, Iterable
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from borzoi.client.reply_reader import FIRST_PIECE_SIZE, RawReply, ReplyReader, ResponseTooBig
from borzoi.protocol.errors import ConnectionClosed
from borzoi.protocol.framing import encode_response

SIZE_MAX = 3 * FIRST_PIECE_SIZE
DISCONNECTED = encode_response(8)


class FakeTransport:
    def __init__(self) -> None:
        self.written: list[bytes] = []
        self.is_aborted = False

    def writelines(self, parts: Iterable[bytes]) -> None:
        pieces = list(parts)
        assert all(pieces), "asyncio of Python 3.12 keeps an empty part for ever"
        self.written.append(b"".join(pieces))

    def abort(self) -> None:
        self.is_aborted = True


class FedReader:
    """A reader, and the event loop's part in its life."""

    def __init__(self) -> None:
        self.reader = ReplyReader(asyncio.get_running_loop(), SIZE_MAX)
        self.transport = FakeTransport()
        self.reader.connection_made(cast(asyncio.Transport, self.transport))

    def feed(self, wire: bytes, piece_size: int) -> None:
        for at in range(0, len(wire), piece_size):
            piece = wire[at : at + piece_size]
            while piece:
                buffer = self.reader.get_buffer(-1)
                assert len(buffer) > 0, "an empty buffer stops asyncio's transports"
                size = min(len(buffer), len(piece))
                buffer[:size] = piece[:size]
                self.reader.buffer_updated(size)
                piece = piece[size:]


def in_loop(test: Callable[[FedReader], Any]) -> None:
    async def body() -> None:
        test(FedReader())

    asyncio.run(body())


def test_a_request_without_a_payload_has_no_empty_part() -> None:
    def test(wire: FedReader) -> None:
        wire.reader.ask([b"header", b""])
        assert wire.transport.written == [b"header"]

    in_loop(test)


ANSWERS = st.lists(st.tuples(st.integers(0, 9), st.binary(max_size=30)), max_size=4)


@settings(max_examples=40)
@given(answers=ANSWERS, piece_size=st.integers(1, 40))
def test_answers_do_not_depend_on_how_tcp_cut_them(
    answers: list[tuple[int, bytes]], piece_size: int
) -> None:
    def test(wire: FedReader) -> None:
        for status, payload in answers:
            reply = wire.reader.ask([b"?"])
            # A payload behind an error is against the rules, but its length is believed.
            header = encode_response(0, payload)[4:]
            wire.feed(status.to_bytes(4, "little") + header, piece_size)
            assert reply.result() == RawReply(status, bytearray(payload))
        assert wire.reader.is_open

    in_loop(test)


@pytest.mark.parametrize("size", [FIRST_PIECE_SIZE - 9, FIRST_PIECE_SIZE - 8, SIZE_MAX])
@pytest.mark.parametrize("piece_size", [1000, FIRST_PIECE_SIZE, FIRST_PIECE_SIZE + 1, SIZE_MAX + 8])
def test_answers_around_the_size_of_the_first_piece(size: int, piece_size: int) -> None:
    payload = bytes(i % 251 for i in range(size))

    def test(wire: FedReader) -> None:
        reply = wire.reader.ask([b"?"])
        wire.feed(encode_response(0, payload), piece_size)
        assert reply.result() == RawReply(0, bytearray(payload))

    in_loop(test)


def test_an_answer_of_http_is_named() -> None:
    def test(wire: FedReader) -> None:
        reply = wire.reader.ask([b"?"])
        wire.feed(b"HTTP/1.0 400 Bad Request\r\n", 26)
        with pytest.raises(ConnectionClosed, match=r"speaks HTTP there: iggy\+http:// reaches it"):
            reply.result()

    in_loop(test)


def test_one_byte_too_many_is_refused_before_it_comes() -> None:
    def test(wire: FedReader) -> None:
        reply = wire.reader.ask([b"?"])
        wire.feed(bytes(4) + (SIZE_MAX + 1).to_bytes(4, "little"), 8)
        with pytest.raises(ResponseTooBig, match=f"{SIZE_MAX + 1} bytes; at most {SIZE_MAX}"):
            reply.result()
        assert wire.transport.is_aborted

    in_loop(test)


@pytest.mark.parametrize(
    ("unasked", "reason"),
    [
        (DISCONNECTED, "the server said: the server is closing this connection"),
        (b"\0", "1 bytes without a request"),
        (bytes(8), "8 bytes without a request"),
    ],
)
@pytest.mark.parametrize("answer", [b"", encode_response(0, b"payload")])
def test_unasked_bytes_end_the_connection(answer: bytes, unasked: bytes, reason: str) -> None:
    """Alone, or in one piece with an answer; that answer is still good."""

    def test(wire: FedReader) -> None:
        reply = wire.reader.ask([b"?"]) if answer else None
        wire.feed(answer + unasked, len(answer + unasked))
        assert reply is None or reply.result().payload == b"payload"
        assert wire.transport.is_aborted
        with pytest.raises(ConnectionClosed, match=reason):
            wire.reader.ask([b"?"])

    in_loop(test)


@pytest.mark.parametrize(
    ("came", "error", "reason"),
    [
        (b"", None, "the server closed the connection before it answered"),
        (bytes(3), None, "the server closed the connection after 3 bytes of an answer"),
        (b"\x15\x03\x03\0\x02\x02F", None, "the server speaks TLS there: iggy.tls:// reaches it"),
        (
            encode_response(0, bytes(10))[:12],
            None,
            "the server closed the connection after 4 of 10 bytes of an answer",
        ),
        (b"", ConnectionResetError("reset"), "reset before it answered"),
    ],
)
def test_a_lost_connection_says_how_far_it_came(
    came: bytes, error: Exception | None, reason: str
) -> None:
    def test(wire: FedReader) -> None:
        reply = wire.reader.ask([b"?"])
        wire.feed(came, 100)
        wire.reader.connection_lost(error)
        with pytest.raises(ConnectionClosed, match=f"^{reason}$"):
            reply.result()
        with pytest.raises(ConnectionClosed, match="this connection is closed: "):
            wire.reader.ask([b"?"])

    in_loop(test)


def test_an_answer_for_a_cancelled_caller_is_dropped() -> None:
    def test(wire: FedReader) -> None:
        wire.reader.ask([b"?"]).cancel()
        wire.feed(encode_response(0, b"late"), 3)

    in_loop(test)
