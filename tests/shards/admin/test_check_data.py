"""`borzoi check` without a broker: the metadata, what lies beside it, and the report."""

import base64
import json
import os
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from borzoi.protocol.commands.streams import CreateStream
from borzoi.protocol.commands.topics import CreateTopic
from borzoi.protocol.message import Message, encode_messages
from borzoi.router.placement import pack_namespace
from borzoi.shards.admin.commands import main
from borzoi.shards.changes.bootstrap import ensure_root
from borzoi.shards.decisions.decide import MetadataCommand, MetadataSettings
from borzoi.shards.directory.lock import lock_data_directory
from borzoi.shards.metadata_log.writer import MetadataWriter, SnapshotRule, open_writer
from borzoi.storage.clean_stop import CleanStop
from borzoi.storage.encrypted import Encryption
from borzoi.storage.encryption_key import write_check
from borzoi.storage.files import Files
from borzoi.storage.layout import DataLayout
from borzoi.storage.log import LogSettings, PartitionLog
from borzoi.storage.offsets import offsets_digest
from borzoi.storage.open_files import OpenFiles
from tests.storage.ciphers import KEY
from tests.storage.partitions import overwrite
from tests.storage.test_bit_flips import flips

NAMESPACE = pack_namespace(0, 0, 0)
TEXT = base64.b64encode(KEY.secret_bytes()).decode()


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A directory with a topic of two partitions, one of which was used, cleanly stopped."""
    root = tmp_path / "data"
    root.mkdir()
    layout = DataLayout(root)
    files = Files()
    layout.create_skeleton(files)
    writer = open_writer(
        layout.state_log,
        layout.state_snapshot,
        files,
        MetadataSettings(1 << 20, slots_max=100),
        rule=SnapshotRule(1),
    )
    ensure_root(writer, "boss", "a hash", 1000)
    log(writer, CreateStream("one"))
    writer.write_snapshot(writer.take_snapshot())
    log(writer, CreateTopic("one", 2, 1, 0, 0, 1, "two"))
    writer.write_snapshot(writer.take_snapshot())
    topic = writer.state.topic(0, 0)
    log(writer, CreateStream("three"))
    writer.close()
    open_files = OpenFiles(files, 8)
    partition = PartitionLog.create(
        layout.partition(0, 0, 0),
        topic.partition(0).birth,
        LogSettings(1 << 20),
        files,
        open_files=open_files,
    )
    batch = memoryview(bytearray(encode_messages([Message(b"kept", id=1)])))
    partition.stage(batch, 1, 1000)
    partition.write()
    partition.sync()
    rows = {NAMESPACE: partition.clean_partition(offsets_digest({}))}
    CleanStop(rows).write(layout, files, 0)
    partition.close()
    open_files.close()
    return root


def log(writer: MetadataWriter, command: MetadataCommand) -> None:
    writer.append(writer.prepare(command, user_id=0, timestamp=2000))
    writer.sync()
    writer.applied()


def run(data: Path, *arguments: str) -> Result:
    return CliRunner().invoke(main, ["check", str(data), *arguments])


def test_all_is_well(data: Path) -> None:
    result = run(data)
    assert result.exit_code == 0, result.output
    assert "everything verifies" in result.output
    assert "messages 1," in result.output


def test_json_for_programs(data: Path) -> None:
    (data / "stranger").write_bytes(b"")
    (data / "state.snapshot.tmp").write_bytes(b"")
    result = run(data, "--json", "--repair")
    report = json.loads(result.output)
    assert result.exit_code == report["exit_code"] == 0
    assert report["verified"]["metadata_entries"] == 4
    assert report["verified"]["metadata_snapshots"] == 2
    assert report["verified"]["clean_stop_records"] == 1
    levels = {os.path.basename(one["path"]): one["level"] for one in report["findings"]}
    assert levels == {"stranger": "note", "state.snapshot.tmp": "mendable"}
    assert (data / "stranger").exists()
    assert not (data / "state.snapshot.tmp").exists()


def test_a_directory_in_use_or_without_data_is_refused(data: Path, tmp_path: Path) -> None:
    fd = lock_data_directory(data)
    try:
        result = run(data, "--repair")
    finally:
        os.close(fd)
    assert result.exit_code == 1
    assert "another broker uses it" in result.output
    (tmp_path / "empty").mkdir()
    assert run(tmp_path / "empty").exit_code == 1
    assert list((tmp_path / "empty").iterdir()) == []


@pytest.mark.slow
def test_every_flipped_bit_of_the_metadata_is_found(data: Path) -> None:
    paths = [data / "state.messages", data / "clean-stop.0"]
    paths += [data / "state.snapshot", data / "state.snapshot.previous"]
    for path in paths:
        whole = path.read_bytes()
        # One bit of each byte: all of them are under one and the same checksum.
        for byte, flipped in flips(path)[::8]:
            overwrite(path, flipped)
            assert run(data).exit_code in (2, 3), (path, byte)
        overwrite(path, whole)
    assert run(data).exit_code == 0


def test_a_torn_metadata_entry_is_cut(data: Path) -> None:
    path = data / "state.messages"
    whole = path.read_bytes()
    for torn in (whole + b"torn", whole[:-1], whole[:-40]):
        overwrite(path, torn)
        assert run(data).exit_code == 2
        assert path.read_bytes() == torn
        assert run(data, "--repair").exit_code == 0
        assert path.read_bytes() == whole[: path.stat().st_size]
        assert run(data).exit_code == 0


def test_a_snapshot_that_is_not_what_the_log_says(data: Path) -> None:
    (data / "state.snapshot").write_bytes((data / "state.snapshot.previous").read_bytes())
    assert run(data).exit_code == 0, "an older snapshot is no lie"
    writer = open_writer(
        data / "state.messages", data / "state.snapshot", Files(), MetadataSettings(1 << 20)
    )
    writer.state.streams[0].created_at = 7
    snapshot = writer.take_snapshot()
    writer.close()
    overwrite(data / "state.snapshot", snapshot)
    result = run(data)
    assert result.exit_code == 3
    assert "is not what the log comes to" in result.output


def test_a_partition_that_is_gone_and_one_that_is_unknown(data: Path) -> None:
    partition = data / "streams/0/topics/0/partitions/0"
    partition.rename(data / "streams/0/topics/0/partitions/5")
    result = run(data)
    assert result.exit_code == 3
    assert "has no directory" in result.output
    assert "belongs to a deleted partition" in result.output


def test_partitions_younger_than_the_metadata(data: Path) -> None:
    for name in ("state.snapshot", "state.snapshot.previous"):
        (data / name).unlink()
    overwrite(data / "state.messages", b"")
    result = run(data)
    assert result.exit_code == 3
    assert "the broker will not start" in result.output


def test_a_newer_format_is_not_touched(data: Path) -> None:
    (data / "info.json").write_text('{"version": "9.9", "format": 99}')
    result = run(data, "--repair")
    assert result.exit_code == 1
    assert "newer broker" in result.output


@pytest.fixture
def encrypted(data: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The same directory, after encryption was switched on."""
    for name in ("KEY", "KEY_FILE"):
        monkeypatch.delenv(f"IGGY_SYSTEM_ENCRYPTION_{name}", raising=False)
    layout = DataLayout(data)
    write_check(layout, Files(), [KEY])
    writer = open_writer(
        layout.state_log,
        layout.state_snapshot,
        Files(),
        MetadataSettings(1 << 20, slots_max=100),
        encryption=Encryption(KEY, encrypts=True),
    )
    log(writer, CreateStream("secret"))
    writer.write_snapshot(writer.take_snapshot())
    log(writer, CreateStream("more"))
    writer.close()
    return data


