"""The figures of all shards: the own ones are collected, those of the others come over the rings.

What a shard has collected answers every request within KEPT_S, so that the work for metrics is
bounded, however often they are asked for.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any, Final

from borzoi.protocol.errors import BrokerError, ShardCommunicationError
from borzoi.router.pool import MemoryPool
from borzoi.shards.loop.tasks import Tasks
from borzoi.shards.metrics.fresh import Fresh
from borzoi.shards.metrics.shard_figures import ShardFigures, decode, encode
from borzoi.shards.rings.lending import tell, told_by
from borzoi.shards.rings.peers import Peers
from borzoi.shards.rings.requests import Done, RequestKind

LOG: Final = logging.getLogger(__name__)

KEPT_S: Final = 1.0
ANSWER_TIME_MAX_S: Final = 5.0


class Figures:
    """The figures of this shard, and everybody's."""

    def __init__(
        self,
        shard: int,
        collect: Callable[[], Coroutine[Any, Any, ShardFigures]],
        peers: Peers,
        pool: MemoryPool,
        tasks: Tasks,
    ) -> None:
        self._shard = shard
        self._collect = collect
        self._peers = peers
        self._pool = pool
        self._tasks = tasks
        self._own = Fresh(self._encoded, KEPT_S)

    async def everybody(self) -> dict[int, ShardFigures]:
        """By shard, without those that do not answer in time."""
        shards = sorted((self._shard, *self._peers.shards()))
        found = await asyncio.gather(*(self._of(shard) for shard in shards))
        return {
            shard: figures
            for shard, figures in zip(shards, found, strict=True)
            if figures is not None
        }

    async def _of(self, shard: int) -> ShardFigures | None:
        if shard == self._shard:
            return decode(await self._own.get())

        try:
            async with asyncio.timeout(ANSWER_TIME_MAX_S):
                data = await told_by(self._peers, self._pool, shard, RequestKind.METRICS)
        except (TimeoutError, BrokerError) as error:
            LOG.warning("metrics without shard %d: %r", shard, error)
            return None
        # Nothing: it is being replaced.
        return decode(data) if data else None

    def serve(self, lent: memoryview, done: Done) -> None:
        """Write our figures into a peer's buffer, or say how large it has to be."""
        self._tasks.start(self._serve(lent, done))

    async def _serve(self, lent: memoryview, done: Done) -> None:
        try:
            figures = await self._own.get()
        except Exception:
            # A fault of ours, but no message may wait because of a figure.
            LOG.exception("the figures for metrics cannot be collected")
            done(ShardCommunicationError.status, 0, 0, 0)
        else:
            tell(lent, figures, done)

    async def _encoded(self) -> bytes:
        return encode(await self._collect())
