"""Requests whose end can be read in two ways: refused, so that nothing is taken for a second one.

A proxy before the broker and the broker have to agree where a request ends. Each of these shapes
has made some servers disagree; what is hidden behind it is a request of its own.
"""

import socket
from contextlib import closing
from typing import Final

import pytest

from tests.broker import BrokerProcess
from tests.http_client import HttpClient

pytestmark = pytest.mark.slow

HIDDEN: Final = b"GET /ping HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
POST: Final = b"POST /users/login HTTP/1.1\r\nHost: x\r\n"
END: Final = b"0\r\n\r\n"
CHUNKED: Final = b"Transfer-Encoding: chunked\r\n"

SHAPES: Final = {
    "length and chunks": POST + b"Content-Length: 5\r\n" + CHUNKED + b"\r\n" + END,
    "chunks and length": POST + CHUNKED + b"Content-Length: 5\r\n\r\n" + END,
    "two lengths": POST + b"Content-Length: 0\r\nContent-Length: 5\r\n\r\n" + END,
    "a list of lengths": POST + b"Content-Length: 5, 5\r\n\r\n" + END,
    "a length with a sign": POST + b"Content-Length: +5\r\n\r\n" + END,
    "a length below zero": POST + b"Content-Length: -5\r\n\r\n" + END,
    "a length in hex": POST + b"Content-Length: 0x5\r\n\r\n" + END,
    "a length with a line": POST + b"Content-Length: 1_0\r\n\r\n" + END,
    "a length of 2**64": POST + b"Content-Length: 18446744073709551616\r\n\r\n" + END,
    "an unknown coding": POST + b"Transfer-Encoding: xchunked\r\n\r\n" + END,
    "chunks that are not last": POST + b"Transfer-Encoding: chunked, identity\r\n\r\n" + END,
    "chunks twice": POST + CHUNKED + CHUNKED + b"\r\n" + END,
    "two codings": POST + CHUNKED + b"Transfer-Encoding: identity\r\n\r\n" + END,
    "a space before the colon": POST + b"Transfer-Encoding : chunked\r\n\r\n" + END,
    "a folded line": POST + b"Transfer-Encoding:\r\n chunked\r\n\r\n" + END,
    "a vertical tab": POST + b"Transfer-Encoding: \x0bchunked\r\n\r\n" + END,
    "a space before a name": POST + b" Content-Length: 5\r\n\r\n" + END,
    "chunks in HTTP/1.0": b"POST /users/login HTTP/1.0\r\nHost: x\r\n" + CHUNKED + b"\r\n" + END,
    "lines that end without CR": b"POST /users/login HTTP/1.1\nHost: x\nContent-Length: 0\n\n",
    "a CR within a value": POST + b"A: b\rContent-Length: 5\r\n\r\n" + END,
    "a NUL within a value": POST + b"A: b\0c\r\n\r\n",
    "no host": b"POST /users/login HTTP/1.1\r\n\r\n",
    "two hosts": b"POST /users/login HTTP/1.1\r\nHost: x\r\nHost: y\r\n\r\n",
    "a chunk below zero": POST + CHUNKED + b"\r\n-1\r\nx\r\n" + END,
    "a chunk of 2**64": POST + CHUNKED + b"\r\n10000000000000000\r\nx\r\n" + END,
    "a chunk in 0x": POST + CHUNKED + b"\r\n0x1\r\nx\r\n" + END,
    "a chunk without CR": POST + CHUNKED + b"\r\n1\nx\r\n" + END,
    "a chunk longer than it says": POST + CHUNKED + b"\r\n1\r\nxx\r\n" + END,
    "an extension without CR": POST + CHUNKED + b"\r\n0;x\n\r\n\r\n",
    "many trailers": POST + CHUNKED + b"\r\n0\r\n" + b"A: b\r\n" * 200 + b"\r\n",
    "a path with a tab": b"GET /pi\tng HTTP/1.1\r\nHost: x\r\n\r\n",
    "a path without a slash": b"GET ping HTTP/1.1\r\nHost: x\r\n\r\n",
    "no version": b"GET /ping\r\nHost: x\r\n\r\n",
    "the preface of HTTP/2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
}


def answers(broker: BrokerProcess, data: bytes) -> bytes:
    """All that comes back, until the broker closes."""
    host, _, port = broker.http_address.rpartition(":")
    said = b""
    with closing(socket.create_connection((host, int(port)), timeout=60)) as peer:
        peer.sendall(data)
        try:
            while piece := peer.recv(65_536):
                said += piece
        except ConnectionResetError:
            # It closed with bytes unread; what it said came before.
            pass
    return said


@pytest.mark.parametrize("shape", SHAPES)
def test_nothing_hides_behind_it(http_broker: BrokerProcess, shape: str) -> None:
    said = answers(http_broker, SHAPES[shape] + HIDDEN)
    head, _, body = said.partition(b"\r\n\r\n")
    assert said.count(b"HTTP/1.") == 1, said
    assert head.split(b" ")[1] == b"400", said
    assert b"pong" not in said
    # Neither the library nor its version is named, and nothing of the request comes back.
    assert b"\r\nServer: borzoi" in head
    assert b"iohttp" not in said
    assert body.startswith(b"this is no request: ")
    assert HttpClient(http_broker).ask("GET", "/ping").body == b"pong"


def test_a_tunnel_or_an_upgrade_is_not_begun(http_broker: BrokerProcess) -> None:
    connect = answers(http_broker, b"CONNECT x:1 HTTP/1.1\r\nHost: x\r\n\r\n" + HIDDEN)
    assert connect.startswith(b"HTTP/1.1 401 ")
    upgrade = b"GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: upgrade\r\nUpgrade: h2c\r\n\r\n"
    host, _, port = http_broker.http_address.rpartition(":")
    with closing(socket.create_connection((host, int(port)), timeout=60)) as peer:
        for request in (upgrade, HIDDEN):
            peer.sendall(request)
            assert peer.recv(65_536).startswith(b"HTTP/1.1 200 ")
