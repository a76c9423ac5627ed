"""The metadata log: what goes in comes out, and nothing else ever does."""

import errno
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from borzoi.storage.files import Buffer, Files
from borzoi.storage.wal import (
    COMMAND_SIZE_MAX,
    ENTRY_SIZE_MAX,
    ENTRY_SIZE_MIN,
    START,
    WINDOW_SIZE,
    EntryPlace,
    InvalidEntry,
    WalDamaged,
    WalEntry,
    decode_entry,
    encode_entry,
    read_entries,
)
from borzoi.storage.wal_writer import WalFailed, WalWriter, open_wal

FILES = Files()
COMMANDS = [b"first", b"", b"the third command", b"four", b"fifth and last"]


def entry_of(index: int, command: bytes) -> WalEntry:
    return WalEntry(index, 0, 1_700_000_000_000_000 + index, 7, 1, command)


ENTRIES = [entry_of(index, command) for index, command in enumerate(COMMANDS, 1)]


def log_of(entries: list[WalEntry]) -> bytes:
    return b"".join(map(encode_entry, entries))


def ends_of(entries: list[WalEntry]) -> list[int]:
    """Where each entry ends, the start of the log first."""
    ends = [0]
    for entry in entries:
        ends.append(ends[-1] + len(encode_entry(entry)))
    return ends


def read_log(path: Path, start: EntryPlace = START, end: int | None = None) -> list[WalEntry]:
    fd = FILES.open(path, os.O_RDONLY)
    try:
        end = FILES.size(fd) if end is None else end
        return [entry for entry, _ in read_entries(FILES, fd, start, end, name=path)]
    finally:
        FILES.close(fd)


def open_and_read(path: Path) -> list[WalEntry]:
    """What a start makes of the file: its entries after recovery."""
    wal = open_wal(path, FILES)
    wal.close()
    entries = read_log(path)
    assert wal.end_position == path.stat().st_size
    assert wal.last_index == len(entries)
    return entries


def test_golden_entry() -> None:
    entry = WalEntry(1, 0, 2, 3, 4, b"\xc0")
    expected = (
        "0100000000000000"
        "0000000000000000"
        "0200000000000000"
        "03000000"
        "04000000"
        "01000000"
        "c0"
        # printf of the bytes above into sha256sum
        "018d21b3f36da96e448882e7ebf21952f16aad01ce24cd69e4f0279faa50250e"
    )
    assert encode_entry(entry).hex() == expected
    assert decode_entry(memoryview(encode_entry(entry)), 0, 69) == (entry, 69)


U32 = st.integers(0, 2**32 - 1)
U64 = st.integers(0, 2**64 - 1)


@given(st.builds(WalEntry, U64, U64, U64, U32, U32, st.binary(max_size=200)), st.integers(0, 9))
def test_round_trip_at_any_position(entry: WalEntry, before: int) -> None:
    data = encode_entry(entry)
    view = memoryview(b"x" * before + data + b"y")
    assert decode_entry(view, before, before + len(data)) == (entry, before + len(data))
    with pytest.raises(InvalidEntry):
        decode_entry(view, before, before + len(data) - 1)


def test_the_largest_command_fits_and_one_byte_more_does_not(tmp_path: Path) -> None:
    path = tmp_path / "log"
    entries = [entry_of(1, b"a" * COMMAND_SIZE_MAX), entry_of(2, b"b" * COMMAND_SIZE_MAX)]
    path.write_bytes(log_of(entries))
    assert path.stat().st_size == 2 * ENTRY_SIZE_MAX
    assert open_and_read(path) == entries
    with pytest.raises(ValueError, match="1048577 bytes"):
        encode_entry(entry_of(1, b"a" * (COMMAND_SIZE_MAX + 1)))


def test_a_log_longer_than_the_window(tmp_path: Path) -> None:
    path = tmp_path / "log"
    entries = [entry_of(index, bytes(60_000)) for index in range(1, 60)]
    path.write_bytes(log_of(entries))
    assert path.stat().st_size > WINDOW_SIZE
    assert open_and_read(path) == entries


