"""The log is shortened while it is written and read: every reader finds every entry, once."""

import errno
import random
import tempfile
from collections.abc import Callable
from itertools import count
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from borzoi.protocol.commands.streams import CreateStream, DeleteStream
from borzoi.shards.metadata.state import State
from borzoi.shards.metadata_log.follower import MetadataCopy
from borzoi.shards.metadata_log.shortening import is_worth_it, shorten_log, temporary_path
from borzoi.shards.metadata_log.snapshot import SnapshotDamaged, dump, previous_path
from borzoi.shards.metadata_log.writer import MetadataWriter, SnapshotRule, open_writer
from borzoi.storage.files import Files
from borzoi.storage.files import Path as AnyPath
from borzoi.storage.wal import EntryPlace, PublishedLog, WalDamaged, log_start
from borzoi.storage.wal_writer import WalFailed
from tests.shards.decisions.commands import SETTINGS
from tests.shards.metadata_log.test_copies import Directory, run
from tests.shards.metadata_log.test_shortening import flip, more, snapshot, state_of
from tests.storage.crash_states import Crash, RecordingFiles, after_every_crash
from tests.storage.faults import FailingFiles


class Unsynced(Files):
    """For thousands of entries, where no power cut is played."""

    def fdatasync(self, fd: int) -> None:
        del fd

    def fsync(self, fd: int) -> None:
        del fd

    def fsync_directory(self, path: AnyPath) -> None:
        del path


def shorten(writer: MetadataWriter) -> PublishedLog:
    """All steps, with nothing in between; what is published at the end."""
    assert writer.shortening_due
    shorter = writer.begin_shortening()
    return writer.moved_to(shorter, writer.replace_log(shorter))


def snapshots(writer: MetadataWriter) -> None:
    """Behind the 5th and the 9th entry; then 5 more."""
    for entries in (5, 4):
        more(writer, entries)
        snapshot(writer)
    more(writer, 5)


def new_copy(directory: Directory, published: PublishedLog) -> MetadataCopy:
    copy = directory.copy()
    assert copy.begin_at(published)
    return copy


def test_readers_go_on_in_the_other_file_wherever_they_are(tmp_path: Path) -> None:
    directory = Directory(tmp_path)
    writer = directory.writer()
    more(writer, 1)
    copies = []
    for entries in (2, 2, 4, 5):  # behind, at the cut, after it, level
        copy = new_copy(directory, writer.published)
        more(writer, entries)
        if writer.end.index in (5, 9):
            snapshot(writer)
        copy.follow(writer.published)
        copies.append(copy)
    assert [copy.applied_index for copy in copies] == [3, 5, 9, 14]
    size = directory.log.stat().st_size
    before = writer.published
    published = shorten(writer)
    assert published == (14, size - published.base, 6, published.base)
    assert directory.log.stat().st_size == published.position < size
    assert log_start(Files(), directory.log).index == 5
    assert writer.copy.end == writer.end == EntryPlace(14, published.position)
    # What was published before is still true for a reader that was slow to look.
    copies[0].follow(before)
    assert copies[0].state == writer.state
    copies.append(new_copy(directory, published))
    copies.append(copies[1])
    for copy in copies:
        copy.follow(published)
        assert copy.state == writer.state
        assert copy.end == writer.end
    run(writer, DeleteStream("s3"))
    for copy in set(copies):
        assert [effects.index for effects in copy.follow(writer.published)] == [15]
        assert copy.state == writer.state
        copy.close()
    writer.close()
    assert len(state_of(directory).streams) == 13


def test_effects_of_what_was_cut_off_come_before_the_others(tmp_path: Path) -> None:
    directory = Directory(tmp_path)
    writer = directory.writer()
    copy = new_copy(directory, writer.published)
    more(writer, 3)
    copy.follow(writer.published)
    for name in ("s0", "s1"):  # entries 4 and 5, which go
        run(writer, DeleteStream(name))
    snapshot(writer)
    more(writer, 4)
    snapshot(writer)
    published = shorten(writer)
    assert published.first == 6
    run(writer, DeleteStream("s2"))
    assert [effects.index for effects in copy.follow(writer.published)] == [4, 5, 10]
    assert copy.state == writer.state
    copy.close()
    writer.close()


def test_a_reader_that_misses_entries_says_so(tmp_path: Path) -> None:
    """The file it has open ends before the one that is there now begins."""
    directory = Directory(tmp_path)
    writer = directory.writer()
    more(writer, 1)
    behind, ahead = (new_copy(directory, writer.published) for _ in range(2))
    for entries in (5, 4, 5, 4, 5):
        more(writer, entries)
        snapshot(writer)
        if writer.shortening_due:
            shorten(writer)
            ahead.follow(writer.published)
    assert ahead.state == writer.state
    with pytest.raises(WalDamaged, match="Entries are missing"):
        behind.follow(writer.published)
    for copy in (behind, ahead):
        copy.close()
    writer.close()


