"""The encryption key is exchanged while a broker serves, and while it is stopped."""

import base64
import json
import os
import threading
from collections.abc import Mapping, Sequence
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from borzoi.main import main
from borzoi.protocol.commands.streams import CreateStream
from borzoi.protocol.commands.topics import CreateTopic
from tests.broker import BrokerProcess, wait_for
from tests.conftest import NewBroker
from tests.docs.blocks import blocks_of, commands_of
from tests.scraped import Scraped
from tests.shard_wires import TWO_SHARDS, connect, one_per_shard
from tests.tidy.repository import ROOT
from tests.wire import Wire

pytestmark = pytest.mark.slow

PARTITIONS = 4
PAYLOADS = [b"secret order %d " % number * 20 for number in range(40)]
SMALL = {
    "IGGY_SYSTEM_SEGMENT_SIZE": "2KiB",
    "IGGY_SYSTEM_COMPRESSION_ALLOW_OVERRIDE": "true",
    "IGGY_MESSAGE_SAVER_INTERVAL": "200 ms",
    "IGGY_METRICS_ENABLED": "true",
    "IGGY_METRICS_ADDRESS": "127.0.0.1:0",
}
CODECS = {"plain": 1, "packed": 4}
TIMEOUT_S = 60.0
PAGE = ROOT / "docs/OPERATIONS.md"
HEADS = ["key", "state", "segments", "bytes", "metadata"]


def new_key_file(path: Path) -> Path:
    path.touch(0o600)
    path.write_bytes(base64.b64encode(os.urandom(32)) + b"\n")
    return path


def encrypted(key_file: Path) -> dict[str, str]:
    return {
        **TWO_SHARDS,
        **SMALL,
        "IGGY_SYSTEM_ENCRYPTION_ENABLED": "true",
        "IGGY_SYSTEM_ENCRYPTION_KEY_FILE": str(key_file),
    }


class Keys:
    """`borzoi encryption` for one broker."""

    def __init__(self, broker: BrokerProcess) -> None:
        self._environ = {**broker.settings, "IGGY_SYSTEM_PATH": str(broker.data)}

    def run(self, *words: str) -> Any:
        """What the command prints as JSON; it must succeed."""
        code, text = self.end(*words, "--json")
        assert code == 0, text
        return json.loads(text)

    def end(self, *words: str) -> tuple[int, str]:
        gone = dict.fromkeys(name for name in os.environ if name.startswith("IGGY_"))
        environ: Mapping[str, str | None] = {**gone, **self._environ}
        ran = CliRunner().invoke(main, ["encryption", *words], env=environ)
        return ran.exit_code, ran.output

    def states(self) -> dict[str, str]:
        """By the id of the key."""
        return {row["key_id"]: row["state"] for row in self.run("status")["keys"] if row["key_id"]}

    def is_over(self) -> bool:
        return "needed" not in self.states().values()


def fill(wire: Wire) -> None:
    wire.ask(CreateStream("s"))
    for name, codec in CODECS.items():
        wire.ask(CreateTopic("s", PARTITIONS, codec, 0, 0, 1, name))
        for partition in range(PARTITIONS):
            for at in range(0, len(PAYLOADS), 4):
                wire.append("s", name, partition, PAYLOADS[at : at + 4])


def contents(wire: Wire, topic: str, partition: int) -> list[bytes]:
    return [message.payload for message in wire.read("s", topic, partition)]


def is_whole(wire: Wire, more: Sequence[bytes] = ()) -> bool:
    return all(
        contents(wire, topic, partition) == [*PAYLOADS, *more]
        for topic in CODECS
        for partition in range(PARTITIONS)
    )


class Traffic:
    """Sends to one partition and reads everything, through each shard, until it is ended."""

    def __init__(self, broker: BrokerProcess) -> None:
        self._broker = broker
        self._ended = threading.Event()
        self.sent: list[bytes] = []
        self.rounds = 0
        self.problems: list[str] = []
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> "Traffic":
        self._thread.start()
        return self

    def __exit__(self, *_exception: object) -> None:
        self._ended.set()
        self._thread.join(TIMEOUT_S)
        assert self.problems == []

    def _run(self) -> None:
        try:
            with one_per_shard(self._broker) as wires:
                for number in count():
                    if self._ended.is_set():
                        return
                    self._round(wires[number % 2], number)
                    self.rounds += 1
        except BaseException as error:
            self.problems.append(repr(error))
            raise

    def _round(self, wire: Wire, number: int) -> None:
        self.sent.append(b"meanwhile %d " % number * 10)
        wire.append("s", "plain", 0, self.sent[-1:])
        for topic in CODECS:
            for partition in range(PARTITIONS):
                more = self.sent if (topic, partition) == ("plain", 0) else []
                if contents(wire, topic, partition) != [*PAYLOADS, *more]:
                    self.problems.append(f"{topic} {partition} reads otherwise in round {number}")
                    return


