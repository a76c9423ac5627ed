"""The answer to POLL_MESSAGES: 16 bytes, then the messages as they lie on disk.

    partition_id u32 | current_offset u64 | count u32

The header is always there, also when nothing is: clients read it without looking. And
current_offset is never behind the messages returned, or consumers stop for good. The server
sends the header and then slices of its files; whole PolledMessages values are for clients.
"""

import struct
from dataclasses import dataclass
from typing import Final

from borzoi.protocol.batch import decode_batch
from borzoi.protocol.errors import InvalidFormat
from borzoi.protocol.message import Message, encode_messages
from borzoi.protocol.payload import PayloadReader

POLLED_HEADER: Final = struct.Struct("<IQI")


@dataclass(frozen=True, slots=True)
class PolledMessages:
    """`current_offset` is that of the last message of the partition, 0 also when it is empty."""

    partition_id: int
    current_offset: int
    messages: tuple[Message, ...]


def encode_polled_header(partition_id: int, current_offset: int, count: int) -> bytes:
    """The 16 bytes before the messages."""
    return POLLED_HEADER.pack(partition_id, current_offset, count)


NOTHING_POLLED: Final = encode_polled_header(0, 0, 0)


def encode_polled_messages(polled: PolledMessages) -> bytes:
    """A whole answer, header and messages."""
    header = encode_polled_header(polled.partition_id, polled.current_offset, len(polled.messages))
    return header + encode_messages(polled.messages)


def decode_polled_messages(payload: memoryview) -> PolledMessages:
    """The messages of an answer. InvalidFormat if their number is not the announced one."""
    reader = PayloadReader(payload)
    partition_id, current_offset, count = reader.unpack(POLLED_HEADER)
    messages = tuple(decode_batch(payload, reader.at))
    if len(messages) != count:
        raise InvalidFormat(f"{len(messages)} messages where {count} were announced")
    return PolledMessages(partition_id, current_offset, messages)
