"""Requests about consumer groups."""

from dataclasses import dataclass

from borzoi.protocol.identifiers import Identifier
from borzoi.protocol.payload import PayloadReader, pack_identifiers, pack_str8


@dataclass(frozen=True, slots=True)
class GetConsumerGroup:
    """One group with its members."""

    stream: Identifier
    topic: Identifier
    group: Identifier


def decode_get_consumer_group(payload: memoryview) -> GetConsumerGroup:
    reader = PayloadReader(payload)
    return GetConsumerGroup(reader.identifier(), reader.identifier(), reader.identifier())


def encode_get_consumer_group(command: GetConsumerGroup) -> bytes:
    return pack_identifiers(command.stream, command.topic, command.group)


@dataclass(frozen=True, slots=True)
class GetConsumerGroups:
    """All groups of a topic."""

    stream: Identifier
    topic: Identifier


def decode_get_consumer_groups(payload: memoryview) -> GetConsumerGroups:
    reader = PayloadReader(payload)
    return GetConsumerGroups(reader.identifier(), reader.identifier())


def encode_get_consumer_groups(command: GetConsumerGroups) -> bytes:
    return pack_identifiers(command.stream, command.topic)


@dataclass(frozen=True, slots=True)
class CreateConsumerGroup:
    """A new group; the server chooses its id."""

    stream: Identifier
    topic: Identifier
    name: str


def decode_create_consumer_group(payload: memoryview) -> CreateConsumerGroup:
    reader = PayloadReader(payload)
    return CreateConsumerGroup(reader.identifier(), reader.identifier(), reader.str8())


def encode_create_consumer_group(command: CreateConsumerGroup) -> bytes:
    return pack_identifiers(command.stream, command.topic) + pack_str8(command.name)


@dataclass(frozen=True, slots=True)
class DeleteConsumerGroup:
    """A group with its members and offsets."""

    stream: Identifier
    topic: Identifier
    group: Identifier


def decode_delete_consumer_group(payload: memoryview) -> DeleteConsumerGroup:
    reader = PayloadReader(payload)
    return DeleteConsumerGroup(reader.identifier(), reader.identifier(), reader.identifier())


def encode_delete_consumer_group(command: DeleteConsumerGroup) -> bytes:
    return pack_identifiers(command.stream, command.topic, command.group)


@dataclass(frozen=True, slots=True)
class JoinConsumerGroup:
    """Make this session a member."""

    stream: Identifier
    topic: Identifier
    group: Identifier


def decode_join_consumer_group(payload: memoryview) -> JoinConsumerGroup:
    reader = PayloadReader(payload)
    return JoinConsumerGroup(reader.identifier(), reader.identifier(), reader.identifier())


def encode_join_consumer_group(command: JoinConsumerGroup) -> bytes:
    return pack_identifiers(command.stream, command.topic, command.group)


@dataclass(frozen=True, slots=True)
class LeaveConsumerGroup:
    """End the membership of this session."""

    stream: Identifier
    topic: Identifier
    group: Identifier


def decode_leave_consumer_group(payload: memoryview) -> LeaveConsumerGroup:
    reader = PayloadReader(payload)
    return LeaveConsumerGroup(reader.identifier(), reader.identifier(), reader.identifier())


def encode_leave_consumer_group(command: LeaveConsumerGroup) -> bytes:
    return pack_identifiers(command.stream, command.topic, command.group)