def test_a_copy_of_a_file_that_the_board_does_not_mean(tmp_path: Path) -> None:
    """Shard 0 has put the shorter log in its place and has not said so yet."""
    directory = Directory(tmp_path)
    writer = directory.writer()
    snapshots(writer)
    before = writer.published
    shorter = writer.begin_shortening()
    fd = writer.replace_log(shorter)
    copy = directory.copy()
    assert not copy.begin_at(before)
    assert copy.begin_at(writer.moved_to(shorter, fd))
    copy.follow(writer.published)
    assert copy.state == writer.state
    copy.close()
    writer.close()


@pytest.mark.parametrize("torn", [b"", b"torn"])
def test_the_writer_dies_before_it_says_that_the_log_was_replaced(
    tmp_path: Path, torn: bytes
) -> None:
    directory = Directory(tmp_path)
    writer = directory.writer()
    copy = new_copy(directory, writer.published)
    snapshots(writer)
    copy.follow(writer.published)
    lagging = new_copy(directory, writer.published)
    before, state = writer.published, writer.state
    writer.replace_log(writer.begin_shortening())
    with directory.log.open("ab") as log:
        log.write(torn)
    successor = directory.writer(before)
    assert (successor.torn is not None) == bool(torn)
    assert successor.state == state
    assert successor.published.first == 6
    assert successor.published.last_index == before.last_index
    more(successor, 2)
    for reader in (copy, lagging):
        reader.follow(successor.published)
        assert reader.state == successor.state
        assert reader.end == successor.end
        reader.close()
    # And it is shortened again by the next one.
    more(successor, 2)
    snapshot(successor)
    more(successor, 4)
    snapshot(successor)
    assert shorten(successor).first > 6
    successor.close()


def test_what_was_published_is_not_cut_from_a_shorter_log_either(tmp_path: Path) -> None:
    directory = Directory(tmp_path)
    writer = directory.writer()
    snapshots(writer)
    before = writer.published
    writer.replace_log(writer.begin_shortening())
    writer.close()
    whole = directory.log.read_bytes()
    directory.log.write_bytes(whole[:-1])
    with pytest.raises(WalDamaged):
        directory.writer(before)


def test_entries_that_come_during_the_copying_are_taken_along(tmp_path: Path) -> None:
    directory = Directory(tmp_path)
    writer = directory.writer()
    snapshots(writer)
    # One that is taken back again must not be there: its sync failed.
    writer.append(writer.prepare(CreateStream("refused"), user_id=0, timestamp=1))
    shorter = writer.begin_shortening()
    writer.abandon()
    more(writer, 3)
    writer.moved_to(shorter, writer.replace_log(shorter))
    more(writer, 1)
    expected = writer.state
    writer.close()
    assert state_of(directory) == expected
    assert len(expected.streams) == 18


@pytest.mark.parametrize("which", ["newest", "previous"])
@pytest.mark.parametrize("damage", [flip, Path.unlink])
def test_a_damaged_snapshot_keeps_the_log_long(
    tmp_path: Path, which: str, damage: Callable[[Path], None]
) -> None:
    directory = Directory(tmp_path)
    writer = directory.writer()
    snapshots(writer)
    newest = directory.snapshot
    damage(newest if which == "newest" else Path(previous_path(newest)))
    with pytest.raises(SnapshotDamaged):
        writer.begin_shortening()
    assert not Path(temporary_path(directory.log)).exists()
    more(writer, 1)
    writer.close()
    assert log_start(Files(), directory.log).index == 0
    assert len(state_of(directory).streams) == 15


def test_a_disk_that_refuses_leaves_one_log_or_the_other(tmp_path: Path) -> None:
    """And if it is not known which one a restart will find, nothing more is promised."""
    read_only = 0
    for nth in count():
        path = tmp_path / str(nth)
        path.mkdir()
        files = FailingFiles()
        directory = Directory(path, files)
        writer = directory.writer()
        snapshots(writer)
        before = writer.published
        copy = new_copy(directory, before)
        files.fail_nth(nth, errno.EIO)
        try:
            shorten(writer)
        except OSError:
            files.repair()
            if writer.is_read_only:
                read_only += 1
                assert not writer.shortening_due
                with pytest.raises(WalFailed):
                    more(writer, 1)
            else:
                assert writer.published == before
                more(writer, 1)
                assert not Path(temporary_path(directory.log)).exists()
        else:
            files.repair()
            assert writer.published.first == 6
            copy.follow(writer.published)
            copy.close()
            writer.close()
            break
        expected = writer.state
        copy.follow(writer.published)
        assert copy.state == expected
        copy.close()
        writer.close()
        assert state_of(directory) == expected
        assert files.open_count == 0
    assert nth >= 5
    assert read_only == 1