@pytest.fixture
def rotating(new_broker: NewBroker, tmp_path: Path) -> BrokerProcess:
    broker = new_broker(**encrypted(new_key_file(tmp_path / "key")))
    with connect(broker) as wire:
        fill(wire)
    return broker


def documented() -> list[list[str]]:
    """The commands of the page, without the name of the group."""
    (block,) = (one for one in blocks_of(PAGE) if "encryption rotate" in one.text)
    return [command.split()[2:] for command in commands_of(block)]


def test_a_running_broker_exchanges_its_key(rotating: BrokerProcess, tmp_path: Path) -> None:
    rotate, status, forget = documented()
    broker, keys = rotating, Keys(rotating)
    key_file = tmp_path / "key"
    (old,) = keys.states()
    wait_for(lambda: list(broker.data.glob("streams/*/topics/*/partitions/*/*.zstd")), TIMEOUT_S)
    with Traffic(broker) as traffic:
        wait_for(lambda: traffic.rounds > 1, TIMEOUT_S)
        rotated = keys.run(*rotate)
        assert (rotated["old_key_id"], rotated["broker_runs"]) == (old, True)
        new = rotated["key_id"]
        assert keys.states()[new] == "in_use"
        wait_for(keys.is_over, TIMEOUT_S)
        seen = traffic.rounds
        wait_for(lambda: traffic.rounds > seen + 2, TIMEOUT_S)
    assert keys.states() == {new: "in_use", old: "not_needed"}
    assert keys.run(*status)["waiting_segments"] == 0
    code, shown = keys.end(*status)
    assert (code, shown.splitlines()[0].split()) == (0, HEADS)
    figures = Scraped.of(broker.metrics_address)
    assert figures.total("borzoi_encryption_reencrypted_segments") >= 8
    assert figures.total("borzoi_encryption_old_key_segments") == 0
    assert len(key_file.read_text().splitlines()) == 2
    assert keys.run("forget") == {"not_needed": [old], "removed": []}
    assert keys.run(*forget)["removed"] == [old]
    assert len(key_file.read_text().splitlines()) == 1
    assert key_file.stat().st_mode & 0o777 == 0o600
    # One key again, in the words of every version, and nothing that the old one is needed for.
    assert (broker.data / "encryption-check").read_bytes().startswith(b"BZKEYCK1")
    broker.kill()
    broker.start()
    with connect(broker) as wire:
        assert contents(wire, "plain", 0) == [*PAYLOADS, *traffic.sent]
        assert contents(wire, "packed", 3) == PAYLOADS


def test_a_stopped_broker_goes_on_with_it_when_it_starts(rotating: BrokerProcess) -> None:
    broker, keys = rotating, Keys(rotating)
    (old,) = keys.states()
    assert broker.stop() == 0
    rotated = keys.run("rotate")
    assert rotated["broker_runs"] is False
    code, text = keys.end("rotate")
    assert (code, "an exchange is going on" in text) == (1, True)
    assert keys.states() == {rotated["key_id"]: "in_use", old: "needed"}
    broker.start()
    wait_for(keys.is_over, TIMEOUT_S)
    with connect(broker) as wire:
        assert is_whole(wire)


def test_without_the_old_key_nothing_starts(rotating: BrokerProcess, tmp_path: Path) -> None:
    broker, keys = rotating, Keys(rotating)
    (old,) = keys.states()
    assert broker.stop() == 0
    keys.run("rotate")
    key_file = tmp_path / "key"
    both = key_file.read_text()
    key_file.write_text(both.splitlines()[0] + "\n")
    with pytest.raises(AssertionError, match=f"still holds data .* the key {old}, which is not"):
        broker.start()
    key_file.write_text(both)
    broker.start()
    with connect(broker) as wire:
        assert is_whole(wire)


