"""Assignments on their way from shard 0 to the shards of the members.

Owns what is noted and not sent yet: the newest assignment per shard, group and client. One message
is on its way to a shard at a time. A shard that cannot be reached gets its assignments later.
"""

import asyncio
import logging
from typing import Final

from borzoi.protocol.errors import ShardCommunicationError
from borzoi.router.pool import MemoryPool
from borzoi.shards.groups.local_members import LocalMembers
from borzoi.shards.groups.requests import Assign
from borzoi.shards.metadata.effects import GroupRef
from borzoi.shards.rings.lending import lend
from borzoi.shards.rings.peers import Peers
from borzoi.shards.rosters.assignment import Assignment, encode_assignments

LOG: Final = logging.getLogger(__name__)

RETRY_INTERVAL_S: Final = 0.1


class Dispatch:
    """Sends assignments. Used by the loop of shard 0 alone."""

    def __init__(self, shard: int, local: LocalMembers, peers: Peers, pool: MemoryPool) -> None:
        self._shard = shard
        self._local = local
        self._peers = peers
        self._pool = pool
        self._noted: dict[int, dict[tuple[GroupRef, int], Assignment]] = {}
        self._sending: dict[int, asyncio.Lock] = {}

    def note(self, shard: int, assignment: Assignment) -> None:
        """Replaces what is noted for this member; nothing is sent yet."""
        key = assignment.group, assignment.client_id
        self._noted.setdefault(shard, {})[key] = assignment

    @property
    def is_due(self) -> bool:
        """Whether anything is noted."""
        return bool(self._noted)

    async def send(self) -> None:
        """Returns when every shard has what is noted now."""
        shards = {*self._noted, *self._sending}
        await asyncio.gather(*(self._send(shard) for shard in shards))

    async def _send(self, shard: int) -> None:
        # A caller waits for the lock: what another call is sending must arrive, too.
        async with self._sending.setdefault(shard, asyncio.Lock()):
            while noted := self._noted.pop(shard, None):
                if shard == self._shard:
                    self._local.put(noted.values())
                    continue
                try:
                    data = encode_assignments(list(noted.values()))
                    await lend(self._peers, self._pool, shard, Assign, data)
                except ShardCommunicationError as error:
                    LOG.warning(
                        "shard %d gets the assignments of its members later: %s", shard, error
                    )
                    self._noted[shard] = noted | self._noted.get(shard, {})
                    await asyncio.sleep(RETRY_INTERVAL_S)
