"""Answers of HTTP as a client reads them: whole, cut anywhere, and broken."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from borzoi.protocol.http_answer import ChunkedBody, NotHttp, read_answer_head


def test_a_head() -> None:
    data = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nX-A: 1\r\nx-a: 2\r\n\r\nhello"
    head = read_answer_head(data)
    assert head is not None
    assert (head.status, head.length, head.is_chunked, head.closes) == (200, 5, False, False)
    assert head.fields["x-a"] == "1, 2"
    assert data[head.size :] == b"hello"
    for end in range(head.size):
        assert read_answer_head(data[:end]) is None


@pytest.mark.parametrize(
    ("rows", "length", "is_chunked", "closes"),
    [
        (b"HTTP/1.1 204 No Content\r\n", 0, False, False),
        (b"HTTP/1.1 304 \r\n", 0, False, False),
        (b"HTTP/1.1 100 Continue\r\n", 0, False, False),
        (b"HTTP/1.1 200\r\nContent-Length: 0\r\nConnection: close\r\n", 0, False, True),
        (b"HTTP/1.0 200 OK\r\nContent-Length: 1\r\n", 1, False, True),
        (b"HTTP/1.0 200 OK\r\nContent-Length: 1\r\nConnection: keep-alive\r\n", 1, False, False),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n", 0, True, False),
    ],
)
def test_bodies_are_announced(rows: bytes, length: int, is_chunked: bool, closes: bool) -> None:
    head = read_answer_head(rows + b"\r\n")
    assert head is not None
    assert (head.length, head.is_chunked, head.closes) == (length, is_chunked, closes)
    assert head.is_interim == (head.status == 100)


@pytest.mark.parametrize(
    "data",
    [
        b"\x00\x00\x00\x00\x08\x00\x00\x00",
        b"HTTP/2 200 OK\r\n\r\n",
        b"HTTP/1.1 20 OK\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 5, 5\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length : 5\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nno colon\r\n\r\n",
    ],
)
def test_what_is_no_answer(data: bytes) -> None:
    with pytest.raises(NotHttp):
        read_answer_head(data)


@given(
    pieces=st.lists(st.binary(min_size=1, max_size=40), max_size=6),
    cut=st.integers(1, 30),
    trailer=st.sampled_from([b"", b"A: 1\r\n"]),
)
def test_chunks_do_not_depend_on_how_tcp_cut_them(
    pieces: list[bytes], cut: int, trailer: bytes
) -> None:
    wire = b"".join(b"%x;ext=1\r\n%b\r\n" % (len(piece), piece) for piece in pieces)
    wire += b"0\r\n" + trailer + b"\r\n"
    body = ChunkedBody(1000)
    ends = [body.take(wire[start : start + cut]) for start in range(0, len(wire), cut)]
    assert ends == [False] * (len(ends) - 1) + [True]
    assert bytes(body.body) == b"".join(pieces)


@pytest.mark.parametrize(
    "wire",
    [b"x\r\n", b"3\r\nabcd\r\n", b"\r\n", b"1" * 300, b"0\r\n\r\nmore", b"0\r\n" + b"a" * 9000],
)
def test_broken_chunks(wire: bytes) -> None:
    with pytest.raises(NotHttp):
        ChunkedBody(1000).take(wire)


def test_chunks_are_bounded_before_they_come() -> None:
    body = ChunkedBody(10)
    assert not body.take(b"a\r\n0123456789\r\n1\r\n")
    assert body.is_too_big
    assert len(body.body) == 10
