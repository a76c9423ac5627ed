"""Changing the metadata: shard 0 writes, the others ask it to.

One command at a time: validate, append, sync in a thread, publish, apply, wait for the barrier
if something was removed, answer. A barrier is over when every shard has applied the entry and
moved the directories it owns out of the way; a dead shard counts as done, because its recovery
does it.

Now and then a snapshot is written aside of that, and the log is replaced by a shorter one between
two commands (docs/adr/0001).
"""

import asyncio
import logging
import os
from collections.abc import Callable
from concurrent.futures import Executor
from functools import partial
from typing import Any, Final, Protocol, TypeVar

from borzoi.protocol.commands.groups import CreateConsumerGroup
from borzoi.protocol.commands.streams import CreateStream
from borzoi.protocol.commands.topics import CreateTopic
from borzoi.protocol.errors import BrokerError, IoError
from borzoi.protocol.identifiers import ConsumerKind
from borzoi.router.board import Board
from borzoi.router.pool import MemoryPool
from borzoi.shards.changes.authors import Author, author_of, check_author
from borzoi.shards.changes.proposals import (
    behind_request,
    decode_proposal,
    encode_proposal,
    request_before,
)
from borzoi.shards.changes.requests import Barrier, Propose
from borzoi.shards.changes.service import Change, publish_log
from borzoi.shards.decisions.attaching import CreateAttachedTopic
from borzoi.shards.decisions.commands import CreateHashedUser, DeleteExpiredTokens
from borzoi.shards.loop.clock import BrokerClock
from borzoi.shards.loop.tasks import Tasks
from borzoi.shards.metadata.effects import Effects
from borzoi.shards.metadata.state import ROOT_USER_ID, State
from borzoi.shards.metadata_log.snapshot import SnapshotDamaged
from borzoi.shards.metadata_log.writer import MetadataWriter
from borzoi.shards.rings.gather import answers
from borzoi.shards.rings.lending import lend
from borzoi.shards.rings.peers import Peers
from borzoi.shards.rings.requests import Done
from borzoi.storage.files import Files
from borzoi.storage.layout import OFFSET_DIRECTORIES, DataLayout
from borzoi.storage.trash import empty_trash, retire_directory
from borzoi.storage.wal_writer import WalFailed
from borzoi.storage.write_faults import WriteFaults, Written

LOG: Final = logging.getLogger(__name__)

METADATA_SHARD: Final = 0

T = TypeVar("T")


class EntryLane(Protocol):
    """Where entries are committed, if that is not the local log."""

    async def put(self, entry: bytes, state: State) -> None:
        """Commit an entry behind this state; IoError if it is not."""

    def failed(self, error: Exception) -> None:
        """A committed entry cannot be appended to the local log."""


