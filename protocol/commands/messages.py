"""Requests about messages, except SEND_MESSAGES, which has a file of its own.

FLUSH_UNSAVED_BUFFER writes what a partition still holds in memory.
"""

from dataclasses import dataclass

from borzoi.protocol.identifiers import Consumer, Identifier, PollingStrategy
from borzoi.protocol.payload import (
    U32,
    PayloadReader,
    pack_consumer,
    pack_identifiers,
    pack_optional_partition,
    pack_strategy,
)


@dataclass(frozen=True, slots=True)
class PollMessages:
    """Read messages; with auto_commit the last one returned is committed at once."""

    consumer: Consumer
    stream: Identifier
    topic: Identifier
    partition_id: int | None
    strategy: PollingStrategy
    count: int
    auto_commit: bool


def decode_poll_messages(payload: memoryview) -> PollMessages:
    reader = PayloadReader(payload)
    return PollMessages(
        consumer=reader.consumer(),
        stream=reader.identifier(),
        topic=reader.identifier(),
        partition_id=reader.optional_partition(),
        strategy=reader.strategy(),
        count=reader.u32(),
        auto_commit=reader.boolean(),
    )


def encode_poll_messages(command: PollMessages) -> bytes:
    return b"".join(
        (
            pack_consumer(command.consumer),
            pack_identifiers(command.stream, command.topic),
            pack_optional_partition(command.partition_id),
            pack_strategy(command.strategy),
            U32.pack(command.count),
            bytes((command.auto_commit,)),
        )
    )


@dataclass(frozen=True, slots=True)
class FlushUnsavedBuffer:
    """Write the journal of a partition, and fsync it if asked."""

    stream: Identifier
    topic: Identifier
    partition_id: int
    fsync: bool


def decode_flush_unsaved_buffer(payload: memoryview) -> FlushUnsavedBuffer:
    reader = PayloadReader(payload)
    return FlushUnsavedBuffer(
        reader.identifier(), reader.identifier(), reader.u32(), reader.boolean()
    )


def encode_flush_unsaved_buffer(command: FlushUnsavedBuffer) -> bytes:
    return b"".join(
        (
            pack_identifiers(command.stream, command.topic),
            U32.pack(command.partition_id),
            bytes((command.fsync,)),
        )
    )
