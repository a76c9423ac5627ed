"""Checking a closed partition: everything wrong is found, nothing else is touched."""

import errno
from collections.abc import Callable
from pathlib import Path

import pytest

from borzoi.protocol.identifiers import ConsumerKind
from borzoi.storage.check_partition import check_partition
from borzoi.storage.clean_stop import CleanPartition
from borzoi.storage.codecs import Codec
from borzoi.storage.files import Files
from borzoi.storage.findings import Findings, Level
from borzoi.storage.offsets import ConsumerOffsets
from borzoi.storage.segment_form import HEADER_SIZE
from tests.storage.ciphers import encrypted_partition
from tests.storage.faults import FailingFiles
from tests.storage.partitions import BIRTH, Partition, overwrite
from tests.storage.test_bit_flips import flips

SEALED = [b"seal%d" % number for number in range(3)]
ACTIVE = [b"open%d" % number for number in range(3)]
FIRST = len(SEALED)
MESSAGE_SIZE = 64 + len(SEALED[0])


class Stopped(Partition):
    """How it was left, too."""

    clean: CleanPartition


def stopped(root: Path, *, with_point: bool = False) -> Stopped:
    """Two segments, three messages each, and two consumers."""
    partition = Stopped(root)
    partition.append(*SEALED)
    partition.log.roll()
    partition.append(*ACTIVE)
    partition.log.sync()
    if with_point:
        partition.log.save_recovery_point()
    offsets = ConsumerOffsets(
        partition.directory, partition.files, partition.open_files, consumers_max=10
    )
    offsets.store(ConsumerKind.CONSUMER, 1, 4)
    offsets.store(ConsumerKind.GROUP, 2, 0)
    offsets.write()
    partition.clean = partition.log.clean_partition(offsets.digest())
    partition.log.close()
    return partition


def check(
    partition: Partition, clean: CleanPartition | None = None, *, repair: bool = False
) -> Findings:
    findings = Findings(repair)
    files = Files() if repair else FailingFiles()
    check_partition(partition.directory, clean, findings, files)
    if isinstance(files, FailingFiles):
        assert files.calls == [], "a check that writes"
        assert files.open_count == 0
    return findings


def contents(partition: Partition) -> dict[str, bytes]:
    root = Path(partition.directory)
    return {str(path): path.read_bytes() for path in root.rglob("*") if path.is_file()}


def texts(findings: Findings, level: Level) -> list[str]:
    return [one.text for one in findings.found if one.level is level]


@pytest.mark.parametrize("with_point", [False, True])
@pytest.mark.parametrize("was_clean", [False, True])
def test_all_is_well(tmp_path: Path, with_point: bool, was_clean: bool) -> None:
    partition = stopped(tmp_path, with_point=with_point)
    before = contents(partition)
    findings = check(partition, partition.clean if was_clean else None, repair=True)
    assert findings.found == []
    counts = findings.counts
    assert (counts.segments, counts.messages, counts.index_entries) == (2, 6, 6)
    assert (counts.births, counts.recovery_points, counts.offset_files) == (1, with_point, 2)
    assert counts.message_bytes == 6 * MESSAGE_SIZE
    assert contents(partition) == before


@pytest.mark.slow
def test_every_flipped_bit_after_a_clean_stop_is_found(tmp_path: Path) -> None:
    """In every file. A repair heals indexes and leaves the rest alone."""
    partition = stopped(tmp_path, with_point=True)
    whole = contents(partition)
    assert len(whole) == 9
    for name, data in whole.items():
        for _, flipped in flips(Path(name)):
            overwrite(Path(name), flipped)
            findings = check(partition, partition.clean)
            assert findings.worst > Level.NOTE, (name, flipped)
        check(partition, partition.clean, repair=True)
        healed = data if name.endswith(".index") else flipped
        assert Path(name).read_bytes() == healed, name
        overwrite(Path(name), data)
    assert contents(partition) == whole


@pytest.mark.parametrize("with_point", [False, True])
def test_a_tail_torn_at_every_byte(tmp_path: Path, with_point: bool) -> None:
    """Cut off by a repair; what was durable counts as lost instead."""
    partition = stopped(tmp_path, with_point=with_point)
    log, index = partition.log_file(FIRST), partition.index_file(FIRST)
    whole, entries = log.read_bytes(), index.read_bytes()
    for size in range(len(whole)):
        overwrite(log, whole[:size])
        overwrite(index, entries)
        kept = size // MESSAGE_SIZE
        findings = check(partition, repair=True)
        assert findings.counts.messages == FIRST + kept
        if with_point:
            assert any("LOST" in text for text in texts(findings, Level.DAMAGED))
            assert log.read_bytes() == whole[:size]
            continue
        assert findings.worst is Level.NOTE
        assert log.read_bytes() == whole[: kept * MESSAGE_SIZE]
        assert index.read_bytes() == entries[: kept * 16]
        assert check(partition).worst is Level.NOTE


