"""F3: a process may open only a few files.

The accept loop does not spin, who is connected is served, and it recovers.
"""

import shutil
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import psutil
import pytest

from borzoi.protocol.commands.streams import CreateStream
from borzoi.protocol.commands.topics import CreateTopic
from tests.broker import BrokerProcess, wait_for
from tests.cpu_time import scheduled
from tests.crash.load import STREAM, TOPIC
from tests.shard_wires import ONE_SHARD, connect

FILES_MAX = 64
CONNECTIONS = 500
SEGMENTS = 200
WATCHED_S = 1.0
BUSY_SHARE_MAX = 0.5
pytestmark = pytest.mark.slow

Start = Callable[..., BrokerProcess]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    with ExitStack() as stack:

        def make(*wrapper: str, **settings: str) -> BrokerProcess:
            broker = BrokerProcess(tmp_path / "data", {**ONE_SHARD, **settings}, wrapper=wrapper)
            stack.callback(broker.close)
            broker.start()
            return broker

        yield make


@pytest.mark.skipif(shutil.which("prlimit") is None, reason="prlimit is not installed")
def test_f3_few_files_many_connections_and_many_segments(start: Start) -> None:
    limit = f"--nofile={FILES_MAX}:{FILES_MAX}"
    broker = start("prlimit", limit, IGGY_SYSTEM_SEGMENT_SIZE="512 B")
    with connect(broker) as wire:
        wire.ask(CreateStream(STREAM))
        wire.ask(CreateTopic(STREAM, 1, 1, 0, 0, 1, TOPIC))
        for number in range(SEGMENTS):
            wire.append(STREAM, TOPIC, 0, [b"%d" % number * 200])
        with ExitStack() as stack:
            for _ in range(CONNECTIONS):
                other = stack.enter_context(socket.socket())
                other.setblocking(False)
                other.connect_ex((broker.host, broker.port))
            worker = psutil.Process(broker.workers()[0])
            payloads = [message.payload for message in wire.read(STREAM, TOPIC, 0)]
            assert payloads == [b"%d" % number * 200 for number in range(SEGMENTS)]
            wire.append(STREAM, TOPIC, 0, [b"still served" * 50])
            # A loop that spins runs, or is ready to, for as long as no client goes away.
            wait_for(lambda: _busy_share(worker) < BUSY_SHARE_MAX)
        with connect(broker) as fresh:
            assert len(list(fresh.read(STREAM, TOPIC, 0))) == SEGMENTS + 1


def _busy_share(worker: psutil.Process) -> float:
    """How much of the next second a process has work to do."""
    began, before = time.monotonic(), scheduled([worker.pid])
    _let_pass(worker, WATCHED_S)
    busy_s = sum(scheduled([worker.pid])) - sum(before)
    return busy_s / (time.monotonic() - began)


def _let_pass(worker: psutil.Process, wall_s: float) -> None:
    """That much time, in which the process must not end."""
    with pytest.raises(psutil.TimeoutExpired):
        worker.wait(wall_s)
