"""Deleting segments: the order of its steps, who stands in the way, and a disk that refuses."""

import errno
import logging
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from borzoi.protocol.errors import CannotDeleteFile, CannotSyncFile, PartitionNotFound
from borzoi.protocol.identifiers import ConsumerKind
from borzoi.shards.lifecycle.blockers import Blocker, Blockers
from borzoi.shards.partitions.durability import Durability
from borzoi.shards.partitions.partition import OwnedPartition
from borzoi.storage.retention import Cut
from borzoi.storage.segment import SealedSegment
from tests.shards.owner import BOUNDED, TARGET, Owner, Statuses


@pytest.fixture(params=[Durability.WRITTEN, Durability.FSYNC])
def owner(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Owner]:
    """Segments 0, 2, 4 are sealed and 6 is active, with one message; all of it is synced."""
    owner = Owner(tmp_path, request.param, segment_size_max=1)
    for number in range(7):
        send(owner, b"%d" % number)
    run_disk(owner)
    assert segments(owner) == [0, 2, 4, 6]
    yield owner
    owner.close()


def send(owner: Owner, payload: bytes) -> None:
    statuses = owner.send(payload)
    owner.loop.settle()
    if owner.durability is Durability.FSYNC:
        run_disk(owner)
    assert statuses == [0]


def run_disk(owner: Owner) -> None:
    while owner.disk.waiting:
        owner.disk.run_next()
        owner.loop.settle()


def segments(owner: Owner) -> list[int]:
    logs = sorted(int(path.stem) for path in Path(owner.directory).glob("*.log"))
    assert logs == sorted(int(path.stem) for path in Path(owner.directory).glob("*.index"))
    return logs


def trash(owner: Owner) -> list[str]:
    return sorted(path.name for path in Path(owner.layout.trash).iterdir())


def delete(owner: Owner, count: int) -> Statuses:
    statuses = Statuses()
    owner.deleting.delete_count(TARGET, count, statuses.done)
    return statuses


def test_it_is_answered_when_the_space_is_free(owner: Owner) -> None:
    statuses = delete(owner, 2)
    assert segments(owner) == [4, 6]
    assert len(trash(owner)) == 4
    assert statuses == []
    run_disk(owner)
    assert statuses == [0]
    assert trash(owner) == []
    assert owner.published == owner.partition.log.written
    assert owner.published[1:3] == (4, 7)
    stats = owner.deleting.stats()
    assert (stats.segments, stats.blocked) == (2, {})
    assert stats.size_bytes == 4 * 65


def test_segments_that_are_not_synced_are_synced_first(tmp_path: Path) -> None:
    owner = Owner(tmp_path, Durability.WRITTEN, segment_size_max=1)
    for number in range(3):
        send(owner, b"%d" % number)
    assert owner.partition.log.sealed_unsynced == (0,)
    statuses = delete(owner, 9)
    assert segments(owner) == [0, 2]
    run_disk(owner)
    assert statuses == [0]
    assert segments(owner) == [2]
    # And if that cannot be done, they stay.
    send(owner, b"3")
    owner.files.fail("fdatasync", errno.EIO)
    statuses = delete(owner, 9)
    run_disk(owner)
    assert statuses == [CannotSyncFile.status]
    assert segments(owner) == [2, 4]
    owner.close()


def test_leave_to_delete_one_segment_is_none_to_delete_the_next(tmp_path: Path) -> None:
    """Both wait for a sync, and the second one then finds another oldest segment."""
    owner = Owner(tmp_path, Durability.WRITTEN, segment_size_max=1)
    for number in range(5):
        send(owner, b"%d" % number)
    assert segments(owner) == [0, 2, 4]
    archived = {0}

    def may_go(_partition: OwnedPartition, oldest: Sequence[SealedSegment]) -> int:
        return sum(one.first_offset in archived for one in oldest)

    owner.deleting.may_go = may_go
    answers = [delete(owner, 1), delete(owner, 1)]
    run_disk(owner)
    assert answers == [[0], [0]]
    assert segments(owner) == [2, 4]
    owner.close()


def test_a_sync_that_ends_later_does_not_bring_them_back(tmp_path: Path) -> None:
    owner = Owner(tmp_path, Durability.FSYNC, segment_size_max=1)
    for number in range(5):
        send(owner, b"%d" % number)
    late = owner.send(b"5")
    owner.loop.settle()
    statuses = delete(owner, 1)
    assert owner.published[1:3] == (2, 5)
    run_disk(owner)
    assert late == statuses == [0]
    assert owner.published == owner.partition.log.written
    assert owner.published[1:3] == (2, 6)
    owner.close()


