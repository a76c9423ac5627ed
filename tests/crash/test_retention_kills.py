"""D8 for retention and roll in the size of a test run, and kills at exact steps of a deletion."""

import shutil
from pathlib import Path

import pytest

from borzoi.protocol.commands.topics import DeleteSegments
from borzoi.protocol.errors import BrokerError
from borzoi.storage.layout import index_path, log_path
from tests.broker import BrokerProcess, wait_for
from tests.conftest import NewBroker
from tests.crash.experiment import new_seed, run_kills
from tests.crash.kill_cycles import PINNED, TWO_SHARDS
from tests.crash.load import STREAM, TOPIC, create_topic, partitions_of
from tests.crash.places import directory_of, in_trash
from tests.crash.retention_kills import RetentionKills
from tests.crash.tracer import RENAMES, UNLINKS, killed_at
from tests.shard_wires import connect, connect_to_shard
from tests.wire import Closed, Wire

PAYLOAD = bytes(936)  # with its header 1,000 bytes, so 7 messages in a segment of 5 KiB


@pytest.mark.slow
def test_d8_retention_and_roll_survive_kills(tmp_path: Path) -> None:
    summary = run_kills(RetentionKills(tmp_path / "data", "written", new_seed()), 2)
    print(summary)
    assert summary.acknowledged > summary.deleted > 0


def offsets_of(wire: Wire, partition: int) -> list[int]:
    """What is there, without a gap."""
    messages = wire.poll_at(STREAM, TOPIC, partition, 0, 100).messages
    offsets = [message.offset for message in messages]
    assert offsets == list(range(offsets[0], offsets[0] + len(offsets)))
    return offsets


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("strace") is None, reason="strace kills at an exact system call")
@pytest.mark.parametrize(
    "system_calls",
    [
        RENAMES,  # a log is gone, its index and the next segment are not
        UNLINKS,  # all of it lies in the trash
    ],
)
def test_a_deletion_is_finished_by_the_successor_of_a_killed_owner(
    new_broker: NewBroker, tmp_path: Path, system_calls: str
) -> None:
    broker = new_broker(**TWO_SHARDS, **PINNED, IGGY_SYSTEM_SEGMENT_SIZE="5KiB")
    partition = partitions_of(1, 2)[0]
    pid = broker.workers()[1]
    with connect_to_shard(broker, 0) as wire:
        create_topic(wire)
        for _ in range(25):
            wire.append(STREAM, TOPIC, partition, [PAYLOAD])
        # Everything is synced, so that the deletion begins with its first rename.
        wire.ask(DeleteSegments(STREAM, TOPIC, partition, 0))
        directory = Path(directory_of(broker, partition))
        path = index_path(str(directory), 0)
        if system_calls == UNLINKS:
            path = in_trash(broker, partition, log_path(str(directory), 0))
        with (
            killed_at(pid, system_calls, tmp_path / "trace", path),
            pytest.raises((BrokerError, Closed)),
        ):
            wire.ask(DeleteSegments(STREAM, TOPIC, partition, 2))
    wait_for(lambda: broker.workers().get(1, pid) != pid)
    for restart_all in (False, True):
        if restart_all:
            broker.kill()
            broker.start()
        # The successor has to be there before it can be asked for the end.
        wait_for(lambda: answers(broker, partition), 30.0)
        with connect(broker) as wire:
            assert offsets_of(wire, partition) == list(range(14, 25))
        kept = sorted(path.name for path in directory.glob("0*"))
        assert kept == [f"{first:020d}.{kind}" for first in (14, 21) for kind in ("index", "log")]
    with connect(broker) as wire:
        wire.append(STREAM, TOPIC, partition, [PAYLOAD])
        assert offsets_of(wire, partition)[-1] == 25
        wait_for(lambda: not list((broker.data / "trash").iterdir()), 30.0)


def answers(broker: BrokerProcess, partition: int) -> bool:
    """Whether the owner of the partition serves. While it is slow to, connections are closed."""
    with connect(broker) as wire:
        try:
            wire.ask(DeleteSegments(STREAM, TOPIC, partition, 0))
        except (BrokerError, Closed):
            return False
    return True
