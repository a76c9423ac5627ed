"""The metadata log and its snapshots, encrypted: nothing to read on the disk, all of it applied."""

from dataclasses import replace
from pathlib import Path

import pytest

from borzoi.protocol.commands.streams import CreateStream
from borzoi.shards.metadata.entries import StreamCreated
from borzoi.shards.metadata.entry_form import new_entry, stored_command
from borzoi.shards.metadata_log.follower import open_copy
from borzoi.shards.metadata_log.sealing import CannotOpenEntry, open_entry, seal_entry
from borzoi.shards.metadata_log.shortening import shorten_log
from borzoi.shards.metadata_log.snapshot import SnapshotDamaged, dump, load
from borzoi.shards.metadata_log.writer import MetadataWriter, SnapshotRule, open_writer
from borzoi.storage.encrypted import Encryption
from borzoi.storage.files import Files
from borzoi.storage.wal import START, EntryPlace, decode_entry, encode_entry, read_entries
from tests.shards.decisions.commands import SETTINGS
from tests.storage.ciphers import KEY, OTHER_KEY

ON = Encryption(KEY, encrypts=True)
OFF = Encryption(KEY, encrypts=False)
OTHER = Encryption(OTHER_KEY, encrypts=True)
FILES = Files()
ENTRY = new_entry(12, 34, 56, StreamCreated(1, "MARKER"))


class Directory:
    """One data directory, opened with one setting after another."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.log = path / "state.messages"
        self.snapshot = path / "state.snapshot"

    def write(self, encryption: Encryption | None, *names: str) -> MetadataWriter:
        writer = open_writer(
            self.log, self.snapshot, FILES, SETTINGS, encryption=encryption, rule=SnapshotRule(3)
        )
        for name in names:
            entry = writer.prepare(CreateStream(name), user_id=0, timestamp=1)
            writer.append(entry)
            writer.sync()
            writer.applied()
            if writer.snapshot_due:
                writer.write_snapshot(writer.take_snapshot())
        writer.close()
        return writer

    def names(self, encryption: Encryption | None) -> list[str]:
        copy = open_copy(self.log, self.snapshot, FILES, encryption)
        end = self.write(encryption).end
        copy.catch_up(end.index, end.position)
        copy.close()
        return list(copy.state.stream_names)

    def holds(self, text: bytes) -> bool:
        return any(text in path.read_bytes() for path in self.path.iterdir())


def test_an_entry_opens_as_it_was() -> None:
    assert seal_entry(ENTRY, None) == seal_entry(ENTRY, OFF) == ENTRY
    assert open_entry(ENTRY, None) == open_entry(ENTRY, ON) == ENTRY
    sealed = seal_entry(ENTRY, ON)
    assert b"MARKER" not in encode_entry(sealed)
    assert open_entry(sealed, ON) == open_entry(sealed, OFF) == ENTRY
    assert stored_command(open_entry(sealed, ON)) == StreamCreated(1, "MARKER")


def test_an_entry_opens_only_where_it_belongs_and_with_its_key() -> None:
    sealed = seal_entry(ENTRY, ON)
    moved = [
        replace(sealed, index=13),
        replace(sealed, timestamp=35),
        replace(sealed, user_id=57),
        replace(sealed, term=1),
        replace(sealed, flags=sealed.flags ^ 2),
        replace(sealed, command=sealed.command[:-1]),
        replace(sealed, command=b""),
    ]
    for entry in moved:
        with pytest.raises(CannotOpenEntry, match="was changed"):
            open_entry(entry, ON)
    with pytest.raises(CannotOpenEntry, match="another key"):
        open_entry(sealed, OTHER)
    with pytest.raises(CannotOpenEntry, match="no key is configured"):
        open_entry(sealed, None)


def test_the_checksum_is_over_what_is_stored() -> None:
    encoded = encode_entry(seal_entry(ENTRY, ON))
    decoded, _ = decode_entry(memoryview(encoded), 0, len(encoded))
    assert open_entry(decoded, ON) == ENTRY


def test_switched_on_for_a_log_that_is_there_and_off_again(tmp_path: Path) -> None:
    directory = Directory(tmp_path)
    directory.write(None, "clear-1")
    directory.write(ON, "MARKER-1", "MARKER-2")
    assert not directory.holds(b"MARKER")
    assert directory.holds(b"clear-1")
    directory.write(OFF, "clear-2")
    assert directory.names(ON) == ["clear-1", "MARKER-1", "MARKER-2", "clear-2"]
    for wrong, reason in ((None, "no key is configured"), (OTHER, "another key")):
        for snapshot in tmp_path.glob("state.snapshot*"):
            snapshot.unlink()
        with pytest.raises(CannotOpenEntry, match=reason):
            directory.names(wrong)


def test_snapshots_are_encrypted_and_the_log_is_shortened_behind_them(tmp_path: Path) -> None:
    directory = Directory(tmp_path)
    names = [f"MARKER-{number}" for number in range(10)]
    directory.write(ON, *names)
    assert directory.snapshot.exists()
    assert not directory.holds(b"MARKER")
    assert shorten_log(directory.log, directory.snapshot, FILES, ON) is not None
    assert directory.names(ON) == names
    # Only the entries behind the cut are left, and the snapshots cannot be read without the key.
    assert shorten_log(directory.log, directory.snapshot, FILES, OTHER) is None


def test_a_snapshot_opens_with_its_key_only(tmp_path: Path) -> None:
    directory = Directory(tmp_path)
    writer = directory.write(ON, "MARKER")
    data = dump(writer.state, EntryPlace(1, 100), 1, ON)
    assert b"MARKER" not in data
    assert b"MARKER" in dump(writer.state, EntryPlace(1, 100), 1, OFF)
    assert load(data, ON).state == load(data, OFF).state == writer.state
    for wrong in (None, OTHER):
        with pytest.raises(SnapshotDamaged):
            load(data, wrong)
    for position in range(len(data)):
        bad = bytearray(data)
        bad[position] ^= 1
        with pytest.raises(SnapshotDamaged):
            load(bytes(bad), ON)


def test_every_entry_is_encrypted_differently(tmp_path: Path) -> None:
    """The same place in the log again, as after a torn tail, does not repeat a nonce."""
    salts = set()
    for number in range(20):
        path = tmp_path / str(number)
        path.mkdir()
        directory = Directory(path)
        directory.write(ON, "same", "names")
        fd = FILES.open(directory.log, 0)
        entries = read_entries(FILES, fd, START, FILES.size(fd), name=directory.log)
        salts |= {entry.command[:28] for entry, _ in entries}
        FILES.close(fd)
    assert len(salts) == 40
