"""Commands about committed offsets, and the explicit flush."""

from borzoi.protocol.codes import Code
from borzoi.protocol.commands.messages import FlushUnsavedBuffer
from borzoi.protocol.commands.offsets import (
    DeleteConsumerOffset,
    GetConsumerOffset,
    StoreConsumerOffset,
)
from borzoi.protocol.errors import ConsumerGroupMemberNotFound, PartitionNotFound, StaleClient
from borzoi.protocol.identifiers import Consumer, ConsumerKind, Identifier, consumer_number
from borzoi.protocol.responses.consumers import ConsumerOffsetInfo
from borzoi.shards.access import require
from borzoi.shards.handlers.caller import Caller
from borzoi.shards.metadata.state import Topic
from borzoi.shards.services import Services
from borzoi.shards.target import Target


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
        stored, current = await services.owners.get_offset(target, command.consumer.kind, consumer)
    except PartitionNotFound:
        return None
    if stored is None:
        return None
    return ConsumerOffsetInfo(partition_id, current, stored)


async def store_consumer_offset(
    services: Services, caller: Caller, command: StoreConsumerOffset
) -> None:
    """Commit an offset, forwards or backwards."""
    target, consumer = _own_partition(services, caller, Code.STORE_CONSUMER_OFFSET, command)
    await services.owners.store_offset(target, command.consumer.kind, consumer, command.offset)


async def delete_consumer_offset(
    services: Services, caller: Caller, command: DeleteConsumerOffset
) -> None:
    """Forget a committed offset."""
    target, consumer = _own_partition(services, caller, Code.DELETE_CONSUMER_OFFSET, command)
    await services.owners.delete_offset(target, command.consumer.kind, consumer)


async def flush_unsaved_buffer(
    services: Services, caller: Caller, command: FlushUnsavedBuffer
) -> None:
    """Write what is in memory; with fsync it is on the disk when this answers."""
    topic, stream_id = _topic(
        services, caller, Code.FLUSH_UNSAVED_BUFFER, command.stream, command.topic
    )
    target = services.metadata.target(stream_id, topic, command.partition_id)
    await services.owners.flush(target, command.fsync)


def _own_partition(
    services: Services,
    caller: Caller,
    code: Code,
    command: StoreConsumerOffset | DeleteConsumerOffset,
) -> tuple[Target, int]:
    topic, stream_id = _topic(services, caller, code, command.stream, command.topic)
    consumer = _consumer(services, caller, topic, command.consumer)
    return services.metadata.target(stream_id, topic, command.partition_id or 0), consumer


def _topic(
    services: Services, caller: Caller, code: Code, stream: Identifier, topic: Identifier
) -> tuple[Topic, int]:
    state = services.metadata.refresh()
    found_stream = state.stream(stream)
    found = found_stream.topic(topic)
    require(state, caller.user, code, found_stream.id, found.id)
    return found, found_stream.id


def _consumer(services: Services, caller: Caller, topic: Topic, consumer: Consumer) -> int:
    if consumer.kind == ConsumerKind.GROUP:
        if not services.clients.is_registered(caller):
            raise StaleClient(f"client {caller.client_id} is not registered any more")
        group = topic.group(consumer.id)
        raise ConsumerGroupMemberNotFound(f"nobody can join group {group.id} yet")
    return consumer_number(consumer.id)
