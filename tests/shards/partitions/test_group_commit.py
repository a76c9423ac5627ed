"""What is written, published and answered when, in each durability mode."""

import errno
import logging
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from borzoi.protocol.errors import (
    CannotSaveMessagesToSegment,
    CannotSyncFile,
    PartitionNotFound,
)
from borzoi.shards.metadata.effects import Effects, RunRemoved
from borzoi.shards.metadata.state import Run
from borzoi.shards.partitions.durability import Durability
from borzoi.shards.rings.poll import Poll
from borzoi.storage.outcome import Slices
from borzoi.storage.recovery_point import read_recovery_point
from tests.shards.owner import (
    JOURNAL_MESSAGES_MAX,
    JOURNAL_SIZE_MAX,
    TARGET,
    Owner,
    Statuses,
    batch_of,
)
from tests.storage.faults import SHORT

NewOwner = Callable[..., Owner]

DELETION = Effects(
    TARGET.birth + 1, removed=[RunRemoved(0, 0, Run(0, 1, TARGET.birth, TARGET.slot, 0))]
)


@pytest.fixture
def new_owner(tmp_path: Path) -> Iterator[NewOwner]:
    made: list[Owner] = []

    def make(durability: Durability, *, segment_size_max: int = 1 << 20) -> Owner:
        owner = Owner(tmp_path / f"data{len(made)}", durability, segment_size_max=segment_size_max)
        made.append(owner)
        return owner

    yield make
    for owner in made:
        owner.close()


def writes(owner: Owner) -> int:
    """How often bytes were appended to a log file."""
    return sum(name == "write" and path.endswith(".log") for name, path in owner.files.calls)


def syncs(owner: Owner) -> int:
    return sum(name == "fdatasync" and path.endswith(".log") for name, path in owner.files.calls)


# Mode written.


def test_a_turn_is_one_write_however_many_batches_it_brought(new_owner: NewOwner) -> None:
    owner = new_owner(Durability.WRITTEN)
    sent = [owner.send(b"a"), owner.send(b"b", b"c"), owner.send(b"d")]
    assert sent == [[], [], []]
    assert owner.visible() == []
    owner.loop.settle()
    assert sent == [[0], [0], [0]]
    assert owner.visible() == [b"a", b"b", b"c", b"d"]
    assert writes(owner) == 1
    assert owner.disk.waiting == []


def test_answers_come_after_the_publication(new_owner: NewOwner) -> None:
    owner = new_owner(Durability.WRITTEN)
    seen: list[list[bytes]] = []
    owner.appends.append(
        TARGET, batch_of(b"a"), 1, False, lambda *_results: seen.append(owner.visible())
    )
    owner.loop.settle()
    assert seen == [[b"a"]]


@pytest.mark.parametrize("call", ["write", "open", "mkdir"])
def test_a_full_disk_fails_every_request_of_the_group_and_publishes_nothing(
    new_owner: NewOwner, call: str
) -> None:
    owner = new_owner(Durability.WRITTEN)
    owner.files.fail(call, errno.ENOSPC)
    sent = [owner.send(b"lost"), owner.send(b"lost too")]
    owner.loop.settle()
    assert sent == [[CannotSaveMessagesToSegment.status]] * 2
    assert owner.visible() == []
    owner.files.repair()
    again = owner.send(b"kept")
    owner.loop.settle()
    assert again == [0]
    assert owner.visible() == [b"kept"]


def test_a_full_disk_between_two_groups_costs_the_second_only(new_owner: NewOwner) -> None:
    owner = new_owner(Durability.WRITTEN)
    first = owner.send(b"first")
    owner.loop.settle()
    owner.files.fail("write", errno.ENOSPC)
    second = owner.send(b"second")
    owner.loop.settle()
    owner.files.repair()
    third = owner.send(b"third")
    owner.loop.settle()
    assert (first, second, third) == ([0], [CannotSaveMessagesToSegment.status], [0])
    assert owner.visible() == [b"first", b"third"]
    owner.succeed()
    assert owner.visible() == [b"first", b"third"]


def test_a_flush_that_finds_the_disk_full_fails_the_batches_it_took_along(
    new_owner: NewOwner,
) -> None:
    """The batches of this turn are gone with the failed write: they must not be acknowledged."""
    owner = new_owner(Durability.WRITTEN)
    sent = owner.send(b"lost")
    owner.files.fail("write", errno.ENOSPC)
    flushed = Statuses()
    owner.commit.flush(owner.partition, flushed.done, fsync=False)
    owner.files.repair()
    owner.loop.settle()
    assert flushed == [CannotSaveMessagesToSegment.status]
    assert sent == [CannotSaveMessagesToSegment.status]
    assert owner.visible() == []


