"""Compressed topics as clients see them: the same messages, in every way of asking for them."""

import asyncio
import base64
import json
import random
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from apache_iggy import PollingStrategy as OfficialStrategy
from apache_iggy import SendMessage
from click.testing import CliRunner

from borzoi.client import BorzoiClient
from borzoi.main import main
from borzoi.protocol.commands.offsets import GetConsumerOffset, StoreConsumerOffset
from borzoi.protocol.commands.streams import CreateStream
from borzoi.protocol.commands.system import GetSnapshot, SnapshotCompression, SnapshotType
from borzoi.protocol.commands.topics import CreateTopic, DeleteSegments, PurgeTopic, UpdateTopic
from borzoi.protocol.identifiers import Consumer, ConsumerKind, PollingStrategy, StrategyKind
from borzoi.protocol.message import Message
from tests.broker import BrokerProcess, wait_for
from tests.conformance.official import connected
from tests.conftest import NewBroker
from tests.shard_wires import TWO_SHARDS, one_per_shard
from tests.topics import described
from tests.wire import NEXT, Wire

pytestmark = pytest.mark.slow

SMALL = {"IGGY_SYSTEM_SEGMENT_SIZE": "8KiB"}
OVERRIDE = {"IGGY_SYSTEM_COMPRESSION_ALLOW_OVERRIDE": "true"}
NAMES = {1: "none", 2: "gzip", 3: "lz4", 4: "zstd"}
A_CONSUMER = Consumer(ConsumerKind.CONSUMER, 42)
BATCH = 40
TIMEOUT_S = 30.0


@pytest.fixture(scope="module")
def packing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """Two shards, small segments, topics choose."""
    data = tmp_path_factory.mktemp("compression") / "data"
    broker = BrokerProcess(data, {**TWO_SHARDS, **SMALL, **OVERRIDE})
    broker.start()
    yield broker
    output = broker.output()
    assert broker.stop() == 0
    assert "fault of ours" not in output
    assert "is not compressed" not in output


def payload(number: int) -> bytes:
    choice = random.Random(number)
    return json.dumps(
        {
            "order": number,
            "user": f"user-{choice.randrange(1000)}",
            "amount": choice.randrange(100_000) / 100,
            "state": choice.choice(["new", "paid", "sent"]),
        }
    ).encode()


def new_topic(wire: Wire, name: str, code: int, partitions_count: int = 2) -> int:
    stream = wire.ask(CreateStream(name)).id
    wire.ask(CreateTopic(name, partitions_count, code, 0, 0, 1, name))
    assert isinstance(stream, int)
    return stream


def fill(wire: Wire, name: str, count: int, *, partition: int = 0, first: int = 0) -> list[bytes]:
    payloads = [payload(number) for number in range(first, first + count)]
    for start in range(0, count, BATCH):
        assert wire.send(name, partition, *payloads[start : start + BATCH]) == 0
    return payloads


def directory(broker: BrokerProcess, stream: int, partition: int = 0) -> Path:
    return broker.data / f"streams/{stream}/topics/0/partitions/{partition}"


def kinds(path: Path) -> dict[int, str]:
    """How the segments of a partition lie there: first offset and codec. Never two ways."""
    names = [one.name for one in path.glob("*.log*")]
    found = {int(name[:20]): name[20:].removeprefix(".log").lstrip(".") or "none" for name in names}
    return dict(sorted(found.items())) if len(found) == len(names) else {}


def with_two(found: dict[int, str], codec: str) -> dict[int, str] | None:
    """The same segments if two or more have this codec."""
    return found if list(found.values()).count(codec) >= 2 else None


def wait_compressed(path: Path, codec: str, count_min: int = 3) -> None:
    """Until all segments but the active one are compressed, and nothing is left over."""

    def is_done() -> bool:
        *sealed, active = kinds(path).values() or [""]
        return (
            len(sealed) >= count_min
            and set(sealed) == {codec}
            and active == "none"
            and not list(path.glob("*.tmp"))
        )

    wait_for(is_done, TIMEOUT_S)


