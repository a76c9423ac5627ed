"""The commits of one lane: what its partitions have staged is put as one object, then written here.

Owned by the worker's loop. Partitions with something new are `wanted`; after `linger`, or as soon
as the lane has room, all of it becomes one group. STORED: the same bytes go to the local logs, they
are published, and the waiters are answered.

If nothing is stored for `timeout` although something waits, the lane is stalled. What is in a slot
may be stored later, so its waiters get ABANDONED. What is in none is dropped, and refused with
STALLED until the store answers again.

Always: groups on their way are at most `window`, and what no checkpoint has is bounded.
"""

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple, Protocol

from borzoi.cluster.lane import Outcome
from borzoi.cluster.lane_log import LaneLog
from borzoi.cluster.slots import Entry, EntryKind
from borzoi.protocol.batch import INDEX_ENTRY_SIZE
from borzoi.protocol.errors import BrokerError, CannotSaveMessagesToSegment, Disconnected
from borzoi.quantities import MIB
from borzoi.shards.partitions.partition import Ended, OwnedPartition
from borzoi.shards.rings.peers import ABANDONED
from borzoi.storage.replicated_log import ReplicatedLog
from borzoi.storage.staging import StagedGroup

LOG: Final = logging.getLogger(__name__)

GROUP_SIZE_MAX: Final = 256 * MIB
"""What a partition has staged at the end of a turn is refused if it is more."""

UNPACKED_SIZE_MAX: Final = 512 * MIB
"""So many bytes since the last checkpoint, and nothing more is sent before the next."""

STALLED: Final = CannotSaveMessagesToSegment.status
REFUSED: Final = Disconnected.status
"""Not in the log, and another node writes there: official clients connect again and repeat."""


class Commits(Protocol):
    """What is done with a group whose outcome is known."""

    def stored(self, partition: OwnedPartition, taken: StagedGroup) -> None:
        """Write what is in the lane now to the local log, and publish it."""

    def cannot_go_on(self, why: str) -> None:
        """Have the broker stop."""


@dataclass(slots=True)
class SentPart:
    """What a group has of one partition, and who waits for it."""

    partition: OwnedPartition
    taken: StagedGroup | None
    waiters: list[Ended]


class LaneRules(NamedTuple):
    """How a lane is written."""

    linger_s: float
    object_size: int
    timeout_s: float
    checkpoint_after_s: float


