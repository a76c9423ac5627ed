"""Archiving and restoring segments, with a store that fails at every step or lies."""

import shutil
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pytest

from borzoi.storage.archive.catalogue import archived_lives, archived_segments
from borzoi.storage.archive.copying import CopyingStopped, ObjectDamaged, always
from borzoi.storage.archive.manifest import Life, SegmentManifest, segment_key
from borzoi.storage.archive.restoring import finish_partition, restore_offsets, restore_segment
from borzoi.storage.archive.segments import SegmentGone, archive_segment
from borzoi.storage.archive.store import ObjectMissing, StoredObject, StoreFailed
from borzoi.storage.birth import read_birth
from borzoi.storage.files import Files
from borzoi.storage.offsets import ConsumerOffsets
from tests.storage.archive.stores import MemoryStore
from tests.storage.faults import FailingFiles
from tests.storage.partitions import BIRTH, Partition, payloads_in

LIFE = Life(0, 0, 0, BIRTH)


class GrowingStore(MemoryStore):
    """Each listing misses some segments."""

    def __init__(self) -> None:
        super().__init__()
        self.missed: list[set[int]] = []

    def list(self, prefix: str) -> Iterator[StoredObject]:
        missed = self.missed.pop(0) if self.missed else set()
        for one in super().list(prefix):
            key = segment_key(one.key)
            if key is None or key.first_offset not in missed:
                yield one


@pytest.fixture
def partition(tmp_path: Path) -> Iterator[Partition]:
    """Segments 0, 2 and 4 are sealed, 6 is active."""
    partition = Partition(tmp_path / "data", segment_size_max=1)
    for number in range(7):
        partition.append(b"payload %d" % number)
    partition.log.sync()
    assert [one.first_offset for one in partition.log.sealed] == [0, 2, 4]
    yield partition
    partition.open_files.close()


def archived_in(store: MemoryStore) -> set[int]:
    return archived_segments(store, LIFE, lambda _first_offset: True)


def archive(
    partition: Partition, store: MemoryStore, number: int, files: Files | None = None
) -> SegmentManifest:
    return archive_segment(
        store,
        LIFE,
        partition.directory,
        partition.log.sealed[number],
        files or Files(),
        123,
        always,
    )


def test_a_segment_counts_when_all_its_files_have_arrived(partition: Partition) -> None:
    store = MemoryStore()
    manifest = archive(partition, store, 1)
    assert [record.name for record in manifest.files] == [f"{2:020d}.index", f"{2:020d}.log"]
    assert (manifest.first_offset, manifest.end_offset, manifest.birth) == (2, 4, BIRTH)
    for record in manifest.files:
        stored = store.objects[f"{LIFE.prefix}/{record.name}"]
        assert stored == Path(partition.directory, record.name).read_bytes()
    assert store.puts[-1].endswith(".json")
    assert archived_in(store) == {2}
    assert archived_segments(store, LIFE, lambda first_offset: first_offset != 2) == set()
    (life,) = archived_lives(store)
    assert (life.life, life.segments) == (LIFE, (2,))


def test_a_listing_that_missed_what_was_archived_meanwhile_shows_no_gap(
    partition: Partition,
) -> None:
    """Directories and buckets that grow while they are listed may show what came last only."""
    store = GrowingStore()
    for number in range(3):
        archive(partition, store, number)
    store.missed = [{2}, {4}]
    assert [life.segments for life in archived_lives(store)] == [(0, 2)]
    store.missed = [{0, 2, 4}, set()]
    assert archived_lives(store) == []
    assert [life.segments for life in archived_lives(store)] == [(0, 2, 4)]


@pytest.mark.parametrize("done_first", [False, True])
def test_cut_off_at_any_object_it_does_not_count_and_can_be_repeated(
    partition: Partition, done_first: bool
) -> None:
    store = MemoryStore()
    for number in range(3):
        store.fail_put(number, done_first=done_first)
        with pytest.raises(StoreFailed):
            archive(partition, store, 0)
        # Only the manifest itself makes it count; what it names is all there by then.
        assert archived_in(store) == ({0} if done_first and number == 2 else set())
    store.fail_put(99)
    archive(partition, store, 0)
    assert archived_in(store) == {0}


@pytest.mark.parametrize("suffix", [".log", ".index", ".json"])
def test_a_store_that_stores_something_else_is_caught(partition: Partition, suffix: str) -> None:
    store = MemoryStore()
    store.spoil = suffix
    with pytest.raises(StoreFailed, match="what was uploaded is not what is there"):
        archive(partition, store, 0)
    assert archived_in(store) == set()