class MetadataWriting:
    """Shard 0's side. Implements Proposer."""

    def __init__(
        self,
        writer: MetadataWriter,
        board: Board,
        peers: Peers,
        on_effects: Callable[[Effects], None],
        disk: Executor,
        tasks: Tasks,
        layout: DataLayout,
        files: Files,
        clock: BrokerClock,
        *,
        sync: bool,
        names_are_secret: bool = False,
        lane: EntryLane | None = None,
    ) -> None:
        """`lane`: where every entry is put before it is appended here, with replication."""
        self._writer = writer
        self._board = board
        self._peers = peers
        self._disk = disk
        self._tasks = tasks
        self._layout = layout
        self._files = files
        self._clock = clock
        self._sync = sync
        self._names_are_secret = names_are_secret
        self._lane = lane
        self._one_at_a_time = asyncio.Lock()
        self._emptying_trash = False
        self._more_trash = False
        self._keeping_short = False
        self.faults = WriteFaults(Written.METADATA)
        self._on_effects = on_effects

    @property
    def is_read_only(self) -> bool:
        """Whether the log has failed so badly that nothing can be changed until a restart."""
        return self._writer.is_read_only

    def publish(self) -> None:
        """Let every shard know how far the log is good."""
        publish_log(self._board, self._writer.published)

    async def propose(self, command: Any, author: Author) -> Change:
        """Carry a command out; when this returns it is durable and visible on every shard.

        A request that is made again under its number is answered with what it has made.
        """
        user_id, _, request = author
        async with self._one_at_a_time:
            made = None if request is None else self._writer.state.made_by(user_id, request)
            if made is not None:
                await self.barrier(made.entry)
                return Change(made.entry, made.new_id)
            timestamp = self._clock.now_us()
            check_author(self._writer.state, author, command)
            entry = self._writer.prepare(
                command, user_id=user_id, timestamp=timestamp, request=request
            )
            await self._log(entry)
            self.publish()
            effects = self._writer.applied()
            self._on_effects(effects)
            change = Change(effects.index, _new_id(self._writer.state, command))
            # The log lies beside the data: where that is encrypted, it must not tell what is in it.
            what = type(command).__name__ if self._names_are_secret else _named(command)
            LOG.info("entry %d by user %d at %d: %s", change.entry, user_id, timestamp, what)
            if effects.needs_barrier:
                await self.barrier(change.entry)
                self._remove_directories(effects)
                await self._remove_offsets(effects)
            self._snapshot_if_due()
            return change

    async def barrier(self, index: int) -> None:
        """Wait until every living shard has applied the log up to `index`."""
        await answers(self._peers, Barrier(index))

    def serve(self, _shard: int, request: Propose, lent: memoryview, done: Done) -> None:
        """A peer's proposal. The lent bytes are decoded before anything waits."""
        try:
            numbered, payload = request_before(bytes(lent))
            command = decode_proposal(request.code, payload)
        except BrokerError as error:
            done(error.status)
            return
        author = Author(request.user_id, request.user_created_at, numbered)
        self._tasks.start(self._serve(command, author, done))

    async def _serve(self, command: Any, author: Author, done: Done) -> None:
        try:
            change = await self.propose(command, author)
        except BrokerError as error:
            done(error.status)
        else:
            done(0, change.entry, change.new_id)

    async def _log(self, entry: bytes) -> None:
        if self._lane is not None:
            await self._lane.put(entry, self._writer.state)
        try:
            self._writer.append(entry)
        except (OSError, WalFailed) as error:
            LOG.error("the metadata log took nothing: %s", error)
            if self._lane is not None:
                self._lane.failed(error)
            self.faults.note(Written.METADATA, error)
            raise IoError(f"the metadata log cannot be written: {error}") from error
        if not self._sync:
            return
        try:
            await asyncio.get_running_loop().run_in_executor(self._disk, self._writer.sync)
        except (OSError, WalFailed) as error:
            self._writer.abandon()
            LOG.error("metadata is read-only until restart, the log did not sync: %s", error)
            self.faults.note(Written.METADATA, error)
            raise IoError(f"the metadata log cannot be synced: {error}") from error

    def _remove_directories(self, effects: Effects) -> None:
        """What is left of removed topics and streams: directories without partitions."""
        for stream_id, topic_id in effects.topics_removed:
            retire_directory(
                self._layout.topic(stream_id, topic_id),
                self._layout.trash,
                f"topic-{effects.index}-{stream_id}-{topic_id}",
                self._files,
            )
        for stream_id in effects.streams_removed:
            retire_directory(
                self._layout.stream(stream_id),
                self._layout.trash,
                f"stream-{effects.index}-{stream_id}",
                self._files,
            )
        self.empty_trash()

    async def _remove_offsets(self, effects: Effects) -> None:
        """Do for shards that are dead what deleting a group asks of them.

        Their recovery could not tell: the next command may give the id to another group.
        """
        if not any(self._peers.is_away(shard) for shard in self._peers.shards()):
            return
        paths = [
            os.path.join(
                self._layout.partition(stream_id, topic_id, partition),
                OFFSET_DIRECTORIES[ConsumerKind.GROUP],
                str(group_id),
            )
            for stream_id, topic_id, group_id in effects.groups_removed
            if (topic := self._writer.state.find_topic(stream_id, topic_id)) is not None
            for partition in range(topic.partitions_count)
        ]

        def unlink() -> None:
            for path in paths:
                self._files.unlink_if_there(path)

        try:
            await asyncio.get_running_loop().run_in_executor(self._disk, unlink)
        except OSError as error:
            LOG.error("offsets of deleted groups are still there: %s", error)

    def empty_trash(self) -> None:
        """Unlink what was moved away; slow, so a thread does it, one at a time."""
        if self._emptying_trash:
            self._more_trash = True
            return
        self._emptying_trash = True
        future = asyncio.get_running_loop().run_in_executor(
            self._disk, empty_trash, self._layout.trash, self._files
        )
        future.add_done_callback(self._trash_emptied)

    def _trash_emptied(self, future: asyncio.Future[int]) -> None:
        self._emptying_trash = False
        if future.cancelled():
            return
        error = future.exception()
        if error is not None:
            LOG.warning("removed data still takes disk space under trash/: %s", error)
        if self._more_trash:
            self._more_trash = False
            self.empty_trash()

    def _snapshot_if_due(self) -> None:
        """Between two commands: begin a snapshot, unless the last one is still in work."""
        if self._writer.snapshot_due and not self._keeping_short:
            self._keeping_short = True
            self._tasks.start(self._keep_log_short(self._writer.take_snapshot()))

    async def _keep_log_short(self, snapshot: bytes) -> None:
        """Write a snapshot and leave out of the log what two of them have; commands go on."""
        try:
            await self._in_thread(self._writer.write_snapshot, snapshot)
            if self._writer.shortening_due:
                await self._shorten()
        except (OSError, SnapshotDamaged) as error:
            LOG.warning(
                "no snapshot of the metadata, or no shorter log; the log has it all: %s", error
            )
        finally:
            self._keeping_short = False

    async def encrypt_again(self) -> None:
        """Leave nothing behind that another key than that of now has encrypted.

        Two snapshots are written, each behind an entry of its own, and the log begins behind the
        first. What fails is logged, and everything is as readable as before.
        """
        if self._keeping_short:
            # The next look is soon enough.
            return
        self._keeping_short = True
        try:
            for _ in range(2):
                author = author_of(self._writer.state, ROOT_USER_ID)
                await self.propose(DeleteExpiredTokens(), author)
                async with self._one_at_a_time:
                    snapshot = self._writer.take_snapshot()
                await self._in_thread(self._writer.write_snapshot, snapshot)
            await self._shorten()
        except (OSError, SnapshotDamaged, BrokerError) as error:
            LOG.warning("the metadata still needs its old key: %s", error)
        finally:
            self._keeping_short = False

    async def _shorten(self) -> None:
        shorter = await self._in_thread(self._writer.begin_shortening)
        # No command waits for this, and a shard that does not answer only leaves the log long.
        await self.barrier(shorter.cut.index)
        async with self._one_at_a_time:
            away = any(self._peers.is_away(shard) for shard in self._peers.shards())
            if away or self._writer.is_read_only:
                # A worker that starts opens snapshot and log one after the other: not now.
                await self._in_thread(shorter.discard)
                return
            fd = await self._in_thread(self._writer.replace_log, shorter)
            publish_log(self._board, self._writer.moved_to(shorter, fd))
        LOG.info(
            "the metadata log lost %d bytes, its entries up to %d are in the snapshots",
            shorter.cut.position,
            shorter.cut.index,
        )

    async def _in_thread(self, work: Callable[..., T], *arguments: Any) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._disk, work, *arguments)


