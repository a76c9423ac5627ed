"""The consensus framing against a running broker: cut anywhere, false sizes, foreign sessions."""

from collections.abc import Iterator
from typing import Any, Final

import pytest

from borzoi.protocol.codes import Code, LaterCode
from borzoi.protocol.commands import CreateStream, GetClients, GetStream
from borzoi.protocol.consensus.evictions import HEADER_SIZE, Reason
from borzoi.protocol.consensus.operations import CODES, QUERY
from tests.broker import BrokerProcess, wait_for
from tests.consensus_wire import ConsensusWire, send_payload
from tests.hostile.neighbour import good_neighbour
from tests.topics import topic_of
from tests.wire import Answer, Wire

OK: Final = Answer(0, b"")
KIND: Final = 5
UNKNOWN: Final = sorted(set(range(256)) - {QUERY, *CODES})


@pytest.fixture
def wire(shared_broker: BrokerProcess, request: pytest.FixtureRequest) -> Iterator[ConsensusWire]:
    """Logged in, with a topic `t` in a stream that is called like the test."""
    with ConsensusWire(shared_broker) as opened:
        opened.ask(CreateStream(request.node.name))
        opened.ask(topic_of("t", 1, request.node.name))
        yield opened


def stored(broker: BrokerProcess, stream: str) -> list[bytes]:
    with Wire(broker) as reader:
        return [message.payload for message in reader.read(stream, "t", 0)]


@pytest.mark.slow
def test_cut_at_each_byte_of_the_header(
    wire: ConsensusWire, shared_broker: BrokerProcess, request: pytest.FixtureRequest
) -> None:
    sent = []
    for cut in range(1, HEADER_SIZE + 8):
        sent.append(b"%d" % cut)
        frame = wire.frame(Code.SEND_MESSAGES, send_payload(request.node.name, "t", 0, [sent[-1]]))
        wire.number += 1
        wire.put(frame[:cut])
        wire.put(frame[cut:])
        assert wire.answer().status == 0, cut
    assert stored(shared_broker, request.node.name) == sent


@pytest.mark.slow
def test_the_end_may_come_at_any_byte(
    wire: ConsensusWire, shared_broker: BrokerProcess, request: pytest.FixtureRequest
) -> None:
    """By an end of file or by a reset; nothing that was cut is carried out."""
    payload = send_payload(request.node.name, "t", 0, [bytes(100)])
    clients = len(wire.ask(GetClients()))
    with good_neighbour(shared_broker):
        size = HEADER_SIZE + len(payload)
        for number, cut in enumerate([*range(1, HEADER_SIZE, 19), *range(HEADER_SIZE, size, 40)]):
            other = ConsensusWire(shared_broker)
            other.put(other.frame(Code.PING) + other.frame(Code.SEND_MESSAGES, payload)[:cut])
            assert other.answer() == OK
            if number % 2:
                other.reset()
            else:
                other.close()
    wait_for(lambda: len(wire.ask(GetClients())) == clients)
    assert stored(shared_broker, request.node.name) == []


@pytest.mark.parametrize("size", [0, 1, 48, HEADER_SIZE - 1])
def test_a_size_below_the_header(shared_broker: BrokerProcess, size: int) -> None:
    with ConsensusWire(shared_broker) as wire:
        wire.put(wire.frame(Code.PING, size=size) + wire.frame(Code.PING))
        wire.answer()
        assert wire.evicted == Reason.INVALID_BODY_SIZE
        assert wire.is_closed()


@pytest.mark.parametrize("size", [2**31, 2**32 - 1])
@pytest.mark.parametrize("code", [Code.PING, Code.SEND_MESSAGES, LaterCode.LOGIN_REGISTER])
def test_a_size_above_the_limit(shared_broker: BrokerProcess, code: int, size: int) -> None:
    """Refused by its header: what it announces is never waited for."""
    with ConsensusWire(shared_broker) as wire:
        wire.put(wire.frame(code, size=size))
        assert wire.answer().status != 0
        assert wire.is_closed()


def test_every_operation_that_does_not_exist(wire: ConsensusWire) -> None:
    for operation in UNKNOWN:
        wire.request(Code.PING, b"payload", operation=operation)
        assert wire.evicted == Reason.INVALID_OPERATION, operation
    assert wire.is_in_step()


def test_every_kind_of_frame_that_is_no_request(shared_broker: BrokerProcess) -> None:
    for kind in sorted(set(range(256)) - {KIND}):
        with ConsensusWire(shared_broker, login=False) as wire:
            wire.request(Code.PING, kind=kind)
            assert wire.evicted == Reason.INVALID_OPERATION, kind
            assert wire.is_closed()


def test_the_session_of_another_client(wire: ConsensusWire, shared_broker: BrokerProcess) -> None:
    """Neither its number nor its id is enough; what was asked under them is not done."""
    with ConsensusWire(shared_broker) as other:
        tries: tuple[dict[str, Any], ...] = (
            {"session": other.session, "client": other.client},
            {"session": other.session},
            {"client": other.client},
            {"session": 0},
            {"session": 2**64 - 1, "client": bytes(16)},
        )
        for changed in tries:
            wire.request(Code.CREATE_STREAM, b"\6stolen", **changed)
            assert wire.evicted == Reason.NO_SESSION, changed
            wire.request(Code.GET_STREAMS, **changed)
            assert wire.evicted == Reason.NO_SESSION, changed
        assert other.is_in_step()
        assert other.ask(GetStream("stolen")) is None
    assert wire.is_in_step()


def test_a_session_without_a_login(wire: ConsensusWire, shared_broker: BrokerProcess) -> None:
    """On a connection of its own, too, another's session is worth nothing."""
    with ConsensusWire(shared_broker, login=False) as thief:
        stolen: dict[str, Any] = {"session": wire.session, "client": wire.client}
        thief.request(Code.CREATE_STREAM, b"\6stolen", **stolen)
        assert thief.evicted == Reason.NO_SESSION
        assert thief.request(Code.GET_STREAMS, **stolen).status == 40
    assert wire.ask(GetStream("stolen")) is None
