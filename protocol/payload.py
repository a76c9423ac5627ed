"""The small pieces that payloads are made of: numbers, texts, identifiers, optional partitions.

PayloadReader walks over a memoryview that its caller owns and copies only what becomes a value.
What is cut short, is not UTF-8 or carries an unknown discriminant is InvalidCommand. What can be
read but breaks a rule of its layout is InvalidFormat. Bytes behind the last piece are ignored:
old and foreign clients send some.

The pack_ functions are the other direction and produce what the reader accepts.
"""

import struct
from typing import Any, Final

from borzoi.protocol.errors import (
    InvalidCommand,
    InvalidFormat,
    InvalidIdentifier,
    InvalidKeyValueLength,
)
from borzoi.protocol.identifiers import (
    NAME_SIZE_MAX,
    U32_MAX,
    Balanced,
    Consumer,
    ConsumerKind,
    Identifier,
    MessagesKey,
    PartitionId,
    Partitioning,
    PollingStrategy,
    StrategyKind,
)

U32: Final = struct.Struct("<I")
U64: Final = struct.Struct("<Q")

# Identifier: kind u8 | length u8 | value
NUMERIC: Final = 1
STRING: Final = 2
NUMERIC_SIZE: Final = 4
NUMERIC_IDENTIFIER: Final = struct.Struct("<BBI")

# Partitioning: kind u8 | length u8 | value
BALANCED: Final = 1
PARTITION_ID: Final = 2
MESSAGES_KEY: Final = 3

PRESENT: Final = 1
OPTIONAL_PARTITION: Final = struct.Struct("<BI")  # flag, then the partition or 0
STRATEGY: Final = struct.Struct("<BQ")  # kind, then an offset, a time or 0


class PayloadReader:
    """A cursor over one payload: `at` moves with every read; one that does not fit raises."""

    __slots__ = ("at", "end", "view")

    def __init__(self, payload: memoryview) -> None:
        self.view = payload
        self.at = 0
        self.end = len(payload)

    @property
    def remaining(self) -> int:
        """How many bytes lie behind the cursor."""
        return self.end - self.at

    def require(self, size: int) -> None:
        """Raise unless `size` more bytes are there; the cursor stays where it is."""
        if self.at + size > self.end:
            raise cut_short()

    def take(self, size: int) -> memoryview:
        """The next `size` bytes, not copied."""
        start = self.at
        end = start + size
        if end > self.end:
            raise cut_short()
        self.at = end
        return self.view[start:end]

    def unpack(self, layout: struct.Struct) -> tuple[Any, ...]:
        """All fields of a layout."""
        start = self.at
        end = start + layout.size
        if end > self.end:
            raise cut_short()
        self.at = end
        return layout.unpack_from(self.view, start)

    def u8(self) -> int:
        """The next byte as a number."""
        start = self.at
        if start >= self.end:
            raise cut_short()
        self.at = start + 1
        return self.view[start]

    def u32(self) -> int:
        """The next four bytes as a number, little-endian."""
        number: int = self.unpack(U32)[0]
        return number

    def flag(self) -> bool:
        """Whether an optional part is present: only 1 says so."""
        return self.u8() == PRESENT

    def text(self, size: int) -> str:
        """The next `size` bytes, which have to be UTF-8."""
        try:
            return str(self.take(size), "utf-8")
        except UnicodeDecodeError:
            raise InvalidCommand("a text is not UTF-8") from None

    def str8(self) -> str:
        """A text of 1 to 255 bytes."""
        # Written out: answers have thousands of names.
        start = self.at + 1
        if start > self.end:
            raise cut_short()
        size = self.view[start - 1]
        if size == 0:
            raise InvalidFormat("a text that must not be empty is empty")
        self.at = end = start + size
        if end > self.end:
            raise cut_short()
        try:
            return str(self.view[start:end], "utf-8")
        except UnicodeDecodeError:
            raise InvalidCommand("a text is not UTF-8") from None

    def str32(self) -> str:
        """A text of any length, possibly empty."""
        return self.text(self.u32())

    def identifier(self) -> Identifier:
        """An identifier: kind u8 | length u8 | a number of four bytes, or a name of 1 to 255."""
        kind = self.u8()
        size = self.u8()
        if kind == NUMERIC:
            if size != NUMERIC_SIZE:
                raise InvalidFormat(f"a numeric identifier of {size} bytes")
            return self.u32()
        if kind == STRING:
            if size == 0:
                raise InvalidFormat("an empty name as identifier")
            return self.text(size)
        raise InvalidCommand(f"identifier kind {kind}")

    def consumer(self) -> Consumer:
        """A consumer: kind u8 | identifier."""
        number = self.u8()
        try:
            kind = ConsumerKind(number)
        except ValueError:
            raise InvalidCommand(f"{number} is no ConsumerKind") from None
        return Consumer(kind, self.identifier())

    def optional_partition(self) -> int | None:
        """A partition, or None: flag u8 | id u32. Only a flag of 1 says that there is one."""
        flag, partition_id = self.unpack(OPTIONAL_PARTITION)
        return partition_id if flag == PRESENT else None

    def strategy(self) -> PollingStrategy:
        """A polling strategy: kind u8 | value u64."""
        number, value = self.unpack(STRATEGY)
        try:
            return PollingStrategy(StrategyKind(number), value)
        except ValueError:
            raise InvalidCommand(f"polling strategy {number}") from None


