"""The lane `meta`: the local metadata log is made what the lane has, and follows it."""

import asyncio
from pathlib import Path

import pytest

from borzoi.cluster.driver import Driver
from borzoi.cluster.keys import Checkpoint
from borzoi.cluster.lane import LaneDamaged
from borzoi.cluster.meta_replay import MetaReplay, read_checkpoint, write_checkpoint
from borzoi.cluster.slots import META_LANE, DataSlot, Entry, EntryKind
from borzoi.cluster.stores import DirectorySlots
from borzoi.protocol.commands.streams import CreateStream
from borzoi.protocol.errors import IoError
from borzoi.shards.changes.bootstrap import ensure_root
from borzoi.shards.decisions.decide import MetadataSettings
from borzoi.shards.loop.tasks import Tasks
from borzoi.shards.metadata_log.snapshot import dump
from borzoi.shards.metadata_log.writer import MetadataWriter, open_writer
from borzoi.shards.replication import metadata
from borzoi.shards.replication.metadata import MetaLane, bring_level, open_meta
from borzoi.storage.archive.manifest import ManifestDamaged
from borzoi.storage.files import Files
from borzoi.storage.layout import DataLayout
from borzoi.storage.wal import EntryPlace

FILES = Files()
SETTINGS = MetadataSettings(segment_size=1024)
COUNT = 12


def open_log(layout: DataLayout) -> MetadataWriter:
    return open_writer(layout.state_log, layout.state_snapshot, FILES, SETTINGS)


@pytest.fixture
def layout(tmp_path: Path) -> DataLayout:
    made = DataLayout(tmp_path / "data")
    made.create_skeleton(FILES)
    return made


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> tuple[list[bytes], bytes]:
    """Entries of a broker, and a snapshot behind the eighth."""
    layout = DataLayout(tmp_path_factory.mktemp("written") / "data")
    layout.create_skeleton(FILES)
    writer = open_log(layout)
    ensure_root(writer, "iggy", "hash", 1)
    entries = [Path(layout.state_log).read_bytes()]
    snapshot = b""
    for number in range(1, COUNT):
        entry = writer.prepare(CreateStream(f"s{number}"), user_id=0, timestamp=number)
        writer.append(entry)
        writer.applied()
        entries.append(entry)
        if len(entries) == 8:
            snapshot = dump(writer.state, EntryPlace(8, len(entry)), 8)
    writer.close()
    return entries, snapshot


def slot(*entries: bytes) -> DataSlot:
    rows = tuple(Entry(EntryKind.METADATA, body=one) for one in entries)
    return DataSlot(META_LANE, 9, 1, bytes(16), rows)


def replayed(entries: list[bytes]) -> MetaReplay:
    replay = MetaReplay()
    for entry in entries:
        assert replay.apply(slot(entry))
    return replay


def shortened(written: tuple[list[bytes], bytes]) -> MetaReplay:
    """As it is behind a checkpoint."""
    entries, snapshot = written
    replay = MetaReplay()
    replay.begin(Checkpoint(9, 1), write_checkpoint(snapshot, entries[7]))
    assert replay.apply(slot(*entries[8:]))
    return replay


def streams(layout: DataLayout) -> tuple[int, list[str]]:
    writer = open_log(layout)
    found = writer.copy.applied_index, sorted(writer.state.stream_names)
    writer.close()
    return found


EXPECTED = COUNT, sorted(f"s{number}" for number in range(1, COUNT))


def test_entries_follow_each_other(written: tuple[list[bytes], bytes]) -> None:
    entries, _ = written
    replay = replayed(entries[:3])
    assert not replay.apply(slot(entries[4]))
    assert not replay.apply(slot(entries[2]))
    assert not replay.apply(slot(entries[3][:-1]))
    assert not replay.apply(slot(entries[3] + b"x"))
    assert replay.last_index == 3


def test_a_cut_checkpoint_is_refused(written: tuple[list[bytes], bytes]) -> None:
    body = write_checkpoint(written[1], written[0][7])
    assert read_checkpoint(body) == (written[1], written[0][7])
    for damaged in (b"", body[:5], body[:-1]):
        with pytest.raises(ManifestDamaged):
            MetaReplay().begin(Checkpoint(9, 1), damaged)


