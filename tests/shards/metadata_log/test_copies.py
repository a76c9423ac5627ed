"""The writer's steps, copies that follow it, and starting again."""

import errno
from pathlib import Path

import pytest

from borzoi.protocol.commands.streams import CreateStream, DeleteStream
from borzoi.protocol.commands.users import UpdatePermissions
from borzoi.protocol.errors import InvalidSizeBytes, StreamNameAlreadyExists
from borzoi.protocol.permissions import (
    ALL_PERMISSIONS,
    Permissions,
    StreamPermissions,
    TopicPermissions,
)
from borzoi.shards.changes.bootstrap import ensure_root, root_missing
from borzoi.shards.config import Config
from borzoi.shards.decisions.decide import MetadataCommand
from borzoi.shards.metadata.effects import Effects
from borzoi.shards.metadata.entry_form import UnknownEntry
from borzoi.shards.metadata.state import State, User
from borzoi.shards.metadata_log.follower import MetadataCopy, open_copy
from borzoi.shards.metadata_log.writer import (
    SNAPSHOT_ENTRIES,
    SNAPSHOT_SIZE,
    MetadataWriter,
    SnapshotRule,
    open_writer,
)
from borzoi.storage.files import Files
from borzoi.storage.wal import (
    COMMAND_SIZE_MAX,
    ENTRY_SIZE_MIN,
    NOTHING_PUBLISHED,
    START,
    EntryPlace,
    PublishedLog,
    WalDamaged,
    WalEntry,
    encode_entry,
)
from borzoi.storage.wal_writer import WalFailed
from tests.shards.decisions.commands import SETTINGS, create_topic, create_user


class Directory:
    """One data directory and whatever was opened in it."""

    def __init__(self, path: Path, files: Files | None = None) -> None:
        self.log = path / "state.messages"
        self.snapshot = path / "state.snapshot"
        self.files = files or Files()

    def writer(
        self,
        published: PublishedLog = NOTHING_PUBLISHED,
        snapshot_every: int = 4,
        command_size_max: int = COMMAND_SIZE_MAX,
    ) -> MetadataWriter:
        return open_writer(
            self.log,
            self.snapshot,
            self.files,
            SETTINGS,
            published=published,
            rule=SnapshotRule(snapshot_every),
            command_size_max=command_size_max,
        )

    def copy(self) -> MetadataCopy:
        return open_copy(self.log, self.snapshot, self.files)


@pytest.fixture
def directory(tmp_path: Path) -> Directory:
    return Directory(tmp_path)


def run(writer: MetadataWriter, command: MetadataCommand) -> Effects:
    """All steps of one command; what would be published is checked to be durable and complete."""
    time = 1000 * (writer.end.index + 1)
    writer.append(writer.prepare(command, user_id=0, timestamp=time))
    writer.sync()
    published = writer.end
    effects = writer.applied()
    assert writer.copy.end == published
    return effects


def run_some(writer: MetadataWriter) -> None:
    for name in "abc":
        run(writer, CreateStream(name))
        run(writer, create_topic(name, "t", 3))
    run(writer, DeleteStream("b"))


def test_the_steps_of_one_command(directory: Directory) -> None:
    writer = directory.writer()
    assert writer.end == START
    entry = writer.prepare(CreateStream("a"), user_id=0, timestamp=5)
    assert directory.log.stat().st_size == 0
    writer.append(entry)
    assert writer.end == EntryPlace(1, len(entry))
    assert writer.state == State()
    writer.sync()
    assert not writer.applied()
    assert writer.state.stream("a").created_at == 5
    with pytest.raises(StreamNameAlreadyExists):
        writer.prepare(CreateStream("a"), user_id=0, timestamp=6)
    assert writer.end == EntryPlace(1, len(entry))
    writer.close()


def test_one_command_at_a_time(directory: Directory) -> None:
    writer = directory.writer()
    entry = writer.prepare(CreateStream("a"), user_id=0, timestamp=5)
    writer.append(entry)
    for step in (
        lambda: writer.prepare(CreateStream("b"), user_id=0, timestamp=5),
        lambda: writer.append(entry),
        writer.take_snapshot,
    ):
        with pytest.raises(AssertionError):
            step()
    writer.applied()
    with pytest.raises(AssertionError):
        writer.applied()
    writer.close()


