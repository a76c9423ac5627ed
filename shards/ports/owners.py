"""Asking the owner of a partition, be it this shard or another.

Stateless: it knows where partitions live and calls either `Partitions` directly or a peer over
its ring. The mirror image, what peers ask of us, is `serve` at the end.
"""

import struct
from typing import Final

from borzoi.protocol.errors import BrokerError, PartitionNotFound, ShardCommunicationError
from borzoi.router.buffer import Buffer
from borzoi.router.placement import shard_of
from borzoi.router.pool import MemoryPool
from borzoi.router.target import Target
from borzoi.shards.changes.service import MetadataService
from borzoi.shards.lifecycle.deleting import Deleting
from borzoi.shards.lifecycle.repairing import Repairing
from borzoi.shards.partitions.owned import Partitions
from borzoi.shards.rings.asking import asked
from borzoi.shards.rings.peers import DeathRule, Peers
from borzoi.shards.rings.poll import Poll
from borzoi.shards.rings.requests import (
    RESUBMITTED,
    Done,
    Request,
    RequestKind,
    poll_of,
    poll_option,
)
from borzoi.storage.retention import Candidate, Cut

CANDIDATE: Final = struct.Struct("<QQQQ")  # a Candidate: end offset, size, timestamp, unread
CANDIDATES_MAX: Final = 1024
"""So many segments of a partition are told at once: the cleaner comes again for the rest."""


