"""Answers about topics and partitions. Counts and entries agree here as in streams.py."""

import struct
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from borzoi.protocol.errors import InvalidFormat
from borzoi.protocol.payload import PayloadReader, pack_str8

# id u32 | created_at u64 | partitions_count u32 | message_expiry u64 | compression u8
# | max_topic_size u64 | replication_factor u8 | size_bytes u64 | messages_count u64, then name str8
TOPIC: Final = struct.Struct("<IQIQBQBQQ")

# id u32 | created_at u64 | segments_count u32 | current_offset u64 | size_bytes u64
# | messages_count u64
PARTITION: Final = struct.Struct("<IQIQQQ")


@dataclass(frozen=True, slots=True)
class TopicInfo:
    id: int
    created_at: int
    partitions_count: int
    message_expiry: int
    compression_algorithm: int
    max_topic_size: int
    replication_factor: int
    size_bytes: int
    messages_count: int
    name: str


@dataclass(frozen=True, slots=True)
class PartitionInfo:
    """`current_offset` is that of the last message, 0 also when there is none."""

    id: int
    created_at: int
    segments_count: int
    current_offset: int
    size_bytes: int
    messages_count: int


@dataclass(frozen=True, slots=True)
class TopicDetails:
    topic: TopicInfo
    partitions: tuple[PartitionInfo, ...]


def encode_topic(topic: TopicInfo) -> bytes:
    numbers = TOPIC.pack(
        topic.id,
        topic.created_at,
        topic.partitions_count,
        topic.message_expiry,
        topic.compression_algorithm,
        topic.max_topic_size,
        topic.replication_factor,
        topic.size_bytes,
        topic.messages_count,
    )
    return numbers + pack_str8(topic.name)


def encode_topics(topics: Iterable[TopicInfo]) -> bytes:
    return b"".join(map(encode_topic, topics))


def decode_topics(payload: memoryview) -> tuple[TopicInfo, ...]:
    return read_topics(PayloadReader(payload))


def encode_topic_details(details: TopicDetails) -> bytes:
    assert details.topic.partitions_count == len(details.partitions)
    partitions = b"".join(map(_encode_partition, details.partitions))
    return encode_topic(details.topic) + partitions


def decode_topic_details(payload: memoryview) -> TopicDetails:
    reader = PayloadReader(payload)
    topic = _topic(reader)
    partitions = []
    while reader.remaining:
        partitions.append(PartitionInfo(*reader.unpack(PARTITION)))
    if len(partitions) != topic.partitions_count:
        raise InvalidFormat(
            f"{len(partitions)} partitions where {topic.partitions_count} were announced"
        )
    return TopicDetails(topic, tuple(partitions))


def _encode_partition(partition: PartitionInfo) -> bytes:
    return PARTITION.pack(
        partition.id,
        partition.created_at,
        partition.segments_count,
        partition.current_offset,
        partition.size_bytes,
        partition.messages_count,
    )


def read_topics(reader: PayloadReader) -> tuple[TopicInfo, ...]:
    """Topics up to the end of the payload."""
    topics = []
    while reader.remaining:
        topics.append(_topic(reader))
    return tuple(topics)


def _topic(reader: PayloadReader) -> TopicInfo:
    (
        identity,
        created_at,
        partitions_count,
        message_expiry,
        compression_algorithm,
        max_topic_size,
        replication_factor,
        size_bytes,
        messages_count,
    ) = reader.unpack(TOPIC)
    return TopicInfo(
        id=identity,
        created_at=created_at,
        partitions_count=partitions_count,
        message_expiry=message_expiry,
        compression_algorithm=compression_algorithm,
        max_topic_size=max_topic_size,
        replication_factor=replication_factor,
        size_bytes=size_bytes,
        messages_count=messages_count,
        name=reader.str8(),
    )
