"""Who a connection is, what it may do before it has said so, and frames that are wrong."""

import pytest

from borzoi.protocol.codes import Code
from borzoi.protocol.commands.sessions import LoginUser, LogoutUser
from borzoi.protocol.commands.streams import CreateStream, DeleteStream
from borzoi.protocol.commands.system import GetMe, Ping
from borzoi.protocol.commands.users import DeleteUser
from borzoi.protocol.errors import (
    FeatureUnavailable,
    GenericError,
    InvalidCommand,
    InvalidCredentials,
    InvalidFormat,
    InvalidPassword,
    InvalidUsername,
    Unauthenticated,
)
from borzoi.protocol.framing import REQUEST_HEADER, encode_request
from borzoi.protocol.generations import encode_command
from tests.broker import BrokerProcess
from tests.integration.every_command import REQUESTS
from tests.wire import Wire

WITHOUT_LOGIN = {Code.PING, Code.LOGIN_USER, Code.LOGIN_WITH_PERSONAL_ACCESS_TOKEN}
UNKNOWN_CODES = [0, 2, 13, 40, 123, 999, 2**32 - 1]
ROOT = 0


@pytest.fixture
def stranger(standing_broker: BrokerProcess) -> Wire:
    """A connection that has not logged in."""
    return Wire(standing_broker, login=False)


def test_there_is_a_request_for_every_command() -> None:
    assert set(REQUESTS) == set(Code)


@pytest.mark.parametrize("code", sorted(set(Code) - WITHOUT_LOGIN))
def test_nothing_is_done_for_strangers(stranger: Wire, code: Code) -> None:
    assert stranger.request(code, REQUESTS[code]) == (Unauthenticated.status, b"")
    assert stranger.status(Ping()) == 0


def test_a_request_that_cannot_be_read_is_worse_than_no_login(stranger: Wire) -> None:
    codes = [code for code in Code if REQUESTS[code] and code != Code.SEND_MESSAGES]
    for code in codes:
        assert stranger.request(code, b"\xff")[0] == InvalidCommand.status, code
    # Of SEND_MESSAGES nothing is read before the login.
    assert stranger.request(Code.SEND_MESSAGES, b"\xff")[0] == Unauthenticated.status


@pytest.mark.parametrize("code", UNKNOWN_CODES)
def test_unknown_codes(stranger: Wire, code: int) -> None:
    assert stranger.request(code, b"whatever") == (InvalidCommand.status, b"")
    stranger.ask(LoginUser("iggy", "iggy"))
    assert stranger.request(code) == (InvalidCommand.status, b"")
    assert stranger.status(Ping()) == 0


def test_every_command_is_served(standing_broker: BrokerProcess) -> None:
    """In the order of their codes, so that what one creates another deletes."""
    refused = {FeatureUnavailable.status, InvalidCommand.status, GenericError.status}
    wire = Wire(standing_broker)
    for code in sorted(set(Code) - {Code.LOGOUT_USER}):
        status, _ = wire.request(code, REQUESTS[code])
        assert status not in refused, code.name
    assert wire.request(Code.LOGOUT_USER)[0] == 0
    wire.ask(LoginUser("iggy", "iggy"))
    wire.ask(DeleteUser("newcomer"))


def test_a_login_says_who_one_is(stranger: Wire) -> None:
    assert stranger.ask(LoginUser("iggy", "iggy", "0.10.0", "")).user_id == ROOT
    assert stranger.ask(GetMe()).client.user_id == ROOT
    # Again, without the version that the oldest clients do not send: they count users from 1.
    assert stranger.request(Code.LOGIN_USER, b"\x04iggy\x04iggy") == (0, b"\1\0\0\0")


def test_a_failed_login_leaves_the_old_identity(wire: Wire) -> None:
    assert wire.status(LoginUser("iggy", "wrong")) == InvalidCredentials.status
    assert wire.ask(GetMe()).client.user_id == ROOT


@pytest.mark.parametrize(
    ("username", "password", "status"),
    [
        ("ig", "iggy", InvalidUsername.status),
        ("i" * 51, "iggy", InvalidUsername.status),
        ("iggy", "ig", InvalidPassword.status),
        ("iggy", "i" * 101, InvalidPassword.status),
        ("ig", "ig", InvalidUsername.status),
        ("absent", "iggy", InvalidCredentials.status),
        ("i" * 50, "i" * 100, InvalidCredentials.status),
        ("iggy", "IGGY", InvalidCredentials.status),
        ("0", "iggy", InvalidUsername.status),
        ("000", "iggy", InvalidCredentials.status),
    ],
)
def test_logins_that_fail(stranger: Wire, username: str, password: str, status: int) -> None:
    assert stranger.status(LoginUser(username, password)) == status
    assert stranger.status(GetMe()) == Unauthenticated.status


def test_an_empty_username_is_no_text(stranger: Wire) -> None:
    assert stranger.request(Code.LOGIN_USER, b"\0\x04iggy" + bytes(8))[0] == InvalidFormat.status


def test_logout_keeps_the_connection(wire: Wire) -> None:
    assert wire.status(LogoutUser()) == 0
    assert wire.status(GetMe()) == Unauthenticated.status
    assert wire.status(Ping()) == 0
    assert wire.status(LogoutUser()) == Unauthenticated.status
    wire.ask(LoginUser("iggy", "iggy"))
    assert wire.ask(GetMe()).client.user_id == ROOT


def test_bytes_behind_a_request_are_ignored(wire: Wire) -> None:
    for code in (Code.PING, Code.GET_ME, Code.GET_STREAM, Code.GET_CLIENT):
        assert wire.request(code, REQUESTS[code] + b"and more")[0] == 0


@pytest.mark.parametrize("length", range(4))
def test_a_length_that_does_not_cover_the_code(wire: Wire, length: int) -> None:
    wire.put(REQUEST_HEADER.pack(length, Code.PING))
    assert wire.answer() == (InvalidCommand.status, b"")
    assert wire.status(Ping()) == 0


def test_requests_back_to_back_are_answered_in_order(wire: Wire) -> None:
    names = [f"pipelined {number}" for number in range(50)]
    frames = b""
    for name in names:
        frames += encode_request(Code.CREATE_STREAM, encode_command(CreateStream(name)))
        frames += encode_request(Code.PING)
        frames += encode_request(999)
        frames += encode_request(Code.DELETE_STREAM, encode_command(DeleteStream(name)))
    wire.put(frames)
    for name in names:
        status, stream = wire.answer()
        assert (status, stream[33:]) == (0, name.encode())
        assert wire.answer() == (0, b"")
        assert wire.answer() == (InvalidCommand.status, b"")
        assert wire.answer() == (0, b"")


def test_a_request_that_comes_byte_by_byte(wire: Wire) -> None:
    for byte in encode_request(Code.GET_STREAM, REQUESTS[Code.GET_STREAM]):
        wire.put(bytes((byte,)))
    assert wire.answer() == (0, b"")