class Owners:
    """Every partition of the broker, by its owner."""

    def __init__(
        self,
        shard: int,
        shard_count: int,
        partitions: Partitions,
        deleting: Deleting,
        repairing: Repairing,
        peers: Peers,
        pool: MemoryPool,
        metadata: MetadataService,
    ) -> None:
        self.shard = shard
        self._shard_count = shard_count
        self._partitions = partitions
        self._deleting = deleting
        self._repairing = repairing
        self._pool = pool
        self._peers = peers
        self._metadata = metadata

    def append(
        self,
        target: Target,
        owner: int,
        batch: memoryview,
        message_count: int,
        buffer: Buffer,
        position: int,
        done: Done,
    ) -> None:
        """Append a batch that lies at `position` of our arena, inside `buffer`."""
        if owner == self.shard:
            self._partitions.append(target, batch, message_count, False, done)
            return
        self._peers.ask(
            owner,
            RequestKind.APPEND,
            done,
            namespace=target.namespace,
            birth=target.birth,
            buffer=buffer,
            position=position,
            length=batch.nbytes,
            first=message_count,
        )

    def owner(self, target: Target) -> int:
        """The shard that owns the partition."""
        return shard_of(target.namespace, self._shard_count)

    def resolve_poll(self, target: Target, poll: Poll, done: Done) -> None:
        """What a poll returns, decided and committed by the owner; it carries no bytes."""
        owner = self.owner(target)
        if owner == self.shard:
            self._partitions.resolve_poll(target, poll, done)
            return
        self._peers.ask(
            owner,
            RequestKind.RESOLVE_POLL,
            done,
            option=poll_option(poll),
            namespace=target.namespace,
            birth=target.birth,
            position=poll.user,
            first=poll.value,
            second=poll.count_max | poll.consumer << 32,
            rule=rule_of_poll(poll),
        )

    async def store_offset(
        self, target: Target, kind: int, consumer: int, offset: int, user: int
    ) -> None:
        """Commit an offset, in the name of a user."""
        owner = self.owner(target)

        def start(done: Done) -> None:
            if owner == self.shard:
                self._partitions.store_offset(target, kind, consumer, offset, user, done)
            else:
                self._peers.ask(
                    owner, RequestKind.STORE_OFFSET, done, option=kind,
                    namespace=target.namespace, birth=target.birth, position=user,
                    first=offset, second=consumer,
                )  # fmt: skip

        await asked(start)

    async def get_offset(self, target: Target, kind: int, consumer: int) -> tuple[int | None, int]:
        """The committed offset, if any, and the partition's current one."""
        owner = self.owner(target)

        def start(done: Done) -> None:
            if owner == self.shard:
                self._partitions.get_offset(target, kind, consumer, done)
            else:
                self._peers.ask(
                    owner, RequestKind.GET_OFFSET, done, option=kind,
                    namespace=target.namespace, birth=target.birth, second=consumer,
                    rule=DeathRule.REREAD,
                )  # fmt: skip

        present, stored, current = await asked(start)
        return (stored if present else None), current

    async def delete_offset(self, target: Target, kind: int, consumer: int) -> None:
        """Forget a committed offset."""
        owner = self.owner(target)

        def start(done: Done) -> None:
            if owner == self.shard:
                self._partitions.delete_offset(target, kind, consumer, done)
            else:
                self._peers.ask(
                    owner, RequestKind.DELETE_OFFSET, done, option=kind,
                    namespace=target.namespace, birth=target.birth, second=consumer,
                    # Repeated, it would say that there was nothing to delete.
                    rule=DeathRule.FAIL,
                )  # fmt: skip

        await asked(start)

    async def flush(self, target: Target, fsync: bool) -> None:
        """Write, and with `fsync` sync, what the owner has in memory."""
        owner = self.owner(target)

        def start(done: Done) -> None:
            if owner == self.shard:
                self._partitions.flush(target, fsync, done)
            else:
                self._peers.ask(
                    owner, RequestKind.FLUSH, done, option=int(fsync),
                    namespace=target.namespace, birth=target.birth,
                )  # fmt: skip

        await asked(start)

    async def delete_segments(self, target: Target, count: int) -> None:
        """Delete up to `count` of the oldest segments, if everybody has read them."""
        owner = self.owner(target)

        def start(done: Done) -> None:
            if owner == self.shard:
                self._deleting.delete_count(target, count, done)
            else:
                self._peers.ask(
                    owner, RequestKind.DELETE_SEGMENTS, done,
                    namespace=target.namespace, birth=target.birth, first=count,
                    # Repeated, it would delete as many again.
                    rule=DeathRule.FAIL,
                )  # fmt: skip

        await asked(start)

    async def delete_up_to(self, target: Target, cut: Cut) -> None:
        """Delete the segments before a cut. May be repeated."""
        owner = self.owner(target)

        def start(done: Done) -> None:
            if owner == self.shard:
                self._deleting.delete_up_to(target, cut, done)
            else:
                self._peers.ask(
                    owner, RequestKind.DELETE_UP_TO, done, option=int(cut.even_unread),
                    namespace=target.namespace, birth=target.birth, first=cut.end_offset,
                )  # fmt: skip

        await asked(start)

    def check_index(self, target: Target, segment: int, done: Done) -> None:
        """Have the index of a segment looked at, and repaired if it is not what its log says."""
        owner = self.owner(target)
        if owner == self.shard:
            self._repairing.check_index(target, segment, done)
            return
        self._peers.ask(
            owner, RequestKind.CHECK_INDEX, done,
            namespace=target.namespace, birth=target.birth, first=segment,
        )  # fmt: skip

    async def candidates(self, target: Target) -> list[Candidate]:
        """The oldest sealed segments of a partition, for the size limit of its topic."""
        owner = self.owner(target)
        if owner == self.shard:
            return self._deleting.candidates(target)[:CANDIDATES_MAX]
        size = CANDIDATES_MAX * CANDIDATE.size
        buffer = self._pool.take(size)
        if buffer is None or buffer.position is None:
            raise ShardCommunicationError("no buffer is free to collect the segments")
        position = buffer.position

        def start(done: Done) -> None:
            self._peers.ask(
                owner, RequestKind.SEGMENTS, done, namespace=target.namespace,
                birth=target.birth, buffer=buffer, position=position, length=size,
            )  # fmt: skip

        try:
            count, _, _ = await asked(start)
            rows = CANDIDATE.iter_unpack(bytes(buffer.view[: count * CANDIDATE.size]))
            return [
                Candidate(end_offset, size_bytes, timestamp, bool(unread))
                for end_offset, size_bytes, timestamp, unread in rows
            ]
        finally:
            buffer.release()

    async def flush_journals(self) -> None:
        """Mode buffered: let the board show everything that any shard has acknowledged."""
        self._partitions.flush_journals()
        for shard in self._peers.shards():

            def start(done: Done, shard: int = shard) -> None:
                self._peers.ask(shard, RequestKind.FLUSH_JOURNALS, done, rule=DeathRule.COMPLETE)

            await asked(start)

    def serve_append(self, request: Request, lent: memoryview, done: Done) -> None:
        """Append the batch that a peer lends."""
        self._metadata.refresh()
        target = self._partitions.known_target(request.namespace, request.birth)
        if target is None:
            try:
                target = self.wanted(request)
            except BrokerError as error:
                done(error.status, 0, 0, 0)
                return
        resubmitted = request.option & RESUBMITTED != 0
        self._partitions.append(target, lent, request.first, resubmitted, done)

    def serve(self, request: Request, lent: memoryview, done: Done) -> None:
        """Carry out what else a peer asks of a partition of ours."""
        if request.kind == RequestKind.FLUSH_JOURNALS:
            self._partitions.flush_journals()
            done(0, 0, 0, 0)
            return
        try:
            target = self.wanted(request)
        except BrokerError as error:
            done(error.status, 0, 0, 0)
            return
        partitions = self._partitions
        match request.kind:
            case RequestKind.RESOLVE_POLL:
                partitions.resolve_poll(target, poll_of(request, request.position), done)
            case RequestKind.STORE_OFFSET:
                partitions.store_offset(
                    target, request.option, request.second, request.first, request.position, done
                )
            case RequestKind.GET_OFFSET:
                partitions.get_offset(target, request.option, request.second, done)
            case RequestKind.DELETE_OFFSET:
                partitions.delete_offset(target, request.option, request.second, done)
            case RequestKind.FLUSH:
                partitions.flush(target, bool(request.option), done)
            case RequestKind.DELETE_SEGMENTS:
                self._deleting.delete_count(target, request.first, done)
            case RequestKind.DELETE_UP_TO:
                cut = Cut(request.first, bool(request.option))
                self._deleting.delete_up_to(target, cut, done)
            case RequestKind.CHECK_INDEX:
                self._repairing.check_index(target, request.first, done)
            case RequestKind.SEGMENTS:
                self._tell_segments(target, lent, done)
            case _:
                raise AssertionError(f"request kind {request.kind} is not about a partition")

    def _tell_segments(self, target: Target, lent: memoryview, done: Done) -> None:
        try:
            found = self._deleting.candidates(target)[: lent.nbytes // CANDIDATE.size]
        except BrokerError as error:
            done(error.status, 0, 0, 0)
            return
        for number, candidate in enumerate(found):
            CANDIDATE.pack_into(lent, number * CANDIDATE.size, *candidate)
        done(0, len(found), 0, 0)

    def wanted(self, request: Request) -> Target:
        """The partition a peer means, if it is still the one that lives there."""
        self._metadata.refresh()
        target = self._metadata.target_of(request.namespace)
        if target.birth != request.birth:
            raise PartitionNotFound(
                f"partition {target}: birth {request.birth} asked for, birth {target.birth} is what"
                " lives there now"
            )
        return target


def rule_of_poll(poll: Poll) -> DeathRule:
    """A poll that commits may have committed: repeated, it would skip what it had found."""
    return DeathRule.FAIL if poll.auto_commit else DeathRule.REREAD
