"""Requests about consumer groups."""

from dataclasses import dataclass

from borzoi.protocol.commands.request import Request
from borzoi.protocol.identifiers import Identifier
from borzoi.protocol.kinds import chosen_id, name8


@dataclass(frozen=True, slots=True)
class GetConsumerGroup(Request):
    """One group with its members."""

    stream: Identifier
    topic: Identifier
    group: Identifier


@dataclass(frozen=True, slots=True)
class GetConsumerGroups(Request):
    """All groups of a topic."""

    stream: Identifier
    topic: Identifier


@dataclass(frozen=True, slots=True)
class CreateConsumerGroup(Request):
    """A new group; the server chooses its id, unless the client of an older generation has."""

    stream: Identifier
    topic: Identifier
    name: name8
    wanted_id: chosen_id = None


@dataclass(frozen=True, slots=True)
class DeleteConsumerGroup(Request):
    """A group with its members and offsets."""

    stream: Identifier
    topic: Identifier
    group: Identifier


@dataclass(frozen=True, slots=True)
class JoinConsumerGroup(Request):
    """Make this session a member."""

    stream: Identifier
    topic: Identifier
    group: Identifier


@dataclass(frozen=True, slots=True)
class SyncConsumerGroup(Request):
    """Which partitions this session has to poll as a member."""

    stream: Identifier
    topic: Identifier
    group: Identifier


@dataclass(frozen=True, slots=True)
class LeaveConsumerGroup(Request):
    """End the membership of this session."""

    stream: Identifier
    topic: Identifier
    group: Identifier
