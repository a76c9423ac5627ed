"""Commands about committed offsets, and the explicit flush."""

from borzoi.protocol.codes import Code
from borzoi.protocol.commands.messages import FlushUnsavedBuffer
from borzoi.protocol.commands.offsets import (
    DeleteConsumerOffset,
    GetConsumerOffset,
    StoreConsumerOffset,
)
from borzoi.protocol.errors import NotResolvedConsumer, PartitionNotFound
from borzoi.protocol.identifiers import ConsumerKind, Identifier, consumer_number
from borzoi.protocol.responses.consumers import ConsumerOffsetInfo
from borzoi.router.target import Target
from borzoi.shards.groups.requests import GroupDelete, GroupStore
from borzoi.shards.handlers.caller import Caller
from borzoi.shards.handlers.membership import membership
from borzoi.shards.handlers.services import Services
from borzoi.shards.metadata.access import require
from borzoi.shards.metadata.state import Stream, Topic
from borzoi.shards.partitions.group_cursor import Claim
from borzoi.shards.ports.requests import DeleteOffset, Flush, GetOffset, StoreOffset


async def get_consumer_offset(
    services: Services, caller: Caller, command: GetConsumerOffset
) -> ConsumerOffsetInfo | None:
    """The committed offset, or nothing: whatever is missing is no error here."""
    state = services.metadata.refresh()
    stream = state.find_stream(command.stream)
    topic = None if stream is None else stream.find_topic(command.topic)
    if stream is None or topic is None:
        return None
    require(state, caller.user, Code.GET_CONSUMER_OFFSET, stream.id, topic.id)
    partition_id = command.partition_id or 0
    if command.consumer.kind == ConsumerKind.GROUP:
        group = topic.find_group(command.consumer.id)
        if group is None:
            return None
        consumer = group.id
    else:
        consumer = consumer_number(command.consumer.id)
    if topic.find_partition(partition_id) is None:
        return None
    target = services.metadata.target(stream.id, topic, partition_id)
    try:
        is_stored, stored, current = await services.owners.ask(
            GetOffset(target, command.consumer.kind, consumer)
        )
    except PartitionNotFound:
        return None
    if not is_stored:
        return None
    return ConsumerOffsetInfo(partition_id, current, stored)


async def store_consumer_offset(
    services: Services, caller: Caller, command: StoreConsumerOffset
) -> None:
    """Commit an offset, forwards or backwards."""
    if command.consumer.kind == ConsumerKind.GROUP:
        target, claim = _claimed(services, caller, Code.STORE_CONSUMER_OFFSET, command)
        await services.groups.owners.ask(GroupStore(target, *claim, command.offset))
        return
    target, consumer = _own_partition(services, caller, Code.STORE_CONSUMER_OFFSET, command)
    await services.owners.ask(
        StoreOffset(target, command.consumer.kind, consumer, command.offset, caller.user)
    )


async def delete_consumer_offset(
    services: Services, caller: Caller, command: DeleteConsumerOffset
) -> None:
    """Forget a committed offset."""
    if command.consumer.kind == ConsumerKind.GROUP:
        target, claim = _claimed(services, caller, Code.DELETE_CONSUMER_OFFSET, command)
        await services.groups.owners.ask(GroupDelete(target, *claim))
        return
    target, consumer = _own_partition(services, caller, Code.DELETE_CONSUMER_OFFSET, command)
    await services.owners.ask(DeleteOffset(target, command.consumer.kind, consumer))


async def flush_unsaved_buffer(
    services: Services, caller: Caller, command: FlushUnsavedBuffer
) -> None:
    """Write what is in memory; with fsync it is on the disk when this answers."""
    topic, stream = _topic(
        services, caller, Code.FLUSH_UNSAVED_BUFFER, command.stream, command.topic
    )
    target = services.metadata.target(stream.id, topic, command.partition_id)
    await services.owners.ask(Flush(target, command.fsync))


def _own_partition(
    services: Services,
    caller: Caller,
    code: Code,
    command: StoreConsumerOffset | DeleteConsumerOffset,
) -> tuple[Target, int]:
    topic, stream = _topic(services, caller, code, command.stream, command.topic)
    target = services.metadata.target(stream.id, topic, command.partition_id or 0)
    return target, services.consumer_names.number_of(command.consumer.id)


def _claimed(
    services: Services,
    caller: Caller,
    code: Code,
    command: StoreConsumerOffset | DeleteConsumerOffset,
) -> tuple[Target, Claim]:
    """The partition that a member means, and its right to it."""
    topic, stream = _topic(services, caller, code, command.stream, command.topic)
    share = membership(services, caller, stream, topic, command.consumer.id)
    if command.partition_id is not None:
        holding = share.held.get(command.partition_id)
    else:
        holding = caller.turns.current(share, topic.partitions_count)
    if holding is None:
        raise NotResolvedConsumer(
            f"client {caller.client_id} holds {sorted(share.held)}, not {command.partition_id}"
        )
    if not caller.turns.may_commit(share, holding):
        raise NotResolvedConsumer(
            f"client {caller.client_id} has partition {holding.partition} again, but has not"
            " polled it since"
        )
    target = services.metadata.target(stream.id, topic, holding.partition)
    return target, share.claim(holding)


def _topic(
    services: Services, caller: Caller, code: Code, stream: Identifier, topic: Identifier
) -> tuple[Topic, Stream]:
    state = services.metadata.refresh()
    found_stream = state.stream(stream)
    found = found_stream.topic(topic)
    require(state, caller.user, code, found_stream.id, found.id)
    return found, found_stream
