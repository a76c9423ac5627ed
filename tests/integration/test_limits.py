"""Frames at their limits: taken at the bound, refused one byte above it, in step afterwards."""

from typing import Final

import pytest

from borzoi.protocol.codes import Code
from borzoi.protocol.commands.sessions import LoginUser
from borzoi.protocol.commands.streams import CreateStream
from borzoi.protocol.commands.system import Ping
from borzoi.protocol.errors import InvalidCommand, Unauthenticated
from borzoi.protocol.framing import CONTROL_PAYLOAD_SIZE_MAX, REQUEST_HEADER, encode_request
from borzoi.protocol.identifiers import PartitionId, PollingStrategy, StrategyKind
from borzoi.protocol.message import Message
from borzoi.protocol.send_messages import encode_send_messages
from tests.broker import BrokerProcess
from tests.conftest import NewBroker
from tests.topics import topic_of
from tests.wire import Wire

BEFORE_LOGIN_MAX: Final = 8 * 1024
FRAME_MAX: Final = 100_000


def test_control_payloads(wire: Wire) -> None:
    """Bytes behind a PING are ignored, so a PING can have any size."""
    assert wire.request(Code.PING, bytes(CONTROL_PAYLOAD_SIZE_MAX)) == (0, b"")
    too_much = bytes(CONTROL_PAYLOAD_SIZE_MAX + 1)
    for code in (Code.PING, Code.GET_STREAM, Code.POLL_MESSAGES, 999):
        assert wire.request(code, too_much) == (InvalidCommand.status, b"")
    assert wire.status(Ping()) == 0


def test_before_the_login(standing_broker: BrokerProcess) -> None:
    wire = Wire(standing_broker, login=False)
    fits = bytes(BEFORE_LOGIN_MAX - REQUEST_HEADER.size)
    assert wire.request(Code.PING, fits) == (0, b"")
    for code in (Code.PING, Code.LOGIN_USER, Code.SEND_MESSAGES):
        assert wire.request(code, fits + b"x") == (Unauthenticated.status, b"")
        # Far above it too: announced, thrown away, answered.
        assert wire.request(code, bytes(3_000_000)) == (Unauthenticated.status, b"")
    wire.ask(LoginUser("iggy", "iggy"))


def test_a_length_that_no_client_would_send(standing_broker: BrokerProcess) -> None:
    for login, status in ((False, Unauthenticated.status), (True, InvalidCommand.status)):
        wire = Wire(standing_broker, login=login)
        wire.put(REQUEST_HEADER.pack(2**32 - 1, Code.SEND_MESSAGES) + bytes(1000))
        assert wire.answer() == (status, b"")
        assert wire.is_closed()
        wire.close()


@pytest.mark.slow
def test_frames_of_messages(new_broker: NewBroker) -> None:
    broker = new_broker(
        IGGY_LIMITS_FRAME_SIZE_MAX=f"{FRAME_MAX} B",
        IGGY_LIMITS_CONTROL_FRAME_SIZE_MAX=f"{FRAME_MAX} B",
    )
    wire = Wire(broker)
    wire.ask(CreateStream("s"))
    wire.ask(topic_of("s"))
    empty = len(encode_send_messages("s", "s", PartitionId(0), [Message(b"")]))
    largest = bytes(FRAME_MAX - REQUEST_HEADER.size - empty)
    assert wire.send("s", 0, largest) == 0
    refused = encode_send_messages("s", "s", PartitionId(0), [Message(largest + b"x")])
    wire.put(encode_request(Code.SEND_MESSAGES, refused))
    assert wire.answer() == (InvalidCommand.status, b"")
    # Too much even to throw away, so this connection has ended; the next is fine.
    assert wire.is_closed()
    wire.close()
    wire = Wire(broker)
    assert wire.payloads("s") == [largest]
    assert wire.send("s", 0, b"small") == 0


@pytest.mark.slow
def test_too_many_connections_of_one_address(new_broker: NewBroker) -> None:
    broker = new_broker(
        IGGY_SYSTEM_SHARDING_CPU_ALLOCATION="1", IGGY_LIMITS_CONNECTIONS_PER_ADDRESS_MAX="3"
    )
    wires = [Wire(broker) for _ in range(3)]
    refused = Wire(broker, login=False)
    assert refused.is_closed()
    refused.close()
    for wire in wires:
        assert wire.status(Ping()) == 0
        wire.close()


@pytest.mark.slow
def test_answers_to_polls(new_broker: NewBroker) -> None:
    """A poll returns as many messages as fit, but at least one."""
    broker = new_broker(IGGY_LIMITS_RESPONSE_SIZE_MAX="10000 B")
    wire = Wire(broker)
    wire.ask(CreateStream("s"))
    wire.ask(topic_of("s"))
    assert wire.send("s", 0, *[bytes(936)] * 30) == 0
    assert wire.send("s", 0, bytes(20_000)) == 0
    sizes = []
    offset = 0
    while offset <= 30:
        polled = wire.poll("s", 0, PollingStrategy(StrategyKind.OFFSET, offset))
        assert polled.current_offset == 30
        sizes.append(len(polled.messages))
        offset = polled.messages[-1].offset + 1
    assert sum(sizes) == 31
    assert sizes[-1] == 1
    assert all(9 <= size <= 10 for size in sizes[:-2])
