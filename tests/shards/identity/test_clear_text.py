"""Which doors are in clear text for other hosts, and what becomes of a login there."""

import logging

import pytest

from borzoi.protocol.errors import FeatureUnavailable
from borzoi.protocol.responses.clients import Transport
from borzoi.shards.identity.clear_text import ClearText

REACHED = ("192.168.0.7:8090", "0.0.0.0:8090", "[::]:8090", "[2001:db8::1]:1", "broker.example:1")
OWN = ("127.0.0.1:8090", "127.255.0.9:1", "[::1]:8090", "localhost:8090")


@pytest.mark.parametrize("address", REACHED)
def test_a_door_that_others_reach_refuses(address: str, caplog: pytest.LogCaptureFixture) -> None:
    clear = ClearText("refuse")
    clear.opened(Transport.TCP, address, encrypted=False)
    for _ in range(3):
        with pytest.raises(FeatureUnavailable, match=r"limits.plain_login .* tcp.tls"):
            clear.check_login(Transport.TCP, "192.168.0.9")
    # Once a minute for each address, and no warning when it opens.
    assert len(caplog.records) == 1
    assert "limits.plain_login" in caplog.text
    clear.check_login(Transport.WEBSOCKET, "192.168.0.9")


@pytest.mark.parametrize("address", REACHED)
def test_a_door_that_others_reach_warns(address: str, caplog: pytest.LogCaptureFixture) -> None:
    clear = ClearText("warn")
    clear.opened(Transport.WEBSOCKET, address, encrypted=False)
    clear.check_login(Transport.WEBSOCKET, "192.168.0.9")
    (line,) = caplog.messages
    assert f"the WEBSOCKET door at {address} in clear" in line


@pytest.mark.parametrize("address", OWN)
def test_a_door_of_this_machine_takes_passwords(
    address: str, caplog: pytest.LogCaptureFixture
) -> None:
    for plain_login in ("warn", "refuse"):
        clear = ClearText(plain_login)
        clear.opened(Transport.TCP, address, encrypted=False)
        clear.check_login(Transport.TCP, "127.0.0.1")
    assert caplog.messages == []


def test_an_encrypted_door_takes_passwords(caplog: pytest.LogCaptureFixture) -> None:
    clear = ClearText("refuse")
    clear.opened(Transport.HTTP, "0.0.0.0:3000", encrypted=True)
    clear.check_login(Transport.HTTP, "192.168.0.9")
    assert caplog.messages == []


def test_one_shard_warns_for_all(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    clear = ClearText("warn", warns=False)
    clear.opened(Transport.TCP, "0.0.0.0:8090", encrypted=False)
    assert caplog.messages == []
