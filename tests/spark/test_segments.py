"""Sealed segments from disk: which files are read, and that rows are the broker's in any case."""

import shutil
from collections.abc import Iterator
from functools import partial
from itertools import pairwise
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from borzoi.client import BorzoiClient, new_message
from borzoi.protocol.batch import INDEX_ENTRY_SIZE, sent_index
from borzoi.spark import segments
from borzoi.spark.columns import HEADERS, NULLABLE, TYPES, Column
from borzoi.spark.failures import DataLoss, SegmentsUnusable
from borzoi.spark.option_table import read_options
from borzoi.spark.polling import Polling, Run, row_of
from borzoi.spark.positions import Range, StreamIds
from borzoi.spark.rows import RangeTask, RowReading
from borzoi.spark.segments import NotReadable, OtherRows, Piece, file_runs, pieces_of
from tests.broker import wait_for
from tests.spark.conftest import STREAM, SparkBroker

ROWS = 300
COLUMNS = [Column(name, name in NULLABLE) for name in (*TYPES, HEADERS)]
FORMS = (("log", "index"), ("log",), ("index",), ("log.zst", "index"), ("log", "log.lz4", "index"))


def names_of(forms: dict[int, tuple[str, ...]]) -> list[str]:
    names = [f"{first:020}.{suffix}" for first, form in forms.items() for suffix in form]
    return [*names, "birth", "recovery-point", "offsets"]


@given(
    forms=st.dictionaries(st.integers(0, 60), st.sampled_from(FORMS), max_size=8),
    begin=st.integers(0, 70),
    rows=st.integers(0, 40),
)
def test_pieces_cover_the_range_and_only_sealed_plain_files_are_read(
    forms: dict[int, tuple[str, ...]], begin: int, rows: int
) -> None:
    pieces = pieces_of(names_of(forms), begin, begin + rows)
    covered = [offset for one in pieces for offset in range(one.begin, one.end)]
    assert covered == list(range(begin, begin + rows))
    assert all(one.begin < one.end for one in pieces)
    assert not any(a.segment is None and b.segment is None for a, b in pairwise(pieces))
    firsts = sorted(forms)
    for offset in covered:
        (piece,) = [one for one in pieces if one.begin <= offset < one.end]
        before = [first for first in firsts if first <= offset]
        is_sealed = bool(before) and before[-1] != firsts[-1]
        is_plain = bool(before) and {"log", "index"} <= set(forms[before[-1]])
        assert piece.segment == (before[-1] if is_sealed and is_plain else None)


@pytest.fixture(scope="module")
def topic(rolling: SparkBroker) -> str:
    name = rolling.topic(1)
    for first in range(0, ROWS, 10):
        varied = [
            new_message(bytes([first % 256]) * (first + at + 1), headers={"n": first})
            for at in range(9)
        ]
        rolling.send(name, 0, *varied, b"x" * 80)
    return name


class Rows:
    """Reads of one topic, through the broker and from its files."""

    def __init__(self, broker: SparkBroker, topic: str, data: Path) -> None:
        self._broker, self._topic, self._data = broker, topic, data

        async def ids(client: BorzoiClient) -> StreamIds:
            stream = await client.get_stream(STREAM)
            assert stream is not None
            topics = {one.name: one.id for one in stream.topics}
            return StreamIds(STREAM, stream.stream.id, topics)

        self.ids = broker.call(ids)
        self.directory = (
            data / f"streams/{self.ids.id}/topics/{self.ids.topics[topic]}/partitions/0"
        )

    def sealed(self) -> list[int]:
        return sorted(int(path.stem) for path in self.directory.glob("*.log"))[:-1]

    def read(self, begin: int, end: int, **more: str) -> pa.Table:
        raw = {**self._broker.options, "topic": self._topic, "includeHeaders": "true", **more}
        reading = RowReading.of(read_options(raw, streaming=False), COLUMNS)
        task = RangeTask(self.ids, [Range(self._topic, 0, begin, end)])
        return pa.Table.from_batches(reading.rows(task))

    def from_disk(self, begin: int, end: int, **more: str) -> pa.Table:
        options = {"transport": "segments", "dataDir": str(self._data), **more}
        return self.read(begin, end, **options)


