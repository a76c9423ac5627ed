"""A client that numbers its requests has one session: a later one waits until the first is done."""

import asyncio
import os
from collections.abc import Iterator
from typing import cast

import pytest

from borzoi.protocol.errors import ShardCommunicationError
from borzoi.router.request_entry import Answer, Beginner, ClientKey
from borzoi.router.request_memory import RequestLayout, RequestMemory, create_request_memory
from borzoi.shards.identity.request_numbers import Held, RequestNumbers, TakeOver
from borzoi.shards.rings.peers import Peers
from borzoi.shards.rings.requests import Done, Request

KEY = ClientKey(1, 2, 3 << 64 | 4)
LAYOUT = RequestLayout(2, 4)
NOTHING = memoryview(b"")


class OtherShard:
    """Stands in for the peers of a shard: there is one, asked at once or when the test wants."""

    def __init__(self) -> None:
        self.numbers: RequestNumbers | None = None
        self.generations = [1, 1]
        self.away: set[int] = set()
        self.asked: list[tuple[int, Request]] = []

    def generation(self, shard: int) -> int:
        return self.generations[shard]

    def is_away(self, shard: int) -> bool:
        return shard in self.away

    def ask(self, shard: int, request: Request, done: Done) -> None:
        self.asked.append((shard, request))
        assert self.numbers is not None
        assert isinstance(request, TakeOver)
        self.numbers.serve(1 - shard, request, NOTHING, done)


class Scene:
    """Two shards over one memory."""

    def __init__(self, fd: int) -> None:
        self.fd = fd
        self.peers = [OtherShard(), OtherShard()]
        self.shards = [self._numbers(shard) for shard in (0, 1)]
        for peers, numbers in zip(self.peers, reversed(self.shards), strict=True):
            peers.numbers = numbers

    def _numbers(self, shard: int, generation: int = 1) -> RequestNumbers:
        memory = RequestMemory(self.fd, LAYOUT, Beginner(shard, generation))
        return RequestNumbers(memory, cast(Peers, self.peers[shard]))

    async def take(self, shard: int, key: ClientKey = KEY) -> Held:
        held = await self.shards[shard].take(key)
        assert held is not None
        return held


@pytest.fixture
def scene() -> Iterator[Scene]:
    fd = create_request_memory(LAYOUT)
    yield Scene(fd)
    os.close(fd)


@pytest.mark.parametrize(("first", "second"), [(0, 0), (0, 1), (1, 0)])
def test_a_session_that_is_idle_gives_its_client_up(scene: Scene, first: int, second: int) -> None:
    async def run() -> None:
        held = await scene.take(first)
        held.begin(5)
        held.end(0, b"done")
        later = await scene.take(second)
        assert held.is_given_up
        assert not later.is_given_up
        assert (later.entry.begun, later.entry.answer) == (5, Answer(0, b"done"))
        held.give_up()  # its connection ends: the client is another session's by now
        assert (await scene.take(first)).entry.begun == 5
        assert later.is_given_up

    asyncio.run(run())


@pytest.mark.parametrize("second", [0, 1])
def test_a_register_waits_for_the_request_in_work(scene: Scene, second: int) -> None:
    async def run() -> None:
        held = await scene.take(0)
        held.begin(5)
        coming = asyncio.ensure_future(scene.take(second))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert held.is_given_up
        assert not coming.done()
        held.end(7)
        assert (await coming).entry.answer == Answer(7, b"")

    asyncio.run(run())


def test_a_session_that_has_ended_is_not_asked(scene: Scene) -> None:
    async def run() -> None:
        held = await scene.take(0)
        held.give_up()
        await scene.take(1)
        assert scene.peers[1].asked == []

    asyncio.run(run())


def test_a_dead_shard_is_not_asked_and_what_it_began_is_unsettled_until_its_successor_lives(
    scene: Scene,
) -> None:
    async def run() -> None:
        held = await scene.take(0)
        held.begin(5)
        peers = scene.peers[1]
        peers.generations[0], peers.away = 2, {0}
        later = await scene.take(1)
        assert peers.asked == []
        assert (later.entry.begun, later.entry.is_answered) == (5, False)
        assert not later.is_settled
        peers.away.clear()
        assert later.is_settled
        later.begin_again()
        assert later.is_settled, "begun here"

    asyncio.run(run())


def test_many_sessions_at_once_end_in_one_or_in_an_error(scene: Scene) -> None:
    async def run() -> None:
        first = await scene.take(0)
        first.begin(1)
        coming = [asyncio.ensure_future(scene.take(number % 2)) for number in range(20)]
        await asyncio.sleep(0)
        first.end(0)
        ended = await asyncio.gather(*coming, return_exceptions=True)
        held = [one for one in ended if isinstance(one, Held) and not one.is_given_up]
        assert len(held) == 1
        others = [one for one in ended if not isinstance(one, Held)]
        assert all(isinstance(one, ShardCommunicationError) for one in others)

    asyncio.run(run())


def test_without_room_there_is_no_memory(scene: Scene) -> None:
    async def run() -> None:
        for number in range(LAYOUT.entries):
            await scene.take(0, KEY._replace(client=number + 1))
        assert await scene.shards[0].take(KEY) is None
        assert await scene.shards[1].take(KEY) is not None

    asyncio.run(run())
