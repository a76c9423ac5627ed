"""F1 and F2: the disk is full, or breaks, under a running broker.

full     an error, nothing acknowledged, nothing half kept; reads go on; with room again the
         service goes on, without a restart
broken   (a sync fails) the partition acknowledges nothing until a restart, and says so
"""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.broker import BrokerProcess
from tests.crash.ledger import Outcome, judge
from tests.crash.load import STREAM, TOPIC, Producer, create_topic, read_all
from tests.crash.mounts import Unavailable, small_disk
from tests.crash.tracer import failing_calls
from tests.crash.wire import Wire, connect

ONE_SHARD = {"IGGY_SYSTEM_SHARDING_CPU_ALLOCATION": "1"}
SENDS_MAX = 2000
FIRST_WRITES = 8
MIB = 1024 * 1024

needs_strace = pytest.mark.skipif(
    shutil.which("strace") is None, reason="strace, which fails system calls, is not installed"
)
pytestmark = pytest.mark.slow


@contextmanager
def running(data: Path, **settings: str) -> Iterator[BrokerProcess]:
    broker = BrokerProcess(data, {**ONE_SHARD, **settings})
    try:
        broker.start()
        with connect(broker) as wire:
            create_topic(wire)
        yield broker
    finally:
        broker.close()


def send_until(producer: Producer, wire: Wire, outcome: Outcome, partition: int = 0) -> None:
    for _ in range(SENDS_MAX):
        if producer.send_one(wire, partition) is outcome:
            return
    raise AssertionError(f"{SENDS_MAX} batches, none of which was {outcome}")


@pytest.mark.parametrize("size_mib", [8, 64])
def test_f1_a_full_disk(tmp_path: Path, size_mib: int) -> None:
    try:
        with small_disk(tmp_path / "disk", size_mib) as disk:
            _fill_and_free(disk, size_mib)
    except Unavailable as error:
        pytest.skip(f"no small disk can be had here: {error}")


def _fill_and_free(disk: Path, size_mib: int) -> None:
    ballast = disk / "ballast"
    with running(disk / "data") as broker:
        # What frees the room later; the broker gets two MiB.
        room = shutil.disk_usage(disk).free - 2 * MIB
        ballast.write_bytes(bytes(room))
        producer = Producer(broker, "p", "f1", batch_sizes=(60,))
        with connect(broker) as wire:
            send_until(producer, wire, Outcome.REFUSED)
            for _ in range(5):
                producer.send_one(wire, 0)
            before = read_all(wire)
            judge([producer.book], before)
            assert before[0], "nothing could be sent at all"
            ballast.unlink()
            assert producer.send_one(wire, 0) is Outcome.ACKNOWLEDGED
            assert producer.send_one(wire, 1) is Outcome.ACKNOWLEDGED
            judge([producer.book], read_all(wire))
        broker.kill()
        broker.start()
        with connect(broker) as wire:
            judge([producer.book], read_all(wire))
    assert size_mib * MIB > room


@needs_strace
def test_f1_each_of_the_first_writes_finds_no_room(tmp_path: Path) -> None:
    with running(tmp_path / "data") as broker, connect(broker) as wire:
        producer = Producer(broker, "p", "f1", batch_sizes=(1, 5))
        pid = broker.workers()[0]
        calls = "pwrite64,pwritev"
        for number in range(1, FIRST_WRITES + 1):
            trace = tmp_path / f"trace{number}"
            with failing_calls(pid, calls, "ENOSPC", str(number), trace):
                send_until(producer, wire, Outcome.REFUSED, partition=number % 3)
            assert "INJECTED" in trace.read_text()
            assert producer.send_one(wire, number % 3) is Outcome.ACKNOWLEDGED
            judge([producer.book], read_all(wire))
        broker.kill()
        broker.start()
        with connect(broker) as again:
            judge([producer.book], read_all(again))


@needs_strace
def test_f2_a_sync_fails(tmp_path: Path) -> None:
    with running(tmp_path / "data", IGGY_SYSTEM_PARTITION_DURABILITY="fsync") as broker:
        producer = Producer(broker, "p", "f2", batch_sizes=(2,))
        pid = broker.workers()[0]
        with connect(broker) as wire:
            for partition in (0, 1):
                assert producer.send_one(wire, partition) is Outcome.ACKNOWLEDGED
            with failing_calls(pid, "fdatasync", "EIO", "1+", tmp_path / "trace"):
                assert producer.send_one(wire, 0) is Outcome.REFUSED
            # The disk works again, but nobody knows what became of the pages.
            for _ in range(3):
                assert producer.send_one(wire, 0) is Outcome.REFUSED
            assert producer.send_one(wire, 1) is Outcome.ACKNOWLEDGED
            judge([producer.book], read_all(wire))
        assert "read-only until restart" in broker.output()
        broker.stop()
        broker.start()
        with connect(broker) as wire:
            assert len(list(wire.read(STREAM, TOPIC, 1))) == 4
            assert producer.send_one(wire, 0) is Outcome.ACKNOWLEDGED
            kept = [message.payload for message in wire.read(STREAM, TOPIC, 0)]
        # What was refused by the failed sync may have reached the disk all the same.
        acknowledged = [batch for batch in producer.book.batches if batch.partition == 0]
        assert len(kept) >= 2 * sum(one.outcome is Outcome.ACKNOWLEDGED for one in acknowledged)
