"""Committed offsets: values, files, clamping, bounds, a failing disk."""

import errno
from contextlib import suppress
from pathlib import Path

import pytest

from borzoi.protocol.errors import (
    CannotDeleteConsumerOffsetFile,
    CannotOpenConsumerOffsetsFile,
    CannotSyncFile,
)
from borzoi.protocol.identifiers import ConsumerKind
from borzoi.storage.files import Files
from borzoi.storage.offset_room import NOTE, NOTES_PART, encode_note
from borzoi.storage.offsets import ConsumerOffsets, forget_groups
from tests.endings import new_open_files
from tests.storage.faults import ERRORS, FailingFiles

CONSUMER, GROUP = ConsumerKind.CONSUMER, ConsumerKind.GROUP


def load(
    directory: Path,
    offset_max: int | None = 1000,
    *,
    files: Files | None = None,
    consumers_max: int = 100,
    open_files_max: int = 8,
) -> ConsumerOffsets:
    files = files or Files()
    return ConsumerOffsets.load(
        str(directory),
        files,
        offset_max,
        open_files=new_open_files(files, open_files_max),
        consumers_max=consumers_max,
    )


def test_commits_are_files_of_eight_bytes(tmp_path: Path) -> None:
    offsets = load(tmp_path)
    offsets.store(CONSUMER, 5, 300)
    offsets.store(GROUP, 0, 7)
    assert not (tmp_path / "offsets").exists()
    offsets.write()
    assert (tmp_path / "offsets/consumers/5").read_bytes() == (300).to_bytes(8, "little")
    assert (tmp_path / "offsets/groups/0").read_bytes() == (7).to_bytes(8, "little")
    offsets.store(CONSUMER, 5, 2)
    offsets.write()
    again = load(tmp_path)
    assert again.report == []
    assert (again.get(CONSUMER, 5), again.get(GROUP, 0)) == (2, 7)
    assert again.get(GROUP, 5) is None
    assert again.items() == [(CONSUMER, 5, 2), (GROUP, 0, 7)]


def test_commits_of_one_turn_are_one_write_per_consumer(tmp_path: Path) -> None:
    files = FailingFiles()
    offsets = load(tmp_path, files=files)
    offsets.store(CONSUMER, 1, 0)
    offsets.write()
    files.calls.clear()
    for offset in range(50):
        offsets.store(CONSUMER, 1, offset)
    offsets.write()
    assert [name for name, _ in files.calls] == ["write"]
    files.calls.clear()
    offsets.write()
    assert files.calls == []


def test_values_beyond_the_end_are_clamped_on_disk_too(tmp_path: Path) -> None:
    offsets = load(tmp_path)
    offsets.store(CONSUMER, 1, 1000)
    offsets.store(CONSUMER, 2, 41)
    offsets.write()
    shorter = load(tmp_path, 41)
    assert (shorter.get(CONSUMER, 1), shorter.get(CONSUMER, 2)) == (41, 41)
    assert len(shorter.report) == 1
    assert "1000" in shorter.report[0]
    assert load(tmp_path, 1000).get(CONSUMER, 1) == 41


def test_values_in_an_empty_partition_are_dropped_for_good(tmp_path: Path) -> None:
    offsets = load(tmp_path)
    offsets.store(GROUP, 1, 0)
    offsets.write()
    empty = load(tmp_path, None)
    assert empty.get(GROUP, 1) is None
    assert len(empty.report) == 1
    assert load(tmp_path).get(GROUP, 1) is None


@pytest.mark.parametrize("size", [0, 1, 4, 7, 9, 100])
def test_a_file_of_another_size_is_reported_not_fatal(tmp_path: Path, size: int) -> None:
    offsets = load(tmp_path)
    offsets.store(CONSUMER, 1, 5)
    offsets.store(CONSUMER, 2, 6)
    offsets.write()
    (tmp_path / "offsets/consumers/1").write_bytes(bytes(size))
    again = load(tmp_path)
    assert (again.get(CONSUMER, 1), again.get(CONSUMER, 2)) == (None, 6)
    assert len(again.report) == 1
    again.store(CONSUMER, 1, 7)
    again.write()
    assert int.from_bytes((tmp_path / "offsets/consumers/1").read_bytes()[:8], "little") == 7
    if size <= 8:
        assert load(tmp_path).get(CONSUMER, 1) == 7


@pytest.mark.parametrize("name", ["x", "-1", "007", "4294967296", "1.tmp", "²"])
def test_a_file_of_another_name_is_reported_not_fatal(tmp_path: Path, name: str) -> None:
    (tmp_path / "offsets/groups").mkdir(parents=True)
    (tmp_path / "offsets/groups" / name).write_bytes(bytes(8))
    offsets = load(tmp_path)
    assert len(offsets) == 0
    assert len(offsets.report) == 1


