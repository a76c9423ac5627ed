"""Orderly stops: nothing acknowledged is lost, and the exit code says so if it is.

`python -m tests.crash.stops` does hundreds, with up to 10,000 partitions.
"""

import os
import pty
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

import pytest

from borzoi.protocol.commands.offsets import StoreConsumerOffset
from borzoi.protocol.commands.streams import CreateStream
from borzoi.protocol.commands.topics import CreateTopic
from borzoi.protocol.identifiers import Consumer, ConsumerKind
from borzoi.shards.process.orderly_stop import KILLED, NOT_ON_DISK, STOPPED
from tests.broker import STOP_TIMEOUT_S, BrokerProcess, wait_for
from tests.crash.experiment import new_seed
from tests.crash.load import STREAM, TOPIC
from tests.crash.stops import MODES, asked, run
from tests.crash.tracer import failing_calls, slow_calls
from tests.shard_wires import ONE_SHARD, connect

PARTITIONS = 100
MESSAGES = 3
BUFFERED = {
    "IGGY_SYSTEM_PARTITION_DURABILITY": "buffered",
    # What is in memory stays there until the stop.
    "IGGY_MESSAGE_SAVER_ENABLED": "false",
}
MKDIR = "mkdir,mkdirat"
SLOW_MS = 20
"""Per directory, of which a partition has four: the journals of all take longer than 4.5 s, which
once was all that a stop was given."""

pytestmark = pytest.mark.slow
needs_strace = pytest.mark.skipif(
    shutil.which("strace") is None, reason="strace, which delays system calls, is not installed"
)


@pytest.mark.parametrize("mode", MODES)
def test_stops_under_load_lose_nothing(tmp_path: Path, mode: str) -> None:
    summary = run(tmp_path / "data", mode, shards=2, partitions=20, stops=3, seed=new_seed())
    print(summary)
    assert summary.stops == 3
    assert summary.acknowledged > 0


def test_a_stop_with_many_partitions_in_memory(tmp_path: Path) -> None:
    summary = run(
        tmp_path / "data", "buffered", shards=1, partitions=1500, stops=1, seed=new_seed()
    )
    print(summary)
    assert summary.acknowledged >= 1500


def test_a_stop_with_many_stored_offsets(tmp_path: Path) -> None:
    summary = run(
        tmp_path / "data", "written", shards=1, partitions=1, stops=1, seed=new_seed(), offsets=1000
    )
    print(summary)
    assert summary.offsets_compared == 1000


@contextmanager
def holding(
    tmp_path: Path, *, wrapper: Sequence[str] = (), **settings: str
) -> Iterator[BrokerProcess]:
    """A broker that has acknowledged messages of all partitions, and has them in memory alone."""
    broker = BrokerProcess(
        tmp_path / "data", {**ONE_SHARD, **BUFFERED, **settings}, wrapper=wrapper
    )
    try:
        broker.start()
        with connect(broker) as wire:
            wire.ask(CreateStream(STREAM))
            wire.ask(CreateTopic(STREAM, PARTITIONS, 1, 0, 0, 1, TOPIC))
            for partition in range(PARTITIONS):
                wire.append(STREAM, TOPIC, partition, [b"kept"] * MESSAGES)
        yield broker
    finally:
        broker.close()


def there(broker: BrokerProcess) -> int:
    """Messages that the next start serves."""
    broker.start()
    with connect(broker) as wire:
        return sum(len(list(wire.read(STREAM, TOPIC, number))) for number in range(PARTITIONS))


def send_signals(broker: BrokerProcess, *signals: int) -> None:
    """The first of them begins a stop; the others come while it goes on."""
    pid = broker.pid
    for number, one in enumerate(signals):
        if number:
            begun = broker.output().count("stopping for")
            wait_for(lambda: broker.output().count("stopping for") > begun)  # noqa: B023 - at once
        os.kill(pid, one)