def cut_short() -> InvalidCommand:
    """The error of a read that goes beyond the payload."""
    return InvalidCommand("the payload is cut short")


def pack_str8(text: str) -> bytes:
    """A text of 1 to 255 bytes behind its length u8. InvalidFormat for others."""
    encoded = text.encode()
    if not 1 <= len(encoded) <= NAME_SIZE_MAX:
        raise InvalidFormat(f"a text of {len(encoded)} bytes where 1 to {NAME_SIZE_MAX} fit")
    return bytes((len(encoded),)) + encoded


def pack_str32(text: str) -> bytes:
    """A text, possibly empty, behind its length u32."""
    encoded = text.encode()
    return U32.pack(len(encoded)) + encoded


def pack_identifier(identifier: Identifier) -> bytes:
    """An identifier as the reader takes it. InvalidIdentifier if it does not fit."""
    if isinstance(identifier, int):
        if not 0 <= identifier <= U32_MAX:
            raise InvalidIdentifier(f"{identifier} is not a u32")
        return NUMERIC_IDENTIFIER.pack(NUMERIC, NUMERIC_SIZE, identifier)
    # A name that SEND_MESSAGES let through although it is not UTF-8 goes back to its own bytes.
    encoded = identifier.encode("utf-8", "surrogateescape")
    if not 1 <= len(encoded) <= NAME_SIZE_MAX:
        raise InvalidIdentifier(f"a name of {len(encoded)} bytes where 1 to {NAME_SIZE_MAX} fit")
    return bytes((STRING, len(encoded))) + encoded


def pack_identifiers(*identifiers: Identifier) -> bytes:
    """Identifiers, one after the other."""
    return b"".join(map(pack_identifier, identifiers))


def pack_consumer(consumer: Consumer) -> bytes:
    """A consumer as the reader takes it."""
    return bytes((consumer.kind,)) + pack_identifier(consumer.id)


def pack_optional_partition(partition_id: int | None) -> bytes:
    """A partition, or zeros where the server chooses."""
    if partition_id is None:
        return OPTIONAL_PARTITION.pack(0, 0)
    return OPTIONAL_PARTITION.pack(PRESENT, partition_id)


def pack_strategy(strategy: PollingStrategy) -> bytes:
    """A polling strategy as the reader takes it."""
    return STRATEGY.pack(strategy.kind, strategy.value)


def pack_partitioning(partitioning: Partitioning) -> bytes:
    """Kind u8 | length u8 | value. InvalidKeyValueLength for a key over 255 bytes."""
    match partitioning:
        case Balanced():
            return bytes((BALANCED, 0))
        case PartitionId(partition_id):
            return NUMERIC_IDENTIFIER.pack(PARTITION_ID, NUMERIC_SIZE, partition_id)
        case MessagesKey(key):
            if len(key) > NAME_SIZE_MAX:
                raise InvalidKeyValueLength(f"a key of {len(key)} bytes")
            return bytes((MESSAGES_KEY, len(key))) + key
