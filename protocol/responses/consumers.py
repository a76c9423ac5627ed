"""Answers about consumer offsets and consumer groups.

offset           partition_id u32 | current_offset u64 | stored_offset u64
group            id u32 | partitions_count u32 | members_count u32 | name str8
details add per member:   id u32 | partitions_count u32 | that many partition ids u32
"""

import struct
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from borzoi.protocol.payload import U32, PayloadReader, pack_str8

CONSUMER_OFFSET: Final = struct.Struct("<IQQ")
GROUP: Final = struct.Struct("<III")
MEMBER: Final = struct.Struct("<II")


@dataclass(frozen=True, slots=True)
class ConsumerOffsetInfo:
    """How far the partition goes and how far this consumer has committed."""

    partition_id: int
    current_offset: int
    stored_offset: int


@dataclass(frozen=True, slots=True)
class ConsumerGroupInfo:
    """`partitions_count` is that of the topic."""

    id: int
    partitions_count: int
    members_count: int
    name: str


@dataclass(frozen=True, slots=True)
class ConsumerGroupMember:
    """`partitions` are in the order of their assignment."""

    id: int
    partitions: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ConsumerGroupDetails:
    group: ConsumerGroupInfo
    members: tuple[ConsumerGroupMember, ...]


def encode_consumer_offset(info: ConsumerOffsetInfo) -> bytes:
    return CONSUMER_OFFSET.pack(info.partition_id, info.current_offset, info.stored_offset)


def decode_consumer_offset(payload: memoryview) -> ConsumerOffsetInfo:
    return ConsumerOffsetInfo(*PayloadReader(payload).unpack(CONSUMER_OFFSET))


def encode_consumer_group(group: ConsumerGroupInfo) -> bytes:
    numbers = GROUP.pack(group.id, group.partitions_count, group.members_count)
    return numbers + pack_str8(group.name)


def decode_consumer_group(payload: memoryview) -> ConsumerGroupInfo:
    return _group(PayloadReader(payload))


def encode_consumer_groups(groups: Iterable[ConsumerGroupInfo]) -> bytes:
    return b"".join(map(encode_consumer_group, groups))


def decode_consumer_groups(payload: memoryview) -> tuple[ConsumerGroupInfo, ...]:
    reader = PayloadReader(payload)
    groups = []
    while reader.remaining:
        groups.append(_group(reader))
    return tuple(groups)


def encode_consumer_group_details(details: ConsumerGroupDetails) -> bytes:
    assert details.group.members_count == len(details.members)
    return encode_consumer_group(details.group) + b"".join(map(_encode_member, details.members))


def decode_consumer_group_details(payload: memoryview) -> ConsumerGroupDetails:
    reader = PayloadReader(payload)
    group = _group(reader)
    reader.require(group.members_count * MEMBER.size)
    members = tuple(_member(reader) for _ in range(group.members_count))
    return ConsumerGroupDetails(group, members)


def _encode_member(member: ConsumerGroupMember) -> bytes:
    partitions = b"".join(map(U32.pack, member.partitions))
    return MEMBER.pack(member.id, len(member.partitions)) + partitions


def _group(reader: PayloadReader) -> ConsumerGroupInfo:
    identity, partitions_count, members_count = reader.unpack(GROUP)
    return ConsumerGroupInfo(identity, partitions_count, members_count, reader.str8())


def _member(reader: PayloadReader) -> ConsumerGroupMember:
    identity, count = reader.unpack(MEMBER)
    partitions = U32.iter_unpack(reader.take(count * U32.size))
    return ConsumerGroupMember(identity, tuple(partition for (partition,) in partitions))