def test_a_flush_writes_what_the_turn_has_staged_and_it_is_still_answered(
    new_owner: NewOwner,
) -> None:
    owner = new_owner(Durability.WRITTEN)
    sent, flushed = owner.send(b"a"), Statuses()
    owner.commit.flush(owner.partition, flushed.done, fsync=False)
    assert flushed == [0]
    assert owner.visible() == [b"a"]
    owner.loop.settle()
    assert sent == [0]
    assert writes(owner) == 1


def test_a_short_write_is_continued(new_owner: NewOwner) -> None:
    owner = new_owner(Durability.WRITTEN)
    owner.files.fail("write", SHORT)
    sent = owner.send(b"a" * 100, b"b" * 100)
    owner.loop.settle()
    assert sent == [0]
    assert owner.visible() == [b"a" * 100, b"b" * 100]


def test_sealed_segments_are_synced_in_a_thread(new_owner: NewOwner) -> None:
    owner = new_owner(Durability.WRITTEN, segment_size_max=100)
    for _ in range(2):
        owner.send(b"x" * 100)
        owner.loop.settle()
    assert owner.partition.log.sealed_unsynced
    assert len(owner.disk.waiting) == 1
    owner.disk.run_next()
    owner.loop.settle()
    while owner.disk.waiting:
        owner.disk.run_next()
        owner.loop.settle()
    assert owner.partition.log.sealed_unsynced == ()


def test_one_sync_waits_behind_a_slow_one_however_many_segments_are_sealed(
    new_owner: NewOwner, caplog: pytest.LogCaptureFixture
) -> None:
    owner = new_owner(Durability.WRITTEN, segment_size_max=512)
    for _ in range(20):
        owner.send(b"x" * 1000)
        owner.loop.settle()
    assert owner.partition.syncing
    assert len(owner.partition.sync_waiters) == 1
    owner.partition.end(PartitionNotFound.status)
    assert "sync ended" not in caplog.text


def test_the_savers_round_syncs_what_changed_and_nothing_else(new_owner: NewOwner) -> None:
    owner = new_owner(Durability.WRITTEN)
    owner.send(b"a")
    owner.loop.settle()
    assert syncs(owner) == 0
    owner.commit.sync_dirty(owner.partitions)
    owner.disk.run_next()
    owner.loop.settle()
    assert syncs(owner) == 1
    assert owner.partition.log.is_synced
    while owner.disk.waiting:  # the recovery point
        owner.disk.run_next()
    owner.commit.sync_dirty(owner.partitions)
    assert owner.disk.waiting == []


def saver_about_to_note_its_round(owner: Owner) -> None:
    """The sync is done; the recovery point is the next that the disk has to do."""
    owner.send(b"a")
    owner.loop.settle()
    owner.commit.sync_dirty(owner.partitions)
    owner.disk.run_next()
    owner.loop.settle()
    assert len(owner.disk.waiting) == 1


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [one.getMessage() for one in caplog.records if one.levelno >= logging.WARNING]


def test_a_partition_deleted_while_the_saver_is_at_it_is_no_fault(
    new_owner: NewOwner, caplog: pytest.LogCaptureFixture
) -> None:
    owner = new_owner(Durability.WRITTEN)
    saver_about_to_note_its_round(owner)
    owner.partitions.apply_effects(DELETION)
    assert not os.path.exists(owner.directory)
    owner.disk.run_next()
    owner.loop.settle()
    assert warnings(caplog) == []


def test_a_partition_whose_directory_goes_while_the_saver_writes_is_no_fault(
    new_owner: NewOwner, caplog: pytest.LogCaptureFixture
) -> None:
    """The disk's thread is between the file and its rename when the loop deletes."""
    owner = new_owner(Durability.WRITTEN)
    saver_about_to_note_its_round(owner)
    owner.files.fail("rename", errno.ENOENT)
    owner.disk.run_next()
    owner.files.repair()
    owner.partitions.apply_effects(DELETION)
    owner.loop.settle()
    assert warnings(caplog) == []


def test_a_recovery_point_that_cannot_be_saved_is_logged(
    new_owner: NewOwner, caplog: pytest.LogCaptureFixture
) -> None:
    owner = new_owner(Durability.WRITTEN)
    saver_about_to_note_its_round(owner)
    owner.files.fail("rename", errno.EIO)
    owner.disk.run_next()
    owner.loop.settle()
    (warning,) = warnings(caplog)
    assert "Input/output error" in warning


# Mode fsync.