def test_delete(tmp_path: Path) -> None:
    offsets = load(tmp_path)
    assert not offsets.delete(CONSUMER, 1)
    for id in range(3):
        offsets.store(CONSUMER, id, id)
        offsets.store(GROUP, id, id)
    offsets.write()
    offsets.store(CONSUMER, 1, 9)
    assert offsets.delete(CONSUMER, 1)
    offsets.write()
    assert not (tmp_path / "offsets/consumers/1").exists()
    assert offsets.get(CONSUMER, 1) is None
    for kind, id, _ in offsets.items():
        assert offsets.delete(kind, id)
    assert len(offsets) == 0
    assert list((tmp_path / "offsets/groups").iterdir()) == []
    offsets.store(CONSUMER, 1, 3)
    offsets.write()
    assert load(tmp_path).items() == [(CONSUMER, 1, 3)]


def test_lowest(tmp_path: Path) -> None:
    offsets = load(tmp_path)
    assert offsets.lowest() is None
    offsets.store(CONSUMER, 4, 20)
    offsets.store(GROUP, 2, 10)
    offsets.store(GROUP, 1, 10)
    assert offsets.lowest() == (10, GROUP, 1)


def test_groups_are_bounded_and_have_room_of_their_own(tmp_path: Path) -> None:
    offsets = load(tmp_path, consumers_max=3)
    offsets.store(CONSUMER, 0, 1)
    for id in range(3):
        offsets.store(GROUP, id, 1)
    with pytest.raises(CannotOpenConsumerOffsetsFile, match="3 groups"):
        offsets.store(GROUP, 3, 1)
    offsets.store(GROUP, 0, 2)
    offsets.delete(GROUP, 0)
    offsets.store(GROUP, 3, 1)
    offsets.write()
    lowered = load(tmp_path, consumers_max=2)
    assert len(lowered) == 4
    assert ["3 groups have offsets, more than the limit of 2" in line for line in lowered.report]


def test_a_user_that_invents_consumers_leaves_room_to_the_others(tmp_path: Path) -> None:
    """Half of the places are the most that one user gets, also after restarts."""
    offsets = load(tmp_path, consumers_max=100)
    for _ in range(3):
        for id in range(200):
            with suppress(CannotOpenConsumerOffsetsFile):
                offsets.store(CONSUMER, id, 1, user=7)
        offsets.write()
        assert len(offsets) == 50
        offsets = load(tmp_path, consumers_max=100)
    with pytest.raises(CannotOpenConsumerOffsetsFile, match="user 7 has 50 offsets here, and 50"):
        offsets.store(CONSUMER, 1000, 1, user=7)
    for id in range(1000, 1025):
        offsets.store(CONSUMER, id, 1, user=0)
    with pytest.raises(CannotOpenConsumerOffsetsFile, match="user 0 has 25"):
        offsets.store(CONSUMER, 2000, 1, user=0)
    offsets.store(CONSUMER, 3, 2, user=0)
    offsets.delete(CONSUMER, 3)
    assert offsets.room.figures()[1:4] == (74, 49, 2)


def test_who_made_an_offset_may_be_unknown(tmp_path: Path) -> None:
    """Offsets of an older version, and notes that were cut short."""
    offsets = load(tmp_path, consumers_max=100)
    for id in range(10):
        offsets.store(CONSUMER, id, 1, user=7)
    offsets.write()
    notes = tmp_path / "offsets" / "users"
    data = notes.read_bytes()
    assert len(data) == 10 * NOTE.size
    notes.write_bytes(data[: 4 * NOTE.size + 3])
    again = load(tmp_path, consumers_max=100)
    assert again.room.figures()[1:4] == (10, 6, 2)
    again.store(CONSUMER, 77, 1, user=8)
    again.write()
    assert notes.read_bytes()[4 * NOTE.size :] == encode_note(77, 8)
    notes.unlink()
    assert load(tmp_path, consumers_max=100).room.figures()[1:4] == (11, 11, 1)


def test_the_notes_on_who_made_offsets_do_not_grow_for_ever(tmp_path: Path) -> None:
    offsets = load(tmp_path, consumers_max=10)
    offsets.store(CONSUMER, 1_000_000, 1, user=7)
    for id in range(1000):
        offsets.store(CONSUMER, id, 1, user=7)
        offsets.write()
        offsets.delete(CONSUMER, id)
        size = (tmp_path / "offsets" / "users").stat().st_size
        assert size <= NOTES_PART * 10 * NOTE.size
    offsets.store(CONSUMER, 5, 1, user=8)
    offsets.write()
    again = load(tmp_path, consumers_max=10)
    assert again.room.figures()[1:4] == (2, 1, 2)


def test_a_note_that_cannot_be_written_takes_the_commit_back(tmp_path: Path) -> None:
    (tmp_path / "offsets" / "users").mkdir(parents=True)
    offsets = load(tmp_path)
    offsets.store(CONSUMER, 1, 1, user=7)
    with pytest.raises(CannotOpenConsumerOffsetsFile, match="users"):
        offsets.write()
    assert offsets.get(CONSUMER, 1) is None
    assert offsets.room.figures()[1:4] == (0, 0, 0)
    (tmp_path / "offsets" / "users").rmdir()
    offsets.store(CONSUMER, 1, 1, user=7)
    offsets.write()
    assert load(tmp_path).get(CONSUMER, 1) == 1