def read_all(wire: Wire, name: str, partition: int = 0, step: int = 37) -> list[bytes]:
    found: list[bytes] = []
    while messages := wire.poll(
        name, partition, PollingStrategy(StrategyKind.OFFSET, len(found)), step
    ).messages:
        assert [one.offset for one in messages] == list(
            range(len(found), len(found) + len(messages))
        )
        found += [one.payload for one in messages]
    return found


@pytest.mark.parametrize("code", [1, 2, 3, 4])
def test_every_strategy_on_every_shard(packing: BrokerProcess, code: int) -> None:
    name = f"every-{code}"
    with one_per_shard(packing) as wires:
        stream = new_topic(wires[0], name, code)
        payloads = fill(wires[0], name, 600)
        if code == 1:
            assert set(kinds(directory(packing, stream)).values()) == {"none"}
        else:
            wait_compressed(directory(packing, stream), NAMES[code])
        for wire in wires:
            assert read_all(wire, name) == payloads
            assert [m.payload for m in wire.poll(name, count=10_000).messages] == payloads
            for offset in (0, 1, 150, 299, 598):
                (message,) = wire.poll(
                    name, 0, PollingStrategy(StrategyKind.OFFSET, offset), 1
                ).messages
                assert message.payload == payloads[offset]
                by_time = wire.poll(
                    name, 0, PollingStrategy(StrategyKind.TIMESTAMP, message.timestamp), 1
                ).messages
                assert by_time[0].timestamp == message.timestamp
                assert by_time[0].offset <= offset
            last = wire.poll(name, 0, PollingStrategy(StrategyKind.LAST, 0), 30).messages
            assert [m.payload for m in last] == payloads[-30:]
        followed: list[bytes] = []
        for number in range(12):
            polled = wires[number % 2].poll(
                name, 0, NEXT, 50, consumer=A_CONSUMER, auto_commit=True
            )
            followed += [m.payload for m in polled.messages]
        assert followed == payloads
        stored = wires[0].ask(GetConsumerOffset(A_CONSUMER, name, name, 0))
        assert stored.stored_offset == 599
        details = described(wires[0], name).partitions[0]
        assert details.size_bytes == sum(64 + len(one) for one in payloads)
        assert details.messages_count == 600


@pytest.mark.parametrize("code", [2, 4])
def test_the_official_client_reads_and_writes_compressed_topics(
    packing: BrokerProcess, code: int
) -> None:
    name = f"official-{code}"
    wire = Wire(packing)
    stream = new_topic(wire, name, code)

    async def run() -> None:
        client = await connected(packing, "tcp")
        topic = await client.get_topic(name, name)
        assert topic is not None, "it does not know zstd, and is shown gzip"
        for start in range(0, 400, BATCH):
            batch = [SendMessage(payload(start + number)) for number in range(BATCH)]
            await client.send_messages(name, name, 1, batch)
        await asyncio.to_thread(wait_compressed, directory(packing, stream, 1), NAMES[code])
        found: list[bytes] = []
        while True:
            polled = await client.poll_messages(name, name, 1, OfficialStrategy.Next(), 33, True)
            if not polled:
                break
            found += [message.payload() for message in polled]
        assert found == [payload(number) for number in range(400)]
        again = await client.poll_messages(name, name, 1, OfficialStrategy.Offset(123), 5, False)
        assert [message.payload() for message in again] == found[123:128]

    asyncio.run(run())
    wire.close()


@pytest.mark.parametrize("code", [3, 4])
def test_our_client_sees_the_codec_that_it_asked_for(packing: BrokerProcess, code: int) -> None:
    name = f"ours-{code}"

    async def run() -> None:
        address = f"iggy://iggy:iggy@{packing.address}"
        async with BorzoiClient.connect(address) as client:
            stream = await client.create_stream(name)
            made = await client.create_topic(name, name, compression_algorithm=code)
            assert made.topic.compression_algorithm == code
            for start in range(0, 400, BATCH):
                batch = [payload(start + number) for number in range(BATCH)]
                await client.send_messages(name, name, batch, partition_id=0)
            await asyncio.to_thread(wait_compressed, directory(packing, stream.id), NAMES[code])
            details = await client.get_topic(name, name)
            assert details is not None
            assert details.topic.compression_algorithm == code

    asyncio.run(run())
    with one_per_shard(packing) as wires:
        for wire in wires:
            assert read_all(wire, name) == [payload(number) for number in range(400)]
            assert described(wire, name).topic.compression_algorithm == 2