@pytest.fixture
def rows(rolling: SparkBroker, topic: str) -> Rows:
    return Rows(rolling, topic, rolling.process.data)


@pytest.fixture
def copied(rolling: SparkBroker, topic: str, tmp_path: Path) -> Rows:
    """The same, from a copy of the files that a test may spoil."""
    shutil.copytree(rolling.process.data / "streams", tmp_path / "data" / "streams")
    return Rows(rolling, topic, tmp_path / "data")


@pytest.fixture
def from_files(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The offsets that came from files, so that a fall-back cannot pass for success."""
    found: list[int] = []
    original = segments.file_runs

    def noted(directory: str, piece: Piece, first_row: bytes | None, **sizes: int) -> Iterator[Run]:
        for run in original(directory, piece, first_row, **sizes):
            found.extend(range(run.first_offset, run.first_offset + run.message_count))
            yield run

    monkeypatch.setattr(segments, "file_runs", noted)
    return found


def test_both_ways_give_the_same_rows(rows: Rows, from_files: list[int]) -> None:
    firsts = rows.sealed()
    assert len(firsts) >= 4, "segments have to roll for this test"
    sealed_end = sorted(int(path.stem) for path in rows.directory.glob("*.log"))[-1]
    bounds = {0, 1, firsts[1] - 1, firsts[1], firsts[2] + 1, sealed_end, ROWS - 1, ROWS}
    for begin in sorted(bounds):
        for end in sorted(one for one in bounds if one > begin):
            from_files.clear()
            assert rows.from_disk(begin, end).equals(rows.read(begin, end)), (begin, end)
            assert from_files == list(range(begin, min(end, sealed_end)))


def test_large_segments_are_read_piece_by_piece(
    rows: Rows, from_files: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    small = partial(segments.file_runs, rows_at_once=3, run_size=400)
    monkeypatch.setattr(segments, "file_runs", small)
    assert rows.from_disk(0, ROWS).equals(rows.read(0, ROWS))
    assert from_files


@pytest.mark.parametrize("spoil", ["flip", "cut", "cut-index", "index", "encrypted", "gone"])
def test_what_cannot_be_read_from_a_file_comes_from_the_broker(
    copied: Rows, from_files: list[int], caplog: pytest.LogCaptureFixture, spoil: str
) -> None:
    first = copied.sealed()[2]
    following = copied.sealed()[3]
    log = copied.directory / f"{first:020}.log"
    index = log.with_suffix(".index")
    data = bytearray(log.read_bytes())
    match spoil:
        case "flip":
            data[-1] ^= 1
            log.write_bytes(data)
        case "cut":
            log.write_bytes(data[:-1])
        case "cut-index":
            index.write_bytes(index.read_bytes()[:-1])
        case "index":
            entries = index.read_bytes()
            swapped = entries[INDEX_ENTRY_SIZE : 2 * INDEX_ENTRY_SIZE] + entries[:INDEX_ENTRY_SIZE]
            index.write_bytes(swapped + entries[2 * INDEX_ENTRY_SIZE :])
        case "encrypted":
            log.write_bytes(b"BZAESGC1" + bytes(range(120)) + data)
        case _:
            log.unlink()
    assert copied.from_disk(0, ROWS).equals(copied.read(0, ROWS))
    assert not {following - 1} & set(from_files), "the spoilt part was read"
    assert {first - 1, following} <= set(from_files), "its neighbours were not"
    if spoil != "gone":  # which is as if it were compressed
        assert "the broker is asked" in caplog.text


def test_compressed_segments_come_from_the_broker(
    rolling: SparkBroker, from_files: list[int]
) -> None:
    async def make(client: BorzoiClient) -> None:
        await client.create_topic(STREAM, "packed", compression_algorithm=2)

    rolling.call(make)
    for _ in range(20):
        rolling.send("packed", 0, *(b"x" * 80 for _ in range(10)))
    rows = Rows(rolling, "packed", rolling.process.data)
    wait_for(lambda: len(list(rows.directory.glob("*.log"))) == 1, 30)
    assert len(list(rows.directory.glob("*.log.*"))) >= 2
    assert rows.from_disk(0, 200).equals(rows.read(0, 200))
    assert from_files == []


def test_the_broker_is_asked_for_one_row(rows: Rows, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []

    def noted(polling: Polling, wanted: Range) -> bytes | None:
        asked.append(wanted.begin)
        return row_of(polling, wanted)

    monkeypatch.setattr(segments, "row_of", noted)
    begin, end = rows.sealed()[1] + 1, rows.sealed()[3]
    assert rows.from_disk(begin, end).equals(rows.read(begin, end))
    assert asked == [begin]


def file_runs_of(rows: Rows, piece: Piece, **sizes: int) -> Iterator[Run]:
    """Of a piece that begins with its file; the broker's row is the one in the file."""
    data = (rows.directory / f"{piece.segment:020}.log").read_bytes()
    end = int.from_bytes(sent_index(memoryview(data), 1)[4:8], "little")
    return file_runs(str(rows.directory), piece, data[:end], **sizes)


def test_a_file_that_is_deleted_before_it_is_open(copied: Rows) -> None:
    first, following = copied.sealed()[:2]
    runs = file_runs_of(copied, Piece(first, following, first))
    (copied.directory / f"{first:020}.log").unlink()
    with pytest.raises(NotReadable, match="No such file"):
        next(runs)


def test_an_open_file_stays_readable(copied: Rows) -> None:
    first, following = copied.sealed()[:2]
    runs = file_runs_of(copied, Piece(first, following, first), run_size=100)
    count = next(runs).message_count
    (copied.directory / f"{first:020}.log").unlink()
    assert count + sum(run.message_count for run in runs) == following - first


def test_another_brokers_directory_is_an_error_or_passed_over(
    copied: Rows, rolling: SparkBroker, caplog: pytest.LogCaptureFixture
) -> None:
    other = rolling.topic(1)
    for _ in range(ROWS // 10):
        rolling.send(other, 0, *(b"other" * 10 for _ in range(10)))
    mine = Rows(rolling, other, rolling.process.data)
    shutil.rmtree(copied.directory)
    shutil.copytree(mine.directory, copied.directory)
    with pytest.raises(SegmentsUnusable, match=r"is not of this broker: .* another row 0"):
        copied.from_disk(0, ROWS)
    assert copied.from_disk(0, ROWS, transport="auto").equals(copied.read(0, ROWS))
    assert "IGGY_SEGMENTS_UNUSABLE" in caplog.text
    with pytest.raises(OtherRows):
        list(file_runs(str(copied.directory), Piece(0, 1, 0), b"a row"))


def test_a_directory_that_is_not_here(rows: Rows, tmp_path: Path) -> None:
    nowhere = str(tmp_path / "nowhere")
    with pytest.raises(SegmentsUnusable, match="dataDir is no data directory"):
        rows.from_disk(0, ROWS, dataDir=nowhere)
    there = rows.from_disk(0, ROWS, dataDir=nowhere, transport="auto")
    assert there.equals(rows.read(0, ROWS))


def test_rows_that_retention_deleted_are_lost_on_this_way_too(rolling: SparkBroker) -> None:
    topic = rolling.topic(1)
    for _ in range(20):
        rolling.send(topic, 0, *(b"x" * 80 for _ in range(10)))
    rows = Rows(rolling, topic, rolling.process.data)

    async def delete(client: BorzoiClient) -> None:
        await client.delete_segments(STREAM, topic, 0, 2)

    before = rows.sealed()
    rolling.call(delete)
    assert rows.sealed()[0] > before[0]
    with pytest.raises(DataLoss, match=r"cannot be read: the partition does not hold them"):
        rows.from_disk(0, 200)
    left = rows.from_disk(0, 200, failOnDataLoss="false")
    assert left.column("offset").to_pylist() == list(range(rows.sealed()[0], 200))
