"""`read` as a port: which messages of a partition a user gets, whichever shard owns it.

A Poll names the user, where to begin and how many; the answer is slices of mapped files, or a
status. No session is needed: every door calls `Reads.poll`.

Messages are read once, by the shard of the connection. For a partition of this shard the owner's
slices are the answer. For another shard's, offset, timestamp, first and last are decided here,
from the board. Next, auto-commit, and everything in mode buffered, go to the owner first, as one
hop that carries no bytes: it measures by the index what the poll returns, and commits that. What
is encrypted or compressed it reads before it commits it: the bytes may have been damaged.
"""

# Callbacks are made for every poll: their types are not looked up each time.
from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final, Protocol, TypeAlias, TypeVar

from borzoi.protocol.errors import BrokerError, CannotReadMessage, PartitionNotFound
from borzoi.protocol.identifiers import ConsumerKind, StrategyKind
from borzoi.router.placement import shard_of
from borzoi.router.target import Target
from borzoi.shards.partitions.durability import Durability
from borzoi.shards.partitions.group_commit import GroupCommit
from borzoi.shards.partitions.owned import Partitions
from borzoi.shards.partitions.partition import OwnedPartition
from borzoi.shards.ports.requests import ResolvePoll
from borzoi.shards.reading.readers import HEALS_MAX, PartitionReaders
from borzoi.shards.reading.warm_reads import WARM_TRIES_MAX, WarmReads
from borzoi.shards.rings.poll import ANSWER_SIZES, AnswerCut, Poll
from borzoi.shards.rings.requests import Done, Request
from borzoi.storage.outcome import Doubt, Extent, Packed, Slices
from borzoi.storage.published import Published

F = TypeVar("F", Slices, Extent)

Ended: TypeAlias = Callable[[int, int, F | None], None]
"""Called once with the status, the partition's current offset, and what was found."""

Look: TypeAlias = Callable[[], tuple[Published, int | None]]
"""What is published now, and what the consumer has committed. Raises BrokerError."""

ReadOn: TypeAlias = Callable[[Target, int, int], tuple[int, int, memoryview] | None]

# Plain numbers: comparing with a member of an enumeration costs a call.
NEXT: Final = int(StrategyKind.NEXT)
TIMESTAMP: Final = int(StrategyKind.TIMESTAMP)
KINDS: Final = {int(kind): kind for kind in ConsumerKind}
UNBOUNDED: Final = 1 << 62
NOT_KNOWN: Final = -1
"""The offset of a time that was not looked up yet."""


def poll_start(poll: Poll, published: Published, committed: int | None, at_time: int) -> int | None:
    """The first offset to return, or None when there is nothing to return.

    Offsets that retention has taken away are raised to the oldest one available. `at_time` is
    the first offset at or after the time of the poll, or the next offset to be written.
    """
    _, first, following, *_ = published
    if poll.count_max == 0 or following == first:
        return None
    # What members of groups ask for comes first.
    match poll.strategy:
        case StrategyKind.NEXT:
            start = first if committed is None else committed + 1
        case StrategyKind.OFFSET:
            start = poll.value
        case StrategyKind.TIMESTAMP:
            start = at_time
        case StrategyKind.FIRST:
            start = first
        case StrategyKind.LAST:
            start = max(0, following - poll.count_max)
        case _:
            raise AssertionError(f"strategy {poll.strategy} passed the decoder")
    start = max(start, first)
    return start if start < following else None


class AskedPeers(Protocol):
    """The other shards."""

    def ask(self, shard: int, request: Request, done: Done) -> None:
        """Have a shard carry out a request."""


