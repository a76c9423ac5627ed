"""The figures of all shards: the own ones are collected, those of the others come over the rings.

What a shard has collected answers every request within KEPT_S, so that the work for metrics is
bounded, however often they are asked for.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any, Final

from borzoi.protocol.errors import ShardCommunicationError
from borzoi.shards.loop.tasks import Tasks
from borzoi.shards.metrics.fresh import Fresh
from borzoi.shards.metrics.shard_figures import ShardFigures, decode, encode
from borzoi.shards.rings.gather import Gather
from borzoi.shards.rings.lending import tell
from borzoi.shards.rings.requests import Done, Telling

LOG: Final = logging.getLogger(__name__)

KEPT_S: Final = 1.0
ANSWER_TIME_MAX_S: Final = 5.0


class TellFigures(Telling):
    """Write the figures of the shard into the lent buffer."""

    KIND = 67


class Figures:
    """The figures of this shard, and those of all shards."""

    def __init__(
        self,
        shard: int,
        collect: Callable[[], Coroutine[Any, Any, ShardFigures]],
        gather: Gather,
        tasks: Tasks,
        answer_time_max_s: float = ANSWER_TIME_MAX_S,
    ) -> None:
        self._shard = shard
        self._answer_time_max_s = answer_time_max_s
        self._collect = collect
        self._gather = gather
        self._tasks = tasks
        self._own = Fresh(self._encoded, KEPT_S)

    async def everybody(self) -> dict[int, ShardFigures]:
        """By shard, without those that do not answer in time."""
        found, own = await asyncio.gather(
            self._gather.reports_within(self._answer_time_max_s, TellFigures), self._own.get()
        )
        figures = {self._shard: decode(own)}
        for shard, report in found.items():
            if isinstance(report, Exception):
                LOG.warning("metrics without shard %d: %r", shard, report)
            elif report:
                figures[shard] = decode(report)
            # Nothing: it is being replaced.
        return dict(sorted(figures.items()))

    def serve(self, _shard: int, _request: TellFigures, lent: memoryview, done: Done) -> None:
        """Write our figures into a peer's buffer, or say how large it has to be."""
        self._tasks.start(self._serve(lent, done))

    async def _serve(self, lent: memoryview, done: Done) -> None:
        try:
            figures = await self._own.get()
        except Exception:
            # A fault of ours, but no message may wait because of a figure.
            LOG.exception("the figures for metrics cannot be collected")
            done(ShardCommunicationError.status)
        else:
            tell(lent, figures, done)

    async def _encoded(self) -> bytes:
        return encode(await self._collect())