def test_encrypted_metadata_with_its_key(
    encrypted: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("IGGY_SYSTEM_ENCRYPTION_KEY", TEXT)
    done = run(encrypted)
    assert done.exit_code == 0, done.output
    assert "encrypted" not in done.output.replace(str(encrypted), "")
    monkeypatch.delenv("IGGY_SYSTEM_ENCRYPTION_KEY")
    file = tmp_path / "key"
    file.write_text(TEXT)
    assert run(encrypted, "--key-file", str(file)).output == done.output


def test_encrypted_metadata_without_a_key_is_not_called_damaged(encrypted: Path) -> None:
    before = {path: path.read_bytes() for path in encrypted.rglob("*") if path.is_file()}
    done = run(encrypted, "--repair")
    assert done.exit_code == 0, done.output
    assert "no key was given" in done.output
    assert {path: path.read_bytes() for path in encrypted.rglob("*") if path.is_file()} == before
    log_file = encrypted / "state.messages"
    bad = bytearray(log_file.read_bytes())
    bad[40] ^= 1
    overwrite(log_file, bytes(bad))
    assert run(encrypted).exit_code == 3


def test_encrypted_metadata_with_a_wrong_key(
    encrypted: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("IGGY_SYSTEM_ENCRYPTION_KEY", "A" * 43 + "=")
    done = run(encrypted)
    assert done.exit_code == 1
    assert "is not the one that" in done.stderr
    check_file = encrypted / "encryption-check"
    overwrite(check_file, bytes(check_file.stat().st_size))
    monkeypatch.setenv("IGGY_SYSTEM_ENCRYPTION_KEY", TEXT)
    done = run(encrypted)
    assert done.exit_code == 3
    assert "encryption-check" in done.output