class Reads:
    """Answers polls of this shard's clients, and measures for those of other shards."""

    def __init__(
        self,
        shard: int,
        shard_count: int,
        partitions: Partitions,
        commit: GroupCommit,
        readers: PartitionReaders,
        warm_reads: WarmReads,
        peers: AskedPeers,
        durability: Durability,
        response_size_max: int,
    ) -> None:
        self._shard = shard
        self._shard_count = shard_count
        self._partitions = partitions
        self._owned = partitions.by_namespace
        self._commit = commit
        self._readers = readers
        self._warm_reads = warm_reads
        self._peers = peers
        self._is_buffered = durability is Durability.BUFFERED
        # By the cut of a poll: how many bytes of messages it returns, unless one alone is longer.
        self._sizes_max = [
            min(response_size_max, ANSWER_SIZES.get(cut, response_size_max)) for cut in AnswerCut
        ]
        self._follows = readers.read_on
        self.read_on: ReadOn = (
            _never if self._is_buffered else partial(readers.read_on, response_size_max)
        )
        """What a poll by offset returns if it goes on where the partition was read last: current
        offset, message count and bytes. None if it is anything else, for `poll` to find out."""

    def poll(self, target: Target, poll: Poll, ended: Ended[Slices]) -> None:
        """Find what a poll returns, and commit it if asked to; `ended` is called once."""
        partition = self._owned.get(target.namespace)
        if partition is None or partition.target.birth != target.birth:
            owner = shard_of(target.namespace, self._shard_count)
            if owner != self._shard:
                self._poll_elsewhere(owner, target, poll, ended)
                return
            try:
                partition = self._partitions.find(target)
            except BrokerError as error:
                ended(error.status, 0, None)
                return
        self.read(partition, poll, self._committing(partition, poll, ended))

    # Of a partition of this shard.

    def read(self, partition: OwnedPartition, poll: Poll, ended: Ended[Slices]) -> None:
        """The messages that a poll returns. Commits nothing."""
        published, start = self._start(partition, poll)
        if start is None:
            ended(0, published.current_offset, None)
            return
        if start != NOT_KNOWN:
            reader = self._readers.reader(partition.target)
            found = reader.read_on(published, start, poll.count_max, self._sizes_max[poll.cut])
            if found is not None:
                count, view = found
                ended(0, published.next_offset - 1, Slices([view], count, start, view.nbytes))
                return
        self._search_owned(partition.target, poll, ended)

    def measure(self, partition: OwnedPartition, poll: Poll, ended: Ended[Extent]) -> None:
        """Which messages a poll returns, by the index alone if that can be. Commits nothing."""
        published, start = self._start(partition, poll)
        if start is None:
            ended(0, published.current_offset, None)
            return
        if start != NOT_KNOWN:
            reader = self._readers.reader(partition.target)
            extent = reader.measure(
                published,
                start,
                poll.count_max,
                self._sizes_max[poll.cut],
                for_commit=poll.auto_commit,
            )
            if extent is not None:
                ended(0, published.next_offset - 1, extent)
                return

        def read(status: int, current: int, slices: Slices | None) -> None:
            found = None if slices is None else Extent(slices.first_offset, slices.message_count)
            ended(status, current, found)

        self._search_owned(partition.target, poll, read)

    def resolve(self, target: Target, poll: Poll, done: Done) -> None:
        """Decide and commit a poll for a peer: first offset, message count, current offset."""
        try:
            partition = self._partitions.find(target)
        except BrokerError as error:
            done(error.status)
            return
        self.measure(partition, poll, self._committing(partition, poll, measured(done)))

    def _start(self, partition: OwnedPartition, poll: Poll) -> tuple[Published, int | None]:
        """What is published, and where a poll begins; None if there is nothing to return."""
        published, committed = self._look(partition, poll)
        if poll.strategy == TIMESTAMP:
            return published, NOT_KNOWN
        return published, poll_start(poll, published, committed, NOT_KNOWN)

    def _look(self, partition: OwnedPartition, poll: Poll) -> tuple[Published, int | None]:
        if self._is_buffered:
            self._commit.flush(partition, _ignore_status, fsync=False)
        committed = partition.offsets.get(KINDS[poll.consumer_kind], poll.consumer)
        return partition.published, committed

    def _search_owned(self, target: Target, poll: Poll, ended: Ended[Slices]) -> None:
        self._search(target, poll, lambda: self._look(self._partitions.find(target), poll), ended)

    def _committing(self, partition: OwnedPartition, poll: Poll, ended: Ended[F]) -> Ended[F]:
        """Auto-commit: the last offset of a poll counts before the poll is answered."""
        if not poll.auto_commit:
            return ended

        def found(status: int, current: int, messages: F | None) -> None:
            if messages is None or not messages.message_count:
                ended(status, current, None)
                return
            if not partition.alive:
                ended(PartitionNotFound.status, 0, None)
                return
            last = messages.first_offset + messages.message_count - 1
            try:
                partition.offsets.store(KINDS[poll.consumer_kind], poll.consumer, last, poll.user)
            except BrokerError as error:
                ended(error.status, 0, None)
                return
            status = self._commit.write_offset(partition)
            ended(status, current, None if status else messages)

        return found

    # Of a partition of another shard.

    def _poll_elsewhere(self, owner: int, target: Target, poll: Poll, ended: Ended[Slices]) -> None:
        if (
            poll.auto_commit
            or self._is_buffered
            or poll.strategy == NEXT
            # Nothing was published of this life yet.
            or self._readers.published(target.slot).birth != target.birth
        ):
            after_owner = self.after_owner(target, poll, ended)
            self._peers.ask(owner, ResolvePoll(target, poll), after_owner)
        else:
            self._search(target, poll, lambda: self._look_at_board(target), ended)

    def after_owner(self, target: Target, poll: Poll, ended: Ended[Slices]) -> Done:
        """Reads what the owner of a partition has decided, all of it."""

        def resolved(status: int, start: int = 0, count: int = 0, current: int = 0) -> None:
            if status or count == 0:
                ended(status, current, None)
                return
            following = self._follows(self._sizes_max[poll.cut], target, start, count)
            if following is not None and following[1] == count:
                # What nearly every member finds: it goes on where it was.
                view = following[2]
                ended(0, current, Slices([view], count, start, view.nbytes))
                return

            def read(status: int, _current: int, slices: Slices | None) -> None:
                if poll.auto_commit and slices is not None and _lacks(slices, start, count):
                    # They are committed: a shorter answer would hide that some were lost.
                    ended(CannotReadMessage.status, current, None)
                else:
                    ended(status, current, slices)

            decided = poll._replace(strategy=StrategyKind.OFFSET, value=start, count_max=count)
            # Not bounded as copies are: they may have lain in plain files when it was decided.
            self._search(target, decided, lambda: self._look_at_board(target), read, UNBOUNDED)

        return resolved

    def _look_at_board(self, target: Target) -> tuple[Published, None]:
        published = self._readers.published(target.slot)
        if published.birth != target.birth:
            raise PartitionNotFound(f"partition {target} was purged while it was being polled")
        return published, None

    def _search(
        self,
        target: Target,
        poll: Poll,
        look: Look,
        ended: Ended[Slices],
        copied_max: int | None = None,
    ) -> None:
        bytes_max = self._sizes_max[poll.cut]
        readers, warm_reads = self._readers, self._warm_reads
        Search(readers, warm_reads, target, poll, look, ended, bytes_max, copied_max).run()


