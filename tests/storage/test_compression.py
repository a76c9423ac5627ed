"""Compressed segments: the same messages in fewer bytes, whatever happens to the files."""

import random
import shutil
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from borzoi.protocol.errors import BrokerError, InvalidMessageChecksum
from borzoi.storage.block_index import BLOCK_SIZE, FOOTER, read_block_index
from borzoi.storage.codecs import Codec
from borzoi.storage.compressor import CompressionStopped, compress_segment
from borzoi.storage.copy_memory import CopyMemory
from borzoi.storage.files import Files, FileStatus
from borzoi.storage.files import Path as FilePath
from borzoi.storage.layout import COMPRESSED, compressing_path, stored_log_path
from borzoi.storage.outcome import Doubt, Packed, Slices
from borzoi.storage.plain_blocks import PlainBlocks
from borzoi.storage.reader import TRIES_MAX, PartitionReader
from borzoi.storage.sealed_blocks import SegmentStays
from borzoi.storage.segment import Compressed
from tests.storage.crash_states import Crash, after_every_crash
from tests.storage.faults import ERRORS, FailingFiles
from tests.storage.partitions import ALL, NOW_US, Partition, overwrite, payloads_in
from tests.storage.test_crash_states import Run, check

PAYLOADS = [b'{"order": %d, "state": "new"}' % number for number in range(12)]


def two_segments(root: Path, *, codec: Codec = Codec.ZSTD, files: Files | None = None) -> Partition:
    """Six messages in three blocks of a compressed segment, and six in the plain active one."""
    partition = Partition(root, files=files)
    for number, payload in enumerate(PAYLOADS):
        partition.now_us = NOW_US + number
        partition.append(payload)
        if number == 5:
            partition.log.roll()
    assert partition.compress(codec) == 1
    return partition


def compressed_file(partition: Partition, codec: Codec = Codec.ZSTD) -> Path:
    return Path(stored_log_path(partition.directory, 0, codec))


@pytest.mark.parametrize("codec", COMPRESSED)
def test_a_compressed_segment_is_read_like_a_plain_one(tmp_path: Path, codec: Codec) -> None:
    partition = two_segments(tmp_path, codec=codec)
    assert not partition.log_file(0).exists()
    assert compressed_file(partition, codec).name == f"{0:020d}.log.{codec.label}"
    sizes = partition.log.written.size_bytes
    for _ in range(2):
        assert partition.log.written.size_bytes == sizes, "sizes are those of the messages"
        assert partition.read() == PAYLOADS
        for offset in range(12):
            assert partition.read(offset, 3) == PAYLOADS[offset : offset + 3]
            found = partition.reader.find_timestamp(partition.log.written, NOW_US + offset)
            assert found == offset
        stored = compressed_file(partition, codec).stat().st_size
        assert partition.log.sealed[0].compressed == Compressed(codec, stored)
        assert partition.reopen() == []


