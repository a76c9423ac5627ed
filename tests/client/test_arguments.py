"""What may be sent, at its bounds, for every command there is."""

from collections.abc import Iterator
from dataclasses import fields, replace
from enum import IntEnum
from typing import Any

import pytest
from hypothesis import given, settings

from borzoi.client.arguments import (
    InvalidArgument,
    check_command,
    check_identifier,
    check_number,
    check_partitioning,
    check_text,
)
from borzoi.protocol import commands
from borzoi.protocol.classic import ROWS
from borzoi.protocol.commands import Command, SendMessages
from borzoi.protocol.generations import encode_command
from borzoi.protocol.identifiers import (
    U32_MAX,
    U64_MAX,
    Balanced,
    Consumer,
    ConsumerKind,
    MessagesKey,
    PartitionId,
    PollingStrategy,
    StrategyKind,
)
from tests.protocol.values import commands_of

CHECKED: list[Any] = [
    command for command in (row.command for row in ROWS.values()) if command is not SendMessages
]


def unsendable(value: Any) -> Iterator[Any]:
    """The same command with a field that no byte sequence stands for."""
    for field in fields(value):
        match getattr(value, field.name):
            case bool() | IntEnum():
                continue  # the type leaves nothing to check
            case int() | str():
                bad: Any = -1
            case Consumer(kind):
                bad = Consumer(kind, -1)
            case PollingStrategy(kind):
                bad = PollingStrategy(kind, -1)
            case _:
                continue
        yield replace(value, **{field.name: bad})


@pytest.mark.parametrize("command", CHECKED)
def test_every_field_of_every_command_is_checked(command: Any) -> None:
    @settings(max_examples=5)
    @given(value=commands_of(command))
    def test(value: Command) -> None:
        for bad in unsendable(value):
            with pytest.raises(InvalidArgument):
                check_command(bad)

    test()


@pytest.mark.parametrize("command", CHECKED)
def test_what_the_codecs_can_carry_is_accepted(command: Any) -> None:
    @settings(max_examples=15)
    @given(value=commands_of(command))
    def test(value: Command) -> None:
        check_command(value)
        encode_command(value)

    test()


@pytest.mark.parametrize("text", ["x", "x" * 255, "ß" * 127])
def test_names_at_their_bounds(text: str) -> None:
    check_text("name", text)
    check_identifier("stream", text)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "^name has 0 bytes; 1 to 255 are needed$"),
        ("x" * 256, "^name has 256 bytes; 1 to 255 are needed$"),
        ("ß" * 128, "^name has 256 bytes; 1 to 255 are needed$"),
        ("\udc80", "^name cannot be written as UTF-8$"),
        (b"bytes", "^name is of type bytes; a str is needed$"),
    ],
)
def test_names_beyond_their_bounds(text: Any, reason: str) -> None:
    with pytest.raises(InvalidArgument, match=reason):
        check_text("name", text)


@pytest.mark.parametrize("largest", [1, U32_MAX, U64_MAX])
def test_numbers_at_and_beyond_their_bounds(largest: int) -> None:
    check_number("count", 0, largest)
    check_number("count", largest, largest)
    for number in (-1, largest + 1):
        with pytest.raises(InvalidArgument, match=f"^count is {number}; 0 to {largest} is needed$"):
            check_number("count", number, largest)


def test_identifiers_of_another_type() -> None:
    wrong: Any = 1.5
    with pytest.raises(InvalidArgument, match=r"^stream is of type float; an int \(id\) or a str"):
        check_identifier("stream", wrong)


def test_partitionings() -> None:
    for good in (Balanced(), PartitionId(U32_MAX), MessagesKey(b"k"), MessagesKey(bytes(255))):
        check_partitioning(good)
    for bad in (
        PartitionId(U32_MAX + 1),
        PartitionId(-1),
        MessagesKey(b""),
        MessagesKey(bytes(256)),
    ):
        with pytest.raises(InvalidArgument):
            check_partitioning(bad)


CONSUMER = Consumer(ConsumerKind.CONSUMER, 0)
NEXT = PollingStrategy(StrategyKind.NEXT)
MISSING: Any = None


@pytest.mark.parametrize(
    ("command", "reason"),
    [
        (commands.CreateTopic(0, 1, 0, 0, 0, 0, "t"), "compression_algorithm is 0; 1 to 4"),
        (commands.CreateTopic(0, 1, 5, 0, 0, 0, "t"), "compression_algorithm is 5; 1 to 4"),
        (commands.CreateTopic(0, 1, 1, 0, 0, 256, "t"), "replication_factor is 256; 0 to 255"),
        (commands.CreateTopic(0, 1, 1, U64_MAX + 1, 0, 0, "t"), "message_expiry is 18446744073709"),
        (commands.PollMessages(CONSUMER, 0, 0, None, NEXT, -1, False), "count is -1"),
        (
            commands.PollMessages(Consumer(ConsumerKind.GROUP, ""), 0, 0, None, NEXT, 1, False),
            "consumer has 0 bytes",
        ),
        (commands.FlushUnsavedBuffer(0, 0, MISSING, False), "partition_id is of type NoneType"),
        (commands.GetStream(MISSING), "stream is of type NoneType"),
    ],
)
def test_fields_of_commands(command: Command, reason: str) -> None:
    with pytest.raises(InvalidArgument, match=reason):
        check_command(command)


def test_a_password_is_never_repeated() -> None:
    secret = "hunter2" * 40
    with pytest.raises(InvalidArgument) as caught:
        check_command(commands.LoginUser("iggy", secret))
    assert "hunter2" not in str(caught.value)
