"""What became of old segments, in words, of all shards that answer."""

import asyncio
from typing import Any, cast

from borzoi.protocol.identifiers import ConsumerKind
from borzoi.router.placement import pack_namespace
from borzoi.router.pool import MemoryPool
from borzoi.shards.lifecycle.blockers import Blocker
from borzoi.shards.lifecycle.deleting import DeletingStats
from borzoi.shards.observing.upkeep_report import (
    BLOCKERS_NAMED_MAX,
    TellUpkeep,
    Upkeep,
    UpkeepStats,
    described,
)
from borzoi.shards.rings.gather import Gather
from borzoi.shards.rings.peers import Peers
from borzoi.shards.rings.requests import Done
from borzoi.shards.upkeep.archiver import ArchivingStats
from borzoi.shards.upkeep.compression import CompressingStats

NOTHING = DeletingStats(0, 0, {}, {}, 0)


def blocker(partition: int, kind: ConsumerKind = ConsumerKind.CONSUMER) -> Blocker:
    return Blocker(pack_namespace(1, 2, partition), kind, 42)


def test_figures_in_words() -> None:
    assert list(described(UpkeepStats(61.6, NOTHING, None))) == [
        "counted for 62 s",
        "deleted 0 segments with 0 bytes",
        "has no archive",
        "compressed 0 segments",
    ]
    blocked = {blocker(3): 2, blocker(4, ConsumerKind.GROUP): 5}
    deleted = DeletingStats(7, 7000, blocked, {}, 0)
    compressed = CompressingStats(5, 4, 2, 700.2, 1)
    assert list(described(UpkeepStats(1, deleted, ArchivingStats(3, 900, 2, 5), compressed))) == [
        "counted for 1 s",
        "deleted 7 segments with 7000 bytes",
        "archived 3 segments with 900 bytes",
        "the archive has failed 2 times in a row",
        "compressed 5 segments",
        "4 sealed segments of 2 partitions wait to be compressed, the oldest for 700 s or longer",
        "1 segments are damaged or would not shrink, and stay plain",
        "stream 1, topic 2, partition 4: consumer group 42 had not read what was to be deleted,"
        " 5 times",
        "stream 1, topic 2, partition 3: consumer 42 had not read what was to be deleted, 2 times",
    ]


def test_of_many_who_stand_in_the_way_the_most_frequent_are_named() -> None:
    blocked = {blocker(number): number for number in range(BLOCKERS_NAMED_MAX + 5)}
    lines = list(described(UpkeepStats(1, DeletingStats(0, 0, blocked, {}, 0), None)))
    assert len(lines) == 4 + BLOCKERS_NAMED_MAX + 1
    assert lines[4].startswith(f"stream 1, topic 2, partition {BLOCKERS_NAMED_MAX + 4}: ")
    assert lines[-1] == "and 5 more who had not read"


class ThreePeers:
    """Shard 0 answers, shard 2 has just died, shard 3 never says a word."""

    def shards(self) -> list[int]:
        return [0, 2, 3]

    def ask(self, shard: int, request: TellUpkeep, done: Done, buffer: "Lent") -> None:
        assert isinstance(request, TellUpkeep)
        if shard == 0:
            theirs = Upkeep(0, lambda: UpkeepStats(5, NOTHING, None), gather(self))
            theirs.serve(1, request, buffer.view[: request.length], done)
        elif shard == 2:
            done(0)


class Lent:
    position = 0

    def __init__(self, size: int) -> None:
        self.view = memoryview(bytearray(size))

    def release(self) -> None:
        pass


class Pool:
    def take(self, size: int) -> Lent:
        return Lent(size)


def gather(peers: Any) -> Gather:
    return Gather(cast("Peers", peers), cast("MemoryPool", Pool()))


def test_all_shards_in_their_order_and_none_is_waited_for() -> None:
    stats = UpkeepStats(9, DeletingStats(1, 1000, {}, {}, 0), None)
    ours = Upkeep(1, lambda: stats, gather(ThreePeers()), answer_time_max_s=0.01)
    assert asyncio.run(ours.report()).decode().splitlines() == [
        "shard 0: counted for 5 s",
        "shard 0: deleted 0 segments with 0 bytes",
        "shard 0: has no archive",
        "shard 0: compressed 0 segments",
        "shard 1: counted for 9 s",
        "shard 1: deleted 1 segments with 1000 bytes",
        "shard 1: has no archive",
        "shard 1: compressed 0 segments",
        "shard 2 is being replaced",
        "shard 3 cannot be asked: TimeoutError()",
    ]