@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_reads_are_those_of_a_plain_twin(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    payloads = data.draw(st.lists(st.binary(min_size=1, max_size=300), min_size=4, max_size=20))
    root = tmp_path_factory.mktemp("twins")
    twins = [Partition(root / name, segment_size_max=500) for name in ("plain", "packed")]
    for number, payload in enumerate(payloads):
        for twin in twins:
            twin.now_us = NOW_US + number // 2
            twin.append(payload)
    plain, packed = twins
    packed.compress(
        data.draw(st.sampled_from(COMPRESSED)), block_size=data.draw(st.integers(1, 600))
    )
    if data.draw(st.booleans()):
        assert packed.reopen() == []
    for _ in range(10):
        offset, count = data.draw(st.integers(0, len(payloads))), data.draw(st.integers(1, 20))
        bytes_max = data.draw(st.integers(0, 3000))
        assert packed.read(offset, count, bytes_max) == plain.read(offset, count, bytes_max)
        time = NOW_US + data.draw(st.integers(-1, len(payloads)))
        published = [twin.log.written for twin in twins]
        assert packed.reader.find_timestamp(published[1], time) == plain.reader.find_timestamp(
            published[0], time
        )
    shutil.rmtree(root)


# Damage.


@pytest.mark.slow
def test_every_bit_of_a_compressed_segment(tmp_path: Path) -> None:
    """A flip costs the messages of the block it is in, and no others. One bit of every byte."""
    partition = two_segments(tmp_path)
    path = compressed_file(partition)
    whole = path.read_bytes()
    lost: Counter[int] = Counter()
    for bit in range(0, len(whole) * 8, 7):
        data = bytearray(whole)
        data[bit // 8] ^= 1 << bit % 8
        overwrite(path, bytes(data))
        report = partition.reopen()
        found = {}
        for offset in range(12):
            try:
                slices = partition.read_slices(offset, 1)
            except InvalidMessageChecksum:
                continue
            assert slices.first_offset == offset
            found[offset] = payloads_in(slices)[0]
        assert found == {offset: PAYLOADS[offset] for offset in found}
        lost[12 - len(found)] += 1
        if bit // 8 >= len(whole) - FOOTER.size:
            assert any("block index" in line for line in report)
            assert len(found) == 12
    assert set(lost) == {0, 2}
    assert lost[2] > lost[0] / 2


def test_a_run_ends_before_a_damaged_block_and_goes_on_behind_it(tmp_path: Path) -> None:
    partition = two_segments(tmp_path)
    path = compressed_file(partition)
    data = bytearray(path.read_bytes())
    # Three blocks of two messages: hit the second.
    places = read_block_index(lambda size, at: bytes(data[at : at + size]), len(data), 0)
    data[places.place(1).file_start + 30] ^= 0x40
    overwrite(path, bytes(data))
    for reopened in (False, True):
        if reopened:
            assert partition.reopen() == []
        else:
            partition.reader = partition.new_reader()
        assert partition.read(0, 12) == PAYLOADS[:2]
        for offset in (2, 3):
            with pytest.raises(InvalidMessageChecksum):
                partition.read(offset, 12)
        found = partition.reader.attempt(partition.log.written, 3, 12, ALL, may_wait=True)
        assert isinstance(found, Doubt)
        assert found.segment == 0
        assert partition.read(4, 12) == PAYLOADS[4:]
        # The index is right, as its checksum says, although two messages cannot be seen.
        entries, lines = partition.log.segments.check_index(0)
        assert entries is None
        assert any("offsets 2 to 3" in line for line in lines)


def test_a_lost_index_is_made_again_from_the_blocks(tmp_path: Path) -> None:
    partition = two_segments(tmp_path)
    path = partition.index_file(0)
    whole = path.read_bytes()
    path.unlink()
    report = partition.reopen()
    assert any("index rebuilt" in line for line in report)
    assert path.read_bytes() == whole
    assert partition.read() == PAYLOADS
    overwrite(path, whole[:40] + b"\xff" + whole[41:])
    partition.reader = partition.new_reader()
    assert partition.repair_index(0)
    assert path.read_bytes() == whole


def test_what_does_not_verify_is_not_compressed(tmp_path: Path) -> None:
    partition = Partition(tmp_path)
    partition.append(*PAYLOADS)
    partition.log.roll()
    partition.log.sync()
    [segment] = partition.log.segments.compressible(partition.log.written)

    def compress(is_stopped: bool = False) -> int:
        return compress_segment(
            partition.directory, segment, Codec.LZ4, Files(), lambda: is_stopped, saved_min=-9
        )

    for path in (partition.log_file(0), partition.index_file(0)):
        whole = path.read_bytes()
        for damaged in (whole[:-1], whole[:150], whole[:100] + b"\xff" + whole[101:]):
            overwrite(path, damaged)
            with pytest.raises(SegmentStays):
                compress()
        overwrite(path, whole)
    with pytest.raises(CompressionStopped):
        compress(is_stopped=True)
    assert not list(Path(partition.directory).glob("*.lz4*"))
    assert compress() == Path(compressing_path(partition.directory, 0, Codec.LZ4)).stat().st_size


def test_what_hardly_shrinks_stays_plain(tmp_path: Path) -> None:
    partition = Partition(tmp_path)
    partition.append(*(bytes([number]) * 3000 for number in range(3)))
    partition.log.roll()
    partition.append(*(random.Random(number).randbytes(100_000) for number in range(3)))
    partition.log.roll()
    partition.log.sync()
    small, noise = partition.log.segments.compressible(partition.log.written)
    assert compress_segment(partition.directory, small, Codec.ZSTD, Files(), lambda: False) < 1000
    with pytest.raises(SegmentStays, match="would still be"):
        compress_segment(partition.directory, noise, Codec.ZSTD, Files(), lambda: False)


def test_a_message_larger_than_a_block_has_one_of_its_own(tmp_path: Path) -> None:
    partition = Partition(tmp_path)
    payloads = [b"small", b"large" * BLOCK_SIZE, b"medium" * 1000, b"z"]
    partition.append(*payloads)
    partition.log.roll()
    partition.compress(Codec.ZSTD, block_size=BLOCK_SIZE)
    assert partition.read() == payloads
    assert partition.reopen() == []
    assert partition.read(1) == payloads[1:]


# Without waiting.


def read_without_waiting(partition: Partition, offset: int, count: int) -> tuple[Slices, int]:
    """What the loop does: the slices, and how often something had to be loaded."""
    held: list[object] = []
    for loads in range(10):
        found = partition.reader.attempt(partition.log.written, offset, count, ALL, may_wait=False)
        if isinstance(found, Slices):
            return found, loads
        assert isinstance(found, Packed)
        for missing in found.missing:
            missing.load()
            held.append(missing.take_in())
    raise AssertionError("it never ends")


def test_the_loop_learns_what_to_load_once_for_all_segments(tmp_path: Path) -> None:
    partition = Partition(tmp_path, segment_size_max=150)
    for payload in PAYLOADS:
        partition.append(payload)
    assert partition.compress(Codec.ZSTD) > 2
    slices, loads = read_without_waiting(partition, 0, 12)
    assert (payloads_in(slices), loads) == (PAYLOADS, 1)
    slices, loads = read_without_waiting(partition, 0, 12)
    assert (payloads_in(slices), loads) == (PAYLOADS, 0)
    partition.reopen()
    held = []
    for offset in range(12):
        while True:
            found = partition.reader.attempt_timestamp(
                partition.log.written, NOW_US + 1, may_wait=False
            )
            if isinstance(found, Packed):
                held += [missing.load_now() for missing in found.missing]
            else:
                assert found == 12, offset
                break
    assert len(held) == 1


def test_one_read_takes_a_quarter_of_the_memory(tmp_path: Path) -> None:
    partition = Partition(tmp_path)
    payloads = [b"%d" % number * 1000 for number in range(40)]
    partition.append(*payloads)
    partition.log.roll()
    partition.compress(Codec.ZSTD, block_size=4096)
    memory = CopyMemory(32 * 1064)
    partition.reader = PartitionReader(
        partition.directory, partition.new_windows(), Files(), blocks=PlainBlocks(memory)
    )
    assert len(partition.read()) == 8
    slices = partition.reader.attempt(
        partition.log.written, 0, 20, ALL, may_wait=True, copied_max=ALL
    )
    assert isinstance(slices, Slices)
    assert slices.message_count == 20, "what was promised is sent"
    del slices
    assert memory.size <= 8 * 1064


def test_old_slices_stay_valid_and_readers_look_again(tmp_path: Path) -> None:
    partition = Partition(tmp_path)
    partition.append(*PAYLOADS)
    partition.log.roll()
    before = partition.read_slices(0)
    informed, uninformed = partition.new_reader(), partition.reader
    published = partition.log.written
    assert payloads_in(informed.read(published, 0, ALL, ALL)) == PAYLOADS
    partition.compress(Codec.ZSTD)
    informed.replaced(0)
    assert payloads_in(before) == PAYLOADS
    assert payloads_in(informed.read(published, 3, ALL, ALL)) == PAYLOADS[3:]
    assert payloads_in(uninformed.read(published, 3, ALL, ALL)) == PAYLOADS[3:]
    uninformed.let_go()
    assert payloads_in(uninformed.read(published, 3, ALL, ALL)) == PAYLOADS[3:]


def test_a_listing_that_misses_a_segment_skips_nothing(tmp_path: Path) -> None:
    """While a file gets another name, a look at its directory may find neither."""
    partition = Partition(tmp_path, segment_size_max=150)
    for payload in PAYLOADS:
        partition.append(payload)
    partition.compress(Codec.ZSTD)
    segments = [segment.first_offset for segment in partition.log.sealed]

    class Between(Files):
        def __init__(self, missing: int) -> None:
            self.missing = missing

        def listdir(self, path: FilePath) -> list[str]:
            hidden, self.missing = self.missing, -1
            return [name for name in super().listdir(path) if not name.startswith(f"{hidden:020d}")]

    for missing in segments:
        reader = PartitionReader(
            partition.directory, partition.new_windows(), Between(missing),
            newest=lambda: partition.log.written,
        )  # fmt: skip
        # As if its owner had been asked before, who knew of nothing missing.
        for segment in segments:
            reader.accept(segment)
        found: list[bytes] = []
        while len(found) < 12:
            slices = reader.read(partition.log.written, len(found), ALL, ALL)
            assert slices.first_offset == len(found)
            found += payloads_in(slices)
        assert found == PAYLOADS


def test_any_number_of_segments_may_be_swapped_during_one_read(tmp_path: Path) -> None:
    """One after the other, each when the reader has listed it and not opened it yet."""
    partition = Partition(tmp_path, segment_size_max=1)
    for payload in PAYLOADS:
        partition.append(payload)
    partition.log.sync()
    assert len(partition.log.segments.compressible(partition.log.written)) > TRIES_MAX
    swapped: list[str] = []

    class Swapping(Files):
        def status_of(self, path: FilePath) -> FileStatus:
            if str(path).endswith(".log") and str(path) not in swapped:
                swapped.append(str(path))
                partition.compress(Codec.ZSTD, only=int(Path(path).stem))
            return super().status_of(path)

    reader = PartitionReader(
        partition.directory, partition.new_windows(), Swapping(),
        newest=lambda: partition.log.written,
    )  # fmt: skip
    assert payloads_in(reader.read(partition.log.written, 0, ALL, ALL)) == PAYLOADS
    assert len(swapped) > TRIES_MAX


# Crashes.


@pytest.mark.slow
def test_every_moment_of_a_compression_can_be_recovered(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    run = Run(tmp_path / "run")
    run.append(1, 1, 1, 1)
    run.append(2, 2, 1)
    run.sync()
    begun_at = len(run.files.calls)
    assert run.partition.compress(Codec.ZSTD) == 2
    compressed_at = len(run.files.calls)
    run.delete(1)
    run.append(1)
    kinds: Counter[str] = Counter()

    def look(crash: Crash) -> None:
        target = crash.target
        check(run, target, run.promised_at(crash.number), killed=crash.state == "killed")
        kinds[found_kind(target)] += 1
        again = Partition(target, segment_size_max=150)
        again.reopen()
        # What was not finished is done now, and nothing of the first try is left.
        again.compress(Codec.ZSTD)
        assert found_kind(target) in ("compressed", "one segment")
        assert not list(target.rglob("*.tmp"))
        again.open_files.close()

    after_every_crash(tmp_path / "run", run.files.calls, begun_at, look)
    assert compressed_at > begun_at
    assert set(kinds) >= {"plain", "mixed", "compressed"}


def found_kind(root: Path) -> str:
    """How the sealed segments lie there; never twice."""
    plain = sorted(int(path.stem) for path in root.rglob("partitions/0/*.log"))
    packed = sorted(int(path.name[:20]) for path in root.rglob("partitions/0/*.log.zstd"))
    assert not set(plain) & set(packed)
    if len(plain) + len(packed) == 1:
        return "one segment"
    return "plain" if not packed else "compressed" if len(plain) == 1 else "mixed"


@pytest.mark.parametrize("fault", ERRORS)
def test_a_disk_that_refuses_leaves_the_plain_segment(tmp_path: Path, fault: int) -> None:
    files = FailingFiles()
    partition = Partition(tmp_path, files=files)
    partition.append(*PAYLOADS)
    partition.log.roll()
    partition.log.sync()
    calls = 0
    while True:
        files.fail_nth(calls, fault)
        try:
            partition.compress(Codec.ZSTD)
        except OSError:
            files.repair()
            assert partition.read() == PAYLOADS
            assert partition.reopen(files=files) == []
            assert partition.read() == PAYLOADS
            partition.log.sync()
            calls += 1
            if partition.log.sealed[0].compressed is not None:
                break  # only the unlinking and the last sync are left
        else:
            break
    files.repair()
    assert calls > 5
    assert partition.read() == PAYLOADS


def test_a_compressed_segment_without_a_successor_is_whole(tmp_path: Path) -> None:
    """The name of the active segment is lost, and what was in it."""
    partition = two_segments(tmp_path)
    for path in (partition.log_file(6), partition.index_file(6)):
        path.unlink()
    partition.reopen()
    assert partition.read() == PAYLOADS[:6]
    assert partition.append(b"next") == 6
    assert partition.reopen() == []
    assert partition.read() == [*PAYLOADS[:6], b"next"]


def test_a_file_that_is_nothing_at_all_costs_its_segment_only(tmp_path: Path) -> None:
    partition = two_segments(tmp_path)
    overwrite(compressed_file(partition), b"nothing")
    report = partition.reopen()
    assert any("DAMAGED" in line for line in report)
    assert partition.log.written.next_offset == 12
    with pytest.raises(BrokerError):
        partition.reader.read(partition.log.written, 0, 1, ALL)
    assert partition.read(6) == PAYLOADS[6:]
