"""Listener addresses."""

import pytest

from borzoi.shards.settings.addresses import format_address, is_loopback, parse_address


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [
        ("127.0.0.1:8090", "127.0.0.1", 8090),
        ("[::1]:0", "::1", 0),
        ("[0:0::1]:1", "::1", 1),
        ("localhost:65535", "localhost", 65535),
    ],
)
def test_host_and_port(text: str, host: str, port: int) -> None:
    assert parse_address(text) == (host, port)
    assert parse_address(format_address(host, port)) == (host, port)


@pytest.mark.parametrize("text", ["", "8090", ":8090", "::1:80", "h:65536", "h:-1", "h:x", "[x]:1"])
def test_malformed(text: str) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        parse_address(text)


@pytest.mark.parametrize(
    ("text", "loopback"),
    [
        ("127.0.0.1:1", True),
        ("127.9.9.9:1", True),
        ("[::1]:1", True),
        ("localhost:1", True),
        ("0.0.0.0:1", False),
        ("[::]:1", False),
        ("192.168.1.1:1", False),
        ("broker.example:1", False),
    ],
)
def test_who_can_reach_it(text: str, loopback: bool) -> None:
    assert is_loopback(text) is loopback