def test_append_sync_reopen(tmp_path: Path) -> None:
    path = tmp_path / "log"
    wal = open_wal(path, FILES)
    assert wal.end == START
    assert wal.torn is None
    for entry, end in zip(ENTRIES, ends_of(ENTRIES)[1:], strict=True):
        wal.append(encode_entry(entry))
        wal.sync()
        assert wal.end == EntryPlace(entry.index, end)
    wal.close()
    assert open_and_read(path) == ENTRIES
    assert path.stat().st_mode & 0o777 == 0o600


def test_readers_stop_at_the_end_they_are_given(tmp_path: Path) -> None:
    path = tmp_path / "log"
    ends = ends_of(ENTRIES)
    path.write_bytes(log_of(ENTRIES[:3]) + b"what is being written right now")
    assert read_log(path, START, ends[3]) == ENTRIES[:3]
    assert read_log(path, EntryPlace(1, ends[1]), ends[3]) == ENTRIES[1:3]
    assert read_log(path, EntryPlace(3, ends[3]), ends[3]) == []


def test_readers_refuse_what_does_not_fit(tmp_path: Path) -> None:
    path = tmp_path / "log"
    ends = ends_of(ENTRIES)
    path.write_bytes(log_of(ENTRIES))
    with pytest.raises(WalDamaged, match="where entry 3 should be: there is entry 2 instead"):
        read_log(path, EntryPlace(2, ends[1]))
    with pytest.raises(WalDamaged, match=f"damaged at byte {ends[1] + 1}"):
        read_log(path, EntryPlace(1, ends[1] + 1))
    with pytest.raises(WalDamaged, match="damaged at byte"):
        read_log(path, START, ends[3] - 1)
    with pytest.raises(WalDamaged, match=f"the file ends here, not at {ends[-1] + 5}"):
        read_log(path, START, ends[-1] + 5)


def test_opening_behind_a_snapshot_looks_only_at_the_rest(tmp_path: Path) -> None:
    path = tmp_path / "log"
    ends = ends_of(ENTRIES)
    path.write_bytes(b"\xff" * ends[2] + log_of(ENTRIES[2:]))
    wal = open_wal(path, FILES, after=EntryPlace(2, ends[2]))
    wal.close()
    assert wal.end == EntryPlace(5, ends[5])
    assert wal.torn is None


def test_a_log_shorter_than_its_snapshot_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(log_of(ENTRIES[:2]))
    size = path.stat().st_size
    with pytest.raises(WalDamaged, match=f"ends here, but {size + 1} bytes were known to be good"):
        open_wal(path, FILES, after=EntryPlace(3, size + 1))
    with pytest.raises(WalDamaged, match="were known to be good"):
        open_wal(path, FILES, published_position=size + 1)
    assert path.read_bytes() == log_of(ENTRIES[:2])


def test_truncated_at_every_byte_of_the_last_entry(tmp_path: Path) -> None:
    path = tmp_path / "log"
    whole = log_of(ENTRIES)
    last = ends_of(ENTRIES)[-2]
    for size in range(last, len(whole)):
        path.write_bytes(whole[:size])
        wal = open_wal(path, FILES)
        assert (wal.torn is None) == (size == last)
        if wal.torn is not None:
            assert (wal.torn.position, wal.torn.size) == (last, size - last)
        assert wal.end == EntryPlace(4, last)
        # The place is free again, with the same index.
        wal.append(encode_entry(entry_of(5, b"again")))
        wal.close()
        assert read_log(path) == [*ENTRIES[:4], entry_of(5, b"again")]


def test_truncated_at_every_byte_of_the_first_entry(tmp_path: Path) -> None:
    path = tmp_path / "log"
    whole = log_of(ENTRIES[:1])
    for size in range(len(whole)):
        path.write_bytes(whole[:size])
        assert open_and_read(path) == []


