"""Appending a batch to a partition, wherever it lives.

The port for every door: it needs no session and no buffer of the arena. An owner on this shard is
called; one on another shard is lent the batch over its ring. Only what lies in our arena can be
lent, so a batch in private memory is copied there first, and only then.

Always: a batch is stamped in place, ids, offsets and checksums, by the time its outcome is known.
"""

from borzoi.protocol.batch import clear_first_checksum, first_stamped_offset
from borzoi.protocol.errors import BrokerError, ShardCommunicationError
from borzoi.router.buffer import Buffer
from borzoi.router.pool import MemoryPool
from borzoi.router.target import Target
from borzoi.shards.changes.service import MetadataService
from borzoi.shards.partitions.owned import Partitions
from borzoi.shards.ports.owners import PartitionOwners
from borzoi.shards.rings.asking import asked
from borzoi.shards.rings.peers import Peers
from borzoi.shards.rings.requests import Append, Done
from borzoi.shares import user_taker


class Appends:
    """The way of a batch to the owner of its partition. Stateless."""

    def __init__(
        self,
        owners: PartitionOwners,
        partitions: Partitions,
        metadata: MetadataService,
        peers: Peers,
        pool: MemoryPool,
    ) -> None:
        self.shard = owners.shard
        self._owners = owners
        self._partitions = partitions
        self._metadata = metadata
        self._peers = peers
        self._pool = pool

    def owner(self, target: Target) -> int:
        """The shard that owns the partition."""
        return self._owners.owner(target)

    async def offset_of(
        self, user: int, target: Target, batch: memoryview, count: int
    ) -> int | None:
        """Append `count` messages for a user; the offset of the first. Errors are raised.

        The batch is writable memory of the caller, in the layout of the log. Its messages are
        checked, and the user may send there. None if deduplication has left out the first.
        """
        clear_first_checksum(batch)
        owner = self.owner(target)
        await asked(lambda done: self.append(user, target, owner, batch, count, None, 0, done))
        return first_stamped_offset(batch)

    def append(
        self,
        user: int,
        target: Target,
        owner: int,
        batch: memoryview,
        message_count: int,
        buffer: Buffer | None,
        position: int,
        done: Done,
    ) -> None:
        """Append a checked batch, whose first checksum is cleared; `done` gets the status.

        It lies at `position` of our arena, inside `buffer`; or in private memory, if that is None.
        The caller keeps the bytes until `done`.
        """
        if owner == self.shard:
            self._partitions.append(target, batch, message_count, False, done)
        elif buffer is not None:
            self._lend(target, owner, batch.nbytes, message_count, buffer, position, done)
        else:
            self._lend_copy(user, target, owner, batch, message_count, done)

    def serve(self, _shard: int, request: Append, lent: memoryview, done: Done) -> None:
        """Append the batch that a peer lends."""
        self._metadata.refresh()
        target = self._partitions.known_target(request.namespace, request.birth)
        if target is None:
            try:
                target = self._owners.wanted(request.namespace, request.birth)
            except BrokerError as error:
                done(error.status)
                return
        is_resubmitted = request.is_resubmitted != 0
        self._partitions.append(target, lent, request.message_count, is_resubmitted, done)

    def _lend(
        self,
        target: Target,
        owner: int,
        length: int,
        message_count: int,
        buffer: Buffer,
        position: int,
        done: Done,
    ) -> None:
        request = Append(target.namespace, target.birth, message_count, 0, position, length)
        self._peers.ask(owner, request, done, buffer)

    def _lend_copy(
        self,
        user: int,
        target: Target,
        owner: int,
        batch: memoryview,
        message_count: int,
        done: Done,
    ) -> None:
        copied = self._pool.take(batch.nbytes, user_taker(user))
        if copied is None or copied.position is None:
            done(ShardCommunicationError.status)
            return
        copied.view[:] = batch

        def appended(status: int, first: int = 0, second: int = 0, third: int = 0) -> None:
            if status == 0:
                batch[:] = copied.view
            copied.release()
            done(status, first, second, third)

        self._lend(target, owner, batch.nbytes, message_count, copied, copied.position, appended)