@pytest.mark.parametrize("fault", ERRORS)
def test_a_failed_write_takes_the_commits_back(tmp_path: Path, fault: int) -> None:
    files = FailingFiles()
    offsets = load(tmp_path, files=files)
    offsets.store(CONSUMER, 1, 5)
    offsets.write()
    offsets.store(CONSUMER, 1, 6)
    offsets.store(CONSUMER, 1, 7)
    offsets.store(CONSUMER, 2, 1)
    files.fail("write", fault)
    with pytest.raises(CannotOpenConsumerOffsetsFile):
        offsets.write()
    assert offsets.items() == [(CONSUMER, 1, 5)]
    files.repair()
    offsets.write()
    assert load(tmp_path).get(CONSUMER, 1) == 5
    offsets.store(CONSUMER, 2, 1)
    offsets.write()
    assert load(tmp_path).items() == [(CONSUMER, 1, 5), (CONSUMER, 2, 1)]


def test_sync_and_delete_tell_when_the_disk_refuses(tmp_path: Path) -> None:
    files = FailingFiles()
    offsets = load(tmp_path, files=files)
    offsets.store(CONSUMER, 1, 5)
    offsets.write()
    files.fail("fdatasync", errno.EIO)
    with pytest.raises(CannotSyncFile):
        offsets.sync()
    files.repair()
    files.calls.clear()
    offsets.sync()
    assert [name for name, _ in files.calls] == ["fdatasync", "fsync_directory"]
    files.calls.clear()
    offsets.sync()
    assert files.calls == []
    files.fail("unlink", errno.EIO)
    with pytest.raises(CannotDeleteConsumerOffsetFile):
        offsets.delete(CONSUMER, 1)
    assert offsets.get(CONSUMER, 1) == 5


def test_few_files_stay_open_for_many_consumers(tmp_path: Path) -> None:
    files = FailingFiles()
    offsets = load(tmp_path, files=files, open_files_max=4)
    for id in range(50):
        offsets.store(CONSUMER, id, id)
    offsets.write()
    assert files.open_count <= 4
    assert len(load(tmp_path)) == 50


def test_a_file_that_stays_open_gives_way_and_is_written_again(tmp_path: Path) -> None:
    files = FailingFiles()
    offsets = load(tmp_path, files=files, open_files_max=4)
    for offset in range(3):
        for id in range(10):
            offsets.store(CONSUMER, id, offset + id)
            offsets.write()
    again = load(tmp_path)
    assert [again.get(CONSUMER, id) for id in range(10)] == [2 + id for id in range(10)]


def test_a_consumer_that_comes_back_gets_a_new_file(tmp_path: Path) -> None:
    offsets = load(tmp_path)
    for offset in (5, 6):
        offsets.store(CONSUMER, 1, offset)
        offsets.write()
        assert (tmp_path / "offsets/consumers/1").read_bytes() == offset.to_bytes(8, "little")
        assert offsets.delete(CONSUMER, 1)
        assert not (tmp_path / "offsets/consumers/1").exists()


def test_no_file_stays_open_when_the_partition_has_ended(tmp_path: Path) -> None:
    files = FailingFiles()
    open_files = new_open_files(files, 8)
    offsets = ConsumerOffsets(str(tmp_path), files, open_files, 100)
    offsets.store(CONSUMER, 1, 5)
    offsets.store(GROUP, 1, 5)
    offsets.write()
    assert files.open_count == 2
    offsets.close()
    open_files.forget_below(str(tmp_path))
    assert files.open_count == 0


def test_every_flipped_bit_changes_the_digest(tmp_path: Path) -> None:
    offsets = load(tmp_path)
    offsets.store(CONSUMER, 1, 500)
    offsets.store(GROUP, 1, 500)
    offsets.write()
    digest = offsets.digest()
    assert load(tmp_path).digest() == digest
    path = tmp_path / "offsets/consumers/1"
    whole = path.read_bytes()
    for bit in range(64):
        data = bytearray(whole)
        data[bit // 8] ^= 1 << bit % 8
        path.write_bytes(data)
        assert load(tmp_path).digest() != digest


def test_offsets_of_groups_that_are_gone(tmp_path: Path) -> None:
    """Left by a worker that died before it had carried out the deletion."""
    files = Files()
    assert forget_groups(str(tmp_path), files, {1}) == []
    groups = tmp_path / "offsets" / "groups"
    groups.mkdir(parents=True)
    (tmp_path / "offsets" / "consumers").mkdir()
    for name in ("0", "1", "20", "not a number"):
        (groups / name).write_bytes(bytes(8))
    consumer = tmp_path / "offsets" / "consumers" / "20"
    consumer.write_bytes(bytes(8))
    assert forget_groups(str(tmp_path), files, {1}) == [0, 20]
    assert sorted(path.name for path in groups.iterdir()) == ["1", "not a number"]
    assert consumer.exists()
