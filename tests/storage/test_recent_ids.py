"""The ids of a log's last messages, read back from its files."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from borzoi.protocol.batch import SeenIds
from borzoi.protocol.message import Message, encode_messages
from borzoi.storage.codecs import Codec
from borzoi.storage.files import Files
from borzoi.storage.recent_ids import READ_SIZES, ReadSizes, Tail, remember_tail, tail_of
from borzoi.storage.segment import LogEnd, SealedSegment
from tests.storage.ciphers import encrypted_partition
from tests.storage.partitions import Partition

ENTRIES_MAX = 1000


class CountingFiles(Files):
    """Counts what is read."""

    def __init__(self) -> None:
        self.read_bytes = 0
        self.read_size_max = 0

    def pread(self, fd: int, size: int, position: int) -> bytes:
        found = super().pread(fd, size, position)
        self.read_bytes += len(found)
        self.read_size_max = max(self.read_size_max, size)
        return found


def append(partition: Partition, ids: list[int], sizes: list[int]) -> None:
    messages = [Message(b"x" * size, id) for id, size in zip(ids, sizes, strict=True)]
    batch = memoryview(bytearray(encode_messages(messages)))
    partition.log.stage(batch, len(messages), partition.now_us)
    partition.log.write()


def known(seen: SeenIds, ids: list[int]) -> list[int]:
    """Those of the ids that are in the window."""
    batch = memoryview(bytearray(encode_messages(Message(b"", id) for id in ids)))
    survivors = seen.admit(batch, len(ids), 0, bytes)
    if survivors is None:
        return []
    new = memoryview(survivors.batch)
    new_ids = {int.from_bytes(new[at + 8 : at + 24], "little") for at in range(0, len(new), 64)}
    return [id for id in ids if id not in new_ids]


def read_back(
    partition: Partition,
    count_max: int,
    timestamp_min: int = 0,
    files: Files | None = None,
    sizes: ReadSizes = READ_SIZES,
) -> SeenIds:
    seen = SeenIds(ENTRIES_MAX, 0, 1)
    tails = partition.log.tail(count_max)
    remember_tail(seen, partition.directory, tails, timestamp_min, files or Files(), sizes=sizes)
    return seen


def test_where_the_last_messages_lie() -> None:
    sealed = [SealedSegment(0, 10, 0, 0, 0), SealedSegment(10, 0, 0, 0, 0)]
    end = LogEnd(20, 0, 25, 0, 0)
    assert tail_of(sealed, end, 0) == []
    assert tail_of(sealed, end, 3) == [Tail(20, 2, 5)]
    assert tail_of(sealed, end, 5) == [Tail(20, 0, 5)]
    assert tail_of(sealed, end, 6) == [Tail(0, 9, 10), Tail(20, 0, 5)]
    assert tail_of(sealed, end, 99) == [Tail(0, 0, 10), Tail(20, 0, 5)]
    assert tail_of([], LogEnd(7, 0, 7, 0, 0), 99) == []


@pytest.mark.slow
@settings(max_examples=60)
@given(
    st.lists(
        st.lists(st.sampled_from([0, 1, 60, 700, 3000, 9000]), min_size=1, max_size=12),
        min_size=1,
        max_size=8,
    ),
    st.integers(1, 60),
    st.integers(0, 9),
    st.sampled_from([1, 3, 1000]),
    st.sampled_from([64, 700, 5000, 1 << 20]),
    st.sampled_from([0, 300, 1 << 20]),
)
def test_exactly_the_last_ones_are_found(
    tmp_path_factory: pytest.TempPathFactory,
    batches: list[list[int]],
    count_max: int,
    expired_batches: int,
    entries_at_once: int,
    bytes_at_once: int,
    sparse_size: int,
) -> None:
    partition = Partition(tmp_path_factory.mktemp("log"), segment_size_max=8192)
    stored: list[tuple[int, int]] = []
    for number, sizes in enumerate(batches):
        partition.now_us += 10
        ids = [1000 * (number + 1) + each for each in range(len(sizes))]
        append(partition, ids, sizes)
        stored += [(id, partition.now_us) for id in ids]
    timestamp_min = partition.now_us - 10 * (len(batches) - 1 - expired_batches)
    files = CountingFiles()
    at_once = ReadSizes(entries_at_once, bytes_at_once, sparse_size)
    seen = read_back(partition, count_max, timestamp_min, files, at_once)
    expected = [id for id, at in stored[-count_max:] if at >= timestamp_min]
    assert len(seen) == len(expected)
    assert known(seen, [id for id, _ in stored]) == expected
    assert files.read_size_max <= max(bytes_at_once, 16 * entries_at_once)
    partition.open_files.close()


def test_of_large_messages_only_the_headers_are_read(tmp_path: Path) -> None:
    partition = Partition(tmp_path)
    append(partition, list(range(1, 41)), [200_000] * 40)
    files = CountingFiles()
    seen = read_back(partition, 40, 0, files)
    assert len(seen) == 40
    assert files.read_bytes == 40 * (64 + 16)


def test_of_expired_messages_only_the_index_is_read(tmp_path: Path) -> None:
    partition = Partition(tmp_path)
    append(partition, list(range(1, 101)), [100] * 100)
    partition.now_us += 10
    append(partition, [200], [100])
    files = CountingFiles()
    seen = read_back(partition, 1000, partition.now_us, files)
    assert known(seen, [1, 100, 200]) == [200]
    assert files.read_bytes == 101 * 16 + 64


def test_a_segment_that_is_gone_is_passed_over(tmp_path: Path) -> None:
    partition = Partition(tmp_path, segment_size_max=512)
    for number in range(1, 11):
        append(partition, [number], [300])
    tails = partition.log.tail(10)
    assert len(tails) > 2
    deleted = partition.log.sealed[0].message_count
    partition.delete_oldest(1)
    seen = SeenIds(ENTRIES_MAX, 0, 1)
    remember_tail(seen, partition.directory, tails, 0, Files())
    assert known(seen, list(range(1, 11))) == list(range(1 + deleted, 11))


@pytest.mark.parametrize("entry", [b"\xff" * 16, bytes(16)])
@pytest.mark.parametrize("number", range(5))
def test_a_damaged_index_costs_ids_and_nothing_else(
    tmp_path: Path, entry: bytes, number: int
) -> None:
    partition = Partition(tmp_path)
    append(partition, [1, 2, 3, 4, 5], [100] * 5)
    with Path(partition.directory, f"{0:020d}.index").open("r+b") as file:
        file.seek(16 * number)
        file.write(entry)
    files = CountingFiles()
    for timestamp_min in (0, partition.now_us):
        seen = read_back(partition, 5, timestamp_min, files)
        assert len(seen) <= 5
    assert files.read_size_max <= READ_SIZES.log_bytes


def test_an_index_that_got_shorter(tmp_path: Path) -> None:
    partition = Partition(tmp_path)
    append(partition, [1, 2, 3], [100] * 3)
    with Path(partition.directory, f"{0:020d}.index").open("r+b") as file:
        file.truncate(20)
    assert known(read_back(partition, 3), [1, 2, 3]) == [1]
    assert known(read_back(partition, 1), [1, 2, 3]) == []


def test_encrypted_segments_begin_with_a_header(tmp_path: Path) -> None:
    partition = encrypted_partition(tmp_path, segment_size_max=512)
    ids = list(range(1, 31))
    for id in ids:
        append(partition, [id], [100])
    assert partition.log.written.segment_count > 3
    assert known(read_back(partition, 100), ids) == ids
    partition.reopen()
    assert known(read_back(partition, 100), ids) == ids


def test_ids_in_compressed_segments_are_known_as_well(tmp_path: Path) -> None:
    partition = Partition(tmp_path, segment_size_max=300)
    ids = list(range(1, 31))
    for id in ids:
        append(partition, [id], [20])
    partition.compress(Codec.LZ4)
    assert not partition.log_file(0).exists()
    assert known(read_back(partition, ENTRIES_MAX), ids) == ids
    assert known(read_back(partition, 17), ids) == ids[-17:]
