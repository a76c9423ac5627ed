"""What a shard collects from its partitions: real logs, walked in turns, lists that are bounded."""

import asyncio
import errno
from collections.abc import Iterator
from pathlib import Path
from typing import cast

import psutil
import pytest

from borzoi.protocol.identifiers import ConsumerKind
from borzoi.shards.changes.service import MetadataService
from borzoi.shards.identity.clients import Clients
from borzoi.shards.listening.http import HttpCounts
from borzoi.shards.listening.listener import Listener
from borzoi.shards.loop.slow_requests import Parts, SlowFigures
from borzoi.shards.metrics.own_figures import FigureSources, Walk, own_figures, resident_memory
from borzoi.shards.metrics.shard_figures import (
    ArchiveFigures,
    BlockedSince,
    BlockerFigures,
    CompressedTopic,
    Cut,
    Lag,
    Resident,
    ShardFigures,
    decode,
    encode,
)
from borzoi.shards.partitions.durability import Durability
from borzoi.shards.partitions.owned import Partitions
from borzoi.shards.partitions.partition import OwnedPartition
from borzoi.shards.tallies.traffic import Traffic
from borzoi.shards.upkeep.archiver import Archiver, ArchivingStats
from borzoi.shares import ShareFigures
from borzoi.storage.codecs import Codec
from borzoi.storage.ratio import Ratio
from borzoi.storage.segment import Compressed
from tests.shards.lifecycle.test_deleting import delete, run_disk, send
from tests.shards.owner import TARGET, Owner, Statuses

SPACE = TARGET.namespace
CONSUMER, GROUP = ConsumerKind.CONSUMER, ConsumerKind.GROUP


@pytest.fixture
def owner(tmp_path: Path) -> Iterator[Owner]:
    """Segments 0, 2, 4 are sealed and 6 is active, with one message."""
    owner = Owner(tmp_path, Durability.WRITTEN, segment_size_max=1)
    for number in range(7):
        send(owner, b"%d" % number)
    run_disk(owner)
    yield owner
    owner.close()


def commit(owner: Owner, kind: ConsumerKind, consumer: int, offset: int) -> None:
    statuses = Statuses()
    owner.partitions.store_offset(TARGET, kind, consumer, offset, 0, statuses.done)
    owner.loop.settle()
    assert statuses == [0]


def walked(owner: Owner, rows_max: int = 100) -> Walk:
    walk = Walk(owner.partitions, None, rows_max)
    asyncio.run(walk.run())
    return walk


def test_lag_is_what_is_there_and_not_consumed(owner: Owner) -> None:
    commit(owner, CONSUMER, 42, 6)
    commit(owner, GROUP, 1, 2)
    lags = walked(owner).lags
    assert list(lags.rows) == [Lag(SPACE, 2, 1, 4), Lag(SPACE, 1, 42, 0)]
    assert lags.left_out == 0
    delete(owner, 1)
    run_disk(owner)
    commit(owner, GROUP, 1, 0)
    # Offsets 0 and 1 were deleted unread: no consumer can catch up with them.
    assert next(walked(owner).lags.rows) == Lag(SPACE, 2, 1, 5)


def test_lag_counts_what_was_acknowledged_from_memory(tmp_path: Path) -> None:
    owner = Owner(tmp_path, Durability.BUFFERED)
    send(owner, b"a")
    send(owner, b"b")
    commit(owner, CONSUMER, 1, 0)
    assert owner.published.next_offset == 0
    assert list(walked(owner).lags.rows) == [Lag(SPACE, 1, 1, 1)]
    owner.close()


def test_of_too_many_consumers_groups_come_first(owner: Owner) -> None:
    for consumer in range(4):
        commit(owner, CONSUMER, consumer, 0)
        commit(owner, GROUP, consumer, 0)
    lags = walked(owner, rows_max=5).lags
    assert lags.left_out == 3
    assert [(row.kind, row.consumer) for row in lags.rows] == [
        (2, 3),
        (2, 2),
        (2, 1),
        (2, 0),
        (1, 3),
    ]
    assert walked(owner, rows_max=8).lags.left_out == 0


