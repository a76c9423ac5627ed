"""What a start makes of the files it finds: torn tails, rot, missing pieces, clean stops."""

import os
from pathlib import Path

import pytest

from borzoi.protocol.errors import InvalidMessageChecksum
from borzoi.storage.birth import read_birth
from borzoi.storage.files import Files
from borzoi.storage.index_check import is_sound_index
from borzoi.storage.scan import CHUNK_SIZE
from tests.storage.faults import FailingFiles
from tests.storage.partitions import BIRTH, Partition, overwrite

LAST_BATCH = [b"a" * 400, b"b" * 350, b"c" * 300]


def filled(root: Path, segment_size_max: int = 1 << 20) -> Partition:
    partition = Partition(root, segment_size_max=segment_size_max)
    partition.append(b"first", b"second")
    partition.append(*LAST_BATCH)
    return partition


def readable(partition: Partition) -> dict[int, bytes]:
    """Every offset that can be read, by asking for each of them alone."""
    found = {}
    for offset in range(partition.log.written.next_offset):
        try:
            slices = partition.reader.read(partition.log.written, offset, 1, 1 << 30)
        except InvalidMessageChecksum:
            continue
        if slices.first_offset == offset and slices.message_count:
            found[offset] = bytes(b"".join(slices.views)[64:])
    return found


@pytest.mark.no_cover
@pytest.mark.slow
def test_a_log_cut_at_every_byte_of_its_last_batch(tmp_path: Path) -> None:
    partition = filled(tmp_path)
    whole = partition.log_file().read_bytes()
    index = partition.index_file().read_bytes()
    expected = [b"first", b"second", *LAST_BATCH]
    ends = [0]
    for payload in expected:
        ends.append(ends[-1] + 64 + len(payload))
    assert ends[-1] == len(whole)
    for size in range(ends[2], len(whole) + 1):
        overwrite(partition.log_file(), whole[:size])
        overwrite(partition.index_file(), index)
        partition.reopen()
        complete = max(number for number, end in enumerate(ends) if end <= size)
        assert partition.read() == expected[:complete]
        assert partition.log_file().stat().st_size == ends[complete]
        assert partition.index_file().stat().st_size == complete * 16
        assert partition.log.recovery.cut_bytes == size - ends[complete]
        assert partition.append(b"next") == complete
        assert partition.read() == [*expected[:complete], b"next"]


def test_an_index_cut_at_every_byte_of_its_last_entries(tmp_path: Path) -> None:
    partition = filled(tmp_path)
    index = partition.index_file().read_bytes()
    for size in range(len(index) + 1):
        overwrite(partition.index_file(), index[:size])
        partition.reopen()
        assert partition.index_file().read_bytes() == index
        assert partition.read() == [b"first", b"second", *LAST_BATCH]
        assert partition.log.written.next_offset == 5


def test_a_missing_index_is_rebuilt(tmp_path: Path) -> None:
    partition = filled(tmp_path, segment_size_max=1)
    partition.append(b"active")
    indexes = {first: partition.index_file(first).read_bytes() for first in (0, 5)}
    for path in (partition.index_file(0), partition.index_file(5)):
        path.unlink()
    partition.reopen()
    assert indexes == {first: partition.index_file(first).read_bytes() for first in (0, 5)}
    assert partition.read() == [b"first", b"second", *LAST_BATCH, b"active"]


@pytest.mark.parametrize(
    "damage",
    [
        lambda index: index[:-1],
        lambda index: index[:-16],
        lambda index: index + index[-16:],
        lambda index: b"",
        lambda index: index[:-12] + bytes(4) + index[-8:],
    ],
    ids=["odd", "short", "long", "empty", "wrong end"],
)
def test_a_sealed_index_that_does_not_fit_is_rebuilt(tmp_path: Path, damage: object) -> None:
    assert callable(damage)
    partition = filled(tmp_path, segment_size_max=1)
    index = partition.index_file(0).read_bytes()
    inode = partition.index_file(0).stat().st_ino
    partition.index_file(0).write_bytes(damage(index))
    report = partition.reopen()
    assert any("index" in line for line in report)
    assert partition.index_file(0).read_bytes() == index
    assert partition.index_file(0).stat().st_ino != inode, "readers may have the old one mapped"
    assert partition.read() == [b"first", b"second", *LAST_BATCH]


