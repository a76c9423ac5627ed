"""F1 and F2: the disk is full, or breaks, under a running broker.

full     an error, nothing acknowledged, nothing half kept; reads go on; with room again the
         service goes on, without a restart
broken   (a sync fails) the partition acknowledges nothing until a restart, and says so
"""

import shutil
from pathlib import Path

import pytest

from borzoi.storage.layout import log_path
from tests.broker import wait_for
from tests.crash.full_disk import DISK_SIZES_MIB, Summary, fail_writes, fill_disk, running
from tests.crash.ledger import Outcome, judge
from tests.crash.load import STREAM, TOPIC, Producer, read_all
from tests.crash.mounts import Unavailable
from tests.crash.places import directory_of
from tests.crash.tracer import failing_calls
from tests.scraped import Scraped
from tests.shard_wires import connect

FIRST_WRITES = 8
METRICS = {"IGGY_METRICS_ENABLED": "true", "IGGY_METRICS_ADDRESS": "127.0.0.1:0"}
READ_ONLY = "borzoi_partitions_read_only"

needs_strace = pytest.mark.skipif(
    shutil.which("strace") is None, reason="strace, which fails system calls, is not installed"
)
pytestmark = pytest.mark.slow


@pytest.mark.parametrize("size_mib", DISK_SIZES_MIB)
def test_f1_a_full_disk(tmp_path: Path, size_mib: int) -> None:
    try:
        fill_disk(tmp_path, size_mib, Summary())
    except Unavailable as error:
        pytest.skip(f"no small disk can be had here: {error}")


@needs_strace
def test_f1_each_of_the_first_writes_finds_no_room(tmp_path: Path) -> None:
    summary = Summary()
    fail_writes(tmp_path, FIRST_WRITES, summary)
    assert summary.refused >= FIRST_WRITES


@needs_strace
def test_f2_a_sync_fails(tmp_path: Path) -> None:
    settings = {"IGGY_SYSTEM_PARTITION_DURABILITY": "fsync", **METRICS}
    with running(tmp_path / "data", **settings) as broker:
        producer = Producer(broker, "p", "f2", batch_sizes=(2,))
        pid = broker.workers()[0]
        with connect(broker) as wire:
            for partition in (0, 1):
                assert producer.send_one(wire, partition) is Outcome.ACKNOWLEDGED
            log = log_path(directory_of(broker, 0), 0)
            with failing_calls(pid, "fdatasync", "EIO", "1+", tmp_path / "trace", log):
                assert producer.send_one(wire, 0) is Outcome.REFUSED
            # The disk works again, but what became of the pages is unknown.
            for _ in range(3):
                assert producer.send_one(wire, 0) is Outcome.REFUSED
            assert producer.send_one(wire, 1) is Outcome.ACKNOWLEDGED
            judge([producer.book], read_all(wire))
        assert "read-only until restart" in broker.output()
        # Its figures may be those of a moment ago.
        wait_for(lambda: Scraped.of(broker.metrics_address).value(READ_ONLY) == 1)
        scraped = Scraped.of(broker.metrics_address)
        assert scraped.total("borzoi_partition_read_only", partition=0) == 1
        assert scraped.total("borzoi_write_errors", written="sync", error="EIO") == 1
        broker.stop()
        broker.start()
        assert Scraped.of(broker.metrics_address).value(READ_ONLY) == 0
        with connect(broker) as wire:
            assert len(list(wire.read(STREAM, TOPIC, 1))) == 4
            assert producer.send_one(wire, 0) is Outcome.ACKNOWLEDGED
            kept = [message.payload for message in wire.read(STREAM, TOPIC, 0)]
        # What was refused by the failed sync may have reached the disk all the same.
        acknowledged = [batch for batch in producer.book.batches if batch.partition == 0]
        assert len(kept) >= 2 * sum(one.outcome is Outcome.ACKNOWLEDGED for one in acknowledged)
