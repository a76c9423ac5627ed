"""Logins in clear at an address that other hosts reach: warned of, or refused, on every door.

What counts is where a door listens, as the configuration says: 0.0.0.0 can be reached from
everywhere, so a login there is judged as one from afar though the test comes over loopback.
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

import pytest

from borzoi.protocol.commands import Command, CreateStream, DeleteStream
from borzoi.protocol.commands.sessions import (
    CreatePersonalAccessToken,
    LoginUser,
    LoginWithPersonalAccessToken,
    Register,
)
from borzoi.protocol.errors import FeatureUnavailable
from tests.broker import BrokerProcess, standing
from tests.certificates import Authority
from tests.conftest import NewBroker
from tests.consensus_wire import VERSION, ConsensusWire
from tests.http_client import HttpClient
from tests.older_wire import OlderWire
from tests.shard_wires import ONE_SHARD
from tests.ways import client_context, wire_through, with_tls

pytestmark = pytest.mark.slow

EVERYWHERE: Final = "0.0.0.0:0"
KNOWN_ROOT: Final = {"IGGY_ROOT_USERNAME": "iggy", "IGGY_ROOT_PASSWORD": "iggy"}
REFUSING: Final = {**ONE_SHARD, **KNOWN_ROOT, "IGGY_LIMITS_PLAIN_LOGIN": "refuse"}
PASSWORD: Final = LoginUser("iggy", "iggy")
WRONG: Final = LoginUser("absent", "wrong")
REFUSED: Final = FeatureUnavailable.status
REFUSED_HTTP: Final = (400, "feature_unavailable")


class Refusing(NamedTuple):
    """Two brokers: each has one side open to other hosts, and the other one on loopback."""

    tcp: BrokerProcess
    others: BrokerProcess
    token: str
    """A personal access token of `others`."""


@pytest.fixture(scope="module")
def refusing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Refusing]:
    folder = tmp_path_factory.mktemp("plain")
    with (
        standing(folder / "tcp", {**REFUSING, "IGGY_TCP_ADDRESS": EVERYWHERE}) as tcp,
        standing(
            folder / "others",
            {**REFUSING, "IGGY_WEBSOCKET_ADDRESS": EVERYWHERE, "IGGY_HTTP_ADDRESS": EVERYWHERE},
        ) as others,
        wire_through(others, "tcp") as wire,
    ):
        yield Refusing(tcp, others, wire.ask(CreatePersonalAccessToken("kept", 0)).token)


def test_refused_over_tcp(refusing: Refusing) -> None:
    commands: tuple[Command, ...] = (PASSWORD, WRONG, LoginWithPersonalAccessToken("none"))
    with wire_through(refusing.tcp, "tcp", login=False) as wire:
        # The right password, a wrong one and a token: nothing is said of either.
        assert [wire.status(one) for one in commands] == [REFUSED] * 3
        assert wire.is_in_step()
    with OlderWire(refusing.tcp, "old", login=False) as older:
        assert older.status(PASSWORD) == REFUSED
    with ConsensusWire(refusing.tcp, login=False) as later:
        for register in (
            Register(VERSION, "test", "1", "iggy", "iggy"),
            Register(VERSION, "test", "1", token="none"),
        ):
            assert later.status(register) == REFUSED
    log = refusing.tcp.output()
    assert "refused a login of 127.0.0.1 through the TCP door" in log
    assert "limits.plain_login" in log
    assert "tcp.tls" in log
    assert "login of 'absent'" not in log, "a refused login is not looked at"
    # The other doors of this broker are on loopback.
    with wire_through(refusing.tcp, "ws") as wire:
        assert wire.is_in_step()
    assert HttpClient(refusing.tcp).login().token


def test_refused_over_websocket(refusing: Refusing) -> None:
    token = LoginWithPersonalAccessToken(refusing.token)
    with wire_through(refusing.others, "ws", login=False) as wire:
        assert [wire.status(one) for one in (PASSWORD, WRONG, token)] == [REFUSED] * 3
    with wire_through(refusing.others, "tcp", login=False) as wire:
        assert wire.status(token) == 0
    assert "through the WEBSOCKET door" in refusing.others.output()


def test_refused_over_http(refusing: Refusing) -> None:
    client = HttpClient(refusing.others)
    for password in ("iggy", "wrong"):
        body = {"username": "iggy", "password": password}
        answer = client.ask("POST", "/users/login", body)
        assert (answer.status, answer.json["code"]) == REFUSED_HTTP
        assert "limits.plain_login" in answer.json["reason"]
    answer = client.ask("POST", "/personal-access-tokens/login", {"token": refusing.token})
    assert (answer.status, answer.json["code"]) == REFUSED_HTTP


def test_warned_of_and_let_in(new_broker: NewBroker) -> None:
    names = ("TCP", "WEBSOCKET", "HTTP")
    everywhere = {f"IGGY_{name}_ADDRESS": EVERYWHERE for name in names}
    broker = new_broker(**ONE_SHARD, **KNOWN_ROOT, **everywhere)
    for name in names:
        warning = f"come to the {name} door at 0.0.0.0:0 in clear: set {name.lower()}.tls"
        assert broker.output().count(warning) == 1
    assert broker.output().count("limits.plain_login") == 3
    for enter in _ways_in(broker):
        enter()


def test_encrypted_doors_are_not_refused(new_broker: NewBroker, tmp_path: Path) -> None:
    authority = Authority()
    everywhere = {f"IGGY_{name}_ADDRESS": EVERYWHERE for name in ("TCP", "WEBSOCKET", "HTTP")}
    broker = new_broker(**REFUSING, **everywhere, **with_tls(authority.issue(tmp_path)))
    context = client_context(authority.pem)
    for way in ("tls", "wss"):
        with wire_through(broker, way, context) as wire:
            assert wire.is_in_step()
    assert HttpClient(broker, context=context).login().token
    assert "limits.plain_login" not in broker.output()


def _ways_in(broker: BrokerProcess) -> list[Callable[[], object]]:
    def binary(way: str) -> None:
        with wire_through(broker, way) as wire:
            wire.ask(CreateStream(way))
            wire.ask(DeleteStream(way))

    return [lambda: binary("tcp"), lambda: binary("ws"), lambda: HttpClient(broker).login()]