def test_sound_messages_behind_a_damaged_one_are_not_cut(tmp_path: Path) -> None:
    partition = stopped(tmp_path)
    log = partition.log_file(FIRST)
    damaged = bytearray(log.read_bytes())
    damaged[MESSAGE_SIZE + 64] ^= 1
    overwrite(log, bytes(damaged))
    findings = check(partition, repair=True)
    assert log.read_bytes() == damaged
    assert any("copy the file first" in text for text in texts(findings, Level.DAMAGED))
    assert findings.counts.messages == 5


def test_a_torn_end_stays_if_the_recovery_point_is_damaged(tmp_path: Path) -> None:
    partition = stopped(tmp_path, with_point=True)
    overwrite(partition.path("recovery-point"), bytes(40))
    torn = partition.log_file(FIRST).read_bytes()[:-1]
    overwrite(partition.log_file(FIRST), torn)
    findings = check(partition, repair=True)
    assert partition.log_file(FIRST).read_bytes() == torn
    assert any("left alone" in text for text in texts(findings, Level.DAMAGED))


Damage = Callable[[Partition], None]


@pytest.mark.parametrize(
    ("damage", "level"),
    [
        (lambda one: one.path("birth").unlink(), Level.NOTE),
        (lambda one: one.log_file(0).unlink(), Level.MENDABLE),  # retention may have taken it
        (lambda one: one.index_file(0).unlink(), Level.MENDABLE),
        (lambda one: one.index_file(9).write_bytes(bytes(16)), Level.MENDABLE),
        (lambda one: one.path("birth.tmp").write_bytes(b"x"), Level.MENDABLE),
        (lambda one: one.path("birth.tmp").mkdir(), Level.DAMAGED),
        (lambda one: one.path("offsets/consumers/1").write_bytes(b"1234567"), Level.DAMAGED),
        (lambda one: one.path("offsets/consumers/1").write_bytes(b"\xff" * 8), Level.NOTE),
        (lambda one: one.log_file(FIRST).unlink(), Level.MENDABLE),
    ],
    ids=[
        "birth",
        "log",
        "index",
        "lonely index",
        "temporary",
        "directory",
        "offset",
        "beyond",
        "last log",
    ],
)
def test_what_is_missing_or_too_much(tmp_path: Path, damage: Damage, level: Level) -> None:
    partition = stopped(tmp_path)
    damage(partition)
    assert check(partition).worst is level
    after = check(partition, repair=True)
    assert after.worst is (Level.NOTE if level is Level.MENDABLE else level)


def test_a_lost_segment_is_missed_where_something_knows_of_it(tmp_path: Path) -> None:
    partition = stopped(tmp_path, with_point=True)
    partition.log_file(FIRST).unlink()
    assert check(partition).worst is Level.DAMAGED
    assert check(partition, partition.clean).worst is Level.DAMAGED


def test_a_lost_log_of_the_oldest_segment_is_missed_after_a_clean_stop(tmp_path: Path) -> None:
    """Its index is left, and no deletion was under way.

    Without the index it would look like what retention has deleted.
    """
    partition = stopped(tmp_path, with_point=True)
    partition.log_file(0).unlink()
    findings = check(partition, partition.clean, repair=True)
    assert [one for one in texts(findings, Level.DAMAGED) if "LOST offsets 0 to 2" in one]
    assert partition.index_file(0).exists(), "it is all that tells of them"
    report = partition.reopen(partition.clean)
    assert any("LOST offsets 0 to 2" in line for line in report)
    assert partition.read() == ACTIVE


def test_a_lost_birth_is_missed_where_a_clean_stop_knows_it(tmp_path: Path) -> None:
    partition = stopped(tmp_path)
    whole = partition.path("birth").read_bytes()
    partition.path("birth").unlink()
    assert check(partition, partition.clean).worst is Level.MENDABLE
    check(partition, partition.clean, repair=True)
    assert partition.path("birth").read_bytes() == whole


