"""Which fault gives which status, and what is tolerated."""

from dataclasses import fields
from typing import Any

import pytest

from borzoi.protocol.codes import Code
from borzoi.protocol.commands import (
    CreateStream,
    GetMe,
    GetSnapshot,
    GetStream,
    LoginUser,
    Ping,
    PollMessages,
    SnapshotCompression,
    SnapshotType,
    UpdateUser,
)
from borzoi.protocol.errors import (
    BrokerError,
    InvalidCommand,
    InvalidFormat,
    InvalidIdentifier,
    InvalidKeyValueLength,
)
from borzoi.protocol.generations import CLASSIC, encode_command
from borzoi.protocol.identifiers import (
    Consumer,
    ConsumerKind,
    MessagesKey,
    PollingStrategy,
    StrategyKind,
    consumer_number,
)
from borzoi.protocol.payload import pack_partitioning


def decode(code: Code, payload: str) -> Any:
    return CLASSIC.requests[code](memoryview(bytes.fromhex(payload)))


TOPIC_TAIL = "00000000 00000000 00000000 00000000 00 01 74"  # expiry, size, replication, name


@pytest.mark.parametrize(
    ("code", "payload", "error"),
    [
        # identifiers
        (Code.GET_STREAM, "00 04 00000000", InvalidCommand),
        (Code.GET_STREAM, "03 04 00000000", InvalidCommand),
        (Code.GET_STREAM, "01 03 000000", InvalidFormat),
        (Code.GET_STREAM, "01 05 0000000000", InvalidFormat),
        (Code.GET_STREAM, "02 00", InvalidFormat),
        (Code.GET_STREAM, "02 01 ff", InvalidCommand),
        # names
        (Code.CREATE_STREAM, "00", InvalidFormat),
        (Code.CREATE_STREAM, "01 ff", InvalidCommand),
        (Code.LOGIN_USER, "00", InvalidFormat),
        # discriminants
        (Code.POLL_MESSAGES, "03 0104 00000000", InvalidCommand),
        (
            Code.POLL_MESSAGES,
            "01 0104 00000000 0104 00000000 0104 00000000 00 00000000"
            "06 0000000000000000 01000000 00",
            InvalidCommand,
        ),
        (Code.CREATE_USER, "0161 0161 00 00", InvalidCommand),
        (Code.CREATE_USER, "0161 0161 03 00", InvalidCommand),
        (Code.UPDATE_USER, "0104 00000000 00 01 03", InvalidCommand),
        (Code.CREATE_TOPIC, "0104 00000000 01000000 00" + TOPIC_TAIL, InvalidCommand),
        (Code.CREATE_TOPIC, "0104 00000000 01000000 05" + TOPIC_TAIL, InvalidCommand),
        (Code.GET_SNAPSHOT, "00 00", InvalidCommand),
        (Code.GET_SNAPSHOT, "07 00", InvalidCommand),
        (Code.GET_SNAPSHOT, "01 01 07", InvalidCommand),
        (Code.GET_SNAPSHOT, "01 02 64 01", InvalidCommand),
        # permissions: a wrong length, a block the payload cuts short
        (Code.UPDATE_PERMISSIONS, "0104 00000000 01 0a000000" + "00" * 11, InvalidFormat),
        (Code.UPDATE_PERMISSIONS, "0104 00000000 01 0c000000" + "00" * 12, InvalidFormat),
        (Code.UPDATE_PERMISSIONS, "0104 00000000 01 0b000000" + "00" * 10, InvalidCommand),
        (Code.UPDATE_PERMISSIONS, "0104 00000000 01 05000000" + "00" * 5, InvalidCommand),
    ],
)
def test_faults(code: Code, payload: str, error: type[BrokerError]) -> None:
    with pytest.raises(BrokerError) as raised:
        decode(code, payload)
    assert type(raised.value) is error


@pytest.mark.parametrize("compression", [1, 2, 3, 4])
def test_compression_codes(compression: int) -> None:
    command = decode(Code.CREATE_TOPIC, f"0104 00000000 01000000 {compression:02x}" + TOPIC_TAIL)
    assert command.compression_algorithm == compression


def test_numeric_zero_is_an_identifier() -> None:
    assert decode(Code.GET_STREAM, "01 04 00000000") == GetStream(0)


@pytest.mark.parametrize("flag", ["00", "02", "ff"])
def test_only_one_means_present(flag: str) -> None:
    assert decode(Code.UPDATE_USER, f"0104 00000000 {flag} {flag}") == UpdateUser(0)
    polled = decode(
        Code.POLL_MESSAGES,
        f"01 0104 00000000 0104 00000000 0104 00000000 {flag} 07000000"
        "03 0000000000000000 01000000 02",
    )
    assert polled == PollMessages(
        Consumer(ConsumerKind.CONSUMER, 0),
        0,
        0,
        None,
        PollingStrategy(StrategyKind.FIRST),
        1,
        auto_commit=True,
    )


@pytest.mark.parametrize("rest", ["00000000", "0000000000000000"])
def test_logins_of_old_clients(rest: str) -> None:
    assert decode(Code.LOGIN_USER, "0161 0162" + rest) == LoginUser("a", "b", "", "")


def test_a_login_that_ends_with_the_password_has_no_version() -> None:
    assert decode(Code.LOGIN_USER, "0161 0162") == LoginUser("a", "b", None, "")


@pytest.mark.parametrize("command", [Ping(), GetStream(1)])
def test_commands_cannot_be_changed(command: Any) -> None:
    for name in ("stream", "anything"):
        with pytest.raises((AttributeError, TypeError)):
            setattr(command, name, 2)
    assert repr(command) == repr(type(command)(*(1 for _ in fields(command))))
    assert command == type(command)(*(1 for _ in fields(command))) != GetMe()


def test_secrets_stay_out_of_the_repr() -> None:
    assert "geheim" not in repr(LoginUser("a", "geheim"))


def test_an_empty_snapshot_request_is_the_default() -> None:
    assert decode(Code.GET_SNAPSHOT, "") == GetSnapshot(
        SnapshotCompression.DEFLATED, (SnapshotType.ALL,)
    )


@pytest.mark.parametrize("name", ["a", "a" * 255, "ß" * 127])
def test_names_that_fit(name: str) -> None:
    for command in (CreateStream(name), GetStream(name)):
        code = {CreateStream: Code.CREATE_STREAM, GetStream: Code.GET_STREAM}[type(command)]
        assert CLASSIC.requests[code](memoryview(encode_command(command))) == command


@pytest.mark.parametrize("name", ["", "a" * 256, "ß" * 128])
def test_names_that_do_not_fit(name: str) -> None:
    with pytest.raises(InvalidFormat):
        encode_command(CreateStream(name))
    with pytest.raises(InvalidIdentifier):
        encode_command(GetStream(name))


@pytest.mark.parametrize("number", [-1, 2**32])
def test_numbers_that_are_no_identifier(number: int) -> None:
    with pytest.raises(InvalidIdentifier):
        encode_command(GetStream(number))


def test_the_longest_key() -> None:
    assert len(pack_partitioning(MessagesKey(bytes(255)))) == 257
    with pytest.raises(InvalidKeyValueLength):
        pack_partitioning(MessagesKey(bytes(256)))


def test_consumer_numbers() -> None:
    assert consumer_number(7) == 7
    assert consumer_number("key-1") == 962816521
    assert consumer_number("order-1001") == 1949004063