@pytest.mark.no_cover
def test_every_moment_of_a_running_log_can_be_recovered(tmp_path: Path) -> None:
    """As after the death of the process, and as after a power cut."""
    root = tmp_path / "run"
    root.mkdir()
    files = RecordingFiles()
    directory = Directory(root, files)
    writer = directory.writer()
    promised: list[tuple[int, int]] = []

    def promise() -> None:
        promised.append((len(files.calls), writer.end.index))

    snapshots(writer)
    begin = len(files.calls)
    promise()
    for _ in range(2):
        shorter = writer.begin_shortening()
        more(writer, 1)
        promise()
        writer.moved_to(shorter, writer.replace_log(shorter))
        for _ in range(4):
            more(writer, 1)
            promise()
        snapshot(writer)
        more(writer, 1)
        promise()
    total = writer.end.index
    writer.close()

    def look(crash: Crash) -> None:
        at_least = [index for calls, index in promised if calls <= crash.number][-1]
        again = Directory(crash.target)
        shorten_log(again.log, again.snapshot, again.files)
        assert at_least <= len(state_of(again).streams) <= total

    assert after_every_crash(root, files.calls, begin, look).total() > 300


def shorten_with_copies(
    writer: MetadataWriter, copies: list[MetadataCopy], chance: random.Random
) -> None:
    """Replaces the log after all copies have followed, perhaps with changes meanwhile."""
    for copy in copies:
        copy.follow(writer.published)
    shorter = writer.begin_shortening()
    if chance.random() < 0.5:
        more(writer, chance.randint(0, 3))
    writer.moved_to(shorter, writer.replace_log(shorter))


@settings(max_examples=25, deadline=None)
@given(st.randoms(use_true_random=False))
def test_readers_agree_with_the_writer_whatever_the_order(chance: random.Random) -> None:
    """Copies follow now and then, as shards do; none may be more than one file behind."""
    with tempfile.TemporaryDirectory() as path:
        directory = Directory(Path(path), Unsynced())
        writer = directory.writer(snapshot_every=chance.randint(1, 6))
        copies = [new_copy(directory, writer.published) for _ in range(3)]
        for _ in range(chance.randint(20, 120)):
            more(writer, 1)
            if chance.random() < 0.1:
                run(writer, DeleteStream(next(iter(writer.state.streams))))
            if writer.snapshot_due:
                snapshot(writer)
            if writer.shortening_due and chance.random() < 0.7:
                shorten_with_copies(writer, copies, chance)
            if chance.random() < 0.3:
                copy = chance.choice(copies)
                copy.follow(writer.published)
                assert copy.state == writer.state
            if chance.random() < 0.05:
                number = chance.randrange(3)
                copies[number].close()
                copies[number] = new_copy(directory, writer.published)
            if chance.random() < 0.05:
                before = writer.published
                writer.close()
                writer = directory.writer(before, snapshot_every=chance.randint(1, 6))
                assert writer.published == before
        for copy in copies:
            copy.follow(writer.published)
            assert copy.state == writer.state
            copy.close()
        writer.close()
        assert state_of(directory) == writer.state


def test_when_it_is_worth_it() -> None:
    assert not is_worth_it(0, 0)
    assert not is_worth_it(49, 100)
    assert is_worth_it(50, 100)


def test_a_snapshot_is_due_by_entries_or_by_bytes(tmp_path: Path) -> None:
    """By bytes not before the log has grown by a snapshot's size."""
    directory = Directory(tmp_path)
    log, newest = directory.log, directory.snapshot
    writer = open_writer(log, newest, Unsynced(), SETTINGS, rule=SnapshotRule(1_000_000, 1000))
    while not writer.snapshot_due:
        assert writer.end.position < 1000
        more(writer, 1)
    assert writer.end.position >= 1000
    snapshot(writer)
    more(writer, 200)
    assert writer.snapshot_due
    snapshot(writer)
    size = len(dump(writer.state, writer.end))
    assert size > 2000
    begin = writer.end.position
    while not writer.snapshot_due:
        more(writer, 1)
    assert writer.end.position - begin >= size
    writer.close()


def test_the_log_stays_within_its_bound(tmp_path: Path) -> None:
    """Hundreds of snapshots later it holds no more than three times what lies between two."""
    directory = Directory(tmp_path, Unsynced())
    writer = directory.writer(snapshot_every=5)
    for number in range(1000):
        run(writer, CreateStream("s"))
        run(writer, DeleteStream("s"))
        if writer.snapshot_due:
            snapshot(writer)
            if writer.shortening_due:
                shorten(writer)
        held = writer.end.index + 1 - writer.published.first
        assert held <= 5 * 3 + 2, number
    assert writer.state.streams == State().streams
    writer.close()
