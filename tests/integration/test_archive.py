"""The archive of a running broker, and what comes back from it, with the official client."""

import asyncio
import os
import re
import shutil
from pathlib import Path

import pytest
from apache_iggy import PollingStrategy
from click.testing import CliRunner, Result

from borzoi.main import main
from borzoi.protocol.commands.offsets import GetConsumerOffset, StoreConsumerOffset
from borzoi.protocol.commands.streams import CreateStream, GetStreams
from borzoi.protocol.commands.system import GetSnapshot, SnapshotCompression, SnapshotType
from borzoi.protocol.commands.topics import PurgeTopic, UpdateTopic
from borzoi.protocol.identifiers import Consumer, ConsumerKind
from borzoi.storage.archive.catalogue import read_offsets
from borzoi.storage.archive.store import DirectoryStore
from borzoi.storage.files import Files
from tests.broker import BrokerProcess, wait_for
from tests.conformance.official import connected, poll
from tests.conftest import NewBroker
from tests.s3_server import KEY_SECRET, s3_server
from tests.shard_wires import TWO_SHARDS
from tests.shards.unzipping import unzipped
from tests.topics import described, topic_of
from tests.wire import Wire

pytestmark = pytest.mark.slow

ARCHIVER = "IGGY_DATA_MAINTENANCE_ARCHIVER"
SMALL = {**TWO_SHARDS, "IGGY_SYSTEM_SEGMENT_SIZE": "5KiB"}
ARCHIVING = {f"{ARCHIVER}_ENABLED": "true", f"{ARCHIVER}_INTERVAL": "50 ms"}
OFTEN = {
    "IGGY_DATA_MAINTENANCE_MESSAGES_CLEANER_ENABLED": "true",
    "IGGY_DATA_MAINTENANCE_MESSAGES_INTERVAL": "20 ms",
}
ENCRYPTED = {
    "IGGY_SYSTEM_ENCRYPTION_ENABLED": "true",
    "IGGY_SYSTEM_ENCRYPTION_KEY": "A" * 43 + "=",
}
A_CONSUMER = Consumer(ConsumerKind.CONSUMER, 42)
NEVER = (1 << 64) - 1
PATIENCE_S = 40.0


def payload(name: str, partition: int, number: int) -> bytes:
    """With its header 1,000 bytes, so 7 messages in a segment."""
    return f"{name}/{partition}/{number}".encode().ljust(936)


def fill(wire: Wire, name: str, partition: int, numbers: range) -> None:
    for number in numbers:
        status = wire.send(name, partition, payload(name, partition, number))
        assert status == 0, f"status {status} for {name}/{partition}/{number}"


def new_topic(wire: Wire, name: str, partitions_count: int) -> None:
    wire.ask(CreateStream(name))
    wire.ask(topic_of(name, partitions_count))


def manifests(archive: Path) -> list[str]:
    found = (archive / "streams").rglob("*.json")
    return sorted(str(path.relative_to(archive / "streams")) for path in found)