def test_copies_follow_up_to_the_published_end(directory: Directory) -> None:
    writer = directory.writer()
    copy = directory.copy()
    assert copy.catch_up(0, 0) == []
    run(writer, CreateStream("a"))
    run(writer, create_topic("a", "t", 3))
    published = writer.end
    # Appended, not published: no copy may see it.
    writer.append(writer.prepare(DeleteStream("a"), user_id=0, timestamp=9))
    assert copy.catch_up(published.index, published.position) == []
    assert copy.state == writer.state
    assert copy.end == published
    effects = writer.applied()
    assert copy.catch_up(writer.end.index, writer.end.position) == [effects]
    assert effects.streams_removed == [0]
    assert copy.state == writer.state
    # Nothing new, and a board that knows less: nothing to do, and no look at the file.
    directory.log.unlink()
    assert copy.catch_up(3, writer.end.position) == []
    assert copy.catch_up(0, 0) == []
    copy.close()
    writer.close()


def test_effects_come_one_by_one_in_log_order(directory: Directory) -> None:
    writer = directory.writer()
    copy = directory.copy()
    expected = []
    for _ in range(3):
        run(writer, CreateStream("a"))
        run(writer, create_topic("a", "t", 2))
        expected.append(run(writer, DeleteStream("a")))
    assert copy.catch_up(writer.end.index, writer.end.position) == expected
    assert [effects.index for effects in expected] == [3, 6, 9]
    assert [one.removed[0].run.birth for one in expected] == [2, 5, 8]
    copy.close()
    writer.close()


def test_an_index_that_does_not_belong_to_the_end_is_noticed(directory: Directory) -> None:
    writer = directory.writer()
    run_some(writer)
    copy = directory.copy()
    with pytest.raises(WalDamaged, match=r"ends with entry 7, but entry 8 was published"):
        copy.catch_up(8, writer.end.position)
    copy.close()
    writer.close()


def test_a_restart_finds_everything_with_and_without_snapshot(directory: Directory) -> None:
    writer = directory.writer()
    for name in "abc":
        assert not writer.snapshot_due
        run(writer, CreateStream(name))
    run(writer, create_topic("b", "t", 3))
    assert writer.snapshot_due
    snapshot = writer.take_snapshot()
    assert not writer.snapshot_due
    # Commands go on while a thread writes it.
    run(writer, DeleteStream("a"))
    writer.write_snapshot(snapshot)
    run(writer, CreateStream("d"))
    state, end = writer.state, writer.end
    writer.close()

    copy = directory.copy()
    assert copy.applied_index == 4
    copy.catch_up(end.index, end.position)
    assert copy.state == state
    copy.close()
    for _ in range(2):
        writer = directory.writer()
        assert writer.state == state
        assert writer.end == writer.copy.end == end
        assert writer.torn is None
        # Two entries behind the snapshot, six without it.
        assert writer.snapshot_due == (not directory.snapshot.exists())
        writer.close()
        directory.snapshot.unlink(missing_ok=True)


def test_a_damaged_snapshot_only_costs_time(directory: Directory) -> None:
    writer = directory.writer()
    run_some(writer)
    writer.write_snapshot(writer.take_snapshot())
    state = writer.state
    writer.close()
    damaged = bytearray(directory.snapshot.read_bytes())
    damaged[60] ^= 1
    directory.snapshot.write_bytes(damaged)
    writer = directory.writer()
    assert writer.state == state
    assert "the SHA-256 does not match" in (writer.copy.snapshot_problem or "")
    writer.close()


def test_a_log_that_lost_what_its_snapshot_knows_is_refused(directory: Directory) -> None:
    writer = directory.writer()
    run_some(writer)
    writer.write_snapshot(writer.take_snapshot())
    size = writer.end.position
    writer.close()
    directory.log.write_bytes(directory.log.read_bytes()[: size - 1])
    with pytest.raises(WalDamaged, match=f"{size} bytes were known to be good"):
        directory.writer()


