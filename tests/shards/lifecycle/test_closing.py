"""The end of a shard's storage: its order, its number of calls, and the log of its failures."""

import asyncio
import errno
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from borzoi.protocol.identifiers import ConsumerKind
from borzoi.router.placement import pack_namespace
from borzoi.router.target import Target
from borzoi.shards.lifecycle.closing import (
    DIRTY_BYTES_PER_SYNC,
    ROUNDS_MAX,
    SINGLE_SYNCS_MAX,
    Closed,
    Closing,
    dirty_bytes,
    whole_pays,
)
from borzoi.shards.partitions.durability import Durability
from tests.shards.owner import Owner, Statuses, batch_of

MANY = 24
FEW = 2
SYNCS = {"fdatasync", "fsync_directory", "sync_file_system"}


@pytest.fixture
def buffered(tmp_path: Path) -> Iterator[Owner]:
    owner = Owner(tmp_path / "data", Durability.BUFFERED)
    yield owner
    owner.close()


def target(number: int) -> Target:
    return Target(pack_namespace(0, 0, number), 3, number + 1)


def send(owner: Owner, count: int) -> None:
    """A batch of two for each of so many partitions, acknowledged from memory."""
    statuses = Statuses()
    for number in range(count):
        owner.appends.append(target(number), batch_of(b"a", b"b"), 2, False, statuses.done)
    owner.loop.turn()
    assert statuses == [0] * count
    owner.files.calls.clear()


def close(owner: Owner, *, dirty: int = 0, progress: list[tuple[int, int]] | None = None) -> Closed:
    async def run() -> Closed:
        loop = asyncio.get_running_loop()
        with ThreadPoolExecutor(4) as disk:
            closing = Closing(
                loop, disk, owner.files, owner.partitions, owner.commit, owner.durability,
                owner.layout.root,
                lambda *left: None if progress is None else progress.append(left),
                lambda: dirty,
            )  # fmt: skip
            return await closing.run()

    return asyncio.run(run())


def names(owner: Owner) -> list[str]:
    return [name for name, _ in owner.files.calls]


def test_everything_is_written_before_the_first_sync(buffered: Owner) -> None:
    send(buffered, MANY)
    progress: list[tuple[int, int]] = []
    assert close(buffered, progress=progress).is_complete
    calls = names(buffered)
    first_sync = min(calls.index(name) for name in SYNCS if name in calls)
    last_write = max(number for number, name in enumerate(calls) if name in ("write", "mkdir"))
    assert last_write < first_sync
    assert all(one.log.is_synced for one in buffered.partitions)
    assert progress[0] == (MANY, MANY)
    assert progress[-1] == (0, 0)


def test_many_files_are_synced_by_one_call(buffered: Owner) -> None:
    send(buffered, MANY)
    assert close(buffered).is_complete
    assert [name for name in names(buffered) if name in SYNCS] == ["sync_file_system"]


def test_few_files_are_synced_one_by_one_and_shared_directories_once(buffered: Owner) -> None:
    send(buffered, FEW)
    assert close(buffered).is_complete
    assert "sync_file_system" not in names(buffered)
    directories = [path for name, path in buffered.files.calls if name == "fsync_directory"]
    assert len(directories) == len(set(directories))
    assert buffered.layout.root in directories


def test_beside_much_that_others_wrote_each_file_is_synced(buffered: Owner) -> None:
    send(buffered, MANY)
    assert close(buffered, dirty=1 << 40).is_complete
    assert "sync_file_system" not in names(buffered)
    assert all(one.log.is_synced for one in buffered.partitions)


def test_a_file_system_that_cannot_be_synced_as_a_whole(buffered: Owner) -> None:
    send(buffered, MANY)
    buffered.files.fail("sync_file_system", errno.EIO)
    assert close(buffered).is_complete
    assert names(buffered).count("fdatasync") >= MANY
    assert all(one.log.is_synced for one in buffered.partitions)


def test_stored_offsets_are_synced_with_the_rest(buffered: Owner) -> None:
    send(buffered, 1)
    partition = buffered.partitions.find(target(0))
    for consumer in range(5):
        partition.offsets.store(ConsumerKind.CONSUMER, consumer, 0)
    partition.offsets.write()
    assert not partition.offsets.is_synced
    assert close(buffered).is_complete
    assert partition.offsets.is_synced


def test_what_could_not_be_written_is_counted_and_named(
    buffered: Owner, caplog: pytest.LogCaptureFixture
) -> None:
    send(buffered, 3)
    buffered.files.fail("write", errno.ENOSPC)
    closed = close(buffered)
    assert [(one.target, one.message_count) for one in closed.lost] == [
        (target(number), 2) for number in range(3)
    ]
    assert not closed.is_complete
    for number in range(3):
        assert f"2 of partition {target(number)}" in caplog.text
    assert "6 acknowledged messages of 3 partitions are lost" in caplog.text


def test_what_could_not_be_synced_is_logged(buffered: Owner) -> None:
    send(buffered, FEW)
    buffered.files.fail("fdatasync", errno.EIO)
    closed = close(buffered)
    assert closed.lost == []
    assert set(closed.unsynced) == {target(number) for number in range(FEW)}


@pytest.mark.parametrize("durability", [Durability.WRITTEN, Durability.FSYNC])
def test_what_was_not_acknowledged_is_not_lost(tmp_path: Path, durability: Durability) -> None:
    owner = Owner(tmp_path / "data", durability)
    owner.send(b"a")
    owner.files.fail("write", errno.ENOSPC)
    assert close(owner).lost == []
    owner.close()


def test_what_is_staged_while_the_stop_goes_on_is_written_too(buffered: Owner) -> None:
    send(buffered, 1)
    late = 0

    class Late(list[tuple[int, int]]):
        """Appends once more when the writing is over, as a thread that comes back late."""

        def append(self, left: tuple[int, int]) -> None:
            nonlocal late
            if left == (0, 1) and late < ROUNDS_MAX - 1:
                late += 1
                statuses = Statuses()
                buffered.appends.append(target(0), batch_of(b"late"), 1, False, statuses.done)
                buffered.loop.turn()

    assert close(buffered, progress=Late()).is_complete
    assert late > 0
    log = buffered.partitions.find(target(0)).log
    assert log.staged_messages == 0
    assert log.is_synced
    assert log.written.next_offset == 2 + late


def test_one_call_for_all_pays_when_there_are_many_files_and_little_else() -> None:
    assert not whole_pays(SINGLE_SYNCS_MAX, 0)
    assert whole_pays(SINGLE_SYNCS_MAX + 1, 0)
    assert not whole_pays(SINGLE_SYNCS_MAX + 1, DIRTY_BYTES_PER_SYNC)
    # As measured: 10,000 new partitions beside 2 GB, and 1,000 beside the same.
    assert whole_pays(60_000, 2_000_000_000)
    assert not whole_pays(6_000, 2_000_000_000)


def test_this_machine_says_how_much_is_dirty() -> None:
    assert dirty_bytes() >= 0


def test_a_last_write_makes_no_room_for_offsets_that_do_not_come(buffered: Owner) -> None:
    """Three directories less for each new partition; the next start makes them."""
    send(buffered, FEW)
    assert close(buffered).is_complete
    for partition in buffered.partitions:
        assert sorted(os.listdir(partition.log.directory)) == [
            "00000000000000000000.index",
            "00000000000000000000.log",
            "birth",
        ]
