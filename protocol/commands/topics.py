"""Requests about topics, their partitions and the segments of a partition.

Compression stands before message expiry here and behind it in the answers; that is the wire.
Expiry is in microseconds, size in bytes; 0 asks for the server's default, u64 max means never
and unlimited.
"""

from dataclasses import dataclass
from typing import Final

from borzoi.protocol.errors import InvalidCommand
from borzoi.protocol.identifiers import Identifier
from borzoi.protocol.payload import (
    U32,
    U64,
    PayloadReader,
    pack_identifier,
    pack_identifiers,
    pack_str8,
)

COMPRESSION_MIN: Final = 1  # none; 2 gzip
COMPRESSION_MAX: Final = 4  # 3 lz4, 4 zstd: known to us, not to the official clients


@dataclass(frozen=True, slots=True)
class GetTopic:
    """One topic with its partitions."""

    stream: Identifier
    topic: Identifier


def decode_get_topic(payload: memoryview) -> GetTopic:
    reader = PayloadReader(payload)
    return GetTopic(reader.identifier(), reader.identifier())


def encode_get_topic(command: GetTopic) -> bytes:
    return pack_identifiers(command.stream, command.topic)


@dataclass(frozen=True, slots=True)
class GetTopics:
    """All topics of a stream."""

    stream: Identifier


def decode_get_topics(payload: memoryview) -> GetTopics:
    return GetTopics(PayloadReader(payload).identifier())


def encode_get_topics(command: GetTopics) -> bytes:
    return pack_identifier(command.stream)


@dataclass(frozen=True, slots=True)
class CreateTopic:
    """A new topic; the server chooses its id."""

    stream: Identifier
    partitions_count: int
    compression_algorithm: int
    message_expiry: int
    max_topic_size: int
    replication_factor: int
    name: str


def decode_create_topic(payload: memoryview) -> CreateTopic:
    reader = PayloadReader(payload)
    return CreateTopic(
        stream=reader.identifier(),
        partitions_count=reader.u32(),
        compression_algorithm=compression_algorithm(reader),
        message_expiry=reader.u64(),
        max_topic_size=reader.u64(),
        replication_factor=reader.u8(),
        name=reader.str8(),
    )


def encode_create_topic(command: CreateTopic) -> bytes:
    return b"".join(
        (
            pack_identifier(command.stream),
            U32.pack(command.partitions_count),
            bytes((command.compression_algorithm,)),
            U64.pack(command.message_expiry),
            U64.pack(command.max_topic_size),
            bytes((command.replication_factor,)),
            pack_str8(command.name),
        )
    )


@dataclass(frozen=True, slots=True)
class DeleteTopic:
    """A topic with everything in it."""

    stream: Identifier
    topic: Identifier


def decode_delete_topic(payload: memoryview) -> DeleteTopic:
    reader = PayloadReader(payload)
    return DeleteTopic(reader.identifier(), reader.identifier())


def encode_delete_topic(command: DeleteTopic) -> bytes:
    return pack_identifiers(command.stream, command.topic)


@dataclass(frozen=True, slots=True)
class UpdateTopic:
    """New settings and name for a topic."""

    stream: Identifier
    topic: Identifier
    compression_algorithm: int
    message_expiry: int
    max_topic_size: int
    replication_factor: int
    name: str


def decode_update_topic(payload: memoryview) -> UpdateTopic:
    reader = PayloadReader(payload)
    return UpdateTopic(
        stream=reader.identifier(),
        topic=reader.identifier(),
        compression_algorithm=compression_algorithm(reader),
        message_expiry=reader.u64(),
        max_topic_size=reader.u64(),
        replication_factor=reader.u8(),
        name=reader.str8(),
    )


def encode_update_topic(command: UpdateTopic) -> bytes:
    return b"".join(
        (
            pack_identifiers(command.stream, command.topic),
            bytes((command.compression_algorithm,)),
            U64.pack(command.message_expiry),
            U64.pack(command.max_topic_size),
            bytes((command.replication_factor,)),
            pack_str8(command.name),
        )
    )


@dataclass(frozen=True, slots=True)
class PurgeTopic:
    """Forget all messages of a topic, keep its partitions."""

    stream: Identifier
    topic: Identifier


def decode_purge_topic(payload: memoryview) -> PurgeTopic:
    reader = PayloadReader(payload)
    return PurgeTopic(reader.identifier(), reader.identifier())


def encode_purge_topic(command: PurgeTopic) -> bytes:
    return pack_identifiers(command.stream, command.topic)


@dataclass(frozen=True, slots=True)
class CreatePartitions:
    """More partitions behind the existing ones."""

    stream: Identifier
    topic: Identifier
    partitions_count: int


def decode_create_partitions(payload: memoryview) -> CreatePartitions:
    reader = PayloadReader(payload)
    return CreatePartitions(reader.identifier(), reader.identifier(), reader.u32())


def encode_create_partitions(command: CreatePartitions) -> bytes:
    return pack_identifiers(command.stream, command.topic) + U32.pack(command.partitions_count)


@dataclass(frozen=True, slots=True)
class DeletePartitions:
    """Fewer partitions, the highest ids first."""

    stream: Identifier
    topic: Identifier
    partitions_count: int


def decode_delete_partitions(payload: memoryview) -> DeletePartitions:
    reader = PayloadReader(payload)
    return DeletePartitions(reader.identifier(), reader.identifier(), reader.u32())


def encode_delete_partitions(command: DeletePartitions) -> bytes:
    return pack_identifiers(command.stream, command.topic) + U32.pack(command.partitions_count)


@dataclass(frozen=True, slots=True)
class DeleteSegments:
    """Forget the oldest closed segments of a partition."""

    stream: Identifier
    topic: Identifier
    partition_id: int
    segments_count: int


def decode_delete_segments(payload: memoryview) -> DeleteSegments:
    reader = PayloadReader(payload)
    return DeleteSegments(reader.identifier(), reader.identifier(), reader.u32(), reader.u32())


def encode_delete_segments(command: DeleteSegments) -> bytes:
    return b"".join(
        (
            pack_identifiers(command.stream, command.topic),
            U32.pack(command.partition_id),
            U32.pack(command.segments_count),
        )
    )


def compression_algorithm(reader: PayloadReader) -> int:
    """A compression code; whether the server wants it is the handler's business."""
    code = reader.u8()
    if not COMPRESSION_MIN <= code <= COMPRESSION_MAX:
        raise InvalidCommand(f"compression code {code}")
    return code
