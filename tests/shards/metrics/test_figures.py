"""Figures of all shards that answer."""

import asyncio
import logging

import pytest

from borzoi.shards.loop.tasks import Tasks
from borzoi.shards.metrics.figures import Figures, TellFigures
from borzoi.shards.metrics.shard_figures import (
    ArchiveFigures,
    BlockedSince,
    BlockerFigures,
    CompressedTopic,
    Cut,
    Lag,
    ShardFigures,
    decode,
    encode,
)
from borzoi.shards.rings.requests import Done
from borzoi.storage.ratio import Ratio
from borzoi.storage.write_faults import FaultCount
from tests.shards.metrics.samples import lags_of, shard_figures
from tests.shards.observing.test_upkeep_report import Lent, gather

MANY = lags_of(*(Lag(1 << 40, 2, 3, number) for number in range(20_000)), left_out=5)


def die(error: BaseException) -> None:
    raise AssertionError from error


def test_figures_cross_between_shards_unchanged() -> None:
    figures = shard_figures(
        blocked=Cut([BlockerFigures(1, 2, 3, 4)], 5),
        blocked_since=Cut([BlockedSince(1, 2, 3, 4)], 6),
        archive=ArchiveFigures(1, 2, 3, 4),
        codecs={"lz4": Ratio(1, 2, 3)},
        compressed=Cut([CompressedTopic(1, 2, "lz4", 3, 4, 5)]),
        read_only=Cut([1 << 43]),
        faults=[FaultCount("sync", "EIO", 6)],
        lags=MANY,
    )
    assert decode(encode(figures)) == figures


class FourPeers:
    """Shard 0 has much to tell, 2 has just died, 3 is stuck, 4 finds itself broken."""

    def __init__(self) -> None:
        self.asked = 0
        self.collected = 0
        self.theirs = Figures(0, self.collect, gather(self), Tasks(die))
        self.broken = Figures(4, self.fail, gather(self), Tasks(die))

    async def collect(self) -> ShardFigures:
        self.collected += 1
        await asyncio.sleep(0)
        return shard_figures(connections=10, lags=MANY)

    async def fail(self) -> ShardFigures:
        raise ZeroDivisionError

    def shards(self) -> list[int]:
        return [0, 2, 3, 4]

    def ask(self, shard: int, request: TellFigures, done: Done, buffer: Lent) -> None:
        assert isinstance(request, TellFigures)
        self.asked += 1
        view = buffer.view[: request.length]
        if shard == 0:
            self.theirs.serve(1, request, view, done)
        elif shard == 2:
            done(0)
        elif shard == 4:
            self.broken.serve(1, request, view, done)


def test_a_shard_that_does_not_answer_is_left_out(caplog: pytest.LogCaptureFixture) -> None:
    async def own() -> ShardFigures:
        return shard_figures(connections=11)

    async def run() -> dict[int, ShardFigures]:
        peers = FourPeers()
        ours = Figures(1, own, gather(peers), Tasks(die), answer_time_max_s=0.2)
        found = await ours.everybody()
        # Twice of shard 0, whose first buffer was too small; it had to collect only once.
        assert peers.asked == 5
        assert peers.collected == 1
        return found

    with caplog.at_level(logging.WARNING):
        found = asyncio.run(run())
    assert {shard: one.connections for shard, one in found.items()} == {0: 10, 1: 11}
    assert found[0].lags == MANY
    assert list(MANY.rows)[-1] == Lag(1 << 40, 2, 3, 19_999)
    assert "metrics without shard 3: TimeoutError()" in caplog.text
    assert "the figures for metrics cannot be collected" in caplog.text