def test_a_consumer_in_the_way_is_named_and_counted(
    owner: Owner, caplog: pytest.LogCaptureFixture
) -> None:
    statuses = Statuses()
    owner.partitions.store_offset(TARGET, ConsumerKind.GROUP, 5, 2, 0, statuses.done)
    owner.loop.settle()
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            statuses = delete(owner, 9)
            run_disk(owner)
            assert statuses == [0]
    assert segments(owner) == [2, 4, 6]
    warnings = [one.message for one in caplog.records if one.levelno == logging.WARNING]
    assert len(warnings) == 1
    assert "consumer group 5 has read up to offset 2 only" in warnings[0]
    blocker = Blocker(TARGET.namespace, ConsumerKind.GROUP, 5)
    assert owner.deleting.stats().blocked == {blocker: 3}
    unread = [one.is_unread for one in owner.deleting.candidates(TARGET)]
    assert unread == [True, True]
    assert owner.deleting.stats().blocked_since_us == {blocker: owner.now_us}
    # The size limit may win.
    owner.deleting.delete_up_to(TARGET, Cut(4, True), statuses.done)
    run_disk(owner)
    assert segments(owner) == [4, 6]
    # Asked a second time, it has been done.
    owner.deleting.delete_up_to(TARGET, Cut(4, True), statuses.done)
    run_disk(owner)
    assert segments(owner) == [4, 6]


def test_since_when_a_consumer_is_in_the_way(
    owner: Owner, caplog: pytest.LogCaptureFixture
) -> None:
    """From its last commit on, until it commits again or the segment is gone."""
    blocker = Blocker(TARGET.namespace, ConsumerKind.CONSUMER, 31337)

    def commit(offset: int) -> None:
        owner.partitions.store_offset(
            TARGET, ConsumerKind.CONSUMER, 31337, offset, 0, Statuses().done
        )
        owner.loop.settle()

    def since() -> dict[Blocker, int]:
        return owner.deleting.stats().blocked_since_us

    commit(0)
    begin_us = owner.now_us
    delete(owner, 9)
    owner.now_us += 5_000_000
    delete(owner, 9)
    assert since() == {blocker: begin_us}
    commit(2)
    assert since() == {}
    delete(owner, 9)
    run_disk(owner)
    assert since() == {blocker: owner.now_us}
    assert segments(owner) == [2, 4, 6]
    commit(5)
    delete(owner, 9)
    run_disk(owner)
    assert since() == {}
    # One warning in a minute for a partition, whatever its consumers do.
    assert len(caplog.records) == len([one for one in caplog.records if one.levelno == 30]) == 1


def test_an_expired_segment_waits_for_its_reader_no_longer_than_it_may(
    owner: Owner, caplog: pytest.LogCaptureFixture
) -> None:
    owner.partitions.store_offset(TARGET, ConsumerKind.CONSUMER, 7, 0, 0, Statuses().done)
    owner.loop.settle()
    last_us = owner.partition.log.sealed[-1].last_timestamp

    def expire(now_us: int) -> list[int]:
        statuses = Statuses()
        owner.deleting.delete_expired(owner.partition, now_us, 100, statuses.done)
        run_disk(owner)
        assert statuses == [0]
        return segments(owner)

    assert expire(last_us + 100) == [0, 2, 4, 6]
    assert expire(last_us + 100 + BOUNDED.grace_us) == [6]
    assert "3 segments were deleted unread: consumer 7 has read up to offset 0" in caplog.text
    stats = owner.deleting.stats()
    assert (stats.segments, stats.unread_segments, stats.blocked_since_us) == (3, 3, {})


def test_a_line_counts_what_earlier_ones_were_too_early_for(
    owner: Owner, caplog: pytest.LogCaptureFixture
) -> None:
    owner.partitions.store_offset(TARGET, ConsumerKind.CONSUMER, 7, 0, 0, Statuses().done)
    owner.loop.settle()
    blockers = Blockers()
    for now_s, segments_count in ((0, 1), (1, 2), (2, 3), (120, 4)):
        blockers.missed(owner.partition, segments_count, now_s * 1_000_000)
    said = re.findall(r"(\d+) segments were deleted unread", caplog.text)
    assert said == ["1", "9"]


def test_a_size_limit_spares_the_last_messages(owner: Owner) -> None:
    """6 is active and has one message; with the next it is sealed, and 8 is empty."""
    assert [one.end_offset for one in owner.deleting.candidates(TARGET)] == [2, 4, 6]
    send(owner, b"7")
    run_disk(owner)
    assert segments(owner) == [0, 2, 4, 6, 8]
    assert [one.end_offset for one in owner.deleting.candidates(TARGET)] == [2, 4, 6]
    send(owner, b"8")
    assert [one.end_offset for one in owner.deleting.candidates(TARGET)] == [2, 4, 6, 8]


