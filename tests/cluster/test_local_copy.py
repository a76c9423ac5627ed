"""A directory is brought level with its lane, whatever lies in it."""

import os
from pathlib import Path

import pytest

from borzoi.cluster.checkpoints import PackedPiece
from borzoi.cluster.keys import Checkpoint
from borzoi.cluster.local_copy import LocalLife
from borzoi.cluster.replay import PlacedPiece, ReplayedLife
from borzoi.cluster.slots import Entry, EntryKind
from borzoi.protocol.batch import stamp_batch
from borzoi.protocol.identifiers import ConsumerKind
from borzoi.storage.birth import read_birth, write_birth
from borzoi.storage.files import Files
from borzoi.storage.layout import index_path, log_path
from borzoi.storage.log import LogSettings, PartitionLog
from borzoi.storage.open_files import OpenFiles
from tests.storage.partitions import new_batch

BIRTH = 5
NAME = Checkpoint(9, 1)
"""Two segments: messages 0 to 5, of which a pack has 4, and messages from 6 on."""


def stamped(first: int, count: int, segment: int, position: int) -> bytes:
    view = new_batch([b"%d" % number for number in range(first, first + count)])
    stamp_batch(view, count, first, 1_000_000 + first, os.urandom, segment, position)
    return bytes(view)


FIRST, SECOND = stamped(0, 4, 0, 0), stamped(4, 2, 0, 0)
THIRD = stamped(6, 3, 6, 0)
PACK = memoryview(b"..." + FIRST)


def life() -> ReplayedLife:
    return ReplayedLife(
        next_offset=9,
        active_segment=6,
        pieces=[PlacedPiece(PackedPiece(NAME, 0, 0, 4, 3, len(FIRST)), 0)],
        batches=[
            Entry(EntryKind.BATCH, 1, BIRTH, 4, 2, 0, len(FIRST), body=SECOND),
            Entry(EntryKind.BATCH, 1, BIRTH, 6, 3, 6, 0, body=THIRD),
        ],
        offsets={(ConsumerKind.CONSUMER, 3): 7, (ConsumerKind.GROUP, 1): 2},
        sizes={0: len(FIRST) + len(SECOND), 6: len(THIRD)},
    )


def level(place: Path) -> tuple[LocalLife, int]:
    """Bring it level; how many pieces that took."""
    local = LocalLife(str(place / "p"), BIRTH, life(), Files(), str(place / "trash"))
    missing = local.begin()
    for placed in missing:
        local.write_piece(placed, PACK)
    local.finish()
    return local, len(missing)


def check(place: Path) -> None:
    directory = str(place / "p")
    assert Path(log_path(directory, 0)).read_bytes() == FIRST + SECOND
    assert Path(log_path(directory, 6)).read_bytes() == THIRD
    assert read_birth(directory, Files()) == BIRTH
    assert sorted(os.listdir(place / "p/offsets/consumers")) == ["3"]
    assert (place / "p/offsets/consumers/3").read_bytes() == (7).to_bytes(8, "little")
    log = PartitionLog.recover(
        directory, BIRTH, LogSettings(100), Files(), open_files=OpenFiles(Files(), 10)
    )
    assert log.written.next_offset == 9
    assert [one.first_offset for one in log.sealed] == [0]
    log.close()


def test_an_empty_disk_gets_everything(tmp_path: Path) -> None:
    local, pieces = level(tmp_path)
    assert pieces == 1
    assert local.is_level()
    check(tmp_path)


def test_a_level_directory_needs_nothing(tmp_path: Path) -> None:
    level(tmp_path)[0].is_level()
    log = Path(log_path(str(tmp_path / "p"), 0))
    before = log.stat().st_mtime_ns
    local, pieces = level(tmp_path)
    assert (pieces, local.report) == (0, [])
    assert local.is_level()
    assert log.stat().st_mtime_ns == before
    check(tmp_path)


@pytest.mark.parametrize("kept", [0, 1, len(FIRST) - 1, len(FIRST), len(FIRST) + 5])
def test_a_disk_that_is_behind_catches_up(tmp_path: Path, kept: int) -> None:
    level(tmp_path)[0].is_level()
    directory = str(tmp_path / "p")
    os.truncate(log_path(directory, 0), kept)
    for path in (log_path(directory, 6), index_path(directory, 6)):
        Path(path).unlink()
    local, pieces = level(tmp_path)
    assert (pieces, local.report) == (int(kept < len(FIRST)), [])
    assert local.is_level()
    check(tmp_path)


def append(path: str, data: bytes) -> None:
    with open(path, "ab") as file:
        file.write(data)


@pytest.mark.parametrize("segment", [0, 6, 9])
def test_a_disk_that_is_ahead_is_cut_back(tmp_path: Path, segment: int) -> None:
    level(tmp_path)[0].is_level()
    append(log_path(str(tmp_path / "p"), segment), stamped(9, 1, 6, len(THIRD)))
    local, pieces = level(tmp_path)
    assert pieces == 1
    assert "made again from the store" in local.report[0]
    assert local.is_level()
    check(tmp_path)


def test_an_empty_segment_that_no_batch_has_named_goes(tmp_path: Path) -> None:
    level(tmp_path)
    append(log_path(str(tmp_path / "p"), 9), b"")
    local, pieces = level(tmp_path)
    assert (pieces, local.report) == (0, [])
    assert local.is_level()
    check(tmp_path)


def test_another_life_is_moved_away(tmp_path: Path) -> None:
    level(tmp_path)
    write_birth(str(tmp_path / "p"), BIRTH - 1, Files())
    local, pieces = level(tmp_path)
    assert (pieces, len(local.report)) == (1, 1)
    assert len(os.listdir(tmp_path / "trash")) == 1
    check(tmp_path)


@pytest.mark.parametrize("segment", [0, 6])
def test_damage_is_seen_and_a_new_directory_mends_it(tmp_path: Path, segment: int) -> None:
    level(tmp_path)
    with open(log_path(str(tmp_path / "p"), segment), "r+b") as file:
        file.seek(70)
        file.write(bytes(20))
    local, _ = level(tmp_path)
    assert not local.is_level()
    local.start_over("its messages are not sound")
    assert level(tmp_path)[0].is_level()
    check(tmp_path)


def test_offsets_of_before_go(tmp_path: Path) -> None:
    level(tmp_path)
    (tmp_path / "p/offsets/consumers/77").write_bytes((1).to_bytes(8, "little"))
    (tmp_path / "p/offsets/consumers/3").write_bytes((99).to_bytes(8, "little"))
    level(tmp_path)[0].is_level()
    check(tmp_path)


def test_a_pack_that_is_too_short_is_refused(tmp_path: Path) -> None:
    local = LocalLife(str(tmp_path / "p"), BIRTH, life(), Files(), str(tmp_path / "trash"))
    (placed,) = local.begin()
    with pytest.raises(ValueError, match="does not hold"):
        local.write_piece(placed, PACK[:-1])
