"""Compressing at the owner: the order of its steps, and what else may happen between them."""

import errno
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from borzoi.router.target import Target
from borzoi.shards.metadata.effects import Effects, RunPurged
from borzoi.shards.metadata.state import Run, Topic
from borzoi.shards.partitions.durability import Durability
from borzoi.shards.partitions.partition import OwnedPartition
from borzoi.shards.reading.warm_reads import ROOM_INTERVAL_S, WarmReads
from borzoi.shards.settings.schema import Compression
from borzoi.shards.upkeep import compression as compressing
from borzoi.shards.upkeep.compression import (
    LOOK_AGAIN_S,
    LOOKS_PER_TURN,
    Compressing,
    CompressingStats,
    InForce,
    ignored,
    in_force,
    ratio_of,
)
from borzoi.shards.upkeep.compression_backlog import LAG_S
from borzoi.storage.codecs import Codec
from borzoi.storage.compressor import compress_segment
from borzoi.storage.outcome import Slices
from borzoi.storage.ratio import Ratio
from borzoi.storage.segment import Compressed, SealedSegment
from tests.shards.hand_loop import HandExecutor
from tests.shards.lifecycle.test_deleting import run_disk, send
from tests.shards.owner import COPIED_SIZE_MAX, RESPONSE_SIZE_MAX, TARGET, Owner, Statuses

PAYLOADS = [b"%d " % number * 500 for number in range(7)]
EVERYTHING = InForce(Codec.ZSTD, 0)
STEPS = 3  # compress, sync of the directory, unlink


class Packer:
    """An owner with segments 0, 2 and 4 sealed and 6 active, and their compression."""

    def __init__(self, root: Path) -> None:
        self.owner = Owner(root, Durability.WRITTEN, segment_size_max=1)
        self.thread = HandExecutor()
        self.replaced: list[int] = []
        self.wanted: InForce | None = EVERYTHING
        owner = self.owner
        self.compressing = Compressing(
            owner.loop.as_loop,
            self.thread,
            owner.files,
            owner.layout.trash,
            lambda: list(owner.partitions),
            lambda _target: self.wanted,
            self._tell,
        )
        owner.commit.on_sealed = self.compressing.sealed
        owner.repairing.on_repaired = self.compressing.repaired

    def _tell(self, target: Target, segment: int) -> None:
        self.replaced.append(segment)
        self.owner.readers.replaced(target, segment)

    def fill(self) -> None:
        for payload in PAYLOADS:
            send(self.owner, payload)
        run_disk(self.owner)

    def step(self) -> None:
        """One piece of work of the thread, and what the loop makes of it."""
        self.thread.run_next()
        self.owner.loop.settle()

    def run(self) -> None:
        while self.thread.waiting:
            self.step()

    def files(self) -> list[str]:
        """What lies there of the segments, without indexes."""
        found = (path.name.lstrip("0") for path in Path(self.owner.directory).glob("*.log*"))
        return sorted(found)

    def trash(self) -> list[str]:
        return [path.name for path in Path(self.owner.layout.trash).iterdir()]


@pytest.fixture
def packer(tmp_path: Path) -> Iterator[Packer]:
    packer = Packer(tmp_path)
    packer.fill()
    yield packer
    packer.owner.close()


def test_sealed_segments_are_compressed_one_at_a_time(packer: Packer) -> None:
    assert len(packer.thread.waiting) == 1
    assert packer.files() == [".log", "2.log", "4.log", "6.log"]
    packer.step()
    assert packer.files() == [".log", ".log.zstd", "2.log", "4.log", "6.log"], "both are there"
    assert packer.replaced == []
    packer.step()
    assert packer.files() == [".log.zstd", "2.log", "4.log", "6.log"]
    assert packer.replaced == [0]
    assert len(packer.trash()) == 1
    assert packer.owner.visible() == PAYLOADS
    packer.run()
    assert packer.files() == [".log.zstd", "2.log.zstd", "4.log.zstd", "6.log"]
    assert packer.replaced == [0, 2, 4]
    assert packer.trash() == []
    assert packer.owner.visible() == PAYLOADS
    found = ratio_of(packer.owner.partition)
    assert found.segments == 3
    assert found.plain_bytes == sum(64 + len(payload) for payload in PAYLOADS[:6])
    stored = sum(path.stat().st_size for path in Path(packer.owner.directory).glob("*.zstd"))
    assert found.stored_bytes == stored
    assert found.saved_bytes == found.plain_bytes - stored > 0
    assert found.ratio > 3