def test_only_what_is_old_expires(owner: Owner) -> None:
    sealed = owner.partition.log.sealed
    now_us = sealed[1].last_timestamp + 100
    statuses = Statuses()
    owner.deleting.delete_expired(owner.partition, now_us, 100, statuses.done)
    run_disk(owner)
    assert statuses == [0]
    # The messages of a test may have one and the same time.
    expected = [one.first_offset for one in sealed if one.last_timestamp + 100 > now_us]
    assert segments(owner) == [*expected, 6]


@pytest.mark.parametrize("nth", range(4))
def test_a_disk_that_refuses_keeps_what_is_left_readable(owner: Owner, nth: int) -> None:
    owner.files.fail_nth(nth, errno.EIO)
    statuses = delete(owner, 2)
    run_disk(owner)
    assert statuses == [CannotDeleteFile.status]
    owner.files.repair()
    log = owner.partition.log
    # A segment is gone with its log, even if its index stays behind.
    assert log.written.first_offset == (nth + 1) // 2 * 2
    assert owner.published == log.written
    found = owner.readers.reader(TARGET).read(owner.published, 0, 9, 1 << 20)
    assert (found.first_offset, found.message_count) == (
        log.written.first_offset,
        7 - log.written.first_offset,
    )
    owner.succeed()
    assert owner.published.first_offset == log.written.first_offset
    statuses = delete(owner, 9)
    run_disk(owner)
    assert statuses == [0]
    assert segments(owner) == [6]


def test_a_purge_in_the_middle_loses_nothing_new(owner: Owner) -> None:
    """The thread that unlinks must not hit the files of the next life."""
    statuses = delete(owner, 9)
    owner.partitions._end(owner.partition, 0)
    again = TARGET._replace(birth=TARGET.birth + 1)
    owner.partitions._begin_again(again)
    assert segments(owner) == [0]
    run_disk(owner)
    assert statuses == [0]
    assert segments(owner) == [0]


def test_a_partition_that_ends_while_it_is_synced(tmp_path: Path) -> None:
    owner = Owner(tmp_path, Durability.WRITTEN, segment_size_max=1)
    for number in range(3):
        send(owner, b"%d" % number)
    statuses = delete(owner, 9)
    owner.partitions._end(owner.partition, PartitionNotFound.status)
    run_disk(owner)
    assert statuses == [PartitionNotFound.status]
    owner.close()


def test_a_worker_dies_in_the_middle(owner: Owner) -> None:
    """After each call that changes something: what is left is whole, offsets go on."""
    delete(owner, 9)
    owner.succeed()
    assert owner.partition.log.recovery.report == []
    assert owner.published[1:3] == (6, 7)
    assert owner.visible_from(6) == [b"6"]
    assert len(trash(owner)) == 6
    Path(owner.layout.trash, "77-0").mkdir()
    owner.deleting.remove_leftovers(lambda namespace: namespace != TARGET.namespace)
    run_disk(owner)
    assert len(trash(owner)) == 7
    owner.deleting.remove_leftovers(lambda namespace: namespace == TARGET.namespace)
    run_disk(owner)
    assert trash(owner) == ["77-0"]


def test_files_without_an_active_segment_keep_their_last_offset(tmp_path: Path) -> None:
    """What was lost at the end leaves no file that tells the next offset, until one is made."""
    owner = Owner(tmp_path, Durability.WRITTEN, segment_size_max=1)
    for number in range(5):
        send(owner, b"%d" % number)
    run_disk(owner)
    for path in Path(owner.directory).glob(f"{4:020d}.*"):
        path.unlink()
    owner.succeed()
    assert owner.published.next_offset == 5
    statuses = delete(owner, 9)
    run_disk(owner)
    assert statuses == [0]
    assert segments(owner) == [5]
    owner.forget_board()
    owner.succeed()
    assert owner.published[1:3] == (5, 5)
    owner.close()


def test_what_others_still_need_stays(owner: Owner) -> None:
    """The archive has the say over the oldest, and is asked again each time."""
    asked: list[list[int]] = []

    def one_more(_partition: OwnedPartition, oldest: Sequence[SealedSegment]) -> int:
        asked.append([segment.first_offset for segment in oldest])
        return len(asked) - 1

    owner.deleting.may_go = one_more
    for left in ([0, 2, 4, 6], [2, 4, 6], [6]):
        statuses = delete(owner, 9)
        run_disk(owner)
        assert statuses == [0]
        assert segments(owner) == left
    assert asked == [[0, 2, 4], [0, 2, 4], [2, 4]]
    delete(owner, 9)
    assert len(asked) == 3