@pytest.mark.no_cover
@pytest.mark.slow
def test_every_bit_flipped(tmp_path: Path) -> None:
    """Refused, or, in the last entry alone, cut. Never applied with another content."""
    path = tmp_path / "log"
    whole = log_of(ENTRIES)
    last = ends_of(ENTRIES)[-2]
    for bit in range(len(whole) * 8):
        flipped = bytearray(whole)
        flipped[bit // 8] ^= 1 << bit % 8
        path.write_bytes(flipped)
        if bit // 8 >= last:
            assert open_and_read(path) == ENTRIES[:4]
        else:
            with pytest.raises(WalDamaged):
                open_wal(path, FILES)
            assert path.read_bytes() == flipped


def test_every_bit_of_the_published_last_entry_flipped(tmp_path: Path) -> None:
    """An entry that was published is not cut, though it is the last."""
    path = tmp_path / "log"
    whole = log_of(ENTRIES[:2])
    for bit in range(ends_of(ENTRIES)[1] * 8, len(whole) * 8, 5):
        flipped = bytearray(whole)
        flipped[bit // 8] ^= 1 << bit % 8
        path.write_bytes(flipped)
        with pytest.raises(WalDamaged):
            open_wal(path, FILES, published_position=len(whole))
        assert path.read_bytes() == flipped


def test_damage_in_the_middle_says_what_where_and_what_to_do(tmp_path: Path) -> None:
    path = tmp_path / "state.messages"
    start = ends_of(ENTRIES)[2]
    damaged = bytearray(log_of(ENTRIES))
    damaged[start + 40] ^= 1
    path.write_bytes(damaged)
    with pytest.raises(WalDamaged) as raised:
        open_wal(path, FILES)
    text = str(raised.value)
    assert str(path) in text
    assert f"at byte {start}, where entry 3 should be" in text
    assert "say index 3, but the SHA-256 does not match" in text
    assert "restore it from a backup" in text
    assert f"cut it to {start} bytes" in text


def test_a_damaged_length_in_the_middle_is_not_taken_for_a_torn_tail(tmp_path: Path) -> None:
    path = tmp_path / "log"
    start = ends_of(ENTRIES)[1]
    for length in (500, COMMAND_SIZE_MAX, COMMAND_SIZE_MAX + 1, 2**32 - 1):
        damaged = bytearray(log_of(ENTRIES))
        damaged[start + 32 : start + 36] = length.to_bytes(4, "little")
        path.write_bytes(damaged)
        with pytest.raises(WalDamaged, match=f"at byte {start}"):
            open_wal(path, FILES)


@pytest.mark.slow
def test_a_later_entry_is_found_behind_a_megabyte_of_damage(tmp_path: Path) -> None:
    path = tmp_path / "log"
    entries = [entry_of(1, b"a"), entry_of(2, b"\xff" * COMMAND_SIZE_MAX), entry_of(3, b"c")]
    damaged = bytearray(log_of(entries))
    damaged[200] ^= 1
    path.write_bytes(damaged)
    with pytest.raises(WalDamaged, match="entry 2 should be"):
        open_wal(path, FILES)
    path.write_bytes(damaged[:-1])
    assert open_and_read(path) == entries[:1]


@pytest.mark.parametrize("tail", [b"\0" * 5000, b"\xff" * 5000, bytes(range(256)) * 8])
def test_a_tail_of_rubbish_is_cut(tmp_path: Path, tail: bytes) -> None:
    path = tmp_path / "log"
    path.write_bytes(log_of(ENTRIES) + tail)
    assert open_and_read(path) == ENTRIES


@pytest.mark.parametrize("order", [[2], [1, 3], [1, 1], [1, 2, 2], [1, 2, 1], [1, 3, 2]])
def test_a_wrong_order_of_whole_entries_is_refused(tmp_path: Path, order: list[int]) -> None:
    path = tmp_path / "log"
    path.write_bytes(log_of([ENTRIES[index - 1] for index in order]))
    with pytest.raises(WalDamaged, match="instead"):
        open_wal(path, FILES)


def test_an_index_out_of_order_cannot_be_appended(tmp_path: Path) -> None:
    wal = open_wal(tmp_path / "log", FILES)
    with pytest.raises(AssertionError, match="entry 2 cannot follow entry 0"):
        wal.append(encode_entry(ENTRIES[1]))
    wal.close()


class FailingFiles(Files):
    """Writes take at most `write_max` bytes and `room` in all; fdatasync and ftruncate may fail."""

    def __init__(self) -> None:
        self.write_max = 1 << 30
        self.room = 1 << 30
        self.sync_fails = False
        self.truncate_fails = False
        self.syncs = 0

    def pwrite(self, fd: int, data: Buffer, position: int) -> int:
        if self.room == 0:
            raise OSError(errno.ENOSPC, "full")
        size = min(len(data), self.write_max, self.room)
        self.room -= size
        return super().pwrite(fd, memoryview(data)[:size], position)

    def pwritev(self, fd: int, buffers: object, position: int) -> int:
        assert isinstance(buffers, list)
        return self.pwrite(fd, buffers[0], position)

    def fdatasync(self, fd: int) -> None:
        self.syncs += 1
        if self.sync_fails:
            raise OSError(errno.EIO, "bad disk")
        super().fdatasync(fd)

    def ftruncate(self, fd: int, size: int) -> None:
        if self.truncate_fails:
            raise OSError(errno.EIO, "bad disk")
        super().ftruncate(fd, size)


@pytest.fixture
def files() -> FailingFiles:
    return FailingFiles()


def open_with_one(path: Path, files: FailingFiles) -> WalWriter:
    wal = open_wal(path, files)
    wal.append(encode_entry(ENTRIES[0]))
    wal.sync()
    return wal


def test_short_writes_are_continued(tmp_path: Path, files: FailingFiles) -> None:
    files.write_max = 3
    open_with_one(tmp_path / "log", files).close()
    assert read_log(tmp_path / "log") == ENTRIES[:1]


def test_a_full_disk_leaves_nothing_and_ends_when_there_is_room(
    tmp_path: Path, files: FailingFiles
) -> None:
    path = tmp_path / "log"
    wal = open_with_one(path, files)
    for room in range(ENTRY_SIZE_MIN):
        files.room = room
        with pytest.raises(OSError, match="full"):
            wal.append(encode_entry(ENTRIES[1]))
        assert path.read_bytes() == log_of(ENTRIES[:1])
        assert wal.end == EntryPlace(1, ends_of(ENTRIES)[1])
    files.room = 1 << 30
    wal.append(encode_entry(ENTRIES[1]))
    wal.close()
    assert read_log(path) == ENTRIES[:2]


def test_a_cut_that_fails_too_ends_all_writing(tmp_path: Path, files: FailingFiles) -> None:
    path = tmp_path / "log"
    wal = open_with_one(path, files)
    files.room = 10
    files.truncate_fails = True
    with pytest.raises(WalFailed, match="cutting it back failed"):
        wal.append(encode_entry(ENTRIES[1]))
    files.room = 1 << 30
    with pytest.raises(WalFailed, match="takes no more entries until a restart"):
        wal.append(encode_entry(ENTRIES[1]))
    wal.close()
    assert open_and_read(path) == ENTRIES[:1]


def test_a_failed_sync_ends_all_writing(tmp_path: Path, files: FailingFiles) -> None:
    path = tmp_path / "log"
    wal = open_with_one(path, files)
    before = wal.end
    wal.append(encode_entry(ENTRIES[1]))
    files.sync_fails = True
    with pytest.raises(OSError, match="bad disk"):
        wal.sync()
    files.sync_fails = False
    with pytest.raises(WalFailed):
        wal.sync()
    with pytest.raises(WalFailed):
        wal.append(encode_entry(ENTRIES[2]))
    wal.take_back(before)
    assert wal.end == before
    wal.close()
    assert open_and_read(path) == ENTRIES[:1]


def test_opening_makes_durable_what_it_keeps(tmp_path: Path, files: FailingFiles) -> None:
    path = tmp_path / "log"
    path.write_bytes(log_of(ENTRIES))
    open_wal(path, files).close()
    assert files.syncs == 1
