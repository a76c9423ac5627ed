"""Shard 0 dies in the middle of a metadata change that a client of another shard asked for.

The client gets an error, or no answer at all; but whatever became of the
change, all shards agree on it, also after a restart, and asking again brings it about.
"""

import shutil
from pathlib import Path

import pytest

from borzoi.protocol.commands.streams import CreateStream, GetStreams
from borzoi.protocol.commands.topics import DeleteTopic, GetTopics
from borzoi.protocol.errors import BrokerError, StreamNameAlreadyExists, TopicIdNotFound
from borzoi.storage.layout import DataLayout
from tests.broker import BrokerProcess, wait_for
from tests.conftest import NewBroker
from tests.crash.kill_cycles import PINNED, TWO_SHARDS
from tests.crash.load import PARTITIONS, STREAM, TOPIC, create_topic, partitions_of, read_all
from tests.crash.places import directory_of
from tests.crash.tracer import RENAMES, killed_at
from tests.shard_wires import connect, connect_to_shard
from tests.wire import Closed, Wire

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        shutil.which("strace") is None, reason="strace kills at an exact system call"
    ),
]

WRITES = "pwrite64,pwritev,pwritev2"


def stream_names(wire: Wire) -> list[str]:
    return [stream.name for stream in wire.ask(GetStreams())]


def seen_by_all(broker: BrokerProcess) -> list[str]:
    """The streams, which both shards see alike."""
    with connect_to_shard(broker, 0) as first, connect_to_shard(broker, 1) as second:
        names = stream_names(first)
        assert stream_names(second) == names
    return names


@pytest.mark.parametrize(
    ("system_calls", "survives"),
    [
        (WRITES, False),  # entering the write of the log entry
        ("fdatasync", True),  # written, not synced, not published: a complete entry is kept
    ],
)
def test_a_creation_is_there_on_all_shards_or_on_none(
    new_broker: NewBroker, tmp_path: Path, system_calls: str, survives: bool
) -> None:
    broker = new_broker(**TWO_SHARDS, **PINNED)
    pid = broker.workers()[0]
    with (
        connect_to_shard(broker, 1) as wire,
        killed_at(pid, system_calls, tmp_path / "trace", DataLayout(broker.data).state_log),
        pytest.raises((BrokerError, Closed)),
    ):
        wire.ask(CreateStream("new"))
    wait_for(lambda: broker.workers().get(0, pid) != pid)
    assert seen_by_all(broker) == (["new"] if survives else [])
    with connect_to_shard(broker, 1) as wire:
        try:
            wire.ask(CreateStream("new"))
        except StreamNameAlreadyExists:
            assert survives
    assert seen_by_all(broker) == ["new"]
    broker.kill()
    broker.start()
    assert seen_by_all(broker) == ["new"]


def test_a_deletion_that_was_logged_but_not_carried_out_holds(
    new_broker: NewBroker, tmp_path: Path
) -> None:
    broker = new_broker(**TWO_SHARDS, **PINNED)
    pid = broker.workers()[0]
    with connect_to_shard(broker, 1) as wire:
        create_topic(wire)
        for partition in range(PARTITIONS):
            wire.append(STREAM, TOPIC, partition, [b"old"])
        directories = [directory_of(broker, partition) for partition in partitions_of(0, 2)]
        with (
            killed_at(pid, RENAMES, tmp_path / "trace", *directories),
            pytest.raises((BrokerError, Closed)),
        ):
            wire.ask(DeleteTopic(STREAM, TOPIC))
    wait_for(lambda: broker.workers().get(0, pid) != pid)
    for shard in (0, 1):
        with connect_to_shard(broker, shard) as wire:
            assert wire.ask(GetTopics(STREAM)) == ()
    with connect(broker) as wire:
        with pytest.raises(TopicIdNotFound):
            wire.ask(DeleteTopic(STREAM, TOPIC))
        create_topic(wire, with_stream=False)
        assert read_all(wire) == {partition: [] for partition in range(PARTITIONS)}
