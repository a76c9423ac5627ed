"""S5 in the size of a test run, and owners killed with duplicates in their hands.

`python -m tests.crash.dedup_repeats` sends a million ids.
"""

import random
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from borzoi.protocol.identifiers import PartitionId
from borzoi.protocol.message import Message
from borzoi.storage.layout import index_path, log_path
from tests.broker import wait_for
from tests.conftest import NewBroker
from tests.crash.dedup_repeats import ENTRY_SIZE_MAX, PARTITIONS_USED, WINDOW, run
from tests.crash.kill_cycles import PINNED, SETTINGS, TWO_SHARDS
from tests.crash.load import STREAM, TOPIC, create_topic, partitions_of
from tests.crash.places import directory_of
from tests.crash.tracer import killed_at
from tests.shard_wires import connect, connect_to_shard

MEMORY_MARGIN = 40_000_000
"""What a worker that has worked has more than one that has not; windows have to show above it."""

OWNER, RECEIVER = 1, 0


@pytest.mark.slow
def test_s5_every_batch_twice_and_kills_in_between(tmp_path: Path) -> None:
    seed = random.SystemRandom().randrange(1 << 32)
    summary = run(tmp_path / "data", 20_000, kills=1, worker_kills=2, seed=seed, mode="written")
    print(summary)
    assert summary.repeated >= 20_000
    allowed = ENTRY_SIZE_MAX * WINDOW * PARTITIONS_USED + MEMORY_MARGIN
    assert summary.memory_last - summary.memory_first <= allowed


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("strace") is None, reason="strace kills at an exact system call")
@pytest.mark.parametrize(
    ("mode", "system_call", "path_of"),
    [
        # Entering the write of the log: stamped in the lent memory, not written.
        ("written", "pwrite64", log_path),
        # Entering the write of the index: the log has the batch, no answer was sent.
        ("written", "pwrite64", index_path),
        # Entering the sync: written and indexed, no answer was sent.
        ("fsync", "fdatasync", log_path),
    ],
)
def test_an_owner_killed_with_a_lent_batch_that_has_duplicates(
    new_broker: NewBroker,
    tmp_path: Path,
    mode: str,
    system_call: str,
    path_of: Callable[[str, int], str],
) -> None:
    """Its successor has read the ids of what was written back from the log."""
    broker = new_broker(
        **TWO_SHARDS,
        **PINNED,
        **SETTINGS[mode],
        IGGY_SYSTEM_MESSAGE_DEDUPLICATION_ENABLED="true",
        IGGY_LIMITS_REQUEST_TIMEOUT="25s",
    )
    with connect(broker) as wire:
        create_topic(wire)
    partition = partitions_of(OWNER, 2)[0]

    def send(*named: tuple[int, bytes]) -> None:
        messages = [Message(payload, id) for id, payload in named]
        wire.append(STREAM, TOPIC, PartitionId(partition), messages)

    with connect_to_shard(broker, RECEIVER) as wire:
        send((1, b"a"), (2, b"b"))
        pid = broker.workers()[OWNER]
        path = path_of(directory_of(broker, partition), 0)
        with killed_at(pid, system_call, tmp_path / "trace", path):
            send((1, b"-"), (0, b"c"), (3, b"d"), (3, b"-"), (2, b"-"), (0, b"e"))
        wait_for(lambda: broker.workers().get(OWNER, pid) != pid, 30)
        send((3, b"-"), (4, b"f"))
        found = [message.payload for message in wire.read(STREAM, TOPIC, partition)]
    assert found == [b"a", b"b", b"c", b"d", b"e", b"f"]
