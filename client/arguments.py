"""Whatever a user types is looked at before it becomes bytes.

A command is checked field by field; what a field may hold follows from the kind by which it
travels. Errors say which field, what was found and what is needed, and never repeat a
password. Limits that are the server's to choose, such as how many partitions a topic may have,
are left to the server.
"""

from collections.abc import Callable, Mapping
from types import NoneType
from typing import Any, Final, NamedTuple, TypeAlias, get_args, get_type_hints

from borzoi.protocol.classic import ROWS
from borzoi.protocol.commands import Command, SendMessages
from borzoi.protocol.commands.topics import COMPRESSION_MAX, COMPRESSION_MIN, compression
from borzoi.protocol.identifiers import (
    NAME_SIZE_MAX,
    U32_MAX,
    U64_MAX,
    Consumer,
    MessagesKey,
    PartitionId,
    Partitioning,
    PollingStrategy,
)
from borzoi.protocol.kinds import (
    CONSUMER,
    IDENTIFIER,
    PARTITION,
    STRATEGY,
    Composed,
    Number,
    described,
    name8,
    text32,
)
from borzoi.protocol.layout import fields_of


class InvalidArgument(ValueError):
    """An argument that cannot be sent; nothing was."""


Check: TypeAlias = Callable[[str, Any], None]


def check_text(what: str, text: str, size_min: int = 1, size_max: int = NAME_SIZE_MAX) -> None:
    """Raises InvalidArgument unless the text has so many bytes as UTF-8."""
    if not isinstance(text, str):
        raise InvalidArgument(f"{what} is of type {type(text).__name__}; a str is needed")
    try:
        size = len(text.encode())
    except UnicodeEncodeError:
        raise InvalidArgument(f"{what} cannot be written as UTF-8") from None
    if not size_min <= size <= size_max:
        raise InvalidArgument(f"{what} has {size} bytes; {size_min} to {size_max} are needed")


def check_number(what: str, number: int, largest: int, smallest: int = 0) -> None:
    """Raises InvalidArgument unless the number lies between the bounds, both included."""
    if not isinstance(number, int):
        raise InvalidArgument(f"{what} is of type {type(number).__name__}; an int is needed")
    if not smallest <= number <= largest:
        raise InvalidArgument(f"{what} is {number}; {smallest} to {largest} is needed")


def check_identifier(what: str, identifier: int | str) -> None:
    """Raises InvalidArgument unless it is an id or a name."""
    if isinstance(identifier, str):
        check_text(what, identifier)
    elif isinstance(identifier, int):
        check_number(what, identifier, U32_MAX)
    else:
        found = type(identifier).__name__
        raise InvalidArgument(f"{what} is of type {found}; an int (id) or a str (name) is needed")


def check_partitioning(partitioning: Partitioning) -> None:
    """Raises InvalidArgument if its partition id or key cannot be sent."""
    if isinstance(partitioning, PartitionId):
        check_partition_id(partitioning.partition_id)
    elif isinstance(partitioning, MessagesKey):
        check_key(partitioning.key)


def check_key(key: bytes) -> None:
    """Raises InvalidArgument if the key is empty or too long."""
    if not 1 <= len(key) <= NAME_SIZE_MAX:
        raise InvalidArgument(f"key has {len(key)} bytes; 1 to {NAME_SIZE_MAX} are needed")


def check_partition_id(partition_id: int) -> None:
    """Raises InvalidArgument unless the id fits 32 bits."""
    check_number("partition_id", partition_id, U32_MAX)


def check_command(command: Command) -> None:
    """Raises InvalidArgument if any field of the command cannot be sent."""
    for name, check, is_optional in _COMMAND_CHECKS[type(command)]:
        value = getattr(command, name)
        if value is not None or not is_optional:
            check(name, value)


def _check_consumer(what: str, consumer: Consumer) -> None:
    check_identifier(what, consumer.id)


def _check_strategy(what: str, strategy: PollingStrategy) -> None:
    check_number(f"{what} {strategy.kind.name}", strategy.value, U64_MAX)


def _check_u32(what: str, number: int) -> None:
    check_number(what, number, U32_MAX)


def _check_long_text(what: str, text: str) -> None:
    check_text(what, text, 0, U32_MAX)


def _check_compression(what: str, code: int) -> None:
    check_number(what, code, COMPRESSION_MAX, COMPRESSION_MIN)


CHECKS: Final[Mapping[Any, Check]] = {
    IDENTIFIER: check_identifier,
    CONSUMER: _check_consumer,
    STRATEGY: _check_strategy,
    PARTITION: _check_u32,
    described(name8): check_text,
    described(text32): _check_long_text,
    described(compression): _check_compression,
}


class _FieldCheck(NamedTuple):
    name: str
    check: Check
    is_optional: bool


def _check_of(kind: Any) -> Check | None:
    """None for truth values, enumerations and permissions: their types leave nothing to check."""
    if isinstance(kind, Number) and kind.load is None:
        largest = 256**kind.size_min - 1
        return lambda what, number: check_number(what, number, largest)
    return CHECKS.get(kind.item if isinstance(kind, Composed) else kind)


def _checks_of(command: Any) -> tuple[_FieldCheck, ...]:
    types = get_type_hints(command)
    return tuple(
        _FieldCheck(name, check, NoneType in get_args(types[name]))
        for name, kind in fields_of(command).items()
        if (check := _check_of(kind))
    )


# Made once; a batch is checked where it is prepared.
_COMMAND_CHECKS: Final[Mapping[type, tuple[_FieldCheck, ...]]] = {
    row.command: _checks_of(row.command) for row in ROWS.values() if row.command is not SendMessages
}