def test_an_index_alone_is_a_leftover(tmp_path: Path) -> None:
    partition = filled(tmp_path)
    partition.index_file(5).write_bytes(bytes(16))
    partition.path("birth.tmp").write_bytes(b"x")
    report = partition.reopen()
    assert any("without a log" in line for line in report)
    assert partition.sizes(".index").keys() == {0}
    assert not partition.path("birth.tmp").exists()
    assert partition.append(b"next") == 5


def test_what_only_looks_like_a_leftover(tmp_path: Path) -> None:
    """A check says the same of both (test_check_partition.py)."""
    partition = filled(tmp_path)
    for path in (partition.path("notes.tmp"), partition.path("directory.tmp")):
        path.mkdir()
    partition.path("mine.tmp").write_bytes(b"mine")
    report = partition.reopen()
    assert {line for line in report if "left alone" in line} == {
        f"{name}.tmp: not one of ours, left alone" for name in ("notes", "directory", "mine")
    }
    assert partition.path("mine.tmp").read_bytes() == b"mine"
    obstacle = partition.path(f"{0:020d}.index.tmp")
    obstacle.mkdir()
    with pytest.raises(IsADirectoryError, match="move it away") as refused:
        partition.reopen()
    assert refused.value.filename == str(obstacle)
    obstacle.rmdir()
    partition.reopen()
    assert partition.append(b"next") == 5


def test_a_log_alone_that_is_empty_gets_its_index(tmp_path: Path) -> None:
    partition = filled(tmp_path, segment_size_max=1)
    partition.index_file(5).unlink()
    partition.reopen()
    assert partition.log.written.active_segment == 5
    assert partition.append(b"next") == 5
    assert partition.read(5) == [b"next"]
    assert partition.sizes(".index")[5] == 16


def test_an_empty_directory_and_none_are_empty_partitions(tmp_path: Path) -> None:
    partition = Partition(tmp_path)
    partition.reopen()
    assert partition.log.written.next_offset == 0
    os.makedirs(partition.directory)
    partition.reopen()
    assert partition.log.written.next_offset == 0
    assert read_birth(partition.directory, Files()) is None


def test_complete_messages_behind_the_index_are_kept(tmp_path: Path) -> None:
    """The process died between the two writes of a group."""
    partition = filled(tmp_path)
    partition.index_file().write_bytes(partition.index_file().read_bytes()[: 2 * 16])
    partition.reopen()
    assert partition.read() == [b"first", b"second", *LAST_BATCH]


def test_only_what_lies_behind_the_recovery_point_is_scanned(tmp_path: Path) -> None:
    partition = filled(tmp_path)
    partition.log.sync()
    partition.log.save_recovery_point()
    point = partition.log.written.end_position
    partition.append(b"behind")
    report = partition.reopen()
    assert report == []
    assert partition.log.recovery.scanned_bytes == 64 + len(b"behind")
    assert partition.log.written.trusted_from == 5
    assert partition.log.written.end_position == point + 64 + len(b"behind")
    assert not partition.log.is_synced, "what the cache still holds is unknown"


def test_what_the_last_clean_stop_left_is_not_scanned_again(tmp_path: Path) -> None:
    """A kill soon after a start: nothing has been synced since, so no recovery point was saved."""
    partition = filled(tmp_path)
    partition.log.sync()
    stop = partition.log.clean_partition(0)
    partition.append(b"behind")
    assert partition.reopen(last_stop=stop) == []
    assert partition.log.recovery.scanned_bytes == 64 + len(b"behind")
    assert partition.log.written.trusted_from == 5
    # Another life is another matter, and a recovery point may be younger.
    partition.reopen(last_stop=stop._replace(birth=stop.birth + 1))
    assert partition.log.recovery.scanned_bytes == partition.log_file().stat().st_size
    partition.log.sync()
    partition.log.save_recovery_point()
    partition.reopen(last_stop=stop)
    assert partition.log.recovery.scanned_bytes == 0


def test_rot_below_the_recovery_point_is_never_cut(tmp_path: Path) -> None:
    partition = filled(tmp_path)
    partition.log.sync()
    partition.log.save_recovery_point()
    size = partition.log_file().stat().st_size
    with partition.log_file().open("r+b") as file:
        file.seek(64 + 5 + 64)
        file.write(b"S")
    partition.reopen()
    assert partition.log_file().stat().st_size == size
    assert readable(partition).keys() == {0, 2, 3, 4}
    assert partition.read(0) == [b"first"]
    with pytest.raises(InvalidMessageChecksum):
        partition.read(1)
    assert partition.append(b"next") == 5


