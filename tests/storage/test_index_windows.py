"""What `cache_indexes` means: which index files a process has mapped between two reads."""

from pathlib import Path

import pytest

from borzoi.storage.files import Files
from borzoi.storage.index_windows import IndexCaching, IndexWindows, load_indexes
from borzoi.storage.mapped import WindowCache
from borzoi.storage.reader import PartitionReader
from tests.storage.partitions import ALL, WINDOW_SIZE, Partition, payloads_in

SHARED_MAX = 4


def mapped_indexes(partition: Partition) -> list[int]:
    """First offsets of the segments whose indexes this process has mapped."""
    lines = Path("/proc/self/maps").read_text().splitlines()
    paths = {Path(line.split()[-1]) for line in lines if line.endswith(".index")}
    return sorted(int(path.stem) for path in paths if str(path.parent) == partition.directory)


@pytest.mark.parametrize(
    ("caching", "kept", "after_a_roll"),
    [
        (IndexCaching.ALL, [0, 2, 4, 6, 8, 10], [0, 2, 4, 6, 8, 10, 12]),
        # The shared windows: the last logs that were read and, among them, sealed indexes.
        (IndexCaching.OPEN_SEGMENT, [10], [12]),
        (IndexCaching.NONE, [], []),
    ],
)
def test_what_stays_mapped(
    tmp_path: Path, caching: IndexCaching, kept: list[int], after_a_roll: list[int]
) -> None:
    partition = Partition(tmp_path, segment_size_max=1)
    for number in range(11):
        partition.append(b"%d" % number)
    windows = WindowCache(SHARED_MAX, WINDOW_SIZE)
    index_windows = IndexWindows(caching, windows)
    reader = PartitionReader(partition.directory, windows, Files(), index_windows=index_windows)

    def read_on(first: int, end: int) -> None:
        for offset in [*range(first, end), end - 1]:
            slices = reader.read(partition.log.written, offset, 1, ALL)
            assert payloads_in(slices) == [b"%d" % offset]

    read_on(0, 11)
    only_sealed_shared = [one for one in mapped_indexes(partition) if one not in kept]
    assert set(kept) <= set(mapped_indexes(partition))
    assert len(only_sealed_shared) <= (SHARED_MAX if caching is IndexCaching.OPEN_SEGMENT else 0)
    assert reader.find_timestamp(partition.log.written, 0) == 0

    partition.append(b"11")
    partition.append(b"12")
    read_on(9, 13)
    # Nothing but the windows that are shared with logs is left of sealed indexes.
    windows.clear()
    reader._segments.hot = None
    assert mapped_indexes(partition) == after_a_roll
    index_windows.clear()
    assert mapped_indexes(partition) == []


def test_loading_reads_every_index(tmp_path: Path) -> None:
    partition = Partition(tmp_path, segment_size_max=1)
    for _ in range(5):
        partition.append(b"x")
    assert load_indexes([partition.directory, str(tmp_path / "none")], Files()) == 5 * 16
