"""Addresses and connection strings."""

import pytest

from borzoi.client.address import Login, ServerAddress, TlsOptions, parse_address
from borzoi.client.arguments import InvalidArgument

IGGY = Login("iggy", "secret")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("127.0.0.1:9000", ServerAddress("127.0.0.1", 9000)),
        ("localhost", ServerAddress("localhost", 8090)),
        ("broker:1", ServerAddress("broker", 1)),
        ("broker:65535", ServerAddress("broker", 65535)),
        ("[::1]:9000", ServerAddress("::1", 9000)),
        ("[::1]", ServerAddress("::1", 8090)),
        ("iggy://iggy:secret@broker:9000", ServerAddress("broker", 9000, IGGY)),
        ("iggy+tcp://iggy:secret@broker", ServerAddress("broker", 8090, IGGY)),
        ("iggy://iggy:secret@[::1]:9000", ServerAddress("::1", 9000, IGGY)),
        (
            "iggy+quic://iggy:secret@broker",
            ServerAddress("broker", 8080, IGGY, "quic", TlsOptions()),
        ),
        ("iggy+tls://iggy:secret@broker", ServerAddress("broker", 8090, IGGY, "tcp", TlsOptions())),
        ("iggy+ws://iggy:secret@broker", ServerAddress("broker", 8092, IGGY, "ws")),
        ("iggy+wss://iggy:secret@broker:1", ServerAddress("broker", 1, IGGY, "ws", TlsOptions())),
        ("iggy+ws://iggy:secret@b?tls=false", ServerAddress("b", 8092, IGGY, "ws")),
        (
            "iggy://iggy:secret@b?tls=true&tls_domain=d&tls_ca_file=/a.pem",
            ServerAddress("b", 8090, IGGY, "tcp", TlsOptions("d", "/a.pem")),
        ),
        (
            "iggy+tls://iggy:secret@b?tls_validate_certificate=false&tls_cert_file=c&tls_key_file=k",
            ServerAddress("b", 8090, IGGY, "tcp", TlsOptions("", "", False, "c", "k")),
        ),
        ("iggy+http://iggy:secret@b", ServerAddress("b", 3000, IGGY, "http")),
        (
            "iggy+http://iggy:secret@b?tls=true",
            ServerAddress("b", 3000, IGGY, "http", TlsOptions()),
        ),
        (
            "iggy+https://iggy:secret@b:1?tls_ca_file=a",
            ServerAddress("b", 1, IGGY, "http", TlsOptions("", "a")),
        ),
        ("iggy://secret+/=@broker:1", ServerAddress("broker", 1, token="secret+/=")),
        ("iggy+wss://t@b", ServerAddress("b", 8092, None, "ws", TlsOptions(), "t")),
        ("iggy://a:b:c@d?%41@h:1", ServerAddress("h", 1, Login("a", "b:c@d?%41"))),
    ],
)
def test_good_addresses(text: str, expected: ServerAddress) -> None:
    assert parse_address(text) == expected


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "not host:port"),
        (":8090", "not host:port"),
        ("iggy:secret@broker:8090", "not host:port"),
        ("broker:", "not a number from 1 to 65535"),
        ("broker:0", "not a number from 1 to 65535"),
        ("broker:65536", "not a number from 1 to 65535"),
        ("broker:http", "not a number from 1 to 65535"),
        ("broker:²", "not a number from 1 to 65535"),
        ("::1:8090", "not host:port"),
        ("[::1]8090", "not a number from 1 to 65535"),
        ("iggy+udp://iggy:secret@broker:8080", r"for iggy\+udp; iggy or iggy\+tcp or"),
        ("iggy+quic://iggy:secret@broker?tls=false", "QUIC is always encrypted"),
        ("http://iggy:secret@broker", r"for http; iggy\+http is needed"),
        ("ftp://iggy:secret@broker", "for ftp; iggy or"),
        ("iggy://@broker:8090", "no username and password, and no token"),
        ("iggy://iggy:@broker:8090", "no username and password"),
        ("iggy://:secret@broker:8090", "no username and password"),
        ("iggy://iggy:secret@", "not host:port"),
        ("iggy://iggy:secret@broker?tls=true&nodelay=1", r"options \(nodelay\); only tls, tls_dom"),
        ("iggy://iggy:secret@broker?tls=1", "tls of the connection string is not true or false"),
        (
            "iggy+wss://iggy:secret@broker?tls_validate_certificate=no",
            "tls_validate_certificate of the connection string is not true or false",
        ),
    ],
)
def test_bad_addresses(text: str, reason: str) -> None:
    with pytest.raises(InvalidArgument, match=reason) as caught:
        parse_address(text)
    assert "secret" not in str(caught.value)


def test_a_password_stays_out_of_the_repr() -> None:
    assert "secret" not in repr(parse_address("iggy://iggy:secret@broker:8090"))
    assert "secret" not in repr(parse_address("iggy://secret@broker:8090"))
