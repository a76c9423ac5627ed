"""D8 for the archive in the size of a test run, and kills at exact steps of an upload."""

import shutil
from pathlib import Path

import pytest

from borzoi.shards.admin.archive_verify import verify
from borzoi.storage.archive.catalogue import archived_lives
from borzoi.storage.archive.manifest import MANIFEST_SUFFIX
from borzoi.storage.archive.store import DirectoryStore
from borzoi.storage.files import TEMPORARY_SUFFIX, Files
from borzoi.storage.layout import LOG_SUFFIX, segment_name
from tests.broker import wait_for
from tests.conftest import NewBroker
from tests.crash.archive_kills import ArchiveKills
from tests.crash.experiment import new_seed, run_kills
from tests.crash.kill_cycles import PINNED, TWO_SHARDS
from tests.crash.load import STREAM, TOPIC, create_topic, partitions_of
from tests.crash.places import life_of
from tests.crash.tracer import RENAMES, killed_at
from tests.shard_wires import connect_to_shard

PAYLOAD = bytes(936)  # with its header 1,000 bytes, so the seventh message seals a segment of 5 KiB


@pytest.mark.slow
def test_d8_the_archive_survives_kills(tmp_path: Path) -> None:
    summary = run_kills(ArchiveKills(tmp_path / "data", "written", new_seed()), 2)
    print(summary)
    assert summary.archived > 0
    assert summary.deleted > 0


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("strace") is None, reason="strace kills at an exact system call")
@pytest.mark.parametrize("suffix", [LOG_SUFFIX, MANIFEST_SUFFIX])
def test_a_killed_upload_is_begun_again(new_broker: NewBroker, tmp_path: Path, suffix: str) -> None:
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
        for _ in range(6):
            wire.append(STREAM, TOPIC, partition, [PAYLOAD])
        name = path / life_of(broker, partition).prefix / (segment_name(0) + suffix)
        with killed_at(pid, RENAMES, tmp_path / "trace", f"{name}{TEMPORARY_SUFFIX}"):
            # Now the segment is sealed, and the archiver begins.
            wire.append(STREAM, TOPIC, partition, [PAYLOAD])
    wait_for(lambda: len(archived_lives(store)) == 1, 30.0)
    # Not at once: the offsets come behind the segments.
    wait_for(lambda: not list(path.rglob(f"*{TEMPORARY_SUFFIX}")), 30.0)
    assert verify(store, lambda _life: True, print).damaged == 0
