"""The checked-in frames, both ways, whole, cut at every byte and with bytes behind them."""

import pytest

from borzoi.protocol.classic import CODECS
from borzoi.protocol.codes import Code
from borzoi.protocol.commands import GetSnapshot, LoginUser
from borzoi.protocol.errors import BrokerError
from borzoi.protocol.framing import ClassicFraming, Frame, encode_request, encode_response
from borzoi.protocol.generations import CLASSIC, code_of, decode_reply, encode_command
from tests.protocol.values import Vector, vectors

UNKNOWN = "V44"  # an unknown command
TRAILING = {"V30": 5}  # bytes a foreign client sends behind the command

ALL = [pytest.param(vector, id=vector.name) for vector in vectors()]
KNOWN = [pytest.param(vector, id=vector.name) for vector in vectors() if vector.name != UNKNOWN]


def test_every_command_has_a_frame() -> None:
    assert len(ALL) == 70
    assert {vector.code for vector in vectors()} - {9999} == set(Code)


def test_the_unknown_command_is_unknown() -> None:
    (vector,) = (vector for vector in vectors() if vector.name == UNKNOWN)
    assert vector.code not in CLASSIC.requests


@pytest.mark.parametrize("vector", ALL)
def test_frames(vector: Vector) -> None:
    wire = encode_request(vector.code, vector.request)
    frame = ClassicFraming().cut(memoryview(wire), 0, len(wire))
    assert frame == Frame(vector.code, memoryview(vector.request), len(wire))
    if vector.status:
        assert encode_response(vector.status) == vector.status.to_bytes(4, "little") + bytes(4)


@pytest.mark.parametrize("vector", KNOWN)
def test_requests_both_ways(vector: Vector) -> None:
    command = CLASSIC.requests[vector.code](memoryview(vector.request))
    assert code_of(command) == vector.code
    trailing = TRAILING.get(vector.name, 0)
    whole = vector.request[: len(vector.request) - trailing]
    assert encode_command(command) == whole
    assert CLASSIC.requests[vector.code](memoryview(whole)) == command


@pytest.mark.parametrize("vector", KNOWN)
def test_requests_cut_at_every_byte(vector: Vector) -> None:
    decode = CLASSIC.requests[vector.code]
    command = decode(memoryview(vector.request))
    whole = encode_command(command)
    for size in range(len(whole)):
        if size in legal_cuts(command):
            decode(memoryview(whole[:size]))
        else:
            with pytest.raises(BrokerError):
                decode(memoryview(whole[:size]))


def legal_cuts(command: object) -> set[int]:
    """Where a shorter payload is a payload of its own."""
    match command:
        case GetSnapshot():
            return {0}
        case LoginUser(username, password, version, _):
            old = 2 + len(username.encode()) + len(password.encode())
            return {old, old + 4 + len((version or "").encode())}
        case _:
            return set()


@pytest.mark.parametrize("vector", KNOWN)
@pytest.mark.parametrize("trailing", [b"\0", b"\1\1\1\1", b"\xff" * 40])
def test_trailing_bytes_are_ignored(vector: Vector, trailing: bytes) -> None:
    if vector.code == Code.SEND_MESSAGES:
        return  # its messages reach to the end of the payload
    decode = CLASSIC.requests[vector.code]
    command = decode(memoryview(vector.request))
    if isinstance(command, GetSnapshot):
        assert vector.request
    assert decode(memoryview(vector.request + trailing)) == command


@pytest.mark.parametrize("vector", KNOWN)
def test_responses_both_ways(vector: Vector) -> None:
    if vector.status:
        assert vector.response == b""
        return
    value = decode_reply(vector.code, memoryview(vector.response))
    assert CLASSIC.replies[vector.code](value) == vector.response


@pytest.mark.parametrize("vector", KNOWN)
def test_responses_cut_at_every_byte(vector: Vector) -> None:
    """A cut list may be a shorter list; nothing but a BrokerError may come out otherwise."""
    for size in range(len(vector.response)):
        cut = vector.response[:size]
        try:
            value = decode_reply(vector.code, memoryview(cut))
        except BrokerError:
            continue
        # The four zero bytes for "no permissions" are read as one.
        if vector.code not in (Code.GET_USER, Code.CREATE_USER):
            assert CLASSIC.replies[vector.code](value) == cut


def test_the_table_has_every_code_once() -> None:
    assert set(CODECS) == set(Code)
    assert len({codec.command for codec in CODECS.values()}) == len(Code)
