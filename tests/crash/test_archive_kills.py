"""D8 for the archive in the size of a test run, and kills at exact steps of an upload."""

import shutil
from pathlib import Path

import pytest

from borzoi.shards.archive_verify import verify
from borzoi.storage.archive.catalogue import archived_lives
from borzoi.storage.archive.store import DirectoryStore
from borzoi.storage.files import Files
from tests.broker import wait_for
from tests.conftest import NewBroker
from tests.crash.archive_kills import ArchiveKills
from tests.crash.experiment import new_seed, run_kills
from tests.crash.kill_cycles import PINNED, TWO_SHARDS
from tests.crash.load import STREAM, TOPIC, create_topic, partitions_of
from tests.crash.tracer import killed_at
from tests.crash.wire import connect_to_shard

PAYLOAD = bytes(936)  # with its header 1,000 bytes, so 7 messages in a segment of 5 KiB
RENAMES = "rename,renameat,renameat2"


@pytest.mark.slow
def test_d8_the_archive_survives_kills(tmp_path: Path) -> None:
    summary = run_kills(ArchiveKills(tmp_path / "data", "written", new_seed()), 2)
    print(summary)
    assert summary.archived > 0
    assert summary.deleted > 0


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("strace") is None, reason="strace kills at an exact system call")
@pytest.mark.parametrize("number", [2, 3])
def test_a_killed_upload_is_begun_again(new_broker: NewBroker, tmp_path: Path, number: int) -> None:
    """After the index and before the log, after the log and before the manifest."""
    path = tmp_path / "archive"
    store = DirectoryStore(str(path), Files())
    broker = new_broker(
        **TWO_SHARDS,
        **PINNED,
        IGGY_SYSTEM_SEGMENT_SIZE="5KiB",
        IGGY_SYSTEM_BACKUP_PATH=str(path),
        IGGY_DATA_MAINTENANCE_ARCHIVER_ENABLED="true",
        IGGY_DATA_MAINTENANCE_ARCHIVER_INTERVAL="20 ms",
    )
    wait_for(lambda: (path / "offsets" / "1.json").exists(), 30.0)
    partition = partitions_of(1, 2)[0]
    pid = broker.workers()[1]
    with connect_to_shard(broker, 0) as wire:
        create_topic(wire)
        for _ in range(7):
            wire.send(STREAM, TOPIC, partition, [PAYLOAD])
        with killed_at(pid, RENAMES, number, tmp_path / "trace"):
            # The eighth seals the segment, and the archiver begins.
            wire.send(STREAM, TOPIC, partition, [PAYLOAD])
    # It had begun, and there was no manifest yet.
    traced = (tmp_path / "trace").read_text()
    assert f"{path}/streams" in traced
    assert traced.count(" = 0") == number - 1, traced
    wait_for(lambda: len(archived_lives(store)) == 1, 30.0)
    assert not list(path.rglob("*.tmp"))
    assert verify(store, lambda _life: True, print).damaged == 0