def test_a_changed_codec_counts_for_segments_that_are_sealed_later(packing: BrokerProcess) -> None:
    wire = Wire(packing)
    stream = new_topic(wire, "changed", 1)
    path = directory(packing, stream)
    payloads = fill(wire, "changed", 400)
    before = kinds(path)
    assert set(before.values()) == {"none"}
    wire.ask(UpdateTopic("changed", "changed", 4, 0, 0, 1, "changed"))
    payloads += fill(wire, "changed", 400, first=400)
    sealed_before = list(before)[:-1]
    wait_for(lambda: with_two(kinds(path), "zstd"), TIMEOUT_S)
    wire.ask(UpdateTopic("changed", "changed", 2, 0, 0, 1, "changed"))
    payloads += fill(wire, "changed", 400, first=800)
    found = wait_for(lambda: with_two(kinds(path), "gzip"), TIMEOUT_S)
    assert found is not None
    assert {found[first] for first in sealed_before} == {"none"}
    order = [codec for codec in found.values() if codec != "none"]
    assert order == sorted(order, reverse=True), "first zstd, then gzip"
    assert read_all(wire, "changed") == payloads
    wire.close()


def test_compressed_segments_are_deleted_and_purged(packing: BrokerProcess) -> None:
    wire = Wire(packing)
    stream = new_topic(wire, "deleted", 3)
    path = directory(packing, stream)
    payloads = fill(wire, "deleted", 600)
    wait_compressed(path, "lz4")
    segments = list(kinds(path))
    assert len(wire.poll("deleted", count=5).messages) == 5
    wire.ask(DeleteSegments("deleted", "deleted", 0, 2))
    assert list(kinds(path)) == segments[2:]
    assert len(list(path.glob("*.index"))) == len(segments) - 2
    polled = wire.poll("deleted", count=1000).messages
    assert [m.payload for m in polled] == payloads[segments[2] :]
    assert polled[0].offset == segments[2]
    wire.ask(PurgeTopic("deleted", "deleted"))
    assert wire.poll("deleted").messages == ()
    assert fill(wire, "deleted", 500) == read_all(wire, "deleted")
    wait_compressed(path, "lz4")
    assert read_all(wire, "deleted") == payloads[:500]
    wait_for(lambda: not list((packing.data / "trash").iterdir()), TIMEOUT_S)
    wire.close()


def test_readers_see_no_gap_while_segments_are_swapped(packing: BrokerProcess) -> None:
    with one_per_shard(packing) as wires:
        new_topic(wires[0], "swapped", 4)
        stop = threading.Event()
        failures: list[BaseException] = []
        rounds: list[int] = []

        def read(wire: Wire) -> None:
            try:
                while not stop.is_set():
                    found = read_all(wire, "swapped")
                    assert found == [payload(number) for number in range(len(found))]
                    rounds.append(len(found))
            except BaseException as error:
                failures.append(error)

        readers = [threading.Thread(target=read, args=(wire,)) for wire in wires]
        for reader in readers:
            reader.start()
        sender = Wire(packing)
        fill(sender, "swapped", 2000)
        sender.close()
        wait_for(lambda: rounds.count(2000) >= 4 or failures, TIMEOUT_S)
        stop.set()
        for reader in readers:
            reader.join()
        assert not failures


KEY = bytes(range(32))
ALL_OF_IT = {
    **TWO_SHARDS,
    **SMALL,
    "IGGY_SYSTEM_ENCRYPTION_ENABLED": "true",
    "IGGY_SYSTEM_ENCRYPTION_KEY": base64.b64encode(KEY).decode(),
    "IGGY_SYSTEM_MESSAGE_DEDUPLICATION_ENABLED": "true",
    "IGGY_SYSTEM_MESSAGE_DEDUPLICATION_EXPIRY": "1h",
    "IGGY_SYSTEM_SEGMENT_CACHE_INDEXES": "none",
    "IGGY_MESSAGE_SAVER_INTERVAL": "200 ms",
}


def borzoi(*arguments: str | Path, **environment: str) -> str:
    """What the command line says, in this process."""
    result = CliRunner().invoke(main, [*map(str, arguments)], env=environment)
    assert result.exit_code == 0, result.output
    return result.output


