"""Streams and topics in figures: sums of everything, lists of some, and turns for others."""

import asyncio
from typing import cast

from borzoi.router.placement import pack_namespace
from borzoi.shards.metadata.state import Group, Run, State, Stream, Topic, User
from borzoi.shards.metrics.overview import (
    PARTITIONS_PER_TURN,
    Overview,
    PartitionEnd,
    TopicFigures,
    TopicPlace,
    look_over,
    names_of,
)
from borzoi.shards.metrics.shard_figures import Cut
from borzoi.shards.reading.describe import Describer
from borzoi.storage.published import Published


class Board:
    """A partition has as many messages as its slot says, from offset 5 on, of 10 bytes each."""

    def __init__(self) -> None:
        self.looks = 0

    def published(self, run: Run, number: int) -> Published:
        self.looks += 1
        messages = run.first_slot + number
        return Published(run.birth, 5, 5 + messages, 5, 0, 10 * messages, 2, 0)


def topic(id: int, *runs: Run) -> Topic:
    return Topic(id, f"topic-{id}", 0, 1, 0, 0, 1, runs=list(runs))


def state_with(*topics: Topic) -> State:
    for one in topics:
        one.groups = {3: Group(3, f"group-of-{one.id}", 0, 0)}
    stream = Stream(1, "stream", 0, {one.id: one for one in topics})
    users = {0: User(0, "a", "", 1, 0), 1: User(1, "b", "", 1, 0)}
    return State(streams={1: stream, 4: Stream(4, "empty", 0)}, users=users)


TWO_TOPICS = state_with(
    topic(0, Run(0, 2, 7, 1, 0), Run(2, 1, 8, 9, 0)), topic(6, Run(0, 1, 9, 20, 0))
)


def look(state: State, rows_max: int, board: Board) -> Overview:
    return asyncio.run(look_over(state, cast("Describer", board), rows_max))


def test_sums_and_rows() -> None:
    found = look(TWO_TOPICS, 10, Board())
    assert (found.streams, found.users, found.consumer_groups, found.topics_count) == (2, 2, 2, 2)
    assert found.total[1:] == (4, 8, 32, 320)
    first = TopicFigures(TopicPlace(1, 0), 3, 6, 12, 120)
    assert found.topics == Cut([first, TopicFigures(TopicPlace(1, 6), 1, 2, 20, 200)])
    places = [(0, 0, 6), (0, 1, 7), (0, 2, 14), (6, 0, 25)]
    ends = [PartitionEnd(pack_namespace(1, topic, number), end) for topic, number, end in places]
    assert found.ends == Cut(ends)


def test_sums_leave_nothing_out() -> None:
    found = look(TWO_TOPICS, 1, Board())
    assert found.total[1:] == (4, 8, 32, 320)
    assert (len(found.topics.rows), found.topics.left_out) == (1, 1)
    assert (len(found.ends.rows), found.ends.left_out) == (1, 3)


def test_others_get_their_turn() -> None:
    state = state_with(*(topic(id, Run(0, 100, 1, 1, 0)) for id in range(10)))
    board = Board()
    most = 0

    async def run() -> None:
        nonlocal most
        looking = asyncio.ensure_future(look_over(state, cast("Describer", board), 10))
        before = 0
        while not looking.done():
            await asyncio.sleep(0)
            most, before = max(most, board.looks - before), board.looks

    asyncio.run(run())
    assert board.looks == 1000
    assert most <= PARTITIONS_PER_TURN


def test_names() -> None:
    names = names_of(TWO_TOPICS, {7: "consumer"})
    assert names.streams == {1: "stream", 4: "empty"}
    assert names.topics == {TopicPlace(1, 0): "topic-0", TopicPlace(1, 6): "topic-6"}
    assert names.groups[TopicPlace(1, 6), 3] == "group-of-6"
    assert names.consumers == {7: "consumer"}