def test_what_is_damaged_keeps_its_old_key(rotating: BrokerProcess) -> None:
    broker, keys = rotating, Keys(rotating)
    (old,) = keys.states()
    assert broker.stop() == 0
    rotten = broker.data / "streams/0/topics/0/partitions/1" / f"{0:020d}.log"
    data = bytearray(rotten.read_bytes())
    data[-40] ^= 1
    rotten.write_bytes(data)
    keys.run("rotate")
    broker.start()
    wait_for(lambda: keys.run("status")["waiting_segments"] == 1, TIMEOUT_S)
    wait_for(lambda: "segment 0 keeps its old key" in broker.output(), TIMEOUT_S)
    assert keys.states()[old] == "needed"
    figures = Scraped.of(broker.metrics_address)
    assert figures.total("borzoi_encryption_old_key_damaged_segments") == 1
    assert figures.total("borzoi_encryption_old_key_segments") == 1
    # Another exchange is possible; the key between the two is needed by nothing then.
    assert keys.end("rotate")[0] == 1
    between = keys.run("rotate", "--again")["old_key_id"]
    wait_for(lambda: keys.states()[between] == "not_needed", TIMEOUT_S)
    assert keys.states()[old] == "needed"
    with connect(broker) as wire:
        assert contents(wire, "plain", 0) == PAYLOADS


def test_what_cannot_be_taken_is_refused_and_changes_nothing(
    rotating: BrokerProcess, tmp_path: Path
) -> None:
    keys, key_file = Keys(rotating), tmp_path / "key"
    (old,) = keys.states()
    good = key_file.read_text()
    key_file.write_text("hunter2\n" + good)
    code, text = keys.end("rotate")
    assert (code, "cannot be used" in text, "hunter2" in text) == (1, True, False)
    key_file.write_text(good)
    settings = rotating.settings
    rotating.settings = {**settings, "IGGY_SYSTEM_ENCRYPTION_ENABLED": "false"}
    code, text = Keys(rotating).end("rotate")
    assert (code, "system.encryption.enabled is false" in text) == (1, True)
    rotating.settings = settings
    assert keys.states() == {old: "in_use"}
    assert key_file.read_text() == good


def test_an_archive_that_is_older_than_the_key_needs_the_old_one(
    new_broker: NewBroker, tmp_path: Path
) -> None:
    key_file = new_key_file(tmp_path / "key")
    broker = new_broker(**encrypted(key_file), **archiving(tmp_path / "archive"))
    with connect(broker) as wire:
        fill(wire)
    keys = Keys(broker)
    (old,) = keys.states()
    segments = 2 * PARTITIONS * 3
    wait_for(lambda: broker.output().count("archived the segment") >= segments, TIMEOUT_S)
    new = keys.run("rotate")["key_id"]
    wait_for(keys.is_over, TIMEOUT_S)
    # Metadata is archived when it changes: from now on with a check of one key.
    with connect(broker) as wire:
        wire.ask(CreateStream("later"))
    wait_for(lambda: archived_with_one_key(tmp_path / "archive"), TIMEOUT_S)
    assert broker.stop() == 0
    both = key_file.read_text()
    key_file.write_text(both.splitlines()[0] + "\n")
    restored = new_broker(start=False, **broker.settings)
    refused = restore(restored)
    assert refused.exit_code == 1
    assert f"encrypted with the key {old}, which is not configured" in refused.output
    key_file.write_text(both)
    done = restore(restored)
    assert done.exit_code == 0, done.output
    assert Keys(restored).states() == {new: "in_use", old: "needed"}
    restored.start()
    wait_for(Keys(restored).is_over, TIMEOUT_S)
    with connect(restored) as wire:
        for topic in CODECS:
            for partition in range(PARTITIONS):
                found = contents(wire, topic, partition)
                assert found == PAYLOADS[: len(found)], "what was sealed in time is archived"
                assert len(found) > len(PAYLOADS) // 2


def archiving(place: Path) -> dict[str, str]:
    return {
        "IGGY_DATA_MAINTENANCE_ARCHIVER_ENABLED": "true",
        "IGGY_DATA_MAINTENANCE_ARCHIVER_INTERVAL": "50 ms",
        "IGGY_SYSTEM_BACKUP_PATH": str(place),
    }


def archived_with_one_key(archive: Path) -> bool:
    """Whether the newest state was archived after the exchange was over."""
    checks = sorted(archive.rglob("encryption-check"), key=lambda path: path.stat().st_mtime_ns)
    return bool(checks) and checks[-1].read_bytes().startswith(b"BZKEYCK1")


def restore(broker: BrokerProcess) -> Any:
    environ = {**broker.settings, "IGGY_SYSTEM_PATH": str(broker.data)}
    return CliRunner().invoke(main, ["archive", "restore", "--into", str(broker.data)], env=environ)
