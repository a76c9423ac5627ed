"""What is made of the death of a worker: who is blamed, and who is not."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from borzoi.protocol.codes import Code
from borzoi.protocol.framing import encode_request
from borzoi.router.arena import create_arena
from borzoi.router.control import ControlLayout, OwnControl, SharedControl, create_control
from borzoi.shards.faults.crash_reports import new_trace
from borzoi.shards.faults.in_work import OF_PEER, REQUEST, WHERE_BITS, user_bits
from borzoi.shards.faults.poison import FATAL, Suspects, digest_of
from borzoi.shards.nursery.spawning import WorkerProcess
from borzoi.shards.process.worker_deaths import WorkerDeaths

LAYOUT: Final = ControlLayout(2)
ARENA_SIZE: Final = 1 << 20
PAYLOAD: Final = b"which kills"
AT: Final = 5000


class Workers:
    """Two workers, both of them dead."""

    def __init__(self, logs: Path) -> None:
        self.logs = logs
        self.suspects = Suspects()
        self.own: list[OwnControl] = []
        self.workers: list[WorkerProcess] = []
        for shard in range(2):
            fd = create_control(LAYOUT, shard, 1)
            self.own.append(OwnControl(fd, LAYOUT, shard, 1))
            control = SharedControl(fd, LAYOUT, shard, 1)
            self.workers.append(WorkerProcess(shard, control, fd, create_arena(shard, ARENA_SIZE)))
            self.workers[-1].trace_fd = new_trace()
        self.deaths = WorkerDeaths(logs, self.workers, self.suspects, ARENA_SIZE)

    def put(self, shard: int, code: int, payload: bytes) -> int:
        """A request in the arena of a shard; where its payload lies."""
        os.pwrite(self.workers[shard].arena_fd, encode_request(code, payload), AT)
        return AT + 8

    def die(self, shard: int, number: int, *, was_ordered: bool = False) -> bool:
        return self.deaths.look_at(self.workers[shard], -number, 4711, was_ordered=was_ordered)

    @property
    def reports(self) -> list[str]:
        return [path.read_text() for path in sorted(self.logs.glob("*.crash"))]

    def close(self) -> None:
        for worker in self.workers:
            os.close(worker.control_fd)
            os.close(worker.arena_fd)
            os.close(worker.trace_fd)


@pytest.fixture
def workers(tmp_path: Path) -> Iterator[Workers]:
    made = Workers(tmp_path / "logs")
    yield made
    made.close()


def test_the_second_death_with_the_same_request_blames_it(workers: Workers) -> None:
    workers.own[1].in_work[REQUEST] = workers.put(1, Code.POLL_MESSAGES, PAYLOAD) + user_bits(3)
    assert not workers.die(1, signal.SIGSEGV)
    # Which of the shards dies of it makes no difference.
    workers.own[0].in_work[REQUEST] = workers.put(0, Code.POLL_MESSAGES, PAYLOAD)
    assert workers.die(0, signal.SIGBUS)
    assert [one.digest for one in workers.suspects.refused(0.0)] == [
        digest_of(Code.POLL_MESSAGES, len(PAYLOAD), PAYLOAD)
    ]
    assert any("POLL_MESSAGES (100), 11 bytes, user 3" in text for text in workers.reports)


def test_a_request_of_another_shards_client_is_blamed_if_that_is_carried_out(
    workers: Workers,
) -> None:
    where = workers.put(0, Code.STORE_CONSUMER_OFFSET, PAYLOAD)
    # One of its own waits meanwhile, and is innocent.
    workers.own[1].in_work[REQUEST] = workers.put(1, Code.POLL_MESSAGES, b"innocent")
    workers.own[1].in_work[OF_PEER] = where | 1 << WHERE_BITS
    assert not workers.die(1, signal.SIGSEGV)
    assert workers.die(1, signal.SIGSEGV)
    assert [one.digest for one in workers.suspects.refused(0.0)] == [
        digest_of(Code.STORE_CONSUMER_OFFSET, len(PAYLOAD), PAYLOAD)
    ]
    assert "of a client of shard 0" in workers.reports[0]


@pytest.mark.parametrize("of_peer", [1 << WHERE_BITS, 1 | 1 << WHERE_BITS, 77 << WHERE_BITS])
def test_no_client_is_blamed_for_what_a_shard_does_on_its_own(
    workers: Workers, of_peer: int
) -> None:
    workers.own[1].in_work[REQUEST] = workers.put(1, Code.POLL_MESSAGES, b"innocent")
    workers.own[1].in_work[OF_PEER] = of_peer
    for _ in range(3):
        assert not workers.die(1, signal.SIGSEGV)
    assert "no request" in workers.reports[0]


def test_only_fatal_signals_blame_and_orders_are_not_reported(workers: Workers) -> None:
    workers.own[1].in_work[REQUEST] = workers.put(1, Code.POLL_MESSAGES, PAYLOAD)
    for number in (signal.SIGKILL, signal.SIGTERM):
        for _ in range(3):
            assert not workers.die(1, number)
    assert len(workers.reports) == 6
    for code in (0, -3, -70):  # exit codes
        assert not workers.die(1, code)
    assert not workers.die(1, signal.SIGKILL, was_ordered=True)
    assert len(workers.reports) == 6
    # Even when a stop was ordered: a fault of ours is one then, too.
    for number in FATAL:
        workers.die(1, number, was_ordered=True)
    assert len(workers.reports) == 6 + len(FATAL)
