"""Heads of HTTP requests: what is understood, what is refused, and that nothing else happens."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from borzoi.protocol.http_head import (
    HEAD_SIZE_MAX,
    REASONS,
    HttpRefused,
    HttpRequest,
    read_head,
    response_head,
)

GET = b"GET /metrics HTTP/1.1\r\nHost: a\r\nAccept: */*\r\n\r\n"


@pytest.mark.parametrize(
    ("head", "wanted"),
    [
        (GET, HttpRequest("GET", "/metrics")),
        (GET + b"the next one", HttpRequest("GET", "/metrics")),
        (b"HEAD /metrics?x=1&y HTTP/1.0\r\n\r\n", HttpRequest("HEAD", "/metrics")),
        (b"GET http://h:1/metrics HTTP/1.1\r\nhost:\r\n\r\n", HttpRequest("GET", "/metrics")),
        (b"OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n", HttpRequest("OPTIONS", "*")),
        (b"GET /%6d HTTP/1.1\r\nHost: a\r\nX:\xe9\t \r\n\r\n", HttpRequest("GET", "/%6d")),
    ],
)  # fmt: skip
def test_understood_however_it_is_cut(head: bytes, wanted: HttpRequest) -> None:
    end = head.index(b"\r\n\r\n") + 4
    assert read_head(head) == wanted
    assert all(read_head(head[:cut]) is None for cut in range(end))


@pytest.mark.parametrize(
    ("head", "status"),
    [
        (b"GET  /metrics HTTP/1.1\r\nHost: a\r\n\r\n", 400),
        (b"GET /metrics\r\n\r\n", 400),
        (b"GET /met\xc3\xa9 HTTP/1.1\r\nHost: a\r\n\r\n", 400),
        (b"\r\n\r\n", 400),
        (b"GET / HTTP/1.1\nHost: a\n\n", 400),
        (b"GET / HTTP/1.1\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost : a\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: a\r\n folded\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: a\r\nX: \x00\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: a\r\nX: a\rb\r\n\r\n", 400),
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\n", 400),
        (b"GET / HTTP/1.1\r\nHost: a\r\nX: " + b"x" * HEAD_SIZE_MAX, 431),
        (b"x" * HEAD_SIZE_MAX, 431),
    ],
)
def test_refused(head: bytes, status: int) -> None:
    with pytest.raises(HttpRefused) as refused:
        read_head(head)
    assert refused.value.status == status


def test_the_largest_head() -> None:
    room = HEAD_SIZE_MAX - len(GET) - len(b"X: \r\n")
    largest = GET[:-2] + b"X: " + b"x" * room + b"\r\n\r\n"
    assert len(largest) == HEAD_SIZE_MAX
    assert read_head(largest) == HttpRequest("GET", "/metrics")
    assert read_head(largest[:-1]) is None
    with pytest.raises(HttpRefused):
        read_head(largest[:-4] + b"x\r\n\r\n")


PARTS = st.sampled_from(
    [GET, b"\r\n", b"\n", b"\r", b" ", b":", b"HTTP/1.1", b"Host: a", b"/", b"\0"]
)


@given(st.lists(PARTS | st.binary(max_size=8), max_size=40).map(b"".join))
def test_garbage_is_refused_or_waited_for(data: bytes) -> None:
    try:
        found = read_head(data)
    except HttpRefused as refused:
        found, status = None, refused.status
    else:
        status = 200
    assert status in REASONS
    assert found is None or found.method.isascii()


def test_answers() -> None:
    assert response_head(200, "text/plain", 12) == (
        b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 12\r\n"
        b"Cache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\nConnection: close\r\n\r\n"
    )
    assert b"\r\nAllow: GET, HEAD\r\n" in response_head(405, "text/plain", 0)
