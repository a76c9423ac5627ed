"""Shard 0 keeps its log short beside the commands it carries out."""

import asyncio
import os
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from pathlib import Path
from typing import cast

import pytest

from borzoi.protocol.commands.streams import CreateStream, DeleteStream
from borzoi.protocol.errors import StreamIdNotFound
from borzoi.protocol.permissions import ALL_PERMISSIONS, UserStatus
from borzoi.router.board import Board, create_board
from borzoi.shards.changes.authors import Author
from borzoi.shards.changes.bootstrap import ensure_root
from borzoi.shards.changes.requests import Barrier
from borzoi.shards.changes.service import published_log
from borzoi.shards.changes.writing import MetadataWriting
from borzoi.shards.decisions.commands import CreateHashedUser
from borzoi.shards.decisions.decide import MetadataSettings
from borzoi.shards.loop.clock import BrokerClock, broker_start
from borzoi.shards.loop.tasks import Tasks
from borzoi.shards.metadata.requests import RequestKey
from borzoi.shards.metadata_log.follower import open_copy
from borzoi.shards.metadata_log.shortening import temporary_path
from borzoi.shards.metadata_log.writer import SnapshotRule, open_writer
from borzoi.shards.rings.peers import Peers
from borzoi.shards.rings.requests import Done, Request
from borzoi.storage.files import Files
from borzoi.storage.layout import DataLayout

EVERY = 10
SLOTS = 4
TIMEOUT_S = 60


class OnePeer:
    """Answers barriers unless it is held up."""

    def __init__(self) -> None:
        self.away = False
        self.held_up: list[Done] | None = None

    def shards(self) -> list[int]:
        return [1]

    def is_away(self, _shard: int) -> bool:
        return self.away

    def ask(self, _shard: int, request: Request, done: Done) -> None:
        assert isinstance(request, Barrier)
        if self.held_up is None:
            done(0)
        else:
            self.held_up.append(done)


class Writing:
    """Shard 0's side of the metadata, with a real log and a board of its own."""

    def __init__(self, path: Path) -> None:
        self.layout = DataLayout(path)
        self.files = Files()
        self._board_fd = create_board(SLOTS)
        self.board = Board(self._board_fd, SLOTS)
        self.peer = OnePeer()
        self._disk = ThreadPoolExecutor(1)
        self.broken: list[BaseException] = []
        self.tasks = Tasks(self.broken.append)
        self.writer = open_writer(
            self.layout.state_log,
            self.layout.state_snapshot,
            self.files,
            MetadataSettings(1 << 20),
            rule=SnapshotRule(EVERY),
        )
        ensure_root(self.writer, "boss", "a hash", 1000)
        self.writing = MetadataWriting(
            self.writer,
            self.board,
            cast("Peers", self.peer),
            lambda _effects: None,
            self._disk,
            self.tasks,
            self.layout,
            self.files,
            BrokerClock(broker_start()),
            sync=False,
        )
        self.writing.publish()

    def is_being_replaced(self) -> bool:
        return os.path.exists(temporary_path(self.layout.state_log))

    @asynccontextmanager
    async def running(self) -> AsyncIterator["Writing"]:
        async with asyncio.timeout(TIMEOUT_S):
            yield self
            await self.tasks.drain(TIMEOUT_S)
        assert self.broken == []

    async def change(self, times: int) -> None:
        for _ in range(times):
            there = self.writer.state.find_stream("s") is not None
            command = DeleteStream("s") if there else CreateStream("s")
            root = self.writer.state.users[0]
            await self.writing.propose(command, Author(0, root.created_at))

    async def change_until_replaced(self) -> None:
        first = published_log(self.board).first
        while published_log(self.board).first == first:
            await self.change(1)

    @property
    def first(self) -> int:
        return published_log(self.board).first

    def close(self) -> None:
        self._disk.shutdown()
        self.writer.close()
        os.close(self._board_fd)


@pytest.fixture
def writing(tmp_path: Path) -> Iterator[Writing]:
    writing = Writing(tmp_path)
    yield writing
    writing.close()


def test_it_is_replaced_again_and_again_and_readers_follow(writing: Writing) -> None:
    async def run() -> None:
        async with writing.running():
            copy = open_copy(writing.layout.state_log, writing.layout.state_snapshot, writing.files)
            assert copy.begin_at(published_log(writing.board))
            for _ in range(5):
                await writing.change_until_replaced()
                copy.follow(published_log(writing.board))
                assert copy.state == writing.writer.state
                await writing.change(3)
            copy.follow(published_log(writing.board))
            assert copy.state == writing.writer.state
            copy.close()
        assert writing.first > 5 * EVERY

    asyncio.run(run())


def test_not_while_a_shard_is_away(writing: Writing) -> None:
    async def run() -> None:
        writing.peer.away = True
        async with writing.running():
            await writing.change(10 * EVERY)
        assert writing.first == 1
        assert not writing.is_being_replaced()
        writing.peer.away = False
        async with writing.running():
            await writing.change_until_replaced()

    asyncio.run(run())


def test_commands_do_not_wait_for_a_shard_that_does_not_answer(writing: Writing) -> None:
    """Creations need no barrier of their own; the log is replaced when it answers."""

    async def create(numbers: range) -> None:
        for number in numbers:
            root = writing.writer.state.users[0]
            await writing.writing.propose(CreateStream(f"s{number}"), Author(0, root.created_at))

    async def run() -> None:
        held_up: list[Done] = []
        writing.peer.held_up = held_up
        async with writing.running():
            created = 0
            while not held_up:
                await create(range(created, created + 1))
                created += 1
                await asyncio.sleep(0)
            await create(range(created, created + 5 * EVERY))
            assert writing.first == 1
            writing.peer.held_up = None
            for done in held_up:
                done(0)
        assert writing.first > 1
        assert len(writing.writer.state.streams) == created + 5 * EVERY

    asyncio.run(run())


def test_a_numbered_change_that_is_made_again_is_made_once(writing: Writing) -> None:
    """Also when what it was about is gone by then, and when another user uses the same number."""
    request = RequestKey(bytes(range(16)), 7)

    async def run() -> None:
        root = Author(0, writing.writer.state.users[0].created_at)
        numbered = root._replace(request=request)
        async with writing.running():
            created = await writing.writing.propose(CreateStream("s"), numbered)
            assert await writing.writing.propose(CreateStream("s"), numbered) == created
            deleting = root._replace(request=request._replace(number=8))
            deleted = await writing.writing.propose(DeleteStream("s"), deleting)
            assert await writing.writing.propose(DeleteStream("s"), deleting) == deleted
            assert deleted.entry == created.entry + 1
            with pytest.raises(StreamIdNotFound):
                await writing.writing.propose(DeleteStream("s"), root)
            other = CreateHashedUser("ann", "hash", UserStatus.ACTIVE, ALL_PERMISSIONS)
            ann = await writing.writing.propose(other, root)
            author = Author(ann.new_id, writing.writer.state.users[ann.new_id].created_at)
            with pytest.raises(StreamIdNotFound):
                await writing.writing.propose(
                    DeleteStream("s"), author._replace(request=deleting.request)
                )

    asyncio.run(run())