@pytest.mark.parametrize("with_checkpoint", [False, True])
@pytest.mark.parametrize("there", [0, 1, 5, 8, 10, COUNT])
def test_a_local_log_catches_up(
    layout: DataLayout, written: tuple[list[bytes], bytes], there: int, with_checkpoint: bool
) -> None:
    Path(layout.state_log).write_bytes(b"".join(written[0][:there]))
    bring_level(layout, FILES, shortened(written) if with_checkpoint else replayed(written[0]))
    assert streams(layout) == EXPECTED
    # Once more changes nothing.
    bring_level(layout, FILES, shortened(written) if with_checkpoint else replayed(written[0]))
    assert streams(layout) == EXPECTED


def test_a_local_log_that_is_ahead_is_cut_back(
    layout: DataLayout, written: tuple[list[bytes], bytes]
) -> None:
    Path(layout.state_log).write_bytes(b"".join(written[0]))
    bring_level(layout, FILES, replayed(written[0][:4]))
    assert streams(layout) == (4, ["s1", "s2", "s3"])


def test_a_store_that_has_lost_everything_does_not_empty_the_disk(
    layout: DataLayout, written: tuple[list[bytes], bytes]
) -> None:
    Path(layout.state_log).write_bytes(b"".join(written[0]))
    with pytest.raises(LaneDamaged, match="the store has no metadata any more"):
        bring_level(layout, FILES, MetaReplay())
    assert streams(layout) == EXPECTED
    # The root user of a first boot that ended before its entry was put.
    Path(layout.state_log).write_bytes(written[0][0])
    bring_level(layout, FILES, MetaReplay())
    assert Path(layout.state_log).read_bytes() == b""


def test_another_history_goes(layout: DataLayout, written: tuple[list[bytes], bytes]) -> None:
    writer = open_log(layout)
    ensure_root(writer, "other", "hash", 2)
    writer.close()
    bring_level(layout, FILES, replayed(written[0]))
    assert streams(layout) == EXPECTED


@pytest.mark.parametrize("with_checkpoint", [False, True])
def test_a_damaged_log_is_made_again(
    layout: DataLayout, written: tuple[list[bytes], bytes], with_checkpoint: bool
) -> None:
    damaged = bytearray(b"".join(written[0]))
    damaged[60] ^= 1
    Path(layout.state_log).write_bytes(damaged)
    bring_level(layout, FILES, shortened(written) if with_checkpoint else replayed(written[0]))
    assert streams(layout) == EXPECTED


class Node:
    """A writer of the lane `meta`."""

    def __init__(self, layout: DataLayout, store: Path) -> None:
        self.layout = layout
        self.driver = Driver(DirectorySlots(str(store)))
        self.tasks = Tasks(self._broken)
        self.ends: list[str] = []

    def _broken(self, error: BaseException) -> None:
        raise error

    async def open(self) -> None:
        opened, replay = await open_meta(self.driver, 8, self.layout, FILES)
        self.lane = MetaLane(self.driver, opened, replay, self.tasks, self.ends.append)


def test_a_lane_brings_its_metadata_to_an_empty_disk(
    tmp_path: Path, written: tuple[list[bytes], bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(metadata, "CHECKPOINT_ENTRIES", 5)
    layouts = [DataLayout(tmp_path / name) for name in "ab"]
    for one in layouts:
        one.create_skeleton(FILES)

    async def run() -> None:
        first, second = (Node(one, tmp_path / "store") for one in layouts)
        await first.open()
        writer = open_log(first.layout)
        for entry in written[0]:
            await first.lane.put(entry, writer.state)
            writer.append(entry)
            writer.applied()
        writer.close()
        await first.tasks.drain(10)
        lane = tmp_path / "store/lanes/meta"
        assert len(list((lane / "checkpoints").iterdir())) == 2
        # The fence, and what no checkpoint has.
        assert len(list((lane / "wal").iterdir())) == 1 + COUNT - 10
        await second.open()
        assert streams(second.layout) == EXPECTED
        with pytest.raises(IoError, match="another node has taken the metadata over"):
            await first.lane.put(written[0][0], writer.state)
        assert first.ends == ["another node has taken the lane over"]
        with pytest.raises(IoError, match="written by another node"):
            await first.lane.put(written[0][0], writer.state)

    asyncio.run(run())
