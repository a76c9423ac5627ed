"""Commands about consumer groups.

What is missing is reported before what is not allowed: stream, topic, group, then the permission.
The order is the one clients know.
"""

from borzoi.protocol.codes import Code
from borzoi.protocol.commands.groups import (
    CreateConsumerGroup,
    DeleteConsumerGroup,
    GetConsumerGroup,
    GetConsumerGroups,
    JoinConsumerGroup,
    LeaveConsumerGroup,
    SyncConsumerGroup,
)
from borzoi.protocol.errors import ConsumerGroupMemberNotFound
from borzoi.protocol.identifiers import Identifier
from borzoi.protocol.responses.consumers import (
    ConsumerGroupDetails,
    ConsumerGroupInfo,
    GroupAssignment,
)
from borzoi.shards.handlers.caller import Caller
from borzoi.shards.handlers.membership import require_registered
from borzoi.shards.handlers.services import Services
from borzoi.shards.metadata.access import require
from borzoi.shards.metadata.effects import GroupRef
from borzoi.shards.metadata.state import Stream, Topic


async def get_consumer_group(
    services: Services, caller: Caller, command: GetConsumerGroup
) -> ConsumerGroupDetails | None:
    """A group with its members, or nothing: whatever is missing is no error here."""
    found = _find(services, command.stream, command.topic)
    if found is None:
        return None
    stream, topic = found
    group = topic.find_group(command.group)
    if group is None:
        return None
    require(services.metadata.state, caller.user, Code.GET_CONSUMER_GROUP, stream.id, topic.id)
    partitions_count = topic.partitions_count
    members = await services.groups.members(GroupRef(stream.id, topic.id, group.id), group.birth)
    info = ConsumerGroupInfo(group.id, partitions_count, len(members), group.name)
    return ConsumerGroupDetails(info, members)


async def get_consumer_groups(
    services: Services, caller: Caller, command: GetConsumerGroups
) -> tuple[ConsumerGroupInfo, ...]:
    """All groups of a topic by id."""
    if caller.generation.has_older_rules:
        _topic(services, command)
    found = _find(services, command.stream, command.topic)
    if found is None:
        return ()
    stream, topic = found
    require(services.metadata.state, caller.user, Code.GET_CONSUMER_GROUPS, stream.id, topic.id)
    known = sorted((group.id, group.name) for group in topic.groups.values())
    partitions_count = topic.partitions_count
    counts = await services.groups.counts(stream.id, topic.id)
    return tuple(
        ConsumerGroupInfo(group_id, partitions_count, counts.get(group_id, 0), name)
        for group_id, name in known
    )


async def create_consumer_group(
    services: Services, caller: Caller, command: CreateConsumerGroup
) -> ConsumerGroupInfo:
    """Make a group without members."""
    stream, topic = _topic(services, command)
    require(services.metadata.state, caller.user, Code.CREATE_CONSUMER_GROUP, stream.id, topic.id)
    partitions_count = topic.partitions_count
    change = await services.metadata.change(command, caller.user, caller.request)
    return ConsumerGroupInfo(change.new_id, partitions_count, 0, command.name)


async def delete_consumer_group(
    services: Services, caller: Caller, command: DeleteConsumerGroup
) -> None:
    """Remove a group with its members and its offsets, on every shard."""
    _group(services, caller, Code.DELETE_CONSUMER_GROUP, command)
    await services.metadata.change(command, caller.user, caller.request)


async def join_consumer_group(
    services: Services, caller: Caller, command: JoinConsumerGroup
) -> None:
    """Make the session a member. It is in the new assignment when this answers."""
    ref, birth = _group(services, caller, Code.JOIN_CONSUMER_GROUP, command)
    require_registered(services, caller)
    await services.groups.join(caller.client_id, ref, birth)


async def leave_consumer_group(
    services: Services, caller: Caller, command: LeaveConsumerGroup
) -> None:
    """End the membership of the session."""
    ref, birth = _group(services, caller, Code.LEAVE_CONSUMER_GROUP, command)
    if services.groups.local.find(caller.client_id, ref, birth) is None:
        raise ConsumerGroupMemberNotFound(f"client {caller.client_id} is not in {ref}")
    await services.groups.leave(caller.client_id, ref, birth)
    caller.turns.forget(ref)


def sync_consumer_group(
    services: Services, caller: Caller, command: SyncConsumerGroup
) -> GroupAssignment | None:
    """What the session has to poll, without what it has to give up; nothing if it is no member."""
    ref, birth = _group(services, caller, Code.JOIN_CONSUMER_GROUP, command)
    require_registered(services, caller)
    share = services.groups.local.find(caller.client_id, ref, birth)
    if share is None:
        return None
    count = services.metadata.state.topic(ref.stream_id, ref.topic_id).partitions_count
    partitions = tuple(one.partition for one in share.turns if one.partition < count)
    return GroupAssignment(share.assignment.generation, partitions)


def _find(services: Services, stream: Identifier, topic: Identifier) -> tuple[Stream, Topic] | None:
    found_stream = services.metadata.refresh().find_stream(stream)
    found = None if found_stream is None else found_stream.find_topic(topic)
    return None if found_stream is None or found is None else (found_stream, found)


def _topic(
    services: Services,
    command: (
        CreateConsumerGroup
        | DeleteConsumerGroup
        | GetConsumerGroups
        | JoinConsumerGroup
        | LeaveConsumerGroup
        | SyncConsumerGroup
    ),
) -> tuple[Stream, Topic]:
    stream = services.metadata.refresh().stream(command.stream)
    return stream, stream.topic(command.topic)


def _group(
    services: Services,
    caller: Caller,
    code: Code,
    command: DeleteConsumerGroup | JoinConsumerGroup | LeaveConsumerGroup | SyncConsumerGroup,
) -> tuple[GroupRef, int]:
    """The group that the caller may do this to, and its birth."""
    stream, topic = _topic(services, command)
    group = topic.group(command.group)
    require(services.metadata.state, caller.user, code, stream.id, topic.id)
    return GroupRef(stream.id, topic.id, group.id), group.birth
