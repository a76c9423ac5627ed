"""The metadata is archived while shard 0 replaces snapshots and log: what is kept fits together."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from borzoi.protocol.commands.streams import CreateStream
from borzoi.shards.decisions.decide import MetadataSettings
from borzoi.shards.metadata_log.writer import MetadataWriter, SnapshotRule, open_writer
from borzoi.shards.upkeep.archived_state import OPEN_TRIES_MAX, archive_state, load_state
from borzoi.storage.archive.manifest import state_prefix
from borzoi.storage.files import Files
from borzoi.storage.layout import DataLayout
from borzoi.storage.wal import PublishedLog
from tests.shards.metadata_log.test_copies import run
from tests.storage.archive.stores import MemoryStore

FILES = Files()


@pytest.fixture
def layout(tmp_path: Path) -> DataLayout:
    return DataLayout(tmp_path)


@pytest.fixture
def writer(layout: DataLayout) -> Iterator[MetadataWriter]:
    writer = open_writer(
        layout.state_log,
        layout.state_snapshot,
        FILES,
        MetadataSettings(1 << 20),
        rule=SnapshotRule(5),
    )
    go_on(writer, 12)
    yield writer
    writer.close()


def go_on(writer: MetadataWriter, entries: int) -> bool:
    """So many entries, with the snapshots that are due; whether the log was replaced."""
    replaced = False
    for _ in range(entries):
        run(writer, CreateStream(f"s{writer.end.index}"))
        if writer.snapshot_due:
            writer.write_snapshot(writer.take_snapshot())
            if writer.shortening_due:
                shorter = writer.begin_shortening()
                writer.moved_to(shorter, writer.replace_log(shorter))
                replaced = True
    return replaced


def archive(
    layout: DataLayout,
    published: Callable[[], PublishedLog],
    into: Path,
    tries_max: int = OPEN_TRIES_MAX,
) -> int:
    """Archive, and lay the files out as a restore would."""
    store = MemoryStore()
    entry = archive_state(store, layout, FILES, published, 1000, lambda: True, tries_max=tries_max)
    into.mkdir()
    for stored in store.list(state_prefix(entry)):
        content = b"".join(store.read(stored.key))
        (into / Path(stored.key).name).write_bytes(content)
    return entry


def test_a_log_that_is_replaced_between_opening_and_looking(
    layout: DataLayout, writer: MetadataWriter, tmp_path: Path
) -> None:
    """Each time the files are open, but for the last time, they are replaced."""
    rounds: list[bool] = []

    def published() -> PublishedLog:
        if len(rounds) < 3:
            rounds.append(go_on(writer, 12))
        return writer.published

    entry = archive(layout, published, tmp_path / "restored")
    assert rounds == [True] * 3
    assert entry == writer.end.index
    copy = load_state(str(tmp_path / "restored"), FILES, None)
    assert copy.state == writer.state


def test_the_log_has_its_new_name_but_is_not_published(
    layout: DataLayout, writer: MetadataWriter, tmp_path: Path
) -> None:
    while not writer.shortening_due:
        run(writer, CreateStream(f"s{writer.end.index}"))
        writer.write_snapshot(writer.take_snapshot())
    shorter = writer.begin_shortening()
    before = writer.published
    fd = writer.replace_log(shorter)
    answers = [before, before]

    def published() -> PublishedLog:
        return answers.pop() if answers else writer.moved_to(shorter, fd)

    assert archive(layout, published, tmp_path / "restored") == before.last_index
    assert load_state(str(tmp_path / "restored"), FILES, None).state == writer.state


def test_files_that_never_fit_are_given_up(
    layout: DataLayout, writer: MetadataWriter, tmp_path: Path
) -> None:
    asked = []

    def published() -> PublishedLog:
        asked.append(writer.published)
        return writer.published._replace(first=writer.published.first + 1)

    with pytest.raises(OSError, match="whenever it was to be archived"):
        archive(layout, published, tmp_path / "restored", tries_max=3)
    assert len(asked) == 3