def exit_code(broker: BrokerProcess, *signals: int) -> int:
    """Of a stop that the first of these signals begins, or that has begun."""
    send_signals(broker, *signals)
    process = broker._process
    assert process is not None
    try:
        code = process.wait(STOP_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        broker.kill()
        raise
    broker._process = None
    return code


@needs_strace
def test_a_stop_waits_as_long_as_journals_are_written(tmp_path: Path) -> None:
    with holding(tmp_path) as broker:
        with slow_calls(broker.workers()[0], MKDIR, SLOW_MS, tmp_path / "trace"):
            assert broker.stop() == STOPPED
        assert "killed" not in broker.output()
        assert there(broker) == PARTITIONS * MESSAGES


@needs_strace
def test_a_stop_waits_for_the_syncs_of_offsets(tmp_path: Path) -> None:
    consumers = 400
    with holding(tmp_path) as broker:
        with connect(broker) as wire:
            commands = [
                StoreConsumerOffset(
                    Consumer(ConsumerKind.CONSUMER, number + 1), STREAM, TOPIC, 0, 1
                )
                for number in range(consumers)
            ]
            assert len(list(asked(wire, commands, lambda _command: wire.result()))) == consumers
        with slow_calls(broker.workers()[0], "fdatasync", SLOW_MS, tmp_path / "trace"):
            assert broker.stop() == STOPPED
        assert "killed" not in broker.output()
        assert (broker.data / "clean-stop.0").exists()
        assert there(broker) == PARTITIONS * MESSAGES


@needs_strace
def test_a_stop_waits_for_recovery_points(tmp_path: Path) -> None:
    saving = {
        "IGGY_MESSAGE_SAVER_ENABLED": "true",
        "IGGY_MESSAGE_SAVER_ENFORCE_FSYNC": "true",
        "IGGY_MESSAGE_SAVER_INTERVAL": "100 ms",
    }
    with holding(tmp_path, **saving) as broker:
        wait_for(lambda: len(list(broker.data.rglob("recovery-point"))) == PARTITIONS)
        with slow_calls(broker.workers()[0], "rename,renameat", 20 * SLOW_MS, tmp_path / "trace"):
            with connect(broker) as wire:
                for partition in range(PARTITIONS // 10):
                    wire.append(STREAM, TOPIC, partition, [b"kept"] * MESSAGES)
            wait_for(lambda: list(broker.data.rglob("recovery-point.tmp")))
            assert broker.stop() == STOPPED
        assert not list(broker.data.rglob("*.tmp"))


@needs_strace
def test_a_second_and_a_third_signal_change_nothing(tmp_path: Path) -> None:
    with holding(tmp_path) as broker:
        # So slow that the stop lasts until the last signal is sent; then nothing is slow any more.
        with slow_calls(broker.workers()[0], MKDIR, 10 * SLOW_MS, tmp_path / "trace"):
            send_signals(broker, signal.SIGTERM, signal.SIGTERM, signal.SIGINT)
        assert exit_code(broker) == STOPPED
        assert f"{PARTITIONS} partitions to write" in broker.output()
        assert there(broker) == PARTITIONS * MESSAGES


@needs_strace
def test_sigquit_waits_for_nothing(tmp_path: Path) -> None:
    with holding(tmp_path) as broker:
        with slow_calls(broker.workers()[0], MKDIR, 10 * SLOW_MS, tmp_path / "trace"):
            assert exit_code(broker, signal.SIGTERM, signal.SIGQUIT) == KILLED
        assert "SIGQUIT" in broker.output()
        assert there(broker) < PARTITIONS * MESSAGES


@needs_strace
def test_a_stop_has_an_end(tmp_path: Path) -> None:
    with holding(tmp_path, IGGY_SYSTEM_STOP_TIMEOUT="1s") as broker:
        with slow_calls(broker.workers()[0], MKDIR, 10 * SLOW_MS, tmp_path / "trace"):
            assert broker.stop() == KILLED
        said = "did not stop within 1 s (system.stop_timeout) and is being killed"
        assert said in broker.output()


@needs_strace
def test_a_full_disk_at_the_stop_is_logged_with_all_that_is_lost(tmp_path: Path) -> None:
    with holding(tmp_path) as broker:
        calls = "pwrite64,pwritev"
        with failing_calls(broker.workers()[0], calls, "ENOSPC", "1+", tmp_path / "trace"):
            assert broker.stop() == NOT_ON_DISK
        output = broker.output()
        assert f"{PARTITIONS * MESSAGES} acknowledged messages of {PARTITIONS} partitions" in output
        for partition in range(PARTITIONS):
            assert f"{MESSAGES} of partition {partition} of stream 0, topic 0" in output
        assert there(broker) == 0
        with connect(broker) as wire:
            wire.append(STREAM, TOPIC, 0, [b"room again"])
        assert broker.stop() == STOPPED


@needs_strace
def test_a_sync_that_fails_at_the_stop_is_logged(tmp_path: Path) -> None:
    with holding(tmp_path) as broker:
        calls = "syncfs,fdatasync"
        with failing_calls(broker.workers()[0], calls, "EIO", "1+", tmp_path / "trace"):
            assert broker.stop() == NOT_ON_DISK
        assert "partition 0 of stream 0, topic 0 is not on the disk" in broker.output()
        # They were written all the same, and nothing cut the power.
        assert there(broker) == PARTITIONS * MESSAGES


def test_a_stalled_shard_is_killed_and_the_exit_code_says_so(tmp_path: Path) -> None:
    with holding(tmp_path, IGGY_LIMITS_HEARTBEAT_TIMEOUT="3s") as broker:
        os.kill(broker.workers()[0], signal.SIGSTOP)
        assert broker.stop() == KILLED
        assert "shard 0 has not moved for" in broker.output()
        assert there(broker) == 0


@needs_strace
def test_a_shard_that_dies_while_it_stops(tmp_path: Path) -> None:
    with holding(tmp_path) as broker, ExitStack() as stack:
        worker = broker.workers()[0]
        stack.enter_context(slow_calls(worker, MKDIR, 10 * SLOW_MS, tmp_path / "trace"))
        os.kill(broker.pid, signal.SIGTERM)
        wait_for(lambda: "stopping for" in broker.output())
        os.kill(worker, signal.SIGKILL)
        assert exit_code(broker, signal.SIGTERM) == KILLED
        assert "shard 0 ended with code -9" in broker.output()


# Opens the terminal named first, which becomes that of the session, and becomes the rest.
IN_A_TERMINAL: Final = (
    "import os, sys; os.open(sys.argv[1], os.O_RDWR); os.execvp(sys.argv[2], sys.argv[2:])"
)


def test_the_end_of_the_terminal_is_an_orderly_stop(tmp_path: Path) -> None:
    ours, theirs = pty.openpty()
    wrapper = (sys.executable, "-c", IN_A_TERMINAL, os.ttyname(theirs))
    with holding(tmp_path, wrapper=wrapper) as broker:
        os.close(theirs)
        # The kernel sends SIGHUP to the leader of the session, the supervisor.
        os.close(ours)
        assert exit_code(broker) == STOPPED
    next_one = BrokerProcess(tmp_path / "data", ONE_SHARD)
    try:
        assert there(next_one) == PARTITIONS * MESSAGES
    finally:
        next_one.close()


def test_a_hangup_without_a_terminal_stops_nothing(tmp_path: Path) -> None:
    with holding(tmp_path) as broker:
        workers = broker.workers()
        os.killpg(broker.pid, signal.SIGHUP)
        wait_for(lambda: "certificates renewed for: no door is encrypted" in broker.output())
        assert broker.workers() == workers