class Search:
    """One poll until its messages are found.

    What is packed is loaded, what is cold is fetched, and an index in doubt is checked by its
    owner; then it looks again, a bounded number of times.
    """

    def __init__(
        self,
        readers: PartitionReaders,
        warm_reads: WarmReads,
        target: Target,
        poll: Poll,
        look: Look,
        ended: Ended[Slices],
        bytes_max: int,
        copied_max: int | None,
    ) -> None:
        self._readers = readers
        self._warm_reads = warm_reads
        self._target = target
        self._poll = poll
        self._look = look
        self._ended = ended
        self._bytes_max = bytes_max
        self._copied_max = copied_max
        self._heals_left = HEALS_MAX
        self._loads_left = WARM_TRIES_MAX
        self._current = 0

    def run(self) -> None:
        """Look and read, now."""
        poll = self._poll
        try:
            published, committed = self._look()
            reader = self._readers.reader(self._target)
            at_time: int | Packed | Doubt = 0
            if poll.strategy == TIMESTAMP and poll.count_max:
                at_time = reader.attempt_timestamp(
                    published, poll.value, may_wait=self._loads_left == 0
                )
        except BrokerError as error:
            self._readers.report(self._target, error)
            self._ended(error.status, 0, None)
            return
        if isinstance(at_time, Packed):
            self._loads_left -= 1
            self._warm_reads.load(at_time, self.run, self._got, user=poll.user)
            return
        if isinstance(at_time, Doubt):
            self._heal(at_time)
            return
        self._current = published.current_offset
        start = poll_start(poll, published, committed, at_time)
        if start is None:
            self._ended(0, self._current, None)
            return
        self._warm_reads.read(
            reader,
            published,
            start,
            poll.count_max,
            self._bytes_max,
            self._got,
            user=poll.user,
            copied_max=self._copied_max,
        )

    def _got(self, found: Slices | Doubt | BrokerError) -> None:
        if isinstance(found, Doubt):
            self._heal(found)
        elif isinstance(found, BrokerError):
            self._readers.report(self._target, found)
            self._ended(found.status, self._current, None)
        else:
            self._ended(0, self._current, found)

    def _heal(self, doubt: Doubt) -> None:
        # Before the owner is asked: its answer may come at once.
        self._heals_left -= 1
        self._loads_left = WARM_TRIES_MAX
        if self._heals_left < 0 or not self._readers.heal(self._target, doubt, self.run):
            self._ended(doubt.error.status, self._current, None)


def measured(done: Done) -> Ended[Extent]:
    """How a peer is answered: first offset, message count, current offset."""

    def ended(status: int, current: int, extent: Extent | None) -> None:
        first, count = (0, 0) if extent is None else extent
        done(status, first, count, current)

    return ended


def _lacks(slices: Slices, start: int, count: int) -> bool:
    """Whether messages are missing behind `start`; those before it may have been deleted.

    None at all: the partition was purged meanwhile.
    """
    return slices.first_offset == start and 0 < slices.message_count < count


def _never(_target: Target, _offset: int, _count: int) -> None:
    """Mode buffered: the board does not show what is acknowledged."""


def _ignore_status(_status: int) -> None:
    """For flushes without a waiter, whose failure GroupCommit has reported."""