def test_compressed_segments_by_topic_and_by_codec(owner: Owner) -> None:
    sealed = owner.partition.log.sealed
    for segment, codec in zip(sealed, (Codec.GZIP, Codec.ZSTD), strict=False):
        # As the compressor leaves it, without its work.
        number = sealed.index(segment)
        owner.partition.log.segments.all[number] = segment._replace(
            compressed=Compressed(codec, 10)
        )
    size = sealed[0].size_bytes
    walk = walked(owner)
    assert walk.codecs == {"gzip": Ratio(1, size, 10), "zstd": Ratio(1, size, 10)}
    assert walk.compressed == Cut(
        [CompressedTopic(0, 0, "gzip", 1, size, 10), CompressedTopic(0, 0, "zstd", 1, size, 10)]
    )
    cut = walked(owner, rows_max=1)
    assert cut.compressed.left_out == 1
    assert len(cut.codecs) == 2, "sums leave nothing out"


def test_a_partition_that_a_failed_sync_made_read_only(tmp_path: Path) -> None:
    owner = Owner(tmp_path, Durability.FSYNC)
    owner.files.fail("fdatasync", errno.EIO)
    owner.send(b"a")
    owner.loop.settle()
    run_disk(owner)
    assert walked(owner).read_only == Cut([SPACE])
    assert walked(owner, rows_max=0).read_only == Cut([], 1)
    owner.close()


class SixTimes:
    """One partition, six times over."""

    def __init__(self, owner: Owner) -> None:
        self._owner = owner

    def __iter__(self) -> Iterator[OwnedPartition]:
        return iter([self._owner.partition] * 6)

    def visible_end(self, partition: OwnedPartition) -> int:
        return self._owner.partitions.visible_end(partition)


def test_the_loop_gets_its_turn(owner: Owner) -> None:
    async def turns() -> int:
        partitions = cast("Partitions", SixTimes(owner))
        # Four steps each: itself, and three sealed segments.
        walking = asyncio.ensure_future(Walk(partitions, None, 10, steps_per_turn=8).run())
        count = 0
        while not walking.done():
            await asyncio.sleep(0)
            count += 1
        return count

    # Two pauses, and a turn to begin with.
    assert asyncio.run(turns()) >= 3


class Archived:
    """An archiver that has two segments left to do."""

    def waiting_count(self, _partition: OwnedPartition) -> int:
        return 2

    def stats(self) -> ArchivingStats:
        return ArchivingStats(5, 500, 0, 3)


class Refreshed:
    def refresh(self) -> None:
        pass


class Counted:
    open_count = 3
    here_count = 2


def test_all_that_a_shard_tells(owner: Owner) -> None:
    commit(owner, CONSUMER, 42, 2)
    delete(owner, 9)
    run_disk(owner)
    sources = FigureSources(
        cast("MetadataService", Refreshed()),
        owner.partitions,
        owner.deleting,
        cast("Archiver", Archived()),
        None,
        None,
        owner.commit.faults,
        cast("Clients", Counted()),
        cast("Listener", Counted()),
        HttpCounts(7, 8),
        {"logins": lambda: ShareFigures(10, 3, 2, 2, 1, 0)},
        lambda: None,
        lambda: SlowFigures(2, Parts(written=0.5), 0.25),
        lambda: 4711,
        lambda rows_max: Traffic(pool_bytes=rows_max),
    )
    figures = asyncio.run(own_figures(sources, 10, lambda: Resident(1, 2, 3)))
    assert isinstance(figures, ShardFigures)
    assert (figures.connections, figures.clients, figures.http_requests, figures.http_refused) == (
        3,
        2,
        7,
        8,
    )
    assert figures.resident == Resident(1, 2, 3)
    assert figures.cpu_seconds > 0
    assert (figures.deleted_segments, figures.deleted_bytes) == (1, 2 * 65)
    assert figures.blocked == Cut([BlockerFigures(SPACE, 1, 42, 1)])
    assert figures.blocked_since == Cut([BlockedSince(SPACE, 1, 42, owner.now_us)])
    assert figures.deleted_unread_segments == 0
    assert figures.archive == ArchiveFigures(5, 500, 3, 2)
    assert not figures.metadata_is_read_only
    assert figures.duplicates == 0
    assert figures.mapped_bytes == 4711
    assert figures.slow == SlowFigures(2, Parts(written=0.5), 0.25)
    assert figures.traffic.pool_bytes == 10
    assert figures.shared == {"logins": ShareFigures(10, 3, 2, 2, 1, 0)}
    assert decode(encode(figures)) == figures
    assert {one.written for one in figures.faults} == {"messages", "sync", "offsets"}


def test_memory_as_the_kernel_tells_it() -> None:
    found = resident_memory()
    rss = psutil.Process().memory_info().rss
    assert found.anonymous > 1_000_000
    assert sum(found) == pytest.approx(rss, rel=0.5)