@dataclass(slots=True, eq=False)
class LaneCommit:
    """One lane of this shard."""

    number: int
    loop: asyncio.AbstractEventLoop
    commits: Commits
    rules: LaneRules
    log: LaneLog = field(init=False)
    sent: dict[int, list[SentPart]] = field(default_factory=dict)
    """The groups on their way, by slot."""
    extra: dict[OwnedPartition, dict[int, Entry]] = field(default_factory=dict)
    """What is to be sent beside what is staged: the last word about each offset, and the begin."""
    refusal: int = 0
    """The status of everything that comes, if it is not 0."""
    unpacked: int = 0
    """Bytes that were sent since the last checkpoint began."""
    stored_slots: int = 0
    """Groups that were stored since then."""
    checkpoint_at: float = 0.0
    """When the next checkpoint is due, however few they are. None is made before `retry_at`."""
    retry_at: float = 0.0
    _wanted: dict[OwnedPartition, None] = field(default_factory=dict)
    _behind: dict[OwnedPartition, int] = field(default_factory=dict)
    _timer: asyncio.TimerHandle | asyncio.Handle | None = None
    _moved_at: float = 0.0

    @property
    def is_idle(self) -> bool:
        """Whether nothing waits for the store."""
        return not self._wanted and not self.sent

    def is_level(self, partition: OwnedPartition) -> bool:
        """Whether all that was appended to a partition is stored and written."""
        return (
            partition not in self._behind
            and partition not in self.extra
            and not log_of(partition).has_staged
        )

    def want(self, partition: OwnedPartition) -> None:
        """A partition has something new at the end of a turn."""
        if partition.log.staged_bytes > GROUP_SIZE_MAX:
            LOG.error("partition %s: too much came in one turn of the loop", partition.target)
            self._refuse(partition, STALLED)
        elif self.refusal:
            self._refuse(partition, self.refusal)
        else:
            if self.is_idle:
                self._moved_at = self.loop.time()
            self._wanted[partition] = None
            self._schedule()

    def _schedule(self) -> None:
        if self._timer is None and self._has_room():
            self._timer = (
                self.loop.call_later(self.rules.linger_s, self._send)
                if self.rules.linger_s
                else self.loop.call_soon(self._send)
            )

    def _has_room(self) -> bool:
        return self.log.has_room and self.unpacked < UNPACKED_SIZE_MAX

    def _send(self) -> None:
        """Makes groups of all that is wanted, as far as there is room."""
        self._timer = None
        while self._wanted and not self.refusal and self._has_room():
            parts: list[SentPart] = []
            entries: list[Entry] = []
            size = 0
            while self._wanted and size < self.rules.object_size:
                partition = next(iter(self._wanted))
                del self._wanted[partition]
                if not partition.alive:
                    self.extra.pop(partition, None)
                    continue
                part = self._take(partition, entries)
                parts.append(part)
                size += 0 if part.taken is None else part.taken.size_bytes
            for part in parts:
                self._behind[part.partition] = self._behind.get(part.partition, 0) + 1
            if entries:
                self.unpacked += size
                self.sent[self.log.append(entries)] = parts
            elif self.sent:
                # Nothing for the lane: flushes that wait for what is on its way.
                self.sent[next(reversed(self.sent))].extend(parts)
            else:
                self._take_stored(parts)

    def _take(self, partition: OwnedPartition, entries: list[Entry]) -> SentPart:
        target = partition.target
        waiters, partition.appends = partition.appends, []
        taken = None
        log = log_of(partition)
        if log.has_staged:
            taken = log.take_staged()
            entries += batches(target.namespace, target.birth, taken)
        entries += self.extra.pop(partition, {}).values()
        return SentPart(partition, taken, waiters)

    # What becomes of it.

    def ended(self, slot: int, outcome: Outcome) -> None:
        """The outcome of a group; groups that are STORED come in the order of their slots."""
        parts = self.sent.pop(slot)
        self._moved_at = self.loop.time()
        if outcome is not Outcome.STORED:
            self._end(parts, REFUSED if outcome is Outcome.REFUSED else ABANDONED)
            return
        if self.refusal == STALLED:
            LOG.warning("lane %d: the store answers again", self.number)
            self.refusal = 0
        self.stored_slots += 1
        if self.stored_slots == 1:
            self.checkpoint_at = self.loop.time() + self.rules.checkpoint_after_s
        self._take_stored(parts)
        if self._wanted and self._timer is None:
            # It has waited long enough.
            self._timer = self.loop.call_soon(self._send)

    def _take_stored(self, parts: Sequence[SentPart]) -> None:
        for part in parts:
            self._forget_behind(part.partition)
            if part.partition.alive and part.taken is not None:
                try:
                    self.commits.stored(part.partition, part.taken)
                except BrokerError as error:
                    # It is in the lane. A start that has room for it brings it back.
                    self.refusal = REFUSED
                    self.commits.cannot_go_on(f"what is stored cannot be written here: {error}")
                    self._end(parts, ABANDONED)
                    return
        self._end(parts, 0)

    def lost(self, why: str) -> None:
        """The lane is another's: nothing that comes is appended."""
        self.end()
        self.commits.cannot_go_on(f"lane {self.number}: {why}")

    def end(self) -> None:
        """Nothing that comes is appended."""
        self.refusal = REFUSED
        self.refuse_wanted()

    def begin_checkpoint(self) -> None:
        """Everything from now on belongs to the next checkpoint."""
        self.unpacked = self.stored_slots = 0
        if self.refusal == STALLED and not self.sent:
            self.refusal = 0
        if self._wanted:
            self._schedule()

    def look(self) -> None:
        """Now and then: whether the store has been silent for too long."""
        if self.is_idle or self.refusal:
            return
        silent_s = self.loop.time() - self._moved_at
        if silent_s > self.rules.timeout_s:
            LOG.error("lane %d: the store has not answered for %.1f s", self.number, silent_s)
            self.refusal = STALLED
            self.give_up()

    def give_up(self) -> None:
        """Answer all that waits: what is in a slot with ABANDONED, the rest is refused."""
        for parts in self.sent.values():
            self._end(parts, ABANDONED)
        self.refuse_wanted()

    def refuse_wanted(self) -> None:
        """Refuse what is in no slot."""
        wanted, self._wanted = self._wanted, {}
        for partition in wanted:
            if partition.alive:
                self._refuse(partition, self.refusal or STALLED)

    def _refuse(self, partition: OwnedPartition, status: int) -> None:
        waiters, partition.appends = partition.appends, []
        log_of(partition).drop_staged()
        for ended in waiters:
            ended(status)

    def _forget_behind(self, partition: OwnedPartition) -> None:
        left = self._behind.get(partition, 0) - 1
        if left > 0:
            self._behind[partition] = left
        else:
            self._behind.pop(partition, None)

    def _end(self, parts: Sequence[SentPart], status: int) -> None:
        for part in parts:
            waiters, part.waiters = part.waiters, []
            for ended in waiters:
                ended(status)


def log_of(partition: OwnedPartition) -> ReplicatedLog:
    """The log of a partition, as one that follows a lane."""
    log = partition.log
    assert isinstance(log, ReplicatedLog), "partitions of this shard are made with it"
    return log


def batches(namespace: int, birth: int, taken: StagedGroup) -> list[Entry]:
    """The entries of a group: one for each segment that gets messages of it.

    From here on the group has bytes of its own: a request that is answered before its outcome is
    known gives its buffer back, and the next one is received there.
    """
    entries = []
    for part in taken.parts:
        if part.buffers:
            body = b"".join(part.buffers)
            part.buffers[:] = (memoryview(body),)
            first = part.segment + part.index_position // INDEX_ENTRY_SIZE
            entries.append(
                Entry(
                    EntryKind.BATCH,
                    namespace,
                    birth,
                    first,
                    part.end.next_offset - first,
                    part.segment,
                    part.position,
                    body=body,
                )
            )
    return entries
