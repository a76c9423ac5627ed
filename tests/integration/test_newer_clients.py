"""Clients of the generation after this protocol get an answer that they read, and no silence."""

import socket
from collections.abc import Iterator

import pytest

from borzoi.protocol.errors import InvalidCommand
from borzoi.protocol.framing import REQUEST_HEADER, RESPONSE_HEADER, encode_request
from tests.broker import BrokerProcess, wait_for

CLIENT = bytes(range(1, 17))
PING = 1
TIMEOUT_S = 30


@pytest.fixture
def raw(standing_broker: BrokerProcess) -> Iterator[socket.socket]:
    host, _, port = standing_broker.address.rpartition(":")
    with socket.create_connection((host, int(port)), TIMEOUT_S) as connected:
        yield connected


def newer_ping() -> bytes:
    """The header that a client of that generation sends first, as captured from its wheel."""
    header = bytearray(256)
    header[48:52] = (256).to_bytes(4, "little")
    header[60] = 5
    header[128:144] = CLIENT
    header[168] = 1
    header[176] = 2
    header[196] = PING
    return bytes(header)


def read_to_end(connected: socket.socket) -> bytes:
    return b"".join(iter(lambda: connected.recv(65536), b""))


@pytest.mark.parametrize("cuts", [(), (1,), (4, 8), (48, 61), (100,), (255,)])
def test_the_eviction_names_the_versions_that_are_served(
    raw: socket.socket, standing_broker: BrokerProcess, cuts: tuple[int, ...]
) -> None:
    header = newer_ping()
    for start, end in zip((0, *cuts), (*cuts, len(header)), strict=True):
        raw.sendall(header[start:end])
    answer = read_to_end(raw)
    assert len(answer) == 256
    assert answer[48:52] == (256).to_bytes(4, "little")
    assert (answer[60], answer[255]) == (13, 14)
    assert answer[128:144] == CLIENT
    served = (8 << 10).to_bytes(4, "little")
    assert (answer[144:148], answer[148:152]) == (served, served)
    wait_for(lambda: "0.9 generation. Served are 0.7 and 0.8" in standing_broker.output())


def test_zeros_of_a_classic_client_are_an_invalid_command(raw: socket.socket) -> None:
    raw.sendall(REQUEST_HEADER.pack(0, PING))
    assert raw.recv(8) == RESPONSE_HEADER.pack(InvalidCommand.status, 0)
    raw.sendall(encode_request(PING))
    assert raw.recv(8) == RESPONSE_HEADER.pack(0, 0)


def test_only_the_first_bytes_of_a_connection_tell_the_generation(raw: socket.socket) -> None:
    invalid = RESPONSE_HEADER.pack(InvalidCommand.status, 0)
    raw.sendall(encode_request(PING))
    assert raw.recv(8) == RESPONSE_HEADER.pack(0, 0)
    raw.sendall(REQUEST_HEADER.pack(0, 0))
    assert raw.recv(8) == invalid
    raw.sendall(REQUEST_HEADER.pack(0, PING) + REQUEST_HEADER.pack(0, 0))
    assert [raw.recv(8), raw.recv(8)] == [invalid, invalid]
