"""Repairing an index: when it is done, how often, and what may happen meanwhile."""

import errno
from collections.abc import Iterator
from pathlib import Path

import pytest

from borzoi.protocol.errors import CannotSaveIndexToSegment, PartitionNotFound, SegmentNotFound
from borzoi.shards.lifecycle.repairing import CHECK_AGAIN_S
from borzoi.shards.partitions.durability import Durability
from tests.shards.owner import TARGET, Owner, Statuses


@pytest.fixture(params=[Durability.WRITTEN, Durability.FSYNC])
def owner(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Owner]:
    """Segments 0 and 2 are sealed, 4 is active with one message."""
    owner = Owner(tmp_path, request.param, segment_size_max=1)
    for number in range(5):
        statuses = owner.send(b"%d" % number)
        owner.loop.settle()
        run_disk(owner)
        assert statuses == [0]
    yield owner
    owner.close()


def run_disk(owner: Owner) -> None:
    while owner.disk.waiting:
        owner.disk.run_next()
        owner.loop.settle()


def index(owner: Owner, segment: int) -> Path:
    return Path(owner.directory, f"{segment:020d}.index")


def spoil(owner: Owner, segment: int) -> bytes:
    path = index(owner, segment)
    right = path.read_bytes()
    path.unlink()
    path.write_bytes(bytes(len(right)))
    return right


def check(owner: Owner, segment: int) -> Statuses:
    statuses = Statuses()
    owner.repairing.check_index(TARGET, segment, statuses.done)
    return statuses


def test_a_wrong_index_is_replaced_and_readers_map_the_new_one(owner: Owner) -> None:
    trusted = owner.published.trusted_from
    right = spoil(owner, 0)
    statuses = check(owner, 0)
    run_disk(owner)
    assert statuses == [0]
    assert index(owner, 0).read_bytes() == right
    assert owner.published.trusted_from == 2 > trusted
    assert owner.visible() == [b"%d" % number for number in range(5)]


def test_the_active_segment_is_sealed_first(owner: Owner) -> None:
    right = spoil(owner, 4)
    statuses = check(owner, 4)
    owner.loop.settle()
    run_disk(owner)
    assert statuses == [0]
    assert index(owner, 4).read_bytes() == right
    assert owner.published.active_segment == 5
    assert owner.visible() == [b"%d" % number for number in range(5)]
    sent = owner.send(b"5")
    owner.loop.settle()
    run_disk(owner)
    assert sent == [0]
    assert owner.visible()[-1] == b"5"


def test_many_who_ask_cause_one_look(owner: Owner) -> None:
    spoil(owner, 0)
    first, second = check(owner, 0), check(owner, 0)
    assert len(owner.disk.waiting) == 1
    run_disk(owner)
    assert first == second == [0]
    # And no other one soon, even if asked for.
    spoil(owner, 0)
    assert check(owner, 0) == [0]
    assert owner.disk.waiting == []
    owner.loop.advance(CHECK_AGAIN_S)
    assert check(owner, 0) == []
    run_disk(owner)
    assert index(owner, 0).read_bytes() != bytes(32)


def test_a_segment_that_is_not_there(owner: Owner) -> None:
    statuses = check(owner, 1)
    run_disk(owner)
    assert statuses == [SegmentNotFound.status]


def test_a_purge_in_the_middle_keeps_its_files(owner: Owner) -> None:
    spoil(owner, 0)
    statuses = check(owner, 0)
    owner.partitions._end(owner.partition, 0)
    owner.partitions._begin_again(TARGET._replace(birth=TARGET.birth + 1))
    run_disk(owner)
    assert statuses == [PartitionNotFound.status]
    assert index(owner, 0).read_bytes() == b""


def test_a_deletion_in_the_middle_leaves_no_index_behind(owner: Owner) -> None:
    spoil(owner, 0)
    statuses = check(owner, 0)
    # What the thread finds is of the old time.
    checked = owner.partition.log.segments.check_index(0)
    assert checked.entries is not None
    deleted = Statuses()
    owner.deleting.delete_count(TARGET, 1, deleted.done)
    run_disk(owner)
    assert deleted == [0]
    assert len(statuses) == 1
    assert not owner.partition.log.segments.replace_index(0, checked.entries)
    assert not index(owner, 0).exists()


def test_a_disk_that_refuses(owner: Owner) -> None:
    spoil(owner, 0)
    owner.files.fail("rename", errno.EIO)
    statuses = check(owner, 0)
    run_disk(owner)
    assert statuses == [CannotSaveIndexToSegment.status]
    owner.files.repair()
    statuses = check(owner, 0)
    run_disk(owner)
    assert statuses == [0]
    assert index(owner, 0).read_bytes() != bytes(32)
