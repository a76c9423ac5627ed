"""Commands about topics and their partitions."""

import logging
from dataclasses import replace
from typing import Final, TypeAlias

from borzoi.protocol.codes import Code
from borzoi.protocol.commands.topics import (
    KEPT,
    CreatePartitions,
    CreateTopic,
    DeletePartitions,
    DeleteSegments,
    DeleteTopic,
    GetTopic,
    GetTopics,
    PurgeTopic,
    UpdateTopic,
)
from borzoi.protocol.consensus.options import read_options
from borzoi.protocol.responses.streams import TopicDetails, TopicInfo
from borzoi.shards.decisions.decide import check_arguments
from borzoi.shards.decisions.topic_options import COMPRESSION
from borzoi.shards.handlers.caller import Caller
from borzoi.shards.handlers.journals import show_journals
from borzoi.shards.handlers.options import check_topic
from borzoi.shards.handlers.services import Services
from borzoi.shards.metadata.access import require
from borzoi.shards.metadata.state import Topic
from borzoi.shards.ports.requests import DeleteOldest
from borzoi.shards.upkeep.compression import ignored

LOG: Final = logging.getLogger(__name__)

TopicChange: TypeAlias = (
    UpdateTopic | DeleteTopic | PurgeTopic | CreatePartitions | DeletePartitions
)


async def get_topic(services: Services, caller: Caller, command: GetTopic) -> TopicDetails | None:
    """A topic with its partitions, or nothing."""
    await show_journals(services)
    state = services.metadata.refresh()
    stream = state.find_stream(command.stream)
    topic = None if stream is None else stream.find_topic(command.topic)
    if stream is None or topic is None:
        return None
    require(state, caller.user, Code.GET_TOPIC, stream.id, topic.id)
    return services.describer.topic_details(topic, caller.knows_all_codecs)


async def get_topics(
    services: Services, caller: Caller, command: GetTopics
) -> tuple[TopicInfo, ...]:
    """The topics of a stream by id; none if there is no such stream."""
    await show_journals(services)
    state = services.metadata.refresh()
    if caller.generation.has_older_rules:
        state.stream(command.stream)
    stream = state.find_stream(command.stream)
    if stream is None:
        return ()
    require(state, caller.user, Code.GET_TOPICS, stream.id)
    return services.describer.topics(stream, caller.knows_all_codecs)


async def create_topic(services: Services, caller: Caller, command: CreateTopic) -> TopicDetails:
    """Make a topic; its partitions cost one log entry, however many."""
    check_topic(caller, command)
    state = services.metadata.refresh()
    stream = state.stream(command.stream)
    require(state, caller.user, Code.CREATE_TOPIC, stream.id)
    change = await services.metadata.change(command, caller.user, caller.request)
    topic = services.metadata.state.topic(stream.id, change.new_id)
    _tell_if_ignored(services, topic, command)
    return services.describer.new_topic(topic, caller.knows_all_codecs)


async def update_topic(services: Services, caller: Caller, command: UpdateTopic) -> None:
    """Change name and settings of a topic."""
    check_topic(caller, command)
    await _change(services, caller, Code.UPDATE_TOPIC, command)
    topic = services.metadata.state.find_topic(command.stream, command.name)
    if topic is not None:
        _tell_if_ignored(services, topic, command)


async def delete_topic(services: Services, caller: Caller, command: DeleteTopic) -> None:
    """Remove a topic with its data, on every shard."""
    await _change(services, caller, Code.DELETE_TOPIC, command)


async def purge_topic(services: Services, caller: Caller, command: PurgeTopic) -> None:
    """Empty a topic: offsets start at 0 again, stored offsets are forgotten."""
    await _change(services, caller, Code.PURGE_TOPIC, command)


async def create_partitions(services: Services, caller: Caller, command: CreatePartitions) -> None:
    """Add partitions with the next ids."""
    check_arguments(command)
    await _change(services, caller, Code.CREATE_PARTITIONS, command)


async def delete_partitions(services: Services, caller: Caller, command: DeletePartitions) -> None:
    """Remove the partitions with the highest ids."""
    check_arguments(command)
    if caller.generation.has_older_rules:
        topic = _changeable(services, caller, Code.DELETE_PARTITIONS, command)
        count = min(command.partitions_count, topic.partitions_count)
        if count == 0:
            return
        command = replace(command, partitions_count=count)
    await _change(services, caller, Code.DELETE_PARTITIONS, command)


async def delete_segments(services: Services, caller: Caller, command: DeleteSegments) -> None:
    """Delete the oldest segments of a partition that everybody has read."""
    state = services.metadata.refresh()
    stream = state.stream(command.stream)
    topic = stream.topic(command.topic)
    require(state, caller.user, Code.DELETE_SEGMENTS, stream.id, topic.id)
    target = services.metadata.target(stream.id, topic, command.partition_id)
    await services.owners.ask(DeleteOldest(target, command.segments_count))


async def _change(services: Services, caller: Caller, code: Code, command: TopicChange) -> None:
    _changeable(services, caller, code, command)
    await services.metadata.change(command, caller.user, caller.request)


def _changeable(services: Services, caller: Caller, code: Code, command: TopicChange) -> Topic:
    """The topic that the caller may do this to."""
    state = services.metadata.refresh()
    stream = state.stream(command.stream)
    topic = stream.topic(command.topic)
    require(state, caller.user, code, stream.id, topic.id)
    return topic


def _tell_if_ignored(services: Services, topic: Topic, command: CreateTopic | UpdateTopic) -> None:
    """Log a codec that a topic asks for and does not get: in Iggy's default topics have no say."""
    if command.compression_algorithm == KEPT and COMPRESSION not in read_options(command.options):
        return
    wanted = ignored(services.compression, topic.compression_algorithm)
    if wanted is not None:
        LOG.warning(
            "topic %s asks for %s and is stored as %s: system.compression.allow_override is false",
            command.name,
            wanted.name.lower(),
            services.compression.default_algorithm,
        )
