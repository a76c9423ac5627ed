"""The record of a clean stop is taken once, and only if it is whole."""

from pathlib import Path

import pytest

from borzoi.storage.clean_stop import CleanPartition, CleanStop
from borzoi.storage.files import Files
from borzoi.storage.layout import DataLayout
from tests.storage.faults import FailingFiles

U64_MAX = (1 << 64) - 1
ROWS = {
    0: CleanPartition(1, 0, 100, 2, 32, 77),
    U64_MAX: CleanPartition(*[U64_MAX] * 6),
    12345: CleanPartition(9, 1000, 0, 1000, 0, 0),
}


@pytest.fixture
def layout(tmp_path: Path) -> DataLayout:
    layout = DataLayout(tmp_path / "data")
    layout.create_skeleton(Files())
    return layout


def test_round_trip_and_taken_once(layout: DataLayout) -> None:
    CleanStop(ROWS).write(layout, Files(), shard=0)
    files = FailingFiles()
    taken = CleanStop.take(layout, files)
    assert taken is not None
    assert taken.partitions == ROWS
    assert taken.get(12345) == ROWS[12345]
    assert taken.get(1) is None
    assert [name for name, _ in files.calls] == ["rename", "fsync_directory"]
    assert CleanStop.take(layout, Files()) is None


def test_a_taken_record_still_says_what_was_durable(layout: DataLayout) -> None:
    CleanStop(ROWS).write(layout, Files(), shard=1)
    assert CleanStop.last(layout, Files()).partitions == {}
    CleanStop.take(layout, Files())
    assert CleanStop.last(layout, Files()).partitions == ROWS
    # The next stop has one shard less, so the record of the other is the older one.
    newer = {0: ROWS[0]._replace(next_offset=9), 12345: ROWS[12345]._replace(birth=8)}
    CleanStop(newer).write(layout, Files(), shard=0)
    CleanStop.take(layout, Files())
    assert CleanStop.last(layout, Files()).partitions == {**ROWS, 0: newer[0]}


def test_the_records_of_all_shards_count(layout: DataLayout) -> None:
    for shard, (key, row) in enumerate(ROWS.items()):
        CleanStop({key: row}).write(layout, Files(), shard)
    Path(layout.root, "clean-stop.x").write_bytes(b"not ours")
    taken = CleanStop.take(layout, Files())
    assert taken is not None
    assert taken.partitions == ROWS
    assert Path(layout.root, "clean-stop.x").exists()


def test_a_damaged_record_says_nothing_but_others_do(layout: DataLayout) -> None:
    CleanStop({0: ROWS[0]}).write(layout, Files(), 0)
    CleanStop({1: ROWS[0]}).write(layout, Files(), 1)
    path = Path(layout.clean_stop_file(0))
    path.write_bytes(path.read_bytes()[:-1])
    taken = CleanStop.take(layout, Files())
    assert taken is not None
    assert taken.partitions.keys() == {1}
    assert not path.exists()


def test_every_flipped_bit_and_every_cut_is_noticed() -> None:
    whole = CleanStop(ROWS).encode()
    again = CleanStop.decode(whole)
    assert again is not None
    assert again.partitions == ROWS
    for size in range(len(whole)):
        assert CleanStop.decode(whole[:size]) is None
    for bit in range(len(whole) * 8):
        data = bytearray(whole)
        data[bit // 8] ^= 1 << bit % 8
        assert CleanStop.decode(bytes(data)) is None


def test_an_empty_directory_has_none(layout: DataLayout) -> None:
    assert CleanStop.take(layout, Files()) is None