def test_a_successor_keeps_complete_entries_and_cuts_a_torn_one(directory: Directory) -> None:
    writer = directory.writer()
    run(writer, CreateStream("a"))
    published = writer.published
    writer.append(writer.prepare(CreateStream("b"), user_id=0, timestamp=5))
    writer.close()
    with directory.log.open("ab") as log:
        log.write(b"torn")
    successor = directory.writer(published)
    assert successor.state.find_stream("b") is not None
    assert successor.end.index == 2
    assert successor.torn is not None
    assert successor.torn.size == 4
    successor.close()


def test_a_successor_does_not_cut_what_was_published(directory: Directory) -> None:
    writer = directory.writer()
    run(writer, CreateStream("a"))
    published = writer.published
    writer.close()
    damaged = bytearray(directory.log.read_bytes())
    damaged[-1] ^= 1
    directory.log.write_bytes(damaged)
    with pytest.raises(WalDamaged):
        directory.writer(published)
    assert directory.log.read_bytes() == damaged


class SyncFails(Files):
    """A disk whose fdatasync can be made to fail."""

    failing = False

    def fdatasync(self, fd: int) -> None:
        if self.failing:
            raise OSError(errno.EIO, "bad disk")
        super().fdatasync(fd)


def test_a_command_that_could_not_be_synced_has_not_happened(tmp_path: Path) -> None:
    files = SyncFails()
    directory = Directory(tmp_path, files)
    writer = directory.writer()
    run(writer, CreateStream("a"))
    writer.append(writer.prepare(CreateStream("b"), user_id=0, timestamp=5))
    files.failing = True
    with pytest.raises(OSError, match="bad disk"):
        writer.sync()
    writer.abandon()
    files.failing = False
    assert writer.end.index == 1
    entry = writer.prepare(CreateStream("b"), user_id=0, timestamp=5)
    with pytest.raises(WalFailed):
        writer.append(entry)
    with pytest.raises(WalFailed):
        writer.write_snapshot(writer.take_snapshot())
    writer.close()
    writer = directory.writer()
    assert list(writer.state.stream_names) == ["a"]
    run(writer, CreateStream("b"))
    writer.close()


def test_a_command_too_large_for_the_log_is_refused(directory: Directory) -> None:
    writer = directory.writer()
    ensure_root(writer, "root", "hash", 1)
    run(writer, create_user("ann"))
    granted = {id: TopicPermissions(True) for id in range(50)}
    command = UpdatePermissions("ann", Permissions(streams={0: StreamPermissions(topics=granted)}))
    entry = writer.prepare(command, user_id=0, timestamp=5)
    size = len(entry) - ENTRY_SIZE_MIN
    writer.close()
    writer = directory.writer(command_size_max=size)
    assert writer.prepare(command, user_id=0, timestamp=5) == entry
    writer.close()
    writer = directory.writer(command_size_max=size - 1)
    with pytest.raises(InvalidSizeBytes):
        writer.prepare(command, user_id=0, timestamp=5)
    writer.close()


def test_an_entry_of_a_later_version_stops_the_start(directory: Directory) -> None:
    writer = directory.writer()
    run(writer, CreateStream("a"))
    writer.close()
    with directory.log.open("ab") as log:
        log.write(encode_entry(WalEntry(2, 0, 0, 0, 1, b"\x81\xa4kind\xa6future")))
    with pytest.raises(UnknownEntry, match="entry 2"):
        directory.writer()


def test_the_first_entry_is_the_root_user(directory: Directory) -> None:
    writer = directory.writer()
    assert root_missing(writer)
    assert ensure_root(writer, "iggy", "hash", 77)
    assert writer.end.index == 1
    assert writer.state.user(0) == User(0, "iggy", "hash", 1, 77, ALL_PERMISSIONS)
    assert not root_missing(writer)
    assert not ensure_root(writer, "other", "other", 88)
    end = writer.end
    writer.close()
    writer = directory.writer()
    assert not ensure_root(writer, "other", "other", 99)
    assert writer.end == end
    assert writer.state.user("iggy").password_hash == "hash"
    writer.close()


def test_snapshots_come_every_ten_thousand_entries_or_four_megabytes() -> None:
    assert SnapshotRule() == (10_000, 4 << 20)
    assert Config().system.state.snapshot_entries == SNAPSHOT_ENTRIES
    assert Config().system.state.snapshot_size == SNAPSHOT_SIZE
