"""kill -9 in an exchange of the encryption key: in the size of a test run, and at exact steps."""

import base64
import os
import random
import shutil
from pathlib import Path

import pytest

from borzoi.shards.directory.key import read_key_file
from borzoi.shards.keys.key_file import new_key, write_keys_to
from borzoi.shards.rotation.request import ask
from borzoi.storage.encryption_key import EncryptionKey, compare_check
from borzoi.storage.files import Files
from borzoi.storage.layout import DataLayout, log_path
from tests.broker import wait_for
from tests.conftest import NewBroker
from tests.crash.kill_cycles import PINNED, TWO_SHARDS
from tests.crash.load import STREAM, TOPIC, create_topic, partitions_of
from tests.crash.places import directory_of
from tests.crash.rotation_kills import run, text_of
from tests.crash.tracer import RENAMES, killed_at
from tests.shard_wires import connect, connect_to_shard

PAYLOADS = [b"%d " % number * 500 for number in range(14)]
TIMEOUT_S = 60.0


@pytest.mark.slow
def test_d8_an_exchange_of_the_key_survives_kills(tmp_path: Path) -> None:
    done = run(tmp_path / "data", "written", 1, random.SystemRandom().randrange(1 << 32))
    print(text_of(done))
    assert done.summary.lost == 0
    assert done.exchanged == 1


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("strace") is None, reason="strace kills at an exact system call")
@pytest.mark.parametrize("what", ["worker", "supervisor"])
def test_an_exchange_is_finished_after_a_kill_in_the_middle(
    new_broker: NewBroker, tmp_path: Path, what: str
) -> None:
    """The worker dies before a copy gets its name, the supervisor before the check has both keys.

    Then the successor of the worker, or the next start, goes on.
    """
    key_file = tmp_path / "key"
    key_file.touch(0o600)
    key_file.write_bytes(base64.b64encode(os.urandom(32)))
    broker = new_broker(
        **TWO_SHARDS,
        **PINNED,
        IGGY_SYSTEM_SEGMENT_SIZE="5KiB",
        IGGY_SYSTEM_ENCRYPTION_ENABLED="true",
        IGGY_SYSTEM_ENCRYPTION_KEY_FILE=str(key_file),
    )
    layout = DataLayout(broker.data)
    partition = partitions_of(1, 2)[0]
    with connect_to_shard(broker, 0) as wire:
        create_topic(wire)
        wire.append(STREAM, TOPIC, partition, PAYLOADS[:7])
        wire.append(STREAM, TOPIC, partition, PAYLOADS[7:])
    worker = broker.workers()[1]
    path = log_path(directory_of(broker, partition), 0)
    pid, renamed = (
        (worker, f"{path}.tmp")
        if what == "worker"
        else (broker.pid, f"{layout.encryption_check_file}.tmp")
    )
    keys = [new_key(), *read_key_file(str(key_file))]
    write_keys_to(key_file, keys)
    with killed_at(pid, RENAMES, tmp_path / "trace", renamed):
        ask(layout, Files())
        if what == "worker":
            wait_for(lambda: broker.workers().get(1, pid) != pid, TIMEOUT_S)
    if what == "supervisor":
        # Nothing was encrypted with the key that the directory does not name.
        assert needed(layout, keys) == keys[1:]
        broker.kill()
        broker.start()
    wait_for(lambda: needed(layout, keys) == keys[:1], TIMEOUT_S)
    assert not list(Path(layout.streams).glob("**/0*.tmp"))
    with connect(broker) as wire:
        assert [one.payload for one in wire.read(STREAM, TOPIC, partition)] == PAYLOADS
    write_keys_to(key_file, keys[:1])
    broker.kill()
    broker.start()
    with connect(broker) as wire:
        assert [one.payload for one in wire.read(STREAM, TOPIC, partition)] == PAYLOADS


def needed(layout: DataLayout, keys: list[EncryptionKey]) -> list[EncryptionKey]:
    return compare_check(layout, Files(), keys)
