"""Logins, and the session that every request belongs to."""

import struct
from typing import Any

import pytest

from borzoi.protocol import commands as c
from borzoi.protocol.codes import Code, LaterCode
from borzoi.protocol.consensus.codecs import CODECS
from borzoi.protocol.consensus.evictions import NEWEST, OLDEST, Reason
from borzoi.protocol.consensus.operations import OPERATIONS
from borzoi.protocol.errors import (
    InvalidCommand,
    Unauthenticated,
)
from borzoi.protocol.identifiers import Consumer, ConsumerKind
from tests.broker import BrokerProcess
from tests.consensus_wire import VERSION, ConsensusWire
from tests.integration.consensus.topics import topic_with

GROUP = Consumer(ConsumerKind.GROUP, "g")


def test_without_a_login(broker: BrokerProcess) -> None:
    stranger = ConsensusWire(broker, login=False)
    assert stranger.is_in_step()
    for code in CODECS:
        if code in (Code.PING, LaterCode.LOGIN_REGISTER):
            continue
        answer = stranger.request(code, b"\xff" * 12 if code == Code.SEND_MESSAGES else b"")
        has_operation = code in OPERATIONS
        assert answer.status in (Unauthenticated.status, InvalidCommand.status), code
        if answer.status == Unauthenticated.status:
            assert stranger.evicted == (Reason.NO_SESSION if has_operation else None), code
    assert stranger.request(Code.GET_STREAMS).status == Unauthenticated.status
    assert stranger.evicted is None


def test_logins(broker: BrokerProcess) -> None:
    wire = ConsensusWire(broker, login=False)
    wrong = c.Register(VERSION, "sdk", "1", "iggy", "wrong one")
    assert wire.status(wrong) == 42
    assert wire.evicted == Reason.INVALID_CREDENTIALS
    assert wire.status(c.Register(VERSION, "sdk", "1", token="nonsense")) == 53
    assert wire.evicted == Reason.INVALID_TOKEN
    registered = wire.register(c.Register(VERSION, "sdk", "1", "iggy", "iggy"))
    assert registered.session > 0
    assert (registered.user_id, registered.protocol_version) == (0, VERSION)
    assert registered.server_version
    token = wire.ask(c.CreatePersonalAccessToken("login", 0)).token
    other = ConsensusWire(broker, login=False)
    second = other.register(c.Register(VERSION, "sdk", "1", token=token))
    assert second.session != registered.session
    assert other.ask(c.GetMe()).client.user_id == 0
    wire.ask(c.DeletePersonalAccessToken("login"))


def test_versions_that_are_not_served(broker: BrokerProcess) -> None:
    wire = ConsensusWire(broker, login=False)
    assert wire.status(c.Register(1 << 20, "sdk", "1", "iggy", "iggy")) == 14003
    assert struct.unpack_from("<II", wire.header, 144) == (NEWEST, OLDEST)
    wire.log_in()


@pytest.mark.parametrize("payload", [b"", b"\0\x2c\0\0", b"\0\x2c\0\0\3sdk\0011"])
def test_logins_that_cannot_be_read(broker: BrokerProcess, payload: bytes) -> None:
    wire = ConsensusWire(broker, login=False)
    wire.request(LaterCode.LOGIN_REGISTER, payload)
    assert wire.evicted == Reason.MALFORMED_LOGIN
    wire.log_in()


@pytest.mark.parametrize("code", [38, 40, 44, 45])
def test_classic_logins_are_no_queries(broker: BrokerProcess, code: int) -> None:
    wire = ConsensusWire(broker, login=False)
    wire.request(Code.PING, b"\4iggy\4iggy", header_code=code)
    assert wire.evicted == Reason.MALFORMED_LOGIN
    wire.log_in()


def test_the_session_of_another_connection(broker: BrokerProcess) -> None:
    one, other = ConsensusWire(broker), ConsensusWire(broker)
    stolen: dict[str, Any] = {"session": other.session, "client": other.client}
    tries: list[dict[str, Any]] = [stolen, *({key: one} for key, one in stolen.items())]
    for changed in (*tries, {"session": 0}):
        one.request(Code.GET_STREAMS, **changed)
        assert one.evicted == Reason.NO_SESSION
        one.request(Code.CREATE_STREAM, b"\6stolen", **changed)
        assert one.evicted == Reason.NO_SESSION
    assert one.is_in_step()
    assert one.ask(c.GetStream("stolen")) is None
    stranger = ConsensusWire(broker, login=False)
    stranger.client, stranger.session = other.client, other.session
    assert stranger.request(Code.GET_STREAMS).status == Unauthenticated.status


def test_a_logout_ends_the_session_and_its_memberships(broker: BrokerProcess) -> None:
    wire = ConsensusWire(broker)
    topic_with(wire, "logout")
    wire.ask(c.CreateConsumerGroup("logout", "logout", "g"))
    wire.ask(c.JoinConsumerGroup("logout", "logout", "g"))
    first = wire.session
    wire.ask(c.LogoutUser())
    assert wire.request(Code.GET_STREAMS).status == Unauthenticated.status
    wire.log_in()
    assert wire.session != first
    assert wire.ask(c.SyncConsumerGroup("logout", "logout", "g")) is None
    assert wire.ask(c.GetConsumerGroup("logout", "logout", "g")).members == ()


def test_a_repeated_login_begins_another_session(broker: BrokerProcess) -> None:
    wire = ConsensusWire(broker)
    before: dict[str, Any] = {"session": wire.session, "client": wire.client}
    wire.log_in()
    assert wire.is_in_step()
    wire.request(Code.GET_STREAMS, **before)
    assert wire.evicted == Reason.NO_SESSION


def test_the_node_has_the_address_that_was_reached(broker: BrokerProcess) -> None:
    (node,) = ConsensusWire(broker).ask(c.GetClusterMetadata()).nodes
    assert (node.ip, node.tcp_port) == ("127.0.0.1", broker.port)
