"""kill -9 while the metadata log is replaced by a shorter one: nothing acknowledged is lost.

The streams whose creation was acknowledged are there afterwards, on every shard, and after another
kill of everything; at each step of the replacement, and at moments that chance has chosen.
"""

import os
import random
import shutil
import signal
from pathlib import Path
from typing import Final

import pytest

from borzoi.protocol.commands.streams import CreateStream, DeleteStream, GetStreams
from borzoi.protocol.errors import BrokerError, StreamIdNotFound, StreamNameAlreadyExists
from borzoi.shards.admin.check_data import check_data
from borzoi.shards.metadata_log.shortening import temporary_path
from borzoi.storage.files import Files
from borzoi.storage.findings import Level
from borzoi.storage.layout import DataLayout
from borzoi.storage.wal import log_start
from tests.broker import BrokerProcess, wait_for
from tests.conftest import NewBroker
from tests.crash.kill_cycles import PINNED, TWO_SHARDS
from tests.crash.tracer import RENAMES, killed_at
from tests.shard_wires import connect_to_shard
from tests.wire import Closed, Wire

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        shutil.which("strace") is None, reason="strace kills at an exact system call"
    ),
]

WRITES: Final = "pwrite64,pwritev,pwritev2"
SNAPSHOT_ENTRIES: Final = 10
OFTEN: Final = {"IGGY_SYSTEM_STATE_SNAPSHOT_ENTRIES": str(SNAPSHOT_ENTRIES)}
CHANGES_MAX: Final = 2000
KILLS: Final = 6


def names_seen(wire: Wire) -> list[str]:
    return [stream.name for stream in wire.ask(GetStreams())]


def seen_by_all(broker: BrokerProcess) -> list[str]:
    with connect_to_shard(broker, 0) as first, connect_to_shard(broker, 1) as second:
        names = names_seen(first)
        assert names_seen(second) == names
    return names


class Changes:
    """Streams that come and go; what was acknowledged, and the one change that is in doubt."""

    def __init__(self) -> None:
        self.names: set[str] = set()
        self.in_doubt: str | None = None
        self.count = 0

    def make_one(self, wire: Wire) -> None:
        """Raises what the broker says, or Closed."""
        self.count += 1
        name = self.in_doubt = f"s{self.count % 7}"
        try:
            if name in self.names:
                wire.ask(DeleteStream(name))
            else:
                wire.ask(CreateStream(name))
        except (StreamNameAlreadyExists, StreamIdNotFound):
            raise AssertionError(f"{name} is not what was acknowledged") from None
        self.names ^= {name}
        self.in_doubt = None

    def check(self, broker: BrokerProcess) -> None:
        """All shards agree, and only the change in doubt may be one way or the other."""
        seen = set(seen_by_all(broker))
        assert seen ^ self.names <= {self.in_doubt}
        self.names = seen
        self.in_doubt = None


def until_it_dies(broker: BrokerProcess, changes: Changes, pid: int) -> None:
    """Change things by way of shard 1, until shard 0 is not what it was."""
    with connect_to_shard(broker, 1) as wire:
        for _ in range(CHANGES_MAX):
            try:
                changes.make_one(wire)
            except (BrokerError, Closed):
                return  # The outcome is unknown to the client.
            # A request that comes between its death and its successor waits, and succeeds.
            if broker.workers().get(0) != pid:
                return
    raise AssertionError(f"{CHANGES_MAX} changes, and the log was not replaced")


def wait_for_successor(broker: BrokerProcess, shard: int, pid: int) -> None:
    wait_for(lambda: broker.workers().get(shard, pid) != pid)


@pytest.mark.parametrize(
    ("system_calls", "suffix", "replaced"),
    [
        ("openat", ".tmp", False),  # making the shorter log
        (WRITES, ".tmp", False),
        ("fsync", ".tmp", False),
        (RENAMES, ".tmp", False),  # complete and synced, but not in its place
        ("close", "", True),  # in its place, but not synced there and not published
    ],
)
def test_at_each_step_of_the_replacement(
    new_broker: NewBroker, tmp_path: Path, system_calls: str, suffix: str, replaced: bool
) -> None:
    broker = new_broker(**TWO_SHARDS, **PINNED, **OFTEN)
    log = DataLayout(broker.data).state_log
    assert temporary_path(log) == log + ".tmp"
    changes = Changes()
    with connect_to_shard(broker, 1) as wire:
        for _ in range(SNAPSHOT_ENTRIES // 2):
            changes.make_one(wire)
    pid = broker.workers()[0]
    with killed_at(pid, system_calls, tmp_path / "trace", log + suffix):
        until_it_dies(broker, changes, pid)
    assert (log_start(Files(), log).index > 0) == replaced
    wait_for_successor(broker, 0, pid)
    changes.check(broker)
    with connect_to_shard(broker, 1) as wire:
        for _ in range(5 * SNAPSHOT_ENTRIES):
            changes.make_one(wire)
    changes.check(broker)
    wait_for(lambda: log_start(Files(), log).index > 2 * SNAPSHOT_ENTRIES)
    broker.kill()
    broker.start()
    changes.check(broker)
    assert "fault of ours" not in broker.output()


def test_at_any_moment(new_broker: NewBroker) -> None:
    """Shard 0, which replaces the log, and shard 1, which has to find its way into it."""
    broker = new_broker(**TWO_SHARDS, **PINNED, **OFTEN)
    chance = random.Random(6047)
    changes = Changes()
    for number in range(KILLS):
        victim = number % 2
        with connect_to_shard(broker, 1 - victim) as wire:
            for _ in range(chance.randint(1, 5 * SNAPSHOT_ENTRIES)):
                changes.make_one(wire)
            pid = broker.workers()[victim]
            os.kill(pid, signal.SIGKILL)
            try:
                for _ in range(5 * SNAPSHOT_ENTRIES):
                    changes.make_one(wire)
            except (BrokerError, Closed):
                # The outcome is unknown: an error, or no answer because the successor takes long.
                assert victim == 0, broker.output()
        wait_for_successor(broker, victim, pid)
        changes.check(broker)
    broker.kill()
    found = check_data(broker.data, Files())
    assert found.worst < Level.DAMAGED, found.found
    broker.start()
    changes.check(broker)
    assert "fault of ours" not in broker.output()
