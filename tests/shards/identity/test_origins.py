"""Where clients come from: an IPv4 address, or 64 bits of an IPv6 address."""

import pytest

from borzoi.shards.identity.origins import host_of, origin_of


@pytest.mark.parametrize(
    ("address", "origin"),
    [
        ("10.0.0.1:5000", "10.0.0.1"),
        ("[2001:db8:1:2:3:4:5:6]:5000", "[2001:db8:1:2::]/64"),
        ("[2001:db8:1:2::]:1", "[2001:db8:1:2::]/64"),
        ("[2001:db8:1:3::]:1", "[2001:db8:1:3::]/64"),
        ("[fe80::1%eth0]:1", "[fe80::]/64"),
        ("[::1]:1", "[::]/64"),
        # An IPv4 client of a socket that takes both.
        ("[::ffff:10.0.0.1]:5000", "10.0.0.1"),
        ("something else:5", "something else"),
    ],
)
def test_origins(address: str, origin: str) -> None:
    assert origin_of(host_of(address)) == origin