def test_whatever_files_a_segment_has_are_taken(partition: Partition) -> None:
    store = MemoryStore()
    plain = Path(partition.directory, f"{0:020d}.log")
    plain.rename(f"{plain}.zstd")
    Path(f"{plain}.gzip.tmp").write_bytes(b"not finished")
    manifest = archive(partition, store, 0)
    assert [record.name for record in manifest.files] == [f"{0:020d}.index", f"{0:020d}.log.zstd"]


def test_what_is_gone_is_not_archived(partition: Partition) -> None:
    store = MemoryStore()
    segment = partition.log.sealed[0]
    partition.delete_oldest(1)
    with pytest.raises(SegmentGone):
        archive_segment(store, LIFE, partition.directory, segment, Files(), 1, always)
    # Another life has begun in the directory, with a segment of the same name.
    with pytest.raises(SegmentGone):
        archive_segment(
            store,
            LIFE._replace(birth=BIRTH + 1),
            partition.directory,
            partition.log.sealed[0],
            Files(),
            1,
            always,
        )
    shutil.rmtree(partition.directory)
    with pytest.raises(SegmentGone):
        archive(partition, store, 0)
    assert store.objects == {}


def test_a_segment_that_is_deleted_while_it_is_copied_arrives_whole(partition: Partition) -> None:
    class DeletingStore(MemoryStore):
        def put(self, key: str, pieces: Iterable[bytes], size: int) -> None:
            if not self.puts:
                partition.delete_oldest(1)
            super().put(key, pieces, size)

    store = DeletingStore()
    log = Path(partition.directory, f"{0:020d}.log").read_bytes()
    archive(partition, store, 0)
    assert store.objects[f"{LIFE.prefix}/{0:020d}.log"] == log
    assert archived_in(store) == {0}


def test_a_broker_that_stops_gives_up_and_leaves_nothing_open(partition: Partition) -> None:
    store, files = MemoryStore(), FailingFiles()
    with pytest.raises(CopyingStopped):
        archive_segment(
            store, LIFE, partition.directory, partition.log.sealed[0], files, 1, lambda: False
        )
    assert store.objects == {}
    assert files.open_count == 0


def test_restored_segments_recover_without_a_word(partition: Partition, tmp_path: Path) -> None:
    store = MemoryStore()
    manifests = [archive(partition, store, number) for number in range(3)]
    again = Partition(tmp_path / "again", segment_size_max=1)
    for manifest in manifests:
        restore_segment(store, LIFE, manifest, again.directory, Files())
    finish_partition(LIFE, 6, again.directory, Files())
    committed = ((1, 5, 2), (2, 6, 99))
    assert restore_offsets(committed, 6, again.directory, Files()) == 2
    assert restore_offsets(committed, 0, again.directory, Files()) == 0
    assert read_birth(again.directory, Files()) == BIRTH
    again.reopen()
    assert again.log.recovery.report == []
    assert [one.first_offset for one in again.log.sealed] == [0, 2, 4]
    assert again.log.sealed == partition.log.sealed
    found = again.new_reader().read(again.log.written, 0, 99, 1 << 20)
    assert payloads_in(found) == [b"payload %d" % number for number in range(6)]
    assert again.append(b"next") == 6
    offsets = ConsumerOffsets.load(
        again.directory, Files(), 5, open_files=again.open_files, consumers_max=9
    )
    assert offsets.report == []
    assert sorted(offsets.items()) == [(1, 5, 2), (2, 6, 5)]
    again.open_files.close()


@pytest.mark.parametrize("suffix", [".log", ".index"])
@pytest.mark.parametrize("spoil", [lambda data: data[:-1], lambda data: None])
def test_an_object_that_is_gone_or_too_short_is_not_archived(
    partition: Partition, suffix: str, spoil: Callable[[bytes], bytes | None]
) -> None:
    """The caller is about to delete the original."""
    store = MemoryStore()
    manifest = archive(partition, store, 0)
    key = f"{LIFE.prefix}/{0:020d}{suffix}"
    data = spoil(store.objects.pop(key))
    if data is not None:
        store.objects[key] = data
    assert archived_in(store) == set()
    with pytest.raises((ObjectDamaged, ObjectMissing)):
        restore_segment(store, LIFE, manifest, partition.trash, Files())
    assert list(Path(partition.trash).iterdir()) == []
