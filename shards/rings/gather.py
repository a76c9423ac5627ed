"""Asking every other shard, and collecting the answers.

All shards are asked at once. The kinds asked here have the rule COMPLETE: a shard that is being
replaced answers with success, zeros and no bytes.
"""

import asyncio
from collections.abc import Coroutine
from typing import Any

from borzoi.protocol.errors import BrokerError
from borzoi.router.pool import MemoryPool
from borzoi.shards.rings.asking import asked
from borzoi.shards.rings.lending import LendingKind, report_of
from borzoi.shards.rings.peers import Peers
from borzoi.shards.rings.requests import Request


async def answers(peers: Peers, request: Request) -> list[tuple[int, int, int]]:
    """The results of all other shards, in their order; the first error is raised."""

    def ask(shard: int) -> Coroutine[Any, Any, tuple[int, int, int]]:
        return asked(lambda done: peers.ask(shard, request, done))

    return await asyncio.gather(*(ask(shard) for shard in peers.shards()))


class Gather:
    """Collects the results and reports of the other shards."""

    def __init__(self, peers: Peers, pool: MemoryPool) -> None:
        self._peers = peers
        self._pool = pool

    async def answers(self, request: Request) -> list[tuple[int, int, int]]:
        """The results of all other shards, in their order; the first error is raised."""
        return await answers(self._peers, request)

    async def reports(self, kind: LendingKind) -> dict[int, bytes]:
        """Returns the report of each other shard; the first error is raised."""
        shards = self._peers.shards()
        found = await asyncio.gather(*(self._report(shard, kind) for shard in shards))
        return dict(zip(shards, found, strict=True))

    async def reports_within(
        self, seconds: float, kind: LendingKind
    ) -> dict[int, bytes | BrokerError | TimeoutError]:
        """Returns the report of each other shard, or why there was none in time."""
        shards = self._peers.shards()
        found = await asyncio.gather(
            *(self._report_within(seconds, shard, kind) for shard in shards)
        )
        return dict(zip(shards, found, strict=True))

    async def _report(self, shard: int, kind: LendingKind) -> bytes:
        return await report_of(self._peers, self._pool, shard, kind)

    async def _report_within(
        self, seconds: float, shard: int, kind: LendingKind
    ) -> bytes | BrokerError | TimeoutError:
        try:
            async with asyncio.timeout(seconds):
                return await self._report(shard, kind)
        except (BrokerError, TimeoutError) as error:
            return error
