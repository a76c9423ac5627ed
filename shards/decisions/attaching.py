"""The changes that Liftbridge makes of the metadata: their commands, and what is logged for them.

Pure, as decide.py is, which hands these commands on. The first two are a user's; permission is
asked for as for the command of an Iggy client that does the same (`asked_as`). The others stand for
many users or for the broker itself, and are checked by the shard that proposes them.
"""

from dataclasses import dataclass, field
from typing import Final, TypeAlias

from borzoi.protocol.codes import Code
from borzoi.protocol.commands.topics import COMPRESSION_MIN, CreateTopic
from borzoi.protocol.errors import (
    ConsumerGroupIdNotFound,
    ConsumerGroupMemberNotFound,
    ConsumerGroupNameAlreadyExists,
    InvalidCommand,
    PartitionNotFound,
    ResourceNotFound,
)
from borzoi.protocol.identifiers import Identifier
from borzoi.shards.attached.attachment import Attachment
from borzoi.shards.metadata import attachment_entries as entries
from borzoi.shards.metadata.entries import Stored
from borzoi.shards.metadata.state import State

CURSORS_MAX: Final = 100_000
"""Cursors of the whole broker. They are in the metadata of every shard."""

MEMBERS_MAX: Final = 10_000
"""Members of all groups together."""

PAUSED: Final = "paused"
READONLY: Final = "readonly"


@dataclass(frozen=True, slots=True)
class CreateAttachedTopic:
    """A stream of Liftbridge: a new topic with a subject."""

    stream: Identifier
    name: str
    partitions_count: int
    message_expiry: int
    max_topic_size: int
    options: bytes
    subject: str
    group: str = ""
    settings: dict[str, int] = field(default_factory=dict)

    @property
    def creating(self) -> CreateTopic:
        """The topic as an Iggy client would ask for it."""
        return CreateTopic(
            self.stream,
            self.partitions_count,
            COMPRESSION_MIN,
            self.message_expiry,
            self.max_topic_size,
            1,
            self.name,
            self.options,
        )

    @property
    def attachment(self) -> Attachment:
        """What is kept beside the topic."""
        return Attachment(self.subject, self.group, self.settings)


@dataclass(frozen=True, slots=True)
class FlagPartitions:
    """Pause partitions, or make them read-only; or the reverse."""

    stream: Identifier
    topic: Identifier
    flag: str
    partitions: tuple[int, ...]
    is_set: bool
    resume_all: bool
    asked_as: int
    """The code of the command whose permission is enough: a publisher may resume."""


@dataclass(frozen=True, slots=True)
class SetCursors:
    """Cursors of many clients, which one entry stores."""

    cursors: dict[str, int]


@dataclass(frozen=True, slots=True)
class JoinBridgeGroup:
    """A consumer becomes a member of a group."""

    group: str
    member: str
    streams: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class LeaveBridgeGroup:
    """A consumer leaves a group, or has been silent for too long."""

    group: str
    member: str
    expired: bool = False


AttachingCommand: TypeAlias = FlagPartitions | SetCursors | JoinBridgeGroup | LeaveBridgeGroup

OF_THE_BROKER: Final = (SetCursors, JoinBridgeGroup, LeaveBridgeGroup)


def asked_as(command: object) -> Code | None:
    """The code whose permission a command needs, None if that is its own."""
    match command:
        case CreateAttachedTopic():
            return Code.CREATE_TOPIC
        case FlagPartitions():
            return Code(command.asked_as)
        case _:
            return None


def decide_attaching(state: State, command: AttachingCommand) -> Stored:
    """What to log for a command, or the error to answer."""
    match command:
        case FlagPartitions():
            return _flag(state, command)
        case SetCursors():
            known = state.seen_bridge.cursors
            new = sum(key not in known for key in command.cursors)
            if len(known) + new > CURSORS_MAX:
                raise ResourceNotFound(f"{CURSORS_MAX} cursors are there, no more are kept")
            return entries.CursorsSet(command.cursors)
        case JoinBridgeGroup():
            return _join(state, command)
        case LeaveBridgeGroup():
            group = state.seen_bridge.groups.get(command.group)
            if group is None:
                raise ConsumerGroupIdNotFound(f"there is no group {command.group!r}")
            group.without(command.member)
            return entries.BridgeMemberLeft(command.group, command.member, command.expired)


def _flag(state: State, command: FlagPartitions) -> Stored:
    stream = state.stream(command.stream)
    topic = stream.topic(command.topic)
    topic.attached  # noqa: B018 - raises if it is no stream of Liftbridge
    for partition in command.partitions:
        if not 0 <= partition < topic.partitions_count:
            raise PartitionNotFound(f"topic {topic.id} has no partition {partition}")
    if command.flag == PAUSED:
        return entries.PartitionsPaused(
            stream.id, topic.id, command.partitions, command.is_set, command.resume_all
        )
    if command.flag != READONLY:
        raise InvalidCommand(f"{command.flag!r} is no state of a partition")
    return entries.PartitionsProtected(stream.id, topic.id, command.partitions, command.is_set)


def _join(state: State, command: JoinBridgeGroup) -> Stored:
    groups = state.seen_bridge.groups
    group = groups.get(command.group)
    if group is not None and command.member in group.members:
        raise ConsumerGroupNameAlreadyExists(f"{command.member!r} is a member already")
    if sum(len(one.members) for one in groups.values()) >= MEMBERS_MAX:
        raise ConsumerGroupMemberNotFound(f"groups have {MEMBERS_MAX} members, no more fit")
    return entries.BridgeMemberJoined(command.group, command.member, command.streams)