def send_numbered(wire: Wire, payloads: list[bytes]) -> None:
    """Sends them to topic "all", with the same ids each time."""
    for start in range(0, len(payloads), BATCH):
        numbers = range(start, start + BATCH)
        batch = [Message(payloads[number], number + 1) for number in numbers]
        assert wire.send("all", 0, *batch) == 0


def check_compressed(broker: BrokerProcess, path: Path, segments_count: int, key: Path) -> None:
    """The command line verifies everything, with the key and without, and has the figures."""
    for options in ((), ("--key-file", key)):
        assert "everything verifies" in borzoi("check", broker.data, *options)
    (figures,) = json.loads(borzoi("compression", "--json", broker.data))
    assert figures["compressed_segments"] == segments_count
    assert figures["codecs"] == ["zstd"]
    stored = sum(one.stat().st_size for one in path.glob("*.zstd"))
    assert figures["saved_bytes"] == figures["plain_bytes"] - stored > 0
    assert f"{figures['saved_bytes']} bytes saved" in borzoi("compression", broker.data)


def test_with_encryption_deduplication_archive_and_check(
    new_broker: NewBroker, tmp_path: Path
) -> None:
    """First nothing is compressed, then everything, then nothing new; stopped, then killed."""
    broker = new_broker(**ALL_OF_IT)
    wire = Wire(broker)
    path = directory(broker, new_topic(wire, "all", 4, 1))  # topics may not choose here
    payloads = [payload(number) for number in range(400)]
    send_numbered(wire, payloads)
    segments = list(kinds(path))
    assert set(kinds(path).values()) == {"none"}
    wire.close()
    assert broker.stop() == 0
    broker.settings["IGGY_SYSTEM_COMPRESSION_DEFAULT_ALGORITHM"] = "zstd"
    broker.start()
    wait_compressed(path, "zstd")
    assert "ratio" in broker.output()
    broker.kill()
    assert all(b"user-" not in one.read_bytes() for one in path.glob("0*"))
    # So that the next run has to make it from blocks that it must decrypt.
    (path / f"{segments[1]:020d}.index").unlink()

    archive = tmp_path / "archive"
    broker.settings |= {
        "IGGY_DATA_MAINTENANCE_ARCHIVER_ENABLED": "true",
        "IGGY_DATA_MAINTENANCE_ARCHIVER_INTERVAL": "50 ms",
        "IGGY_SYSTEM_BACKUP_PATH": str(archive),
        "IGGY_SYSTEM_COMPRESSION_DEFAULT_ALGORITHM": "none",
    }
    broker.start()
    wire = Wire(broker)
    send_numbered(wire, payloads)
    assert read_all(wire, "all") == payloads, "each of them once"
    wait_compressed(path, "zstd")
    wait_for(lambda: len(list(archive.rglob("streams/**/*.json"))) == len(segments) - 1, TIMEOUT_S)
    assert len(list(archive.rglob("*.log.zstd"))) == len(segments) - 1
    wire.ask(StoreConsumerOffset(A_CONSUMER, "all", "all", 0, segments[2] - 1))
    wire.ask(DeleteSegments("all", "all", 0, 1000))
    assert list(kinds(path)) == segments[2:], "what is not read is protected"
    wanted = GetSnapshot(SnapshotCompression.STORED, (SnapshotType.FILESYSTEM_OVERVIEW,))
    assert b"bytes saved" in wire.ask(wanted)
    wire.close()
    assert broker.stop() == 0

    key_file = tmp_path / "key"
    key_file.write_text(ALL_OF_IT["IGGY_SYSTEM_ENCRYPTION_KEY"])
    key_file.chmod(0o600)
    check_compressed(broker, path, len(segments) - 3, key_file)

    restored = new_broker(start=False, **{**ALL_OF_IT, "IGGY_SYSTEM_SEGMENT_CACHE_INDEXES": "all"})
    into = ("--path", archive, "--into", restored.data)
    borzoi("archive", "restore", *into, **ALL_OF_IT)
    restored.start()
    wire = Wire(restored)
    assert read_all(wire, "all") == payloads[: segments[-1]]
    wire.close()