def borzoi(*arguments: str | Path, **environment: str) -> Result:
    """The command line, in this process."""
    return CliRunner().invoke(
        main, ["archive", *map(str, arguments)], env=environment, catch_exceptions=False
    )


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What a broker has archived: streams `one` (2 partitions, purged once) and `two`."""
    place = tmp_path_factory.mktemp("archive")
    path = place / "archive"
    settings = {**SMALL, **ARCHIVING, "IGGY_SYSTEM_BACKUP_PATH": str(path)}
    broker = BrokerProcess(place / "data", settings)
    broker.start()
    try:
        wire = Wire(broker)
        new_topic(wire, "one", 2)
        fill(wire, "one", 0, range(100, 108))
        wait_for(lambda: len(manifests(path)) == 1, PATIENCE_S)
        wire.ask(PurgeTopic("one", "one"))
        new_topic(wire, "two", 1)
        for partition in (0, 1):
            fill(wire, "one", partition, range(25))
        fill(wire, "two", 0, range(8))
        wire.ask(StoreConsumerOffset(A_CONSUMER, "one", "one", 0, 3))
        wire.ask(StoreConsumerOffset(A_CONSUMER, "one", "one", 1, 24))
        wait_for(lambda: len(manifests(path)) == 1 + 3 + 3 + 1, PATIENCE_S)
        wait_for(lambda: (path / "state" / f"{6:020d}.json").exists(), PATIENCE_S)
        store = DirectoryStore(str(path), Files())
        wait_for(lambda: len(read_offsets(store)) == 2, PATIENCE_S)
        assert broker.stop() == 0
    finally:
        broker.close()
    assert "fault of ours" not in broker.output()
    return path


@pytest.fixture
def copy(archive: Path, tmp_path: Path) -> Path:
    """One to spoil."""
    return Path(shutil.copytree(archive, tmp_path / "copy"))


def read_officially(broker: BrokerProcess, name: str, partition: int) -> list[tuple[int, bytes]]:
    async def read() -> list[tuple[int, bytes]]:
        client = await connected(broker, "tcp")
        found = await poll(client, name, partition, PollingStrategy.First())
        return [(one.offset, one.payload) for one in found]

    return asyncio.run(read())


def expected(name: str, partition: int, numbers: range) -> list[tuple[int, bytes]]:
    return [(number, payload(name, partition, number)) for number in numbers]


def committed(wire: Wire, partition: int) -> int | None:
    found = wire.ask(GetConsumerOffset(A_CONSUMER, "one", "one", partition))
    return None if found is None else int(found.stored_offset)


def test_a_whole_broker_comes_back(archive: Path, new_broker: NewBroker) -> None:
    # Few connections: a warning that the machine grants fewer is none about the data.
    broker = new_broker(start=False, IGGY_LIMITS_CONNECTIONS_MAX="100", **SMALL)
    result = borzoi("restore", "--path", archive, "--into", broker.data)
    assert result.exit_code == 0, result.output
    assert "3 partitions, 7 segments" in result.output
    assert "not in the archive" in result.output
    broker.start()
    for name, partition, end in (("one", 0, 21), ("one", 1, 21), ("two", 0, 7)):
        found = read_officially(broker, name, partition)
        assert found == expected(name, partition, range(end))
    wire = Wire(broker)
    assert committed(wire, 0) == 3
    # The messages behind it were not archived: it must not skip those that come now.
    assert committed(wire, 1) == 20
    fill(wire, "one", 1, range(21, 30))
    for restart in (broker.kill, broker.stop):
        restart()
        broker.start()
        found = read_officially(broker, "one", 1)
        assert found == expected("one", 1, range(30))
    output = broker.output()
    assert "its birth is" not in output
    assert " WARN shard-" not in output, output
    assert " ERROR " not in output, output
    assert not [path for path in broker.data.rglob("*") if path.stat().st_mode & 0o077]


def test_a_topic_or_a_partition_comes_back_alone(archive: Path, new_broker: NewBroker) -> None:
    broker = new_broker(start=False, **SMALL)
    place = ("--path", archive, "--into", broker.data)
    result = borzoi("restore", *place, "--stream", "one", "--topic", "0", "--partition", "1")
    assert result.exit_code == 0, result.output
    broker.start()
    wire = Wire(broker)
    assert [stream.name for stream in wire.ask(GetStreams())] == ["one"]
    assert read_officially(broker, "one", 0) == []
    assert read_officially(broker, "one", 1) == expected("one", 1, range(21))
    # What was deleted can be made again.
    new_topic(wire, "two", 1)
    fill(wire, "two", 0, range(3))
    assert broker.stop() == 0

    other = broker.data.parent / "topic"
    result = borzoi("restore", "--path", archive, "--into", other, "--stream", "two")
    assert result.exit_code == 0, result.output
    assert "1 partitions, 1 segments" in result.output
    assert sorted(path.name for path in (other / "streams").iterdir()) == ["1"]


def test_an_earlier_life_comes_back_with_earlier_metadata(
    archive: Path, new_broker: NewBroker
) -> None:
    broker = new_broker(start=False, **SMALL)
    result = borzoi("restore", "--path", archive, "--into", broker.data, "--entry", "3")
    assert result.exit_code == 0, result.output
    broker.start()
    found = read_officially(broker, "one", 0)
    assert found == [(at, payload("one", 0, 100 + at)) for at in range(7)]


def test_nothing_is_restored_into_a_directory_that_is_in_use(archive: Path, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    result = borzoi("restore", "--path", archive, "--into", tmp_path)
    assert result.exit_code == 1
    assert "is not empty" in result.output
    assert os.listdir(tmp_path) == ["file"]
    for choice in (
        ["--stream", "nothing"],
        ["--stream", "one", "--topic", "one", "--partition", "7"],
        ["--topic", "one"],
        ["--entry", "0"],
    ):
        result = borzoi("restore", "--path", archive, "--into", tmp_path / "new", *choice)
        assert result.exit_code == 1, choice
        assert not (tmp_path / "new").exists() or not os.listdir(tmp_path / "new")


def test_listing_tells_lives_apart(archive: Path) -> None:
    result = borzoi("ls", "--path", archive)
    assert result.exit_code == 0, result.output
    lines = [line.split("  ") for line in result.output.splitlines()[1:]]
    assert [(line[0], line[2]) for line in lines] == [
        ("0/0/0", "offsets 0 to 6"),
        ("one/one/0", "offsets 0 to 20"),
        ("one/one/1", "offsets 0 to 20"),
        ("two/two/0", "offsets 0 to 6"),
    ]
    assert "an earlier life" in lines[0][1]
    as_json = borzoi("ls", "--path", archive, "--json").output
    assert '"last_offset":20' in as_json


def test_verify_finds_what_is_damaged(archive: Path, copy: Path, tmp_path: Path) -> None:
    sound = borzoi("verify", "--path", archive)
    assert sound.exit_code == 0, sound.output
    assert "8 segments" in sound.output
    assert "0 damaged" in sound.output

    partition = next((copy / "streams/0/topics/0/partitions/1").iterdir())
    log = partition / f"{7:020d}.log"
    data = bytearray(log.read_bytes())
    data[len(data) // 2] ^= 0x10
    log.write_bytes(data)
    (partition / f"{14:020d}.index").unlink()
    only_other = borzoi("verify", "--path", copy, "--stream", "two")
    assert only_other.exit_code == 0, only_other.output
    result = borzoi("verify", "--path", copy)
    assert result.exit_code == 1
    assert "2 damaged" in result.output
    assert f"{7:020d}.log: its SHA-256 does not match" in result.output
    manifest = partition / f"{0:020d}.json"
    manifest.write_bytes(manifest.read_bytes().replace(b'"birth":', b'"birth":1'))
    state = copy / "state" / f"{6:020d}" / "state.messages"
    metadata = state.read_bytes()
    state.write_bytes(b"x")
    (copy / "offsets" / "0.json").write_bytes(b"x")
    result = borzoi("verify", "--path", copy)
    assert "5 damaged" in result.output

    # And it is not restored, unless the rest will do.
    result = borzoi("restore", "--path", copy, "--into", tmp_path / "data")
    assert result.exit_code == 1
    assert re.search(r"state.messages.*--entry takes an older state", result.output)
    state.write_bytes(metadata)
    result = borzoi("restore", "--path", copy, "--into", tmp_path / "data")
    assert result.exit_code == 1
    assert "--skip-damaged" in result.output
    assert os.listdir(tmp_path / "data") == []
    result = borzoi("restore", "--path", copy, "--into", tmp_path / "data", "--skip-damaged")
    assert result.exit_code == 0, result.output
    assert result.output.count("DAMAGED, left out") == 4


def test_retention_waits_for_the_archive(new_broker: NewBroker, tmp_path: Path) -> None:
    """The archive cannot be written, so nothing is deleted; it can be, so all of it is there."""
    path = tmp_path / "archive"
    path.write_bytes(b"no directory")
    broker = new_broker(
        **SMALL,
        **OFTEN,
        IGGY_SYSTEM_BACKUP_PATH=str(path),
        IGGY_SYSTEM_SEGMENT_ARCHIVE_EXPIRED="true",
    )
    wire = Wire(broker)
    new_topic(wire, "old", 2)
    for partition in (0, 1):
        fill(wire, "old", partition, range(25))
    wire.ask(UpdateTopic("old", "old", 1, 1000, NEVER, 1, "old"))
    wait_for(lambda: "the archive failed" in broker.output(), PATIENCE_S)
    assert described(wire, "old").topic.size_bytes == 50_000
    path.unlink()
    wait_for(lambda: described(wire, "old").topic.size_bytes == 8_000, PATIENCE_S)
    assert len(manifests(path)) == 6
    result = borzoi("verify", "--path", path)
    assert result.exit_code == 0, result.output
    assert "the archive works again" in broker.output()
    # What a snapshot tells of it, all shards together.
    archive = wire.ask(GetSnapshot(SnapshotCompression.STORED, (SnapshotType.RESOURCE_USAGE,)))
    usage = unzipped(archive)["resource_usage.txt"].decode()
    for done in ("deleted", "archived"):
        logged = re.findall(rf"(?m)^shard \d: {done} (\d+) segments with (\d+) bytes$", usage)
        assert len(logged) == len(broker.workers())
        assert sum(int(segments) for segments, _ in logged) == 6
        assert sum(int(size) for _, size in logged) >= 42_000


def test_an_archive_belongs_to_one_data_directory(new_broker: NewBroker, archive: Path) -> None:
    before = sorted(path for path in archive.rglob("*"))
    broker = new_broker(**SMALL, **ARCHIVING, IGGY_SYSTEM_BACKUP_PATH=str(archive))
    wait_for(lambda: "is the archive of another data directory" in broker.output(), PATIENCE_S)
    wire = Wire(broker)
    new_topic(wire, "mine", 1)
    fill(wire, "mine", 0, range(20))
    assert broker.stop() == 0
    assert sorted(path for path in archive.rglob("*")) == before


def test_a_bucket_as_well_and_encrypted(new_broker: NewBroker) -> None:
    """Encrypted segments travel as they are; the metadata needs the key to be looked at."""
    with s3_server() as server:
        place = server.settings("cluster-1/node-a")
        settings = {**place, **ENCRYPTED}
        broker = new_broker(**SMALL, **ARCHIVING, **settings)
        wire = Wire(broker)
        new_topic(wire, "one", 2)
        for partition in (0, 1):
            fill(wire, "one", partition, range(25))
        wire.ask(StoreConsumerOffset(A_CONSUMER, "one", "one", 0, 3))
        wait_for(lambda: broker.output().count("archived the segment") == 8, PATIENCE_S)
        wait_for(lambda: '"last_offset":23' in borzoi("ls", "--json", **settings).output)
        again = new_broker(start=False, **SMALL, **ENCRYPTED)

        def all_is_there() -> bool:
            shutil.rmtree(again.data, ignore_errors=True)
            result = borzoi("restore", "--into", again.data, **settings)
            return "8 segments" in result.output and "offsets of 1 consumers" in result.output

        wait_for(all_is_there, PATIENCE_S)
        without_key = borzoi("restore", "--into", again.data.parent / "new", **place)
        assert without_key.exit_code == 1
        assert "encrypt" in without_key.output
        verified = borzoi("verify", **place)
        assert verified.exit_code == 0, verified.output
        assert broker.stop() == 0
        again.start()
        for partition in (0, 1):
            found = read_officially(again, "one", partition)
            # Six to a segment: encrypted messages are a little larger.
            assert found == expected("one", partition, range(24))
        assert committed(Wire(again), 0) == 3
        shown = broker.output() + verified.output
        shown += "".join(p.read_text() for p in (broker.data / "logs").iterdir())
        shown += "".join(p.read_text() for p in (broker.data / "runtime").iterdir())
        assert KEY_SECRET not in shown
