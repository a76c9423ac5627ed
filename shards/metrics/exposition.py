"""The answer to a scrape: figures of all shards, and of what is the same for all, as one text.

Made by the shard that was asked, in turns, and kept for KEPT_S: so many scrapes cost as much as
one. A shard that is dead or stuck costs its figures, not the answer.
"""

import asyncio
import shutil
from collections.abc import Callable, Mapping
from concurrent.futures import Executor
from typing import Final

from borzoi import __version__
from borzoi.protocol.openmetrics import exposition
from borzoi.shards.changes.service import MetadataService
from borzoi.shards.loop.clock import BrokerClock
from borzoi.shards.metrics.families import Disk, Scrape, families
from borzoi.shards.metrics.figures import Figures
from borzoi.shards.metrics.fresh import Fresh
from borzoi.shards.metrics.overview import Names, look_over, names_of
from borzoi.shards.metrics.shard_figures import ShardFigures
from borzoi.shards.reading.describe import Describer

KEPT_S: Final = 1.0
TIME_MAX_S: Final = 10.0


class Exposition:
    """Makes the text of one shard's door."""

    def __init__(
        self,
        figures: Figures,
        metadata: MetadataService,
        describer: Describer,
        clock: BrokerClock,
        generations: Callable[[], dict[int, int]],
        data: str,
        thread: Executor,
        *,
        names: bool,
        rows_max: int,
    ) -> None:
        """`data` is the directory whose disk is looked at, by `thread`: it may be slow."""
        self._figures = figures
        self._metadata = metadata
        self._describer = describer
        self._clock = clock
        self._generations = generations
        self._data = data
        self._thread = thread
        self._with_names = names
        self._rows_max = rows_max
        self._text = Fresh(self._make, KEPT_S)

    async def text(self) -> bytes:
        """The text, at most KEPT_S old. TimeoutError if it takes too long."""
        return await self._text.get()

    async def consumer_names(self) -> dict[int, str]:
        """What single consumers have called themselves, as far as a shard that lives heard it."""
        async with asyncio.timeout(TIME_MAX_S):
            return _named(await self._figures.everybody())

    async def _make(self) -> bytes:
        async with asyncio.timeout(TIME_MAX_S):
            scrape = await self._gather()
            pieces = []
            for piece in exposition(families(scrape)):
                pieces.append(piece)
                await asyncio.sleep(0)
            return b"".join(pieces)

    async def _gather(self) -> Scrape:
        disk = await asyncio.get_running_loop().run_in_executor(self._thread, self._disk)
        shards = await self._figures.everybody()
        overview = await look_over(self._metadata.refresh(), self._describer, self._rows_max)
        return Scrape(
            __version__,
            self._clock.start_us / 1e6,
            overview,
            self._names(shards) if self._with_names else None,
            disk,
            self._generations(),
            shards,
        )

    def _names(self, shards: Mapping[int, ShardFigures]) -> Names:
        return names_of(self._metadata.refresh(), _named(shards))

    def _disk(self) -> Disk | None:
        try:
            usage = shutil.disk_usage(self._data)
        except OSError:
            # Gone or unreachable: the next write there logs it, and the figure is missing here.
            return None
        return Disk(usage.total, usage.free)


def _named(shards: Mapping[int, ShardFigures]) -> dict[int, str]:
    consumers: dict[int, str] = {}
    for one in shards.values():
        consumers |= one.traffic.consumer_names
    return consumers