@pytest.mark.parametrize("length_byte", [48, 52], ids=["headers", "payload"])
def test_rot_in_a_length_and_a_lost_index_keep_later_messages(
    tmp_path: Path, length_byte: int
) -> None:
    partition = filled(tmp_path)
    partition.log.sync()
    partition.log.save_recovery_point()
    index = partition.index_file().read_bytes()
    with partition.log_file().open("r+b") as file:
        file.seek(64 + 5 + length_byte)
        file.write(b"\xff\xff")
    partition.index_file().unlink()
    report = partition.reopen()
    assert any("DAMAGED messages at offsets 1 to 1" in line for line in report)
    assert partition.index_file().read_bytes() == index
    assert readable(partition).keys() == {0, 2, 3, 4}


def test_a_lost_sector_of_many_messages_keeps_later_ones(tmp_path: Path) -> None:
    partition = Partition(tmp_path, segment_size_max=20_000)
    payloads = [b"%03d" % number for number in range(400)]
    partition.append(*payloads)
    partition.log.roll()
    assert partition.log.written.active_segment == 400
    with partition.log_file().open("r+b") as file:
        file.seek(512)
        file.write(bytes(4096))
    partition.index_file().unlink()
    report = partition.reopen()
    lost = range(512 // 67, (512 + 4096) // 67 + 1)
    assert any(f"offsets {lost[0]} to {lost[-1]}" in line for line in report)
    assert readable(partition).keys() == set(range(400)) - set(lost)


def test_an_index_below_the_recovery_point_that_was_never_written_back(tmp_path: Path) -> None:
    partition = filled(tmp_path)
    partition.log.sync()
    partition.log.save_recovery_point()
    index = partition.index_file().read_bytes()
    partition.index_file().write_bytes(bytes(32) + index[32:])
    partition.reopen()
    assert partition.index_file().read_bytes() == index


def test_a_log_shorter_than_what_was_durable_never_reuses_offsets(tmp_path: Path) -> None:
    partition = filled(tmp_path)
    partition.log.sync()
    partition.log.save_recovery_point()
    with partition.log_file().open("r+b") as file:
        file.truncate(64 + 5 + 20)
    report = partition.reopen()
    assert any("LOST offsets 1 to 4" in line for line in report)
    assert partition.append(b"next") == 5
    assert partition.read(0) == [b"first"]
    assert partition.read(1) == [b"next"]
    partition.reopen()
    assert partition.read(1) == [b"next"]


def test_a_torn_segment_before_the_last_leaves_a_gap_and_says_so(tmp_path: Path) -> None:
    partition = filled(tmp_path, segment_size_max=1)
    partition.append(b"active")
    with partition.log_file(0).open("r+b") as file:
        file.truncate(partition.log_file(0).stat().st_size - 1)
    for _ in range(2):
        report = partition.reopen()
        assert any("LOST offsets 4 to 4" in line for line in report)
        assert partition.read(0) == [b"first", b"second", *LAST_BATCH[:2]]
        assert partition.read(4) == [b"active"]
        assert partition.log.written.next_offset == 6
    assert partition.append(b"next") == 6


def test_a_clean_stop_needs_no_scan(tmp_path: Path) -> None:
    partition = filled(tmp_path)
    partition.log.sync()
    clean = partition.log.clean_partition(0)
    before = partition.log.written
    report = partition.reopen(clean)
    assert report == []
    assert partition.log.recovery.scanned_bytes == 0
    assert partition.log.is_synced
    assert partition.log.written == before._replace(trusted_from=5)
    assert partition.read() == [b"first", b"second", *LAST_BATCH]
    assert partition.append(b"next") == 5


@pytest.mark.parametrize("suffix", [".log", ".index"])
def test_files_that_changed_after_a_clean_stop_are_scanned(tmp_path: Path, suffix: str) -> None:
    partition = filled(tmp_path)
    partition.log.sync()
    clean = partition.log.clean_partition(0)
    with partition.path(f"{0:020d}{suffix}").open("ab") as file:
        file.write(b"x")
    report = partition.reopen(clean)
    assert any("clean stop" in line for line in report)
    assert partition.read() == [b"first", b"second", *LAST_BATCH]
    assert partition.append(b"next") == 5


def test_messages_missing_after_a_clean_stop_are_not_given_out_again(tmp_path: Path) -> None:
    partition = filled(tmp_path)
    partition.log.sync()
    clean = partition.log.clean_partition(0)
    with partition.log_file().open("r+b") as file:
        file.truncate(64 + 5)
    partition.reopen(clean)
    assert partition.append(b"next") == 5
    assert partition.read(0) == [b"first"]
    assert partition.read(3) == [b"next"]


def test_a_clean_stop_of_another_birth_means_nothing(tmp_path: Path) -> None:
    partition = filled(tmp_path)
    clean = partition.log.clean_partition(0)._replace(birth=BIRTH + 1, next_offset=1000)
    partition.reopen(clean)
    assert partition.append(b"next") == 5


def test_clean_stop_right_after_a_roll(tmp_path: Path) -> None:
    partition = filled(tmp_path, segment_size_max=1)
    partition.log.sync()
    clean = partition.log.clean_partition(0)
    assert (clean.segment, clean.end_position, clean.index_length) == (5, 0, 0)
    assert partition.reopen(clean) == []
    assert partition.append(b"next") == 5


def test_what_the_board_says_is_not_scanned_again_and_not_cut(tmp_path: Path) -> None:
    partition = filled(tmp_path)
    board = partition.log.written
    partition.append(b"not published")
    with partition.log_file().open("r+b") as file:
        file.seek(64)
        file.write(b"F")
    partition.reopen(board=board)
    assert partition.log.recovery.scanned_bytes == 64 + len(b"not published")
    assert partition.log.written.trusted_from == 0
    assert partition.log.written.next_offset == 6
    partition.reopen(board=board._replace(birth=BIRTH + 1))
    assert partition.log.recovery.cut_bytes > 0


def test_a_message_larger_than_a_piece_of_the_scan(tmp_path: Path) -> None:
    partition = Partition(tmp_path)
    large = os.urandom(1000) * (CHUNK_SIZE // 1000 + 10)
    partition.append(b"small", large, b"small again")
    partition.index_file().unlink()
    assert partition.reopen() == [f"{0:020d}: index rewritten"]
    slices = partition.reader.read(partition.log.written, 1, 1, 1)
    assert slices.message_count == 1
    assert b"".join(slices.views)[64:] == large
    partition.log_file().write_bytes(partition.log_file().read_bytes()[: -64 - 100])
    partition.reopen()
    assert partition.log.written.next_offset == 1


def test_a_disk_error_while_scanning_is_not_taken_for_a_torn_tail(tmp_path: Path) -> None:
    partition = filled(tmp_path)
    size = partition.log_file().stat().st_size

    class BadSector(FailingFiles):
        def pread(self, fd: int, size: int, position: int) -> bytes:
            if self._paths[fd].endswith(".log"):
                raise OSError(5, "Input/output error")
            return super().pread(fd, size, position)

    with pytest.raises(OSError, match="Input/output"):
        partition.reopen(files=BadSector())
    assert partition.log_file().stat().st_size == size


def test_is_sound_index() -> None:
    def entry(number: int, position: int) -> bytes:
        return number.to_bytes(4, "little") + position.to_bytes(4, "little") + bytes(8)

    good = entry(0, 70) + entry(1, 140)
    assert is_sound_index(good, 2, 140)
    assert is_sound_index(b"", 0, 0)
    assert not is_sound_index(b"", 0, 5)
    assert not is_sound_index(good, 3, 140)
    assert not is_sound_index(good, 2, 141)
    assert not is_sound_index(entry(0, 150) + entry(1, 140), 2, 140)
    assert not is_sound_index(bytes(16) + entry(0, 140), 2, 140)


def test_offsets_that_were_lost_are_not_given_out_after_a_second_crash(tmp_path: Path) -> None:
    """The first start knows of them from the board, the second finds only files."""
    partition = Partition(tmp_path, segment_size_max=1)
    for number in range(5):
        partition.append(b"%d" % number)
    board = partition.log.written
    partition.log_file(4).unlink()
    partition.index_file(4).unlink()
    assert any("LOST offsets 4 to 4" in line for line in partition.reopen(board=board))
    assert any("LOST offsets 4 to 4" in line for line in partition.reopen())
    assert partition.append(b"5") == 5
    assert partition.read() == [b"0", b"1", b"2", b"3"]
    assert partition.read(4) == [b"5"]


def test_what_the_board_says_is_deleted_is_not_served_again(tmp_path: Path) -> None:
    """The owner died between the two; readers know the new beginning."""
    partition = Partition(tmp_path, segment_size_max=1)
    for number in range(7):
        partition.append(b"%d" % number)
    partition.log.sync()
    board = partition.log.segments.without_oldest(partition.log.written, 2)
    assert partition.reopen(board=board) == []
    assert partition.log.written[:7] == board[:7]
    assert partition.sizes(".log").keys() == partition.sizes(".index").keys() == {4, 6}
    assert partition.read() == [b"4", b"5", b"6"]