def test_the_savers_round_notes_how_far_the_sends_have_synced(new_owner: NewOwner) -> None:
    """Without the recovery point a start after a crash may cut what was acknowledged."""
    owner = new_owner(Durability.FSYNC)
    owner.send(b"a")
    owner.loop.settle()
    owner.disk.run_next()
    owner.loop.settle()
    log = owner.partition.log
    assert log.is_synced
    assert read_recovery_point(log.directory, log.birth, owner.files) is None
    owner.commit.sync_dirty(owner.partitions)
    owner.disk.run_next()
    point = read_recovery_point(log.directory, log.birth, owner.files)
    assert point is not None
    assert point.next_offset == 1
    owner.commit.sync_dirty(owner.partitions)
    assert owner.disk.waiting == []


def test_one_sync_is_in_flight_and_what_comes_meanwhile_forms_the_next_group(
    new_owner: NewOwner,
) -> None:
    owner = new_owner(Durability.FSYNC)
    first = [owner.send(b"a"), owner.send(b"b")]
    owner.loop.settle()
    assert len(owner.disk.waiting) == 1
    assert first == [[], []]
    assert owner.visible() == []
    second = []
    for number in range(3):  # in three turns
        second.append(owner.send(b"%d" % number))
        owner.loop.settle()
    assert len(owner.disk.waiting) == 1
    owner.disk.run_next()
    assert first == [[], []]
    owner.loop.settle()
    assert first == [[0], [0]]
    assert second == [[], [], []]
    assert owner.visible() == [b"a", b"b"]
    assert len(owner.disk.waiting) == 1
    owner.disk.run_next()
    owner.loop.settle()
    assert second == [[0], [0], [0]]
    assert owner.visible() == [b"a", b"b", b"0", b"1", b"2"]
    assert owner.disk.waiting == []
    assert writes(owner) == 2
    assert syncs(owner) == 2


def test_nothing_is_published_before_it_is_on_the_disk(new_owner: NewOwner) -> None:
    owner = new_owner(Durability.FSYNC)
    seen: list[list[bytes]] = []
    owner.appends.append(
        TARGET, batch_of(b"a"), 1, False, lambda *_results: seen.append(owner.visible())
    )
    owner.loop.settle()
    assert owner.partition.log.written.next_offset == 1
    assert owner.published.next_offset == 0
    owner.disk.run_next()
    assert owner.published.next_offset == 0
    owner.loop.settle()
    assert seen == [[b"a"]]


def test_a_flush_during_a_sync_waits_for_the_next_one(new_owner: NewOwner) -> None:
    owner = new_owner(Durability.FSYNC)
    first = owner.send(b"a")
    owner.loop.settle()
    second, flushed = owner.send(b"b"), Statuses()
    owner.commit.flush(owner.partition, flushed.done, fsync=True)
    owner.loop.settle()
    assert len(owner.disk.waiting) == 1
    owner.disk.run_next()
    owner.loop.settle()
    assert (first, second, flushed) == ([0], [], [])
    assert owner.visible() == [b"a"]
    while owner.disk.waiting:
        owner.disk.run_next()
        owner.loop.settle()
    assert (second, flushed) == ([0], [0])
    assert owner.visible() == [b"a", b"b"]


def test_a_failed_fsync_fails_its_group_and_makes_the_partition_read_only(
    new_owner: NewOwner,
) -> None:
    owner = new_owner(Durability.FSYNC)
    kept = owner.send(b"kept")
    owner.loop.settle()
    owner.disk.run_next()
    owner.loop.settle()
    owner.files.fail("fdatasync", errno.EIO)
    first = [owner.send(b"a"), owner.send(b"b")]
    owner.loop.settle()
    meanwhile = owner.send(b"c")
    owner.loop.settle()
    owner.disk.run_next()
    owner.loop.settle()
    assert kept == [0]
    assert first == [[CannotSyncFile.status]] * 2
    assert meanwhile == [CannotSaveMessagesToSegment.status]
    assert owner.visible() == [b"kept"]
    assert owner.partition.log.read_only
    # The disk works again, the kernel may have dropped what it could not write: still no.
    owner.files.repair()
    later = owner.send(b"d")
    owner.loop.settle()
    assert later == [CannotSaveMessagesToSegment.status]
    assert owner.disk.waiting == []
    assert owner.visible() == [b"kept"]
    # What came meanwhile was refused because of the first fault, not by the disk.
    assert counted(owner) == {("sync", "EIO"): 1, ("messages", "other"): 1}


def counted(owner: Owner) -> dict[tuple[str, str], int]:
    return {
        (one.written, one.error): one.times for one in owner.commit.faults.counts() if one.times
    }


