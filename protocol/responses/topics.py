"""Answers about topics and partitions. Counts and entries agree here as in streams.py."""

from dataclasses import dataclass
from typing import Annotated

from borzoi.protocol.kinds import Announced, id32, name8, no_options, u8, u32, u64


@dataclass(frozen=True, slots=True)
class TopicInfo:
    """A topic; expiry in microseconds, sizes in bytes, u64 max is never and unlimited.

    Explicit options were given by a client, derived ones are what holds for all other keys.
    """

    id: id32
    created_at: u64
    partitions_count: u32
    message_expiry: u64
    compression_algorithm: u8
    max_topic_size: u64
    replication_factor: u8
    size_bytes: u64
    messages_count: u64
    name: name8
    explicit_options: no_options = b""
    derived_options: no_options = b""


@dataclass(frozen=True, slots=True)
class PartitionInfo:
    """`current_offset` is that of the last message, 0 also when there is none."""

    id: id32
    created_at: u64
    segments_count: u32
    current_offset: u64
    size_bytes: u64
    messages_count: u64


@dataclass(frozen=True, slots=True)
class TopicDetails:
    """A topic and its partitions."""

    topic: TopicInfo
    partitions: Annotated[
        tuple[PartitionInfo, ...], Announced(PartitionInfo, "partitions_count", to_the_end=True)
    ]
