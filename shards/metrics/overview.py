"""Streams, topics and partitions in figures, from metadata and board: the same on any shard.

Walked in turns like everything that metrics look at. The runs of partitions are taken first, all at
once. A partition that ends meanwhile counts as an empty one, because its life is not on the board
any more.
"""

import asyncio
from typing import Final, NamedTuple

from borzoi.router.placement import pack_namespace
from borzoi.shards.metadata.state import Run, State
from borzoi.shards.metrics.shard_figures import Cut
from borzoi.shards.reading.describe import Describer

PARTITIONS_PER_TURN: Final = 256


class TopicPlace(NamedTuple):
    """A topic by its ids."""

    stream_id: int
    topic_id: int


class TopicFigures(NamedTuple):
    """Sums over the partitions of a topic."""

    place: TopicPlace
    partitions: int
    segments: int
    messages: int
    size_bytes: int


class PartitionEnd(NamedTuple):
    """The offset that the next message of a partition will get."""

    namespace: int
    next_offset: int


class Names(NamedTuple):
    """The names of ids, where the configuration asks for them."""

    streams: dict[int, str]
    topics: dict[TopicPlace, str]
    groups: dict[tuple[TopicPlace, int], str]
    consumers: dict[int, str]
    """Of single consumers, by the numbers that the broker keeps for them."""


class Overview(NamedTuple):
    """The whole broker. The sums cover everything, also what the lists leave out."""

    streams: int
    users: int
    consumer_groups: int
    total: TopicFigures
    topics_count: int
    topics: Cut[TopicFigures]
    ends: Cut[PartitionEnd]


class _Runs(NamedTuple):
    place: TopicPlace
    runs: tuple[Run, ...]


EVERYWHERE: Final = TopicPlace(-1, -1)


async def look_over(state: State, describer: Describer, rows_max: int) -> Overview:
    """The figures of this moment, no list longer than `rows_max`. Nothing of `state` is kept."""
    topics = [topic for stream in state.streams.values() for topic in stream.topics.values()]
    walked = [
        _Runs(TopicPlace(stream.id, topic.id), tuple(topic.runs))
        for stream in state.streams.values()
        for topic in stream.topics.values()
    ]
    streams, users = len(state.streams), len(state.users)
    groups = sum(len(topic.groups) for topic in topics)
    del state, topics
    total = TopicFigures(EVERYWHERE, 0, 0, 0, 0)
    rows: list[TopicFigures] = []
    ends: list[PartitionEnd] = []
    steps = 0
    for place, runs in walked:
        segments = messages = size_bytes = 0
        for run in runs:
            for number in range(run.count):
                if steps == PARTITIONS_PER_TURN:
                    steps = 0
                    await asyncio.sleep(0)
                steps += 1
                found = describer.published(run, number)
                segments += found.segment_count
                messages += found.next_offset - found.first_offset
                size_bytes += found.size_bytes
                if len(ends) < rows_max:
                    namespace = pack_namespace(*place, run.first_partition + number)
                    ends.append(PartitionEnd(namespace, found.next_offset))
        count = sum(run.count for run in runs)
        figures = TopicFigures(place, count, segments, messages, size_bytes)
        total = TopicFigures(EVERYWHERE, *map(sum, zip(total[1:], figures[1:], strict=True)))
        if len(rows) < rows_max:
            rows.append(figures)
    return Overview(
        streams,
        users,
        groups,
        total,
        len(walked),
        Cut(rows, len(walked) - len(rows)),
        Cut(ends, total.partitions - len(ends)),
    )


def names_of(state: State, consumers: dict[int, str]) -> Names:
    """What everything is called now."""
    names = Names({}, {}, {}, consumers)
    for stream in state.streams.values():
        names.streams[stream.id] = stream.name
        for topic in stream.topics.values():
            place = TopicPlace(stream.id, topic.id)
            names.topics[place] = topic.name
            for group in topic.groups.values():
                names.groups[place, group.id] = group.name
    return names
