"""GET_SNAPSHOT of a running broker: contents, compressions, secrets, large answers."""

import os
import tomllib
from collections.abc import Iterator

import pytest

from borzoi.protocol.codes import Code
from borzoi.protocol.commands.sessions import LoginUser
from borzoi.protocol.commands.streams import CreateStream
from borzoi.protocol.commands.system import (
    GetSnapshot,
    Ping,
    SnapshotCompression,
    SnapshotType,
)
from borzoi.protocol.errors import InvalidCommand
from tests.broker import BrokerProcess
from tests.shard_wires import TWO_SHARDS
from tests.shards.unzipping import unzipped
from tests.topics import topic_of
from tests.wire import Wire

pytestmark = pytest.mark.slow

MARK = "marker0f1e2d3c"
PASSWORD = f"{MARK}-root-password"
SECRETS = {
    "IGGY_ROOT_USERNAME": "iggy",
    "IGGY_ROOT_PASSWORD": PASSWORD,
    "IGGY_SYSTEM_ENCRYPTION_KEY": f"{MARK:A<43}=",
    "IGGY_HTTP_JWT_ENCODING_SECRET": f"{MARK}-encoding-secret",
    "IGGY_HTTP_JWT_DECODING_SECRET": f"{MARK}-encoding-secret",
    "UNRELATED_TOKEN": f"{MARK}-of-something-else",
}
ALL = GetSnapshot()


@pytest.fixture(scope="module")
def secretive_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """A broker whose every secret begins with the marker."""
    directory = tmp_path_factory.mktemp("snapshots")
    broker = BrokerProcess(directory / "data", {**TWO_SHARDS, **SECRETS})
    broker.start()
    yield broker
    broker.close()


@pytest.fixture
def wire(secretive_broker: BrokerProcess) -> Wire:
    wire = Wire(secretive_broker, login=False)
    wire.ask(LoginUser("iggy", PASSWORD))
    return wire


def test_everything(secretive_broker: BrokerProcess, wire: Wire) -> None:
    wire.ask(CreateStream("s"))
    wire.ask(topic_of("t", 2, stream="s"))
    assert wire.send("t", 0, b"never in a snapshot", stream="s") == 0
    entries = unzipped(wire.ask(ALL))
    assert list(entries) == [
        "filesystem_overview.txt",
        "process_list.txt",
        "resource_usage.txt",
        "server_logs.txt",
        "server_config.txt",
    ]
    assert (
        b"streams/0/topics/0/partitions/0/00000000000000000000.log"
        in (entries["filesystem_overview.txt"])
    )
    # All processes of the broker, not only the one that answers.
    for pid in (secretive_broker.pid, *secretive_broker.workers().values()):
        assert f"/proc/{pid}/status:".encode() in entries["process_list.txt"]
    assert b"/proc/meminfo:\nMemTotal" in entries["resource_usage.txt"]
    # Official tests look for exactly this.
    assert b"INFO shard-" in entries["server_logs.txt"]
    assert b"INFO supervisor" in entries["server_logs.txt"]
    config = tomllib.loads(entries["server_config.txt"].decode())
    assert config["tcp"]["address"] == secretive_broker.address
    assert config["http"]["jwt"]["encoding_secret"] == "******"
    together = b"".join(entries.values())
    assert MARK.encode() not in together
    assert b"never in a snapshot" not in together


@pytest.mark.parametrize("compression", SnapshotCompression)
def test_compressions(wire: Wire, compression: SnapshotCompression) -> None:
    types = (SnapshotType.TEST, SnapshotType.SERVER_LOGS)
    entries = unzipped(wire.ask(GetSnapshot(compression, types)))
    assert entries["test.txt"] == b"test\n"
    assert b"INFO shard-" in entries["server_logs.txt"]


def test_requests_as_they_may_look(wire: Wire) -> None:
    # An empty request asks for everything, deflated.
    status, archive = wire.request(Code.GET_SNAPSHOT)
    assert status == 0
    assert len(unzipped(archive)) == 5
    for wrong in ("0101", "00 01 04", "07 01 04", "01 01 07", "01 02 64 04", "01 02 04"):
        assert wire.request(Code.GET_SNAPSHOT, bytes.fromhex(wrong))[0] == InvalidCommand.status, (
            wrong
        )
    assert wire.status(Ping()) == 0


def test_an_answer_of_many_megabytes(secretive_broker: BrokerProcess, wire: Wire) -> None:
    """Larger than what is handed to a socket at once; the newest lines are what counts."""
    old = secretive_broker.data / "logs" / "iggy-server.log.1"
    old.write_bytes(b"%099d\n" % 7 * 200_000)
    try:
        command = GetSnapshot(SnapshotCompression.STORED, (SnapshotType.SERVER_LOGS,))
        archive = wire.ask(command)
        logs = unzipped(archive)["server_logs.txt"]
        assert 15 << 20 < len(archive) < 17 << 20
        assert logs.startswith(b"... ")
        assert b"INFO shard-" in logs[-20_000:]
        assert wire.status(Ping()) == 0
    finally:
        os.unlink(old)
