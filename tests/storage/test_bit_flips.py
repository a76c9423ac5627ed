"""Every bit of a small partition, turned over once: no wrong payload is ever returned.

A flip behind the recovery point may cost the messages from there on (they are cut, as a torn
tail); a flip below it costs the message it hit and no other.
"""

from pathlib import Path

import pytest

from borzoi.protocol.errors import InvalidMessageChecksum
from borzoi.storage.birth import BirthDamaged, read_birth
from borzoi.storage.files import Files
from tests.storage.partitions import BIRTH, Partition, overwrite

pytestmark = pytest.mark.no_cover

SEALED = [b"seal%d" % number for number in range(3)]
ACTIVE = [b"open%d" % number for number in range(3)]
PAYLOADS = SEALED + ACTIVE
FIRST = len(SEALED)  # of the active segment
ALL = set(range(len(PAYLOADS)))
MESSAGE_SIZE = 64 + len(PAYLOADS[0])


def two_segments(root: Path) -> Partition:
    partition = Partition(root)
    partition.append(*SEALED)
    partition.log.roll()
    partition.append(*ACTIVE)
    partition.log.sync()
    return partition


def flips(path: Path) -> list[tuple[int, bytes]]:
    """Every version of the file with one bit turned over, and the byte it is in."""
    whole = path.read_bytes()
    found = []
    for bit in range(len(whole) * 8):
        data = bytearray(whole)
        data[bit // 8] ^= 1 << bit % 8
        found.append((bit // 8, bytes(data)))
    return found


def check_each(partition: Partition) -> set[int]:
    """Read every offset singly, and ranges too; return the offsets that could be read."""
    published = partition.log.written
    found = set()
    for offset in range(published.next_offset):
        for count in (1, len(PAYLOADS)):
            try:
                slices = partition.read_slices(offset, count, 1 << 20)
            except InvalidMessageChecksum:
                continue
            data = b"".join(slices.views)
            at = 0
            for number in range(slices.first_offset, slices.first_offset + slices.message_count):
                payload = PAYLOADS[number]
                assert data[at + 64 : at + 64 + len(payload)] == payload
                at += 64 + len(payload)
                found.add(number)
            assert at == len(data)
    return found


@pytest.mark.slow
@pytest.mark.parametrize("first_offset", [0, FIRST], ids=["sealed", "active"])
def test_flips_in_a_log_after_a_clean_stop(tmp_path: Path, first_offset: int) -> None:
    partition = two_segments(tmp_path)
    clean = partition.log.clean_partition(0)
    path = partition.log_file(first_offset)
    for byte, data in flips(path):
        overwrite(path, data)
        assert partition.reopen(clean) == []
        hit = first_offset + byte // MESSAGE_SIZE
        assert check_each(partition) == ALL - {hit}


@pytest.mark.slow
@pytest.mark.parametrize("first_offset", [0, FIRST], ids=["sealed", "active"])
def test_flips_in_an_index_after_a_clean_stop(tmp_path: Path, first_offset: int) -> None:
    partition = two_segments(tmp_path)
    clean = partition.log.clean_partition(0)
    path = partition.index_file(first_offset)
    whole = path.read_bytes()
    for byte, data in flips(path):
        overwrite(path, data)
        partition.reopen(clean)
        # An end that is wrong spoils the message it belongs to and the one that begins there.
        hit = first_offset + byte // 16
        assert check_each(partition) >= ALL - {hit, hit + 1}
        # It is healed in place of a reader's first complaint.
        if first_offset == FIRST:
            partition.log.roll()
        partition.repair_index(first_offset)
        assert path.read_bytes() == whole
        assert check_each(partition) == ALL
        partition.log.close()
        for rolled in (partition.log_file, partition.index_file):
            rolled(len(PAYLOADS)).unlink(missing_ok=True)


@pytest.mark.slow
@pytest.mark.parametrize("with_point", [False, True], ids=["no point", "point"])
def test_flips_in_the_active_log_after_a_crash(tmp_path: Path, with_point: bool) -> None:
    partition = two_segments(tmp_path)
    if with_point:
        partition.log.save_recovery_point()
    path = partition.log_file(FIRST)
    index = partition.index_file(FIRST).read_bytes()
    for byte, data in flips(path):
        overwrite(path, data)
        overwrite(partition.index_file(FIRST), index)
        report = partition.reopen()
        hit = FIRST + byte // MESSAGE_SIZE
        if with_point:
            assert check_each(partition) == ALL - {hit}
        else:
            assert check_each(partition) == set(range(hit))
            assert any("cut" in line for line in report)


@pytest.mark.slow
@pytest.mark.parametrize("with_point", [False, True], ids=["no point", "point"])
def test_flips_in_the_active_index_after_a_crash(tmp_path: Path, with_point: bool) -> None:
    partition = two_segments(tmp_path)
    if with_point:
        partition.log.save_recovery_point()
    path = partition.index_file(FIRST)
    whole = path.read_bytes()
    for byte, data in flips(path):
        overwrite(path, data)
        partition.reopen()
        found = check_each(partition)
        if with_point:
            hit = FIRST + byte // 16
            assert found >= ALL - {hit, hit + 1}
        else:
            assert path.read_bytes() == whole
            assert found == ALL


@pytest.mark.slow
def test_flips_in_a_log_whose_index_is_lost(tmp_path: Path) -> None:
    """The index of a sealed segment is rebuilt from a log that is damaged as well."""
    partition = two_segments(tmp_path)
    path = partition.log_file(0)
    for byte, data in flips(path):
        overwrite(path, data)
        partition.index_file(0).unlink()
        report = partition.reopen()
        hit = byte // MESSAGE_SIZE
        assert check_each(partition) == ALL - {hit}
        assert any(f"offsets {hit} to {hit}" in line for line in report)


@pytest.mark.slow
def test_flips_in_the_recovery_point_make_it_none(tmp_path: Path) -> None:
    partition = two_segments(tmp_path)
    partition.log.save_recovery_point()
    for _, data in flips(partition.path("recovery-point")):
        overwrite(partition.path("recovery-point"), data)
        partition.reopen()
        assert partition.log.recovery.scanned_bytes == partition.log_file(FIRST).stat().st_size
        assert check_each(partition) == ALL


def test_flips_in_the_birth_never_give_another_birth(tmp_path: Path) -> None:
    """A directory of an older birth is thrown away, so this number decides over data."""
    partition = two_segments(tmp_path)
    versions = flips(partition.path("birth"))
    for _, data in versions:
        overwrite(partition.path("birth"), data)
        with pytest.raises(BirthDamaged):
            read_birth(partition.directory, Files())
    partition.log.save_recovery_point()
    for _, data in versions:
        overwrite(partition.path("birth"), data)
        assert read_birth(partition.directory, Files()) == BIRTH


def test_a_birth_that_is_lost_has_a_second_home(tmp_path: Path) -> None:
    """Without one the directory counts as never finished, and is thrown away."""
    partition = two_segments(tmp_path)
    partition.path("birth").unlink()
    assert read_birth(partition.directory, Files()) is None
    partition.log.save_recovery_point()
    assert read_birth(partition.directory, Files()) == BIRTH
    for data in (b"", b"1234567", bytes(16)):
        partition.path("birth").write_bytes(data)
        assert read_birth(partition.directory, Files()) == BIRTH
