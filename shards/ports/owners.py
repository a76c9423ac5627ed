"""Asking the owner of a partition, be it this shard or another.

Stateless: `Owners` knows where partitions live and either carries a request out here or asks a
peer over its ring. The mirror image, what peers ask of us, is `serve`.
"""

import struct
from functools import partial
from typing import Final, Generic

from borzoi.protocol.errors import BrokerError, PartitionNotFound
from borzoi.router.placement import shard_of
from borzoi.router.pool import MemoryPool
from borzoi.router.target import Target
from borzoi.shards.changes.service import MetadataService
from borzoi.shards.ports.requests import FlushJournals, Owned, TellSegments
from borzoi.shards.rings.asking import asked
from borzoi.shards.rings.gather import answers
from borzoi.shards.rings.lending import report_of, tell
from borzoi.shards.rings.peers import Peers
from borzoi.shards.rings.requests import At, AtOwner, Done
from borzoi.storage.retention import Candidate

CANDIDATE: Final = struct.Struct("<QQQQ")  # a Candidate: end offset, size, timestamp, unread
CANDIDATES_MAX: Final = 1024
"""So many segments of a partition are reported at once; the cleaner asks again for the rest."""


class Owners(Generic[At]):
    """Every partition of the broker, by its owner, which carries requests out with an `At`."""

    def __init__(
        self, shard: int, shard_count: int, peers: Peers, metadata: MetadataService, at: At
    ) -> None:
        self.shard = shard
        self._shard_count = shard_count
        self._peers = peers
        self._metadata = metadata
        self._at = at

    def owner(self, target: Target) -> int:
        """The shard that owns the partition."""
        return shard_of(target.namespace, self._shard_count)

    def is_own(self, target: Target) -> bool:
        """Whether this shard owns the partition."""
        return shard_of(target.namespace, self._shard_count) == self.shard

    def do(self, request: AtOwner[At], done: Done) -> None:
        """Have a request carried out by the owner of its partition."""
        owner = self.owner(request.target)
        if owner == self.shard:
            request.carry_out(self._at, done)
        else:
            self._peers.ask(owner, request, done)

    async def ask(self, request: AtOwner[At]) -> tuple[int, int, int]:
        """Have a request carried out and wait for its results; errors are raised."""
        return await asked(lambda done: self.do(request, done))

    def serve(self, _shard: int, request: AtOwner[At], _lent: memoryview, done: Done) -> None:
        """Carry out what a peer asks of a partition of ours."""
        try:
            request.target = self.wanted(request.target.namespace, request.target.birth)
        except BrokerError as error:
            done(error.status)
            return
        request.carry_out(self._at, done)

    def wanted(self, namespace: int, birth: int) -> Target:
        """The partition a peer means, if it is still the one that lives there."""
        self._metadata.refresh()
        target = self._metadata.target_of(namespace)
        if target.birth != birth:
            raise PartitionNotFound(
                f"partition {target}: birth {birth} asked for, birth {target.birth} is what"
                " lives there now"
            )
        return target


class PartitionOwners(Owners[Owned]):
    """Every partition of the broker, as sessions and upkeep use it."""

    def __init__(
        self,
        shard: int,
        shard_count: int,
        owned: Owned,
        peers: Peers,
        pool: MemoryPool,
        metadata: MetadataService,
    ) -> None:
        super().__init__(shard, shard_count, peers, metadata, owned)
        self._partitions = owned.partitions
        self._deleting = owned.deleting
        self._pool = pool

    async def candidates(self, target: Target) -> list[Candidate]:
        """The oldest sealed segments of a partition, for the size limit of its topic."""
        owner = self.owner(target)
        if owner == self.shard:
            return self._deleting.candidates(target)[:CANDIDATES_MAX]
        data = await report_of(self._peers, self._pool, owner, partial(TellSegments, target))
        return [
            Candidate(end_offset, size_bytes, timestamp, bool(unread))
            for end_offset, size_bytes, timestamp, unread in CANDIDATE.iter_unpack(data)
        ]

    def serve_segments(
        self, _shard: int, request: TellSegments, lent: memoryview, done: Done
    ) -> None:
        """Write the oldest sealed segments into a peer's buffer."""
        try:
            target = self.wanted(request.target.namespace, request.target.birth)
            found = self._deleting.candidates(target)[:CANDIDATES_MAX]
        except BrokerError as error:
            done(error.status)
            return
        tell(lent, b"".join(CANDIDATE.pack(*one) for one in found), done)

    async def flush_journals(self) -> None:
        """Mode buffered: let the board show everything that any shard has acknowledged."""
        self._partitions.flush_journals()
        await answers(self._peers, FlushJournals())
