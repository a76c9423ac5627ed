"""Answers about consumer offsets and consumer groups."""

from dataclasses import dataclass
from typing import Annotated

from borzoi.protocol.kinds import Announced, counted, id32, name8, u32, u64


@dataclass(frozen=True, slots=True)
class ConsumerOffsetInfo:
    """How far the partition goes and how far this consumer has committed."""

    partition_id: id32
    current_offset: u64
    stored_offset: u64


@dataclass(frozen=True, slots=True)
class ConsumerGroupInfo:
    """`partitions_count` is that of the topic."""

    id: id32
    partitions_count: u32
    members_count: u32
    name: name8


@dataclass(frozen=True, slots=True)
class ConsumerGroupMember:
    """`partitions` are in the order of their assignment."""

    id: u32
    partitions: Annotated[tuple[int, ...], counted(id32)]


@dataclass(frozen=True, slots=True)
class GroupAssignment:
    """What a member has to poll. Another `generation` is another assignment."""

    generation: u64
    partitions: Annotated[tuple[int, ...], counted(id32)]


@dataclass(frozen=True, slots=True)
class ConsumerGroupDetails:
    """A group and its members."""

    group: ConsumerGroupInfo
    members: Annotated[
        tuple[ConsumerGroupMember, ...], Announced(ConsumerGroupMember, "members_count")
    ]
