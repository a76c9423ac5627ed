"""Commands about consumer groups."""

from borzoi.protocol.codes import Code
from borzoi.protocol.commands.groups import (
    CreateConsumerGroup,
    DeleteConsumerGroup,
    GetConsumerGroup,
    GetConsumerGroups,
    JoinConsumerGroup,
    LeaveConsumerGroup,
)
from borzoi.protocol.errors import ConsumerGroupMemberNotFound
from borzoi.protocol.identifiers import Identifier
from borzoi.protocol.responses.consumers import ConsumerGroupDetails, ConsumerGroupInfo
from borzoi.shards.access import require
from borzoi.shards.groups.membership import require_group
from borzoi.shards.handlers.caller import Caller
from borzoi.shards.metadata.effects import GroupRef
from borzoi.shards.metadata.state import Stream, Topic
from borzoi.shards.services import Services


async def get_consumer_group(
    services: Services, caller: Caller, command: GetConsumerGroup
) -> ConsumerGroupDetails | None:
    """A group with its members, or nothing: whatever is missing is no error here."""
    found = _find(services, caller, Code.GET_CONSUMER_GROUP, command.stream, command.topic)
    if found is None:
        return None
    stream, topic = found
    group = topic.find_group(command.group)
    if group is None:
        return None
    partitions_count = topic.partitions_count
    members = await services.groups.members(GroupRef(stream.id, topic.id, group.id), group.birth)
    info = ConsumerGroupInfo(group.id, partitions_count, len(members), group.name)
    return ConsumerGroupDetails(info, members)


async def get_consumer_groups(
    services: Services, caller: Caller, command: GetConsumerGroups
) -> tuple[ConsumerGroupInfo, ...]:
    """All groups of a topic by id."""
    found = _find(services, caller, Code.GET_CONSUMER_GROUPS, command.stream, command.topic)
    if found is None:
        return ()
    stream, topic = found
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
    _, topic = _topic(services, caller, Code.CREATE_CONSUMER_GROUP, command)
    partitions_count = topic.partitions_count
    change = await services.metadata.change(command, caller.user)
    return ConsumerGroupInfo(change.new_id, partitions_count, 0, command.name)


async def delete_consumer_group(
    services: Services, caller: Caller, command: DeleteConsumerGroup
) -> None:
    """Remove a group with its members and its offsets, on every shard."""
    _, topic = _topic(services, caller, Code.DELETE_CONSUMER_GROUP, command)
    topic.group(command.group)
    await services.metadata.change(command, caller.user)


async def join_consumer_group(
    services: Services, caller: Caller, command: JoinConsumerGroup
) -> None:
    """Make the session a member. It is in the new assignment when this answers."""
    stream, topic = _topic(services, caller, Code.JOIN_CONSUMER_GROUP, command)
    group = require_group(services, caller, topic, command.group)
    await services.groups.join(
        caller.client_id, GroupRef(stream.id, topic.id, group.id), group.birth
    )


async def leave_consumer_group(
    services: Services, caller: Caller, command: LeaveConsumerGroup
) -> None:
    """End the membership of the session."""
    stream, topic = _topic(services, caller, Code.LEAVE_CONSUMER_GROUP, command)
    group = topic.group(command.group)
    ref = GroupRef(stream.id, topic.id, group.id)
    if services.groups.local.find(caller.client_id, ref, group.birth) is None:
        raise ConsumerGroupMemberNotFound(f"client {caller.client_id} is not in {ref}")
    await services.groups.leave(caller.client_id, ref, group.birth)
    caller.turns.forget(ref)


def _find(
    services: Services, caller: Caller, code: Code, stream: Identifier, topic: Identifier
) -> tuple[Stream, Topic] | None:
    state = services.metadata.refresh()
    found_stream = state.find_stream(stream)
    found = None if found_stream is None else found_stream.find_topic(topic)
    if found_stream is None or found is None:
        return None
    require(state, caller.user, code, found_stream.id, found.id)
    return found_stream, found


def _topic(
    services: Services,
    caller: Caller,
    code: Code,
    command: CreateConsumerGroup | DeleteConsumerGroup | JoinConsumerGroup | LeaveConsumerGroup,
) -> tuple[Stream, Topic]:
    state = services.metadata.refresh()
    stream = state.stream(command.stream)
    topic = stream.topic(command.topic)
    require(state, caller.user, code, stream.id, topic.id)
    return stream, topic