def test_unknown_files_are_named_and_kept(tmp_path: Path) -> None:
    partition = stopped(tmp_path)
    strangers = [partition.path("notes.txt"), partition.path(f"{0:020d}.log.brotli")]
    strangers += [partition.path("offsets/groups/abc"), partition.path("notes.tmp")]
    for path in strangers:
        path.write_bytes(b"mine")
    directory = partition.path("more.tmp")
    directory.mkdir()
    findings = check(partition, repair=True)
    assert {one.path for one in findings.found} == set(map(str, [*strangers, directory]))
    assert findings.worst is Level.NOTE
    assert all(path.read_bytes() == b"mine" for path in strangers)
    assert directory.is_dir()


def test_a_disk_that_cannot_be_read_is_damage(tmp_path: Path) -> None:
    class BadSector(Files):
        def pread(self, fd: int, size: int, position: int) -> bytes:
            data = super().pread(fd, size, position)
            if data.startswith(partition.log_file(0).read_bytes()[:64]):
                raise OSError(5, "Input/output error")
            return data

    partition = stopped(tmp_path)
    findings = Findings(repair=True)
    check_partition(partition.directory, None, findings, BadSector())
    assert any("cannot be read" in text for text in texts(findings, Level.DAMAGED))


def test_a_repair_that_fails_says_so(tmp_path: Path) -> None:
    partition = stopped(tmp_path)
    partition.index_file(0).unlink()
    findings = Findings(repair=True)
    files = FailingFiles()
    files.fail("rename", errno.ENOSPC)
    check_partition(partition.directory, None, findings, files)
    assert findings.worst is Level.MENDABLE
    assert any("the repair failed" in one.text for one in findings.found)


def test_the_birth_is_returned(tmp_path: Path) -> None:
    partition = stopped(tmp_path)
    assert check_partition(partition.directory, None, Findings(), Files()) == BIRTH


def test_compressed_segments_are_checked_block_by_block(tmp_path: Path) -> None:
    partition = Stopped(tmp_path)
    partition.append(*SEALED)
    partition.log.roll()
    partition.append(*ACTIVE)
    plain = partition.log_file(0).read_bytes()
    partition.compress(Codec.ZSTD)
    partition.log.close()
    path = partition.path(f"{0:020d}.log.zstd")
    whole = path.read_bytes()
    found = check(partition)
    assert found.found == []
    assert found.counts.messages == 6
    overwrite(path, whole[:60] + bytes([whole[60] ^ 1]) + whole[61:])
    damaged = texts(check(partition), Level.DAMAGED)
    assert any("block 0" in text for text in damaged)
    assert any("DAMAGED messages at offsets 0" in text for text in damaged)
    overwrite(path, whole)
    # Killed between two steps of the compression: the plain one counts.
    partition.log_file(0).write_bytes(plain)
    assert [one.level for one in check(partition).found] == [Level.MENDABLE]
    check(partition, repair=True)
    assert not path.exists()
    assert check(partition).found == []


def test_encrypted_segments_are_verified_without_a_key(tmp_path: Path) -> None:
    partition = encrypted_partition(tmp_path, segment_size_max=512)
    for number in range(12):
        partition.append(b"secret %d" % number)
    partition.log.sync()
    clean = partition.log.clean_partition(0)
    partition.log.close()
    for known in (None, clean):
        findings = check(partition, known)
        assert texts(findings, Level.MENDABLE) == []
        assert findings.counts.messages == 12
        assert findings.counts.message_bytes == partition.log.written.size_bytes
    good = contents(partition)
    # A repair touches nothing of it.
    check(partition, repair=True)
    assert contents(partition) == good
    sealed = partition.log_file(0)
    rotten = bytearray(sealed.read_bytes())
    rotten[HEADER_SIZE + 70] ^= 1
    overwrite(sealed, bytes(rotten))
    assert texts(check(partition), Level.DAMAGED) == ["DAMAGED messages at offsets 0 to 0"]


def test_only_the_torn_end_of_an_encrypted_segment_is_cut(tmp_path: Path) -> None:
    partition = encrypted_partition(tmp_path)
    partition.append(b"one", b"two")
    partition.log.close()
    file = partition.log_file()
    whole = file.read_bytes()
    overwrite(file, whole[:-1])
    findings = check(partition, repair=True)
    assert len(texts(findings, Level.MENDABLE)) == 2  # and the index
    assert file.stat().st_size == (len(whole) + HEADER_SIZE) // 2
    overwrite(file, whole[: HEADER_SIZE + 1])
    check(partition, repair=True)
    assert file.stat().st_size == HEADER_SIZE
    partition.reopen()
    assert partition.append(b"again") == 0
    assert partition.read() == [b"again"]
