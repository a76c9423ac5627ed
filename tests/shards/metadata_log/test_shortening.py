"""The log is shortened behind a snapshot: nothing is lost by it, whatever happens meanwhile."""

import errno
from collections.abc import Callable
from itertools import count
from pathlib import Path

import pytest

from borzoi.protocol.commands.streams import CreateStream
from borzoi.shards.metadata.state import State
from borzoi.shards.metadata_log.shortening import Shortened, shorten_log
from borzoi.shards.metadata_log.snapshot import previous_path
from borzoi.shards.metadata_log.writer import MetadataWriter
from borzoi.storage.files import Files
from borzoi.storage.wal import WalDamaged, log_start
from tests.shards.metadata_log.test_copies import Directory, run
from tests.storage.crash_states import Crash, RecordingFiles, after_every_crash
from tests.storage.faults import FailingFiles


def more(writer: MetadataWriter, entries: int) -> None:
    for _ in range(entries):
        run(writer, CreateStream(f"s{writer.end.index}"))


def snapshot(writer: MetadataWriter) -> None:
    writer.write_snapshot(writer.take_snapshot())


def shorten(directory: Directory) -> Shortened | None:
    return shorten_log(directory.log, directory.snapshot, directory.files)


def filled(path: Path, files: Files | None = None) -> Directory:
    """14 entries; snapshots behind the 5th and the 9th."""
    directory = Directory(path, files)
    writer = directory.writer()
    for entries in (5, 4):
        more(writer, entries)
        snapshot(writer)
    more(writer, 5)
    writer.close()
    return directory


def state_of(directory: Directory) -> State:
    """As the writer and as any other shard finds it."""
    writer = directory.writer()
    copy = directory.copy()
    copy.catch_up(writer.end.index, writer.end.position)
    assert copy.state == writer.state
    assert copy.end == writer.end
    copy.close()
    writer.close()
    return writer.state


def test_it_begins_behind_the_older_snapshot(tmp_path: Path) -> None:
    directory = filled(tmp_path)
    before = state_of(directory)
    size = directory.log.stat().st_size
    shortened = shorten(directory)
    assert shortened is not None
    assert shortened.last_index == 5
    assert directory.log.stat().st_size == size - shortened.size_bytes
    assert log_start(Files(), directory.log).index == 5
    assert state_of(directory) == before
    assert shorten(directory) is None

    # It goes on from there: entries, a snapshot, and at the next start another cut.
    writer = directory.writer()
    more(writer, 3)
    snapshot(writer)
    more(writer, 2)
    after = writer.state
    writer.close()
    assert state_of(directory) == after
    shortened = shorten(directory)
    assert shortened is not None
    assert shortened.last_index == 9
    assert state_of(directory) == after
    assert len(after.streams) == 19


def test_without_two_snapshots_nothing_is_cut(tmp_path: Path) -> None:
    directory = Directory(tmp_path)
    assert shorten(directory) is None
    writer = directory.writer()
    more(writer, 3)
    snapshot(writer)
    assert shorten(directory) is None
    writer.close()
    assert len(state_of(directory).streams) == 3


@pytest.mark.parametrize("which", ["newest", "previous"])
@pytest.mark.parametrize("when", ["before", "after"])
def test_one_snapshot_may_be_lost_or_damaged(tmp_path: Path, which: str, when: str) -> None:
    damages: tuple[Callable[[Path], None], ...] = (Path.unlink, flip)
    for number, damage in enumerate(damages):
        path = tmp_path / str(number)
        path.mkdir()
        directory = filled(path)
        before = state_of(directory)
        if when == "after":
            assert shorten(directory) is not None
        newest = directory.snapshot
        damage(newest if which == "newest" else Path(previous_path(newest)))
        if when == "before":
            assert shorten(directory) is None
        assert state_of(directory) == before
        # A damaged one never takes the place of a good one.
        writer = directory.writer()
        snapshot(writer)
        writer.close()
        assert state_of(directory) == before
        directory.snapshot.unlink()
        assert state_of(directory) == before


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def test_without_any_snapshot_a_shortened_log_is_refused(tmp_path: Path) -> None:
    directory = filled(tmp_path)
    assert shorten(directory) is not None
    flip(directory.snapshot)
    flip(Path(previous_path(directory.snapshot)))
    with pytest.raises(WalDamaged, match=r"begins with entry 6.*does not match.*does not match"):
        directory.writer()
    directory.snapshot.unlink()
    Path(previous_path(directory.snapshot)).unlink()
    with pytest.raises(WalDamaged, match="begins with entry 6"):
        directory.copy()


@pytest.mark.parametrize("shortened", [False, True])
def test_a_log_that_is_gone_or_older_than_its_snapshots_is_refused(
    tmp_path: Path, shortened: bool
) -> None:
    directory = filled(tmp_path)
    if shortened:
        assert shorten(directory) is not None
    whole = directory.log.read_bytes()
    for content in (b"", whole[:100], whole[: len(whole) // 3]):
        directory.log.write_bytes(content)
        assert shorten(directory) is None
        with pytest.raises(WalDamaged):
            directory.writer()
        assert directory.log.read_bytes() == content
    directory.log.unlink()
    with pytest.raises(WalDamaged):
        directory.writer()


def test_a_torn_end_is_taken_along(tmp_path: Path) -> None:
    """It is for the writer to judge, as without a cut."""
    directory = filled(tmp_path)
    before = state_of(directory)
    with directory.log.open("ab") as log:
        log.write(b"torn")
    assert shorten(directory) is not None
    writer = directory.writer()
    assert writer.torn is not None
    assert writer.state == before
    writer.close()


def test_a_disk_that_refuses_leaves_one_log_or_the_other(tmp_path: Path) -> None:
    for nth in count():
        path = tmp_path / str(nth)
        path.mkdir()
        files = FailingFiles()
        directory = filled(path, files)
        before = state_of(directory)
        files.fail_nth(nth, errno.ENOSPC)
        try:
            shorten(directory)
        except OSError:
            files.repair()
            assert state_of(directory) == before
            shorten(directory)
            assert log_start(files, directory.log).index == 5
            assert state_of(directory) == before
        else:
            break
    assert nth >= 5


@pytest.mark.no_cover
def test_every_moment_of_snapshots_and_a_cut_can_be_recovered(tmp_path: Path) -> None:
    """As after the death of the process, and as after a power cut."""
    root = tmp_path / "run"
    root.mkdir()
    files = RecordingFiles()
    directory = filled(root, files)
    promised: list[tuple[int, int]] = []
    # The entries so far were synced one by one; from here on every moment is looked at.
    begin = len(files.calls)
    promised.append((begin, 14))
    assert shorten(directory) is not None
    writer = directory.writer()
    more(writer, 1)
    promised.append((len(files.calls), 15))
    snapshot(writer)
    more(writer, 1)
    promised.append((len(files.calls), 16))
    writer.close()
    assert shorten(directory) is not None
    expected = state_of(directory)
    assert len(expected.streams) == 16

    def look(crash: Crash) -> None:
        at_least = [index for calls, index in promised if calls <= crash.number][-1]
        found = state_of(Directory(crash.target))
        assert at_least <= len(found.streams) <= 16
        shorten(Directory(crash.target))
        assert state_of(Directory(crash.target)) == found

    assert after_every_crash(root, files.calls, begin, look).total() > 100
