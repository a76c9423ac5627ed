"""The first bytes of a connection tell how its client frames."""

import socket
from collections.abc import Iterator

import pytest

from borzoi.protocol.codes import Code
from borzoi.protocol.errors import InvalidCommand
from borzoi.protocol.framing import REQUEST_HEADER, RESPONSE_HEADER, encode_request
from borzoi.protocol.generations import SERVED
from tests.broker import BrokerProcess, wait_for
from tests.consensus_wire import ConsensusWire
from tests.wire import Answer

PING = 1
TIMEOUT_S = 30
OK = RESPONSE_HEADER.pack(0, 0)
INVALID = RESPONSE_HEADER.pack(InvalidCommand.status, 0)


@pytest.fixture
def raw(standing_broker: BrokerProcess) -> Iterator[socket.socket]:
    host, _, port = standing_broker.address.rpartition(":")
    with socket.create_connection((host, int(port)), TIMEOUT_S) as connected:
        yield connected


@pytest.mark.parametrize("cuts", [(), (1,), (3,), (4, 8), (48, 61), (100,), (255,)])
def test_a_header_of_the_consensus_framing(
    standing_broker: BrokerProcess, cuts: tuple[int, ...]
) -> None:
    wire = ConsensusWire(standing_broker, login=False)
    header = wire.frame(Code.PING)
    for start, end in zip((0, *cuts), (*cuts, len(header)), strict=True):
        wire.put(header[start:end])
    assert wire.answer() == Answer(0, b"")
    assert wire.header[160:176] == wire.client
    assert wire.is_in_step()


def test_what_is_no_header_is_closed_and_logged(standing_broker: BrokerProcess) -> None:
    wire = ConsensusWire(standing_broker, login=False, source="127.0.0.77")
    assert wire.request(Code.PING, kind=8).status == InvalidCommand.status
    assert wire.is_closed()
    line = "closed 127.0.0.77"
    output = wait_for(lambda: standing_broker.output() if line in standing_broker.output() else "")
    (said,) = [one for one in output.splitlines() if line in one]
    assert SERVED in said


def test_zeros_of_a_classic_client_are_an_invalid_command(raw: socket.socket) -> None:
    raw.sendall(REQUEST_HEADER.pack(0, PING))
    assert raw.recv(8) == INVALID
    raw.sendall(encode_request(PING))
    assert raw.recv(8) == OK


@pytest.mark.parametrize("length", [1, 2, 3])
def test_lengths_below_four_are_an_invalid_command(raw: socket.socket, length: int) -> None:
    raw.sendall(REQUEST_HEADER.pack(length, 0))
    assert raw.recv(8) == INVALID


def test_only_the_first_bytes_of_a_connection_tell_the_generation(raw: socket.socket) -> None:
    raw.sendall(encode_request(PING))
    assert raw.recv(8) == OK
    raw.sendall(REQUEST_HEADER.pack(0, 0))
    assert raw.recv(8) == INVALID
    raw.sendall(REQUEST_HEADER.pack(0, PING) + REQUEST_HEADER.pack(0, 0))
    assert [raw.recv(8), raw.recv(8)] == [INVALID, INVALID]
