"""The request that opens a WebSocket: what is accepted, what is refused and with which status."""

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from borzoi.protocol.http_head import HEAD_SIZE_MAX
from borzoi.protocol.websocket_upgrade import accept_of, read_upgrade

KEY = "dGhlIHNhbXBsZSBub25jZQ=="
FIELDS = {
    "Host": "localhost:8092",
    "Upgrade": "websocket",
    "Connection": "Upgrade",
    "Sec-WebSocket-Key": KEY,
    "Sec-WebSocket-Version": "13",
}


def request(line: str = "GET / HTTP/1.1", **changed: str | None) -> bytes:
    fields = {**FIELDS, **{name.replace("_", "-"): value for name, value in changed.items()}}
    lines = [f"{name}: {value}\r\n" for name, value in fields.items() if value is not None]
    return f"{line}\r\n{''.join(lines)}\r\n".encode()


def test_the_key_of_the_standard() -> None:
    assert accept_of(KEY) == "s3pPLMBiTxaQ9kYGzzhZRbK+xOo="


@pytest.mark.parametrize(
    "sent",
    [
        request(),
        request("GET /?a=b HTTP/1.1"),
        request(Connection="keep-alive, Upgrade", Upgrade="WebSocket"),
        request(Sec_WebSocket_Extensions="permessage-deflate", Sec_WebSocket_Protocol="mqtt"),
        request(Origin="https://anywhere.example"),
    ],
)
def test_accepted_however_it_is_cut(sent: bytes) -> None:
    found = read_upgrade(sent + b"the first frame", None)
    assert found is not None
    assert found.size == len(sent)
    assert found.answer.startswith(b"HTTP/1.1 101 Switching Protocols\r\n")
    assert found.answer.endswith(b"Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n")
    assert b"Extensions" not in found.answer
    assert b"Protocol:" not in found.answer
    assert all(read_upgrade(sent[:cut], None) is None for cut in range(len(sent)))


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (request("POST / HTTP/1.1"), 405),
        (request("GET /other HTTP/1.1"), 404),
        (request("GET / HTTP/2.0"), 505),
        (request(Upgrade=None), 426),
        (request(Upgrade="h2c"), 426),
        (request(Connection="close"), 426),
        (request(Sec_WebSocket_Version="8"), 426),
        (request(Sec_WebSocket_Version=None), 426),
        (request(Sec_WebSocket_Key=None), 400),
        (request(Sec_WebSocket_Key="short"), 400),
        (request(Sec_WebSocket_Key=base64.b64encode(bytes(17)).decode()), 400),
        (request(Sec_WebSocket_Key="not base64 but long enough.."), 400),
        (request(Host=None), 400),
        (b"\x27\x00\x00\x00\x26\x00\x00\x00\x04iggy\n\n", 400),
        (request(X="x" * HEAD_SIZE_MAX), 431),
    ],
)
def test_refused(sent: bytes, status: int) -> None:
    found = read_upgrade(sent, None)
    assert found is not None
    assert found.size == 0
    head, _, text = found.answer.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 %d " % status)
    assert b"Content-Length: %d\r\n" % len(text) in head
    assert head.endswith(b"Connection: close")
    if status == 426:
        assert b"Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\n" in head


@pytest.mark.parametrize(
    ("origin", "status"),
    [
        (None, 101),
        ("https://a.example", 101),
        ("HTTPS://A.example", 101),
        ("https://b.example", 403),
    ],
)
def test_origins(origin: str | None, status: int) -> None:
    found = read_upgrade(request(Origin=origin), ["https://a.example"])
    assert found is not None
    assert found.answer.startswith(b"HTTP/1.1 %d " % status)


@given(st.binary(max_size=200))
def test_anything_else_is_refused_or_waits(sent: bytes) -> None:
    found = read_upgrade(sent, None)
    assert found is None or found.size == 0
