"""Data and archives that commit e2dfe56 wrote: opened, verified, continued, restored."""

import tarfile
from pathlib import Path

import pytest
from click.testing import CliRunner

from borzoi.main import main
from borzoi.protocol.commands import GetTopic
from tests.broker import BrokerProcess
from tests.conftest import NewBroker
from tests.replay.brokers import GOLDEN
from tests.replay.written_data import (
    CODECS,
    CONSUMERS,
    KEY,
    MESSAGES,
    PARTITIONS,
    STREAM,
    VARIANTS,
    append,
    check,
    check_messages,
    check_offset,
)
from tests.wire import Wire

pytestmark = pytest.mark.slow

MORE = 20


@pytest.fixture(params=sorted(VARIANTS))
def variant(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def place(variant: str, tmp_path: Path) -> Path:
    with tarfile.open(GOLDEN / f"written-{variant}.tar.xz") as packed:
        packed.extractall(tmp_path, filter="data")
    return tmp_path


def borzoi(*arguments: str | Path) -> str:
    """What a command says; it must succeed."""
    result = CliRunner().invoke(main, list(map(str, arguments)), env=KEY, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


def test_the_data_is_read_and_continued(variant: str, place: Path) -> None:
    data, token = place / "data", (place / "token").read_text()
    borzoi("check", data)
    broker = BrokerProcess(data, VARIANTS[variant])
    try:
        broker.start()
        check(broker, token)
        wire = Wire(broker)
        assert all(
            one.segments_count > 2
            for topic in CODECS
            for one in wire.ask(GetTopic(STREAM, topic)).partitions
        )
        for topic in CODECS:
            for partition in range(PARTITIONS):
                append(wire, topic, partition, range(MESSAGES, MESSAGES + MORE))
        wire.close()
        check(broker, token, MESSAGES + MORE)
        broker.kill()
        broker.start()
        check(broker, token, MESSAGES + MORE)
        assert broker.stop() == 0
    finally:
        broker.close()
    assert "fault of ours" not in broker.output()
    borzoi("check", data)


def test_the_data_after_a_crash(variant: str, place: Path) -> None:
    data = place / "data"
    for path in data.glob("clean-stop.*"):
        path.unlink()
    broker = BrokerProcess(data, VARIANTS[variant])
    try:
        broker.start()
        check(broker, (place / "token").read_text())
        assert broker.stop() == 0
    finally:
        broker.close()


def test_the_archive_comes_back(variant: str, place: Path, new_broker: NewBroker) -> None:
    archive = place / "archive"
    assert " 0 damaged" in borzoi("archive", "verify", "--path", archive)
    broker = new_broker(start=False, **VARIANTS[variant])
    borzoi("archive", "restore", "--path", archive, "--into", broker.data)
    borzoi("check", broker.data)
    broker.start()
    wire = Wire(broker)
    for topic in CODECS:
        for one in wire.ask(GetTopic(STREAM, topic)).partitions:
            # What was in the active segment is not in the archive.
            assert MESSAGES - 15 <= one.messages_count < MESSAGES
            check_messages(wire, topic, one.id, one.messages_count)
            for consumer, offset in CONSUMERS.items():
                check_offset(wire, consumer, topic, one.id, offset)
            append(wire, topic, one.id, range(one.messages_count, MESSAGES))
            check_messages(wire, topic, one.id, MESSAGES)
    assert broker.stop() == 0
    borzoi("check", broker.data)


def test_the_files_have_the_forms_they_should(variant: str, place: Path) -> None:
    """A golden file that lost its compressed or encrypted segments would prove nothing."""
    for part in ("data", "archive"):
        found = [path for path in (place / part / "streams").rglob("*") if path.is_file()]
        codecs = {path.suffix for path in found} & {".gzip", ".lz4", ".zstd"}
        assert codecs == (set() if variant == "plain" else {".gzip", ".lz4", ".zstd"})
        logs = [path.read_bytes()[:8] for path in found if path.suffix == ".log"]
        assert all((head == b"BZAESGC1") == (variant == "encrypted") for head in logs if head)
        assert any(logs)