def test_a_full_disk_in_mode_fsync_fails_the_group_without_a_sync(new_owner: NewOwner) -> None:
    owner = new_owner(Durability.FSYNC)
    owner.files.fail("write", errno.ENOSPC)
    sent = [owner.send(b"a"), owner.send(b"b")]
    owner.loop.settle()
    assert sent == [[CannotSaveMessagesToSegment.status]] * 2
    assert owner.disk.waiting == []
    assert counted(owner) == {("messages", "ENOSPC"): 1}
    owner.files.repair()
    again = owner.send(b"c")
    owner.loop.settle()
    owner.disk.run_next()
    owner.loop.settle()
    assert again == [0]
    assert owner.visible() == [b"c"]


def test_a_failed_flush_in_mode_fsync_fails_the_batches_it_took_along(new_owner: NewOwner) -> None:
    owner = new_owner(Durability.FSYNC)
    sent, flushed = owner.send(b"lost"), Statuses()
    owner.files.fail("write", errno.ENOSPC)
    owner.commit.flush(owner.partition, flushed.done, fsync=True)
    owner.files.repair()
    owner.loop.settle()
    while owner.disk.waiting:
        owner.disk.run_next()
        owner.loop.settle()
    assert sent == [CannotSaveMessagesToSegment.status]
    assert flushed == [CannotSaveMessagesToSegment.status]
    assert owner.visible() == []


# Mode buffered.


def test_the_journal_is_acknowledged_at_once_and_written_at_its_message_limit(
    new_owner: NewOwner,
) -> None:
    owner = new_owner(Durability.BUFFERED)
    for number in range(JOURNAL_MESSAGES_MAX - 1):
        sent = owner.send(b"%d" % number)
        owner.loop.settle()
        assert sent == [0]
    assert writes(owner) == 0
    assert owner.visible() == []
    owner.send(b"last")
    owner.loop.settle()
    assert writes(owner) == 1
    assert len(owner.visible()) == JOURNAL_MESSAGES_MAX


def test_the_journal_is_written_at_its_size_limit(new_owner: NewOwner) -> None:
    owner = new_owner(Durability.BUFFERED)
    size = JOURNAL_SIZE_MAX // 2 - 64
    owner.send(b"a" * (size - 1))
    owner.send(b"b" * size)
    owner.loop.settle()
    assert writes(owner) == 0
    owner.send(b"")
    owner.loop.settle()
    assert len(owner.visible()) == 3


def test_the_journal_does_not_need_the_lent_bytes_any_more(new_owner: NewOwner) -> None:
    owner = new_owner(Durability.BUFFERED)
    batch = batch_of(b"mine")
    sent = Statuses()
    owner.append(batch, 1, sent)
    owner.loop.settle()
    assert sent == [0]
    batch[:] = bytes(len(batch))
    owner.partitions.flush_journals()
    assert owner.visible() == [b"mine"]


def test_a_poll_makes_the_owner_write_its_journal_first(new_owner: NewOwner) -> None:
    owner = new_owner(Durability.BUFFERED)
    owner.send(b"a", b"b")
    owner.loop.settle()
    answers: list[tuple[int, int, Slices | None]] = []
    owner.reads.poll(
        TARGET, Poll(3, 0, 10, 1, 1, False, 0), lambda *results: answers.append(results)
    )
    ((status, current, slices),) = answers
    assert slices is not None
    assert (status, slices.first_offset, slices.message_count, current) == (0, 0, 2, 1)
    assert owner.visible() == [b"a", b"b"]


def test_the_batch_that_fills_the_journal_is_answered_after_the_write(new_owner: NewOwner) -> None:
    owner = new_owner(Durability.BUFFERED)
    seen: list[int] = []
    for _ in range(JOURNAL_MESSAGES_MAX):
        owner.appends.append(
            TARGET, batch_of(b"x"), 1, False, lambda *_results: seen.append(len(owner.visible()))
        )
        owner.loop.settle()
    assert seen == [0] * (JOURNAL_MESSAGES_MAX - 1) + [JOURNAL_MESSAGES_MAX]


def test_a_full_disk_fails_the_batch_that_would_have_filled_the_journal(
    new_owner: NewOwner,
) -> None:
    owner = new_owner(Durability.BUFFERED)
    owner.files.fail("write", errno.ENOSPC)
    acknowledged = owner.send(b"in memory")
    owner.loop.settle()
    refused = owner.send(*[b"x"] * JOURNAL_MESSAGES_MAX)
    owner.loop.settle()
    assert acknowledged == [0]
    assert refused == [CannotSaveMessagesToSegment.status]
    assert owner.visible() == []