def test_many_partitions_are_looked_at_in_turns(packer: Packer) -> None:
    looked: list[int] = []

    class Gone:
        target = TARGET

        @property
        def alive(self) -> bool:
            looked.append(1)
            return False

    many = cast("list[OwnedPartition]", [Gone() for _ in range(6 * LOOKS_PER_TURN)])
    loop = packer.owner.loop
    packer.run()
    compressing = Compressing(
        loop.as_loop, packer.thread, packer.owner.files, packer.owner.layout.trash,
        lambda: many, lambda _target: EVERYTHING, lambda _target, _segment: None,
    )  # fmt: skip
    compressing.start()
    compressing.sealed(many[0])
    assert LOOKS_PER_TURN <= len(looked) <= 3 * LOOKS_PER_TURN
    loop.settle()
    assert len(looked) >= 2 * len(many), "to find work, and to find out how much there is"
    assert not packer.thread.waiting


def test_the_active_and_the_unsynced_are_left_alone(tmp_path: Path) -> None:
    packer = Packer(tmp_path)
    for payload in PAYLOADS[:3]:
        send(packer.owner, payload)
    assert packer.owner.partition.log.sealed
    packer.compressing.start()
    assert not packer.thread.waiting
    run_disk(packer.owner)
    packer.run()
    assert packer.files() == [".log.zstd", "2.log"]
    packer.owner.close()


@pytest.mark.parametrize(
    "wanted", [None, InForce(Codec.NONE, 0), InForce(Codec.ZSTD, 1 << 62)], ids=str
)
def test_nothing_is_compressed_that_should_not_be(tmp_path: Path, wanted: InForce | None) -> None:
    packer = Packer(tmp_path)
    packer.wanted = wanted
    packer.fill()
    packer.compressing.start()
    assert not packer.thread.waiting
    packer.wanted = EVERYTHING
    packer.owner.loop.advance(LOOK_AGAIN_S)
    packer.run()
    assert packer.files() == [".log.zstd", "2.log.zstd", "4.log.zstd", "6.log"]
    packer.owner.close()


def purge(packer: Packer) -> None:
    new = Run(0, 1, TARGET.birth + 1, TARGET.slot, 0)
    old = Run(0, 1, TARGET.birth, TARGET.slot, 0)
    packer.owner.partitions.apply_effects(Effects(new.birth, purged=[RunPurged(0, 0, old, new)]))


def delete_oldest(packer: Packer) -> None:
    statuses = Statuses()
    packer.owner.deleting.delete_count(TARGET, 1, statuses.done)
    packer.owner.loop.settle()
    run_disk(packer.owner)
    assert statuses == [0]


@pytest.mark.parametrize("steps", range(STEPS + 1))
def test_a_purge_may_come_between_all_steps(packer: Packer, steps: int) -> None:
    for _ in range(steps):
        packer.step()
    purge(packer)
    packer.run()
    assert packer.files() == [".log"]
    assert not list(Path(packer.owner.directory).glob("*.tmp"))
    assert (Path(packer.owner.directory) / f"{0:020d}.log").stat().st_size == 0


@pytest.mark.parametrize("steps", range(STEPS + 1))
def test_a_deletion_may_come_between_all_steps(packer: Packer, steps: int) -> None:
    for _ in range(steps):
        packer.step()
    delete_oldest(packer)
    assert packer.owner.visible_from(2) == PAYLOADS[2:]
    packer.run()
    assert packer.files() == ["2.log.zstd", "4.log.zstd", "6.log"]
    assert packer.trash() == []
    assert packer.owner.visible_from(2) == PAYLOADS[2:]


@pytest.mark.parametrize("steps", range(STEPS + 1))
@pytest.mark.parametrize("board", [True, False], ids=["worker", "all"])
def test_a_death_may_come_between_all_steps(packer: Packer, steps: int, board: bool) -> None:
    for _ in range(steps):
        packer.step()
    if not board:
        packer.owner.forget_board()
    packer.owner.succeed()
    assert packer.owner.partition.log.recovery.report == []
    assert packer.owner.visible() == PAYLOADS
    count = 4 - packer.files().count(".log.zstd")
    assert [name for name in packer.files() if name.endswith("log")] == [
        ".log", "2.log", "4.log", "6.log",
    ][4 - count :]  # fmt: skip


