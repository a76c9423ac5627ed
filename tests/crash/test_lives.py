"""Ended lives stay ended, new ones stay whole: in the size of a test run."""

import os
import shutil
import signal
from pathlib import Path

import pytest

from borzoi.protocol.commands.topics import CreateTopic, DeleteTopic, PurgeTopic
from borzoi.protocol.errors import BrokerError
from tests.conftest import NewBroker
from tests.crash.experiment import new_seed, run_kills
from tests.crash.kill_cycles import PINNED, TWO_SHARDS
from tests.crash.life_kills import ENDS, LifeKills
from tests.crash.lives import run
from tests.crash.load import PARTITIONS, STREAM, TOPIC, create_topic, partitions_of, read_all
from tests.crash.places import directory_of
from tests.crash.tracer import RENAMES, killed_at
from tests.shard_wires import connect, connect_to_shard

LIVES = 4
SEED = 4  # with kills of both kinds and ends of both kinds within so many lives


@pytest.mark.slow
@pytest.mark.parametrize(("durability", "seed"), [("written", SEED), ("fsync", SEED)])
def test_no_message_of_an_older_life_reappears(tmp_path: Path, durability: str, seed: int) -> None:
    settings = {"IGGY_SYSTEM_PARTITION_DURABILITY": durability}
    summary = run(tmp_path / "data", LIVES, seed, settings)
    print(summary)
    assert summary.worker_kills > 0
    assert summary.group_kills > 0
    assert summary.must_be_there > 0
    assert summary.must_be_gone > 0


@pytest.mark.slow
@pytest.mark.parametrize("end", ENDS)
def test_d8_a_kill_while_a_life_ends(tmp_path: Path, end: str) -> None:
    summary = run_kills(LifeKills(tmp_path / "data", end, new_seed()), 1)
    print(summary)
    assert summary.must_be_there > 0
    assert summary.must_be_gone > 0


@pytest.mark.slow
def test_a_batch_for_a_deleted_topic_does_not_land_in_another_one_with_its_id(
    new_broker: NewBroker,
) -> None:
    """Its owner dies with it; before the successor looks at it, the id is another topic's."""
    broker = new_broker(**TWO_SHARDS, **PINNED, IGGY_LIMITS_REQUEST_TIMEOUT="25s")
    partition = partitions_of(1, 2)[0]
    with connect_to_shard(broker, 0) as sender, connect_to_shard(broker, 0) as deleter:
        topic_id = create_topic(deleter)
        pid = broker.workers()[1]
        os.kill(pid, signal.SIGSTOP)
        sender.begin_append(STREAM, TOPIC, partition, [b"for the old topic"])
        # Deleting waits for the owner, until its death.
        deleter.begin(DeleteTopic(STREAM, TOPIC))
        os.kill(pid, signal.SIGKILL)
        deleter.result()
        created = deleter.ask(CreateTopic(STREAM, PARTITIONS, 1, 0, 0, 1, "another"))
        assert created.topic.id == topic_id
        with pytest.raises(BrokerError):
            sender.result()
        assert list(deleter.read(STREAM, "another", partition)) == []


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("strace") is None, reason="strace kills at an exact system call")
@pytest.mark.parametrize("end", [PurgeTopic(STREAM, TOPIC), DeleteTopic(STREAM, TOPIC)])
@pytest.mark.parametrize("then_all", [False, True])
def test_an_owner_killed_before_it_could_remove_anything(
    new_broker: NewBroker, tmp_path: Path, end: PurgeTopic | DeleteTopic, then_all: bool
) -> None:
    """The metadata says that the life is over, the files are all still there."""
    broker = new_broker(**TWO_SHARDS, **PINNED)
    with connect_to_shard(broker, 0) as wire:
        create_topic(wire)
        for partition in range(PARTITIONS):
            wire.append(STREAM, TOPIC, partition, [b"old", b"old"])
        directories = [directory_of(broker, partition) for partition in partitions_of(1, 2)]
        with killed_at(broker.workers()[1], RENAMES, tmp_path / "trace", *directories):
            wire.ask(end)
    if then_all:
        broker.kill()
        broker.start()
    with connect(broker) as wire:
        if isinstance(end, DeleteTopic):
            assert create_topic(wire, with_stream=False) == 0
        assert read_all(wire) == {partition: [] for partition in range(PARTITIONS)}
        for partition in range(PARTITIONS):
            wire.append(STREAM, TOPIC, partition, [b"new"])
        assert read_all(wire) == {partition: [b"new"] for partition in range(PARTITIONS)}
    broker.kill()
    broker.start()
    with connect(broker) as wire:
        assert read_all(wire) == {partition: [b"new"] for partition in range(PARTITIONS)}
