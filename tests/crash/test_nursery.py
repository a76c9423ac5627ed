"""The process that forks workers: what they have of it, and what happens when it dies or hangs."""

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from borzoi.protocol.errors import ShardCommunicationError
from borzoi.shards.nursery.link import LIVED_LONG_S
from tests.broker import BrokerProcess, wait_for
from tests.conftest import NewBroker
from tests.cpu_time import scheduled
from tests.crash.kill_cycles import TWO_SHARDS
from tests.crash.load import STREAM, TOPIC, create_topic, partitions_of
from tests.crash.start_time import bare_interpreter, ran_s
from tests.shard_wires import connect
from tests.wire import Wire

VICTIM = 1
# A worker that imports for itself takes as long as a bare interpreter; a forked one a fifth.
WORKER_IMPORTS_MAX = 0.6
# Measured: 1.8. Each worker that imports for itself adds almost 1.
START_IMPORTS_MAX = 3.0
ATTEMPTS = 3
"""Of a measurement that other programs may have disturbed."""

FORK_AND_COMPARE = """
import os
from borzoi.shards.partitions.message_ids import RANDOM_IDS

read_end, write_end = os.pipe()
child = os.fork()
if child == 0:
    os.write(write_end, RANDOM_IDS(64))
    os._exit(0)
os.waitpid(child, 0)
assert os.read(read_end, 64) != RANDOM_IDS(64), "parent and child give the same ids"
"""


def kill_worker(broker: BrokerProcess, shard: int) -> int:
    """The process id of its successor."""
    pid = broker.workers()[shard]
    os.kill(pid, signal.SIGKILL)
    return wait_for(lambda: broker.workers().get(shard, pid) != pid and broker.workers()[shard])


def sends_to(wire: Wire, shard: int) -> None:
    """A batch is stored; while the shard is away longer than a request waits, none was sent."""

    def is_stored() -> bool:
        try:
            wire.append(STREAM, TOPIC, partitions_of(shard, 2)[0], [b"x"])
        except ShardCommunicationError:
            return False
        return True

    wait_for(is_stored)


def descriptors(pid: int) -> list[str]:
    found = []
    for fd in Path(f"/proc/{pid}/fd").iterdir():
        try:
            found.append(os.readlink(fd))
        except FileNotFoundError:
            continue
    return found


def test_forked_processes_give_different_message_ids() -> None:
    subprocess.run([sys.executable, "-c", FORK_AND_COMPARE], check=True, timeout=60)


@pytest.mark.slow
def test_workers_are_children_of_the_supervisor_with_their_own_descriptors_only(
    new_broker: NewBroker,
) -> None:
    """Also a successor, forked while the supervisor has a loop, pidfds and channels."""
    mine, leaked = socket.socketpair()
    leaked.set_inheritable(True)
    with mine, leaked:
        broker = new_broker(**TWO_SHARDS, start=False)
        broker.start(pass_fds=(leaked.fileno(),))
        with connect(broker) as wire:
            create_topic(wire)
        successor = kill_worker(broker, VICTIM)
        with connect(broker) as wire:
            wait_for(lambda: "recovered" in broker.output())
            sends_to(wire, VICTIM)
        outside = os.readlink(f"/proc/self/fd/{leaked.fileno()}")
        assert outside in descriptors(broker.pid)
        of_nursery = descriptors(broker.nursery())
        assert len(of_nursery) == 4, of_nursery
        (channel,) = [one for one in of_nursery if one.startswith("socket:")]
        workers = broker.workers()
        assert workers[VICTIM] == successor
        for pid in workers.values():
            assert psutil.Process(pid).ppid() == broker.pid
            had = descriptors(pid)
            assert outside not in had
            assert channel not in had
            assert "anon_inode:[pidfd]" not in had
            assert had.count("anon_inode:[eventpoll]") == 1
            # The data directory itself: it carries the lock.
            assert str(broker.data) in had
        # To the supervisor, which has three of them; and no other socket is in two processes.
        ours = {
            pid: {one for one in descriptors(pid) if "socket:" in one} for pid in workers.values()
        }
        assert set.intersection(*ours.values()) == set()
    assert broker.stop() == 0


@pytest.mark.slow
def test_the_nursery_dies_and_the_workers_live_on(new_broker: NewBroker) -> None:
    broker = new_broker(**TWO_SHARDS)
    workers, nursery = broker.workers(), broker.nursery()
    with connect(broker) as wire:
        create_topic(wire)
        lived_from = time.monotonic()
        wait_for(lambda: time.monotonic() - lived_from > LIVED_LONG_S)
        os.kill(nursery, signal.SIGKILL)
        # The next one is there before anything needs it.
        assert wait_for(lambda: broker.find_nursery() not in (None, nursery))
        assert broker.workers() == workers
        for shard in workers:
            sends_to(wire, shard)
    kill_worker(broker, VICTIM)
    with connect(broker) as wire:
        sends_to(wire, VICTIM)
    assert "the nursery of the workers ended" in broker.output()
    assert broker.stop() == 0


@pytest.mark.slow
@pytest.mark.parametrize("sent", [signal.SIGKILL, signal.SIGSTOP])
def test_a_worker_dies_when_the_nursery_is_gone_or_hangs(
    new_broker: NewBroker, sent: signal.Signals
) -> None:
    broker = new_broker(**TWO_SHARDS)
    with connect(broker) as wire:
        create_topic(wire)
    nursery = broker.nursery()
    # Killed this early it has no successor until one is needed.
    os.kill(nursery, sent)
    kill_worker(broker, VICTIM)
    assert broker.nursery() != nursery
    with connect(broker) as wire:
        sends_to(wire, VICTIM)
    assert broker.stop() == 0
    assert not psutil.pid_exists(nursery)


@pytest.mark.slow
def test_nothing_outlives_a_killed_supervisor(new_broker: NewBroker) -> None:
    broker = new_broker(**TWO_SHARDS)
    pids = [broker.nursery(), *broker.workers().values(), kill_worker(broker, VICTIM)]
    os.kill(broker.pid, signal.SIGKILL)
    wait_for(lambda: not any(map(psutil.pid_exists, pids)))
    broker.close()


@pytest.mark.slow
def test_workers_do_not_import(new_broker: NewBroker) -> None:
    """In time that processes ran, compared with an interpreter that does import."""
    seen = []
    for _ in range(ATTEMPTS):
        broker = new_broker(**TWO_SHARDS)
        bare_s = bare_interpreter()
        start = ran_s(broker) / bare_s
        successor = kill_worker(broker, VICTIM)
        with connect(broker) as wire:
            create_topic(wire)
            sends_to(wire, VICTIM)
        worker = scheduled([successor]).ran_s / bare_s
        assert broker.stop() == 0
        seen.append((start, worker))
        if start < START_IMPORTS_MAX and worker < WORKER_IMPORTS_MAX:
            return
    raise AssertionError(f"in bare interpreters: starts and restarted workers {seen}")