class RemoteProposer:
    """The other shards' side: the command travels to shard 0 in a lent buffer."""

    def __init__(self, peers: Peers, pool: MemoryPool) -> None:
        self._peers = peers
        self._pool = pool

    async def propose(self, command: Any, author: Author) -> Change:
        """Ask shard 0. If it dies meanwhile the outcome is unknown, and an error says so."""
        code, payload = encode_proposal(command)
        kind = partial(Propose, code, author.user_id, author.created_at)
        lent = behind_request(payload, author.request)
        index, new_id, _ = await lend(self._peers, self._pool, METADATA_SHARD, kind, lent)
        return Change(index, new_id)


def _new_id(state: State, command: Any) -> int:
    """The id that a create command was given, found where apply has just put it."""
    match command:
        case CreateStream(name):
            return state.stream_names[name]
        case CreateTopic(stream=stream, name=name) | CreateAttachedTopic(stream=stream, name=name):
            return state.stream(stream).topic_names[name]
        case CreateHashedUser(username=username):
            return state.usernames[username]
        case CreateConsumerGroup(stream, topic, name):
            return state.topic(stream, topic).group_names[name]
        case _:
            return 0


def _named(command: Any) -> str:
    """A command for the log: its kind and what it is about, never a secret."""
    about = [
        f"{field}={getattr(command, field)!r}"
        for field in (
            "stream",
            "topic",
            "group",
            "name",
            "partitions_count",
            "user",
            "user_id",
            "username",
        )
        if hasattr(command, field)
    ]
    return " ".join([type(command).__name__, *about])