@pytest.mark.parametrize("call", ["open", "write", "fsync", "fsync_directory", "rename"])
def test_a_disk_that_refuses_is_asked_again_later(
    packer: Packer, call: str, caplog: pytest.LogCaptureFixture
) -> None:
    packer.owner.files.fail(call, errno.ENOSPC)
    packer.run()
    assert "is not compressed" in caplog.text
    assert packer.owner.visible() == PAYLOADS
    packer.owner.files.repair()
    packer.compressing.start()
    packer.run()
    assert packer.owner.visible() == PAYLOADS
    assert packer.files() == [".log.zstd", "2.log.zstd", "4.log.zstd", "6.log"]
    assert packer.trash() == []


def test_a_segment_that_cannot_be_read_holds_up_no_other(
    packer: Packer, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    tried: list[int] = []

    def bad_sector(directory: str, segment: SealedSegment, *rest: Any, **options: Any) -> int:
        tried.append(segment.first_offset)
        if segment.first_offset == 0:
            raise OSError(errno.EIO, "a bad sector")
        return compress_segment(directory, segment, *rest, **options)

    with monkeypatch.context() as patch:
        patch.setattr(compressing, "compress_segment", bad_sector)
        packer.run()
        assert packer.files() == [".log", "2.log.zstd", "4.log.zstd", "6.log"]
        for _ in range(6):
            packer.owner.loop.advance(LOOK_AGAIN_S)
            packer.compressing.start()
            packer.run()
    assert tried.count(0) > 6, "again at each look"
    assert caplog.text.count("is not compressed") < 5
    packer.compressing.start()
    packer.run()
    assert packer.files() == [".log.zstd", "2.log.zstd", "4.log.zstd", "6.log"]


def test_what_finds_no_room_or_memory_lets_others_try(
    packer: Packer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One try of a partition at each look, of another segment: a smaller one may find room."""
    tried: list[int] = []
    errors = [OSError(errno.ENOSPC, "no room"), MemoryError(), OSError(errno.EMFILE, "no files")]

    def lacking(_directory: str, segment: SealedSegment, *_rest: Any, **_options: Any) -> int:
        tried.append(segment.first_offset)
        raise errors[len(tried) % len(errors)]

    with monkeypatch.context() as patch:
        patch.setattr(compressing, "compress_segment", lacking)
        packer.run()
        for _ in range(4):
            packer.compressing.start()
            packer.run()
    assert tried == [0, 2, 4, 0, 2]
    packer.compressing.start()
    packer.run()
    assert packer.files() == [".log.zstd", "2.log.zstd", "4.log.zstd", "6.log"]


def test_another_codec_after_a_failure_leaves_one_file(packer: Packer) -> None:
    packer.step()
    packer.owner.files.fail("fsync_directory", errno.EIO)
    packer.step()
    packer.owner.files.repair()
    packer.wanted = InForce(Codec.LZ4, 0)
    packer.compressing.start()
    packer.run()
    assert packer.files() == [".log.lz4", "2.log.lz4", "4.log.lz4", "6.log"]
    assert packer.trash() == []
    assert packer.owner.visible() == PAYLOADS


def test_a_repaired_index_gives_its_segment_another_chance(packer: Packer) -> None:
    index = Path(packer.owner.directory) / f"{0:020d}.index"
    index.write_bytes(bytes(index.stat().st_size))
    packer.run()
    assert packer.files() == [".log", "2.log.zstd", "4.log.zstd", "6.log"]
    assert packer.compressing.stats() == CompressingStats(segments=2, left_plain=1)
    statuses = Statuses()
    packer.owner.repairing.check_index(TARGET, 0, statuses.done)
    run_disk(packer.owner)
    assert statuses == [0]
    packer.run()
    assert packer.files() == [".log.zstd", "2.log.zstd", "4.log.zstd", "6.log"]
    assert packer.compressing.stats() == CompressingStats(segments=3)


def test_lagging_behind_is_said_once_in_a_while(
    packer: Packer, caplog: pytest.LogCaptureFixture
) -> None:
    """The thread gets no time at all, as on a machine that is busy with something else."""
    packer.compressing.start()
    for _ in range(int(LAG_S / LOOK_AGAIN_S) - 1):
        packer.owner.loop.advance(LOOK_AGAIN_S)
        packer.owner.loop.settle()
    assert "lags behind" not in caplog.text
    for _ in range(10):
        packer.owner.loop.advance(LOOK_AGAIN_S)
        packer.owner.loop.settle()
    assert caplog.text.count("lags behind") == 1
    assert "stream 0, topic 0, partition 0 has 3 sealed segments" in caplog.text
    stats = packer.compressing.stats()
    assert (stats.waiting, stats.partitions) == (3, 1)
    assert stats.waited_s >= LAG_S
    packer.run()
    assert packer.compressing.stats() == CompressingStats(segments=3)


def test_what_cannot_be_compressed_is_said_once(
    packer: Packer, caplog: pytest.LogCaptureFixture
) -> None:
    path = Path(packer.owner.directory) / f"{2:020d}.log"
    data = bytearray(path.read_bytes())
    data[100] ^= 1
    path.write_bytes(data)
    packer.run()
    for _ in range(3):
        packer.owner.loop.advance(LOOK_AGAIN_S)
        packer.run()
    assert packer.files() == [".log.zstd", "2.log", "4.log.zstd", "6.log"]
    assert caplog.text.count("is not compressed") == 1


def test_what_follows_a_segment_that_lost_its_index_is_compressed(packer: Packer) -> None:
    (Path(packer.owner.directory) / f"{0:020d}.index").unlink()
    packer.run()
    assert packer.files() == [".log", "2.log.zstd", "4.log.zstd", "6.log"]


def test_a_fault_of_ours_costs_one_segment(
    packer: Packer, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(*_arguments: object, **_options: object) -> int:
        raise ZeroDivisionError("a fault")

    with monkeypatch.context() as patch:
        patch.setattr(compressing, "compress_segment", broken)
        packer.step()
    packer.run()
    assert packer.files() == [".log", "2.log.zstd", "4.log.zstd", "6.log"]
    assert "ZeroDivisionError: a fault" in caplog.text
    assert packer.owner.visible() == PAYLOADS


def test_a_stop_leaves_no_temporary(packer: Packer) -> None:
    packer.compressing.stop()
    packer.run()
    assert packer.files() == [".log", "2.log", "4.log", "6.log"]
    packer.compressing.sealed(packer.owner.partition)
    packer.owner.loop.advance(10 * LOOK_AGAIN_S)
    assert not packer.thread.waiting


def test_figures_are_logged(packer: Packer, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        packer.run()
    assert "segment 0 compressed with zstd" in caplog.text


# What a topic's segments are compressed with.


def topic_with(code: int, since: int = 0) -> Topic:
    return Topic(0, "t", 0, code, 0, 0, 1, compression_since=since)


@pytest.mark.parametrize("code", [1, 2, 3, 4])
def test_the_topic_chooses_only_if_it_may(code: int) -> None:
    server = Compression(allow_override=False, default_algorithm="lz4")
    assert in_force(server, topic_with(code, 5)) == InForce(Codec.LZ4, 0)
    chosen = Compression(allow_override=True, default_algorithm="lz4")
    assert in_force(chosen, topic_with(code, 5)) == InForce(Codec(code), 5)
    assert ignored(chosen, code) is None
    assert ignored(server, code) == (None if code in (Codec.NONE, Codec.LZ4) else Codec(code))


def test_ratios_add_up() -> None:
    one, other = Ratio(1, 1000, 100), Ratio(2, 500, 400)
    assert one.plus(other) == Ratio(3, 1500, 500)
    assert (one.plus(other).ratio, one.plus(other).saved_bytes) == (3.0, 1000)
    assert (Ratio().ratio, Ratio().saved_bytes) == (1.0, 0)
    assert Compressed(Codec.ZSTD, 1).codec.label == "zstd"


# Reading beside the loop.


def test_reads_wait_for_memory_and_are_served_in_turn(packer: Packer) -> None:
    packer.run()
    owner = packer.owner
    memory = owner.copy_memory
    reads = WarmReads(owner.loop.as_loop, owner.disk, owner.files, memory)
    memory.reading_for = "user 2"
    others = memory.take(COPIED_SIZE_MAX - 1000)
    served: list[tuple[int, list[bytes]]] = []

    def read(number: int) -> None:
        def ended(slices: object) -> None:
            assert isinstance(slices, Slices), slices
            served.append((number, [bytes(view) for view in slices.views]))

        reader = owner.readers.reader(TARGET)
        reads.read(reader, owner.published, number * 2, 2, RESPONSE_SIZE_MAX, ended, user=1)

    for number in range(3):
        read(number)
    owner.loop.advance(10 * ROOM_INTERVAL_S)
    assert not owner.disk.waiting
    assert served == []
    del others
    owner.loop.advance(ROOM_INTERVAL_S)
    run_disk(owner)
    assert [number for number, _ in served] == [0, 1, 2]
    assert all(PAYLOADS[2 * number] in b"".join(views) for number, views in served)
    assert memory.size <= COPIED_SIZE_MAX
    memory.reading_for = "user 2"
    assert memory.reserve(COPIED_SIZE_MAX // 2), "nothing stays reserved"
