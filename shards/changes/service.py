"""The metadata as handlers use it: this shard's copy, kept up to date, and the way to change it.

Every shard holds its own copy. `refresh` compares one word of the board with what was applied
and reads the log up to the published end if it is behind; there is no `await` between that and
the use of the state, and after an `await` things are looked up again. Changes go to shard 0, which
alone writes; its answer carries the index of the entry, and the asking shard applies up to it
before it answers its client. So a change is visible everywhere as soon as it is acknowledged.
"""

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

from borzoi.protocol.errors import PartitionNotFound
from borzoi.router.board import METADATA_SLOT, Board
from borzoi.router.placement import pack_namespace, unpack_namespace
from borzoi.router.target import Target
from borzoi.shards.changes.authors import Author, author_of
from borzoi.shards.metadata.effects import Effects
from borzoi.shards.metadata.requests import RequestKey
from borzoi.shards.metadata.state import State, Topic
from borzoi.shards.metadata_log.follower import MetadataCopy
from borzoi.storage.wal import PublishedLog


class Change(NamedTuple):
    """An acknowledged change: the index of its entry, and the id it gave out, if it did."""

    entry: int
    new_id: int


class Proposer(Protocol):
    """The way of a change to the writer: the writer itself, or the ring to it."""

    async def propose(self, command: Any, author: Author) -> Change:
        """Have a command validated, logged and applied; errors are raised."""


class MetadataService:
    """The streams, topics and users as one shard sees them."""

    def __init__(
        self, copy: MetadataCopy, board: Board, on_effects: Callable[[Effects], None]
    ) -> None:
        self._copy = copy
        self._board = board
        self._on_effects = on_effects
        self._version = -1
        self.published_version = board.version_word(METADATA_SLOT)
        """One word. While it is what `refresh_version` returned, the state has not changed."""
        self.proposer: Proposer | None = None

    @property
    def state(self) -> State:
        """The state as last refreshed."""
        return self._copy.state

    @property
    def applied_index(self) -> int:
        """The last entry of the log that the state knows of."""
        return self._copy.applied_index

    @property
    def version(self) -> int:
        """What `refresh_version` returned last: the state is at least as new."""
        return self._version

    def refresh(self) -> State:
        """The state with everything that was committed before this call."""
        if self.published_version[0] != self._version:
            self._catch_up()
        return self._copy.state

    def refresh_version(self) -> int:
        """Refresh, and tell a number that changes with every change of the state."""
        if self.published_version[0] != self._version:
            self._catch_up()
        return self._version

    async def change(self, command: Any, user_id: int, request: RequestKey | None = None) -> Change:
        """Have shard 0 carry out a change, and see it here; a numbered one at most once."""
        assert self.proposer is not None, "the worker wires the proposer at its start"
        author = author_of(self._copy.state, user_id, request)
        change = await self.proposer.propose(command, author)
        self.refresh()
        return change

    def target(self, stream_id: int, topic: Topic, partition_id: int) -> Target:
        """The partition that lives there now."""
        birth, slot = topic.partition(partition_id)
        return Target(pack_namespace(stream_id, topic.id, partition_id), birth, slot)

    def target_of(self, namespace: int) -> Target:
        """The partition that lives in a namespace now."""
        stream_id, topic_id, partition_id = unpack_namespace(namespace)
        topic = self.state.find_topic(stream_id, topic_id)
        if topic is None:
            raise PartitionNotFound(f"namespace {namespace:#x} is empty")
        return self.target(stream_id, topic, partition_id)

    def _catch_up(self) -> None:
        # The version first: what is published meanwhile is seen by the next refresh.
        version = self.published_version[0]
        for effects in self._copy.follow(published_log(self._board)):
            self._on_effects(effects)
        self._version = version


def published_log(board: Board) -> PublishedLog:
    """What shard 0 has published of the metadata log."""
    return PublishedLog(*board.read(METADATA_SLOT)[:4])


def publish_log(board: Board, published: PublishedLog) -> None:
    """Let every shard know how far the log is good, and in which file. For shard 0 alone."""
    board.publish(METADATA_SLOT, (*published, 0, 0, 0, 0))
