"""D8 for compression in the size of a test run, and kills at exact steps of it."""

import random
import shutil
from pathlib import Path

import pytest

from borzoi.storage.codecs import Codec
from borzoi.storage.layout import compressing_path, log_path
from tests.broker import wait_for
from tests.conftest import NewBroker
from tests.crash.compression_kills import run, text_of
from tests.crash.kill_cycles import PINNED, TWO_SHARDS
from tests.crash.load import STREAM, TOPIC, create_topic, partitions_of
from tests.crash.places import directory_of, in_trash
from tests.crash.tracer import RENAMES, UNLINKS, killed_at
from tests.shard_wires import connect, connect_to_shard
from tests.wire import Wire

PAYLOADS = [b"%d " % number * 500 for number in range(30)]


@pytest.mark.slow
def test_d8_compression_survives_kills(tmp_path: Path) -> None:
    done = run(tmp_path / "data", "written", 1, random.SystemRandom().randrange(1 << 32))
    print(text_of(done))
    assert done.summary.lost == 0
    assert done.compressed > 10


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("strace") is None, reason="strace kills at an exact system call")
@pytest.mark.parametrize(
    "step",
    [
        "place",  # before a temporary gets its name
        "retire",  # before the plain log leaves
        "unlink",  # before its bytes are gone
    ],
)
def test_a_compression_is_finished_by_the_successor_of_a_killed_owner(
    new_broker: NewBroker, tmp_path: Path, step: str
) -> None:
    broker = new_broker(
        **TWO_SHARDS,
        **PINNED,
        IGGY_SYSTEM_SEGMENT_SIZE="5KiB",
        IGGY_SYSTEM_COMPRESSION_DEFAULT_ALGORITHM="zstd",
        IGGY_MESSAGE_SAVER_INTERVAL="1 s",
    )
    partition = partitions_of(1, 2)[0]
    directory = Path(directory_of(broker, partition))
    pid = broker.workers()[1]
    with connect_to_shard(broker, 0) as wire:
        create_topic(wire)
        wire.append(STREAM, TOPIC, partition, PAYLOADS[:7])
        temporary = compressing_path(str(directory), 0, Codec.ZSTD)
        plain = log_path(str(directory), 0)
        calls, path = {
            "place": (RENAMES, temporary),
            "retire": (RENAMES, plain),
            "unlink": (UNLINKS, in_trash(broker, partition, plain)),
        }[step]
        with killed_at(pid, calls, tmp_path / "trace", path):
            # This one seals the segment that both are in.
            wire.append(STREAM, TOPIC, partition, PAYLOADS[7:14])
            wait_for(lambda: broker.workers().get(1, pid) != pid, 30.0)
    with connect(broker) as wire:
        wait_for(lambda: payloads_of(wire, partition) == PAYLOADS[:14], 30.0)
        wait_for(lambda: is_compressed(directory), 30.0)
        assert payloads_of(wire, partition) == PAYLOADS[:14]
        wire.append(STREAM, TOPIC, partition, PAYLOADS[14:21])
        wire.append(STREAM, TOPIC, partition, PAYLOADS[21:])
        wait_for(lambda: len(list(directory.glob("*.zstd"))) == 2, 30.0)
        wait_for(lambda: is_compressed(directory), 30.0)
        assert payloads_of(wire, partition) == PAYLOADS
    wait_for(lambda: not list((broker.data / "trash").iterdir()), 30.0)


def payloads_of(wire: Wire, partition: int) -> list[bytes]:
    return [message.payload for message in wire.read(STREAM, TOPIC, partition)]


def is_compressed(directory: Path) -> bool:
    """Nothing is plain but the active segment, and nothing is half done."""
    names = [path.name for path in directory.glob("0*")]
    return sum(name.endswith(".log") for name in names) == 1 and not any(
        name.endswith(".tmp") for name in names
    )
