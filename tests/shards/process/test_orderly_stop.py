"""Whom the supervisor waits for, whom it kills, and what it says then."""

import asyncio
import os
import time
from collections.abc import Callable, Iterator
from typing import Any, cast

import pytest

from borzoi.router.control import ControlLayout, OwnControl, create_control
from borzoi.router.fds import ChannelFull
from borzoi.shards.nursery.spawning import WorkerProcess
from borzoi.shards.orders.spec import BROKEN, CANNOT_BOOT, INCOMPLETE
from borzoi.shards.process.orderly_stop import KILLED, NOT_ON_DISK, STOPPED, OrderlyStop

LONG_S = 60.0
SHORT_S = 0.2


class FakeWorker(WorkerProcess):
    """Beats as long as it is `busy`, then ends with its code. Killed, it ends at once."""

    def __init__(self, shard: int, *, code: int = 0, turns: int = 3) -> None:
        layout = ControlLayout(2)
        fd = create_control(layout, shard, 1)
        self.own = OwnControl(fd, layout, shard, 1)
        super().__init__(shard, self.own, fd, -1)
        self.process = cast(Any, self)
        self.channel = cast(Any, self)
        self.own.beat(time.monotonic_ns())
        self.ordered = 0
        self.code = code
        self.turns = turns
        self.beats = True

    def send(self, _payload: bytes, _fds: tuple[int, ...]) -> None:
        self.ordered += 1

    def kill(self) -> None:
        self.end(-9)

    def end(self, code: int) -> None:
        self.exit_code = code
        self.process = None

    def turn(self) -> None:
        if self.process is None:
            return
        self.turns -= 1
        if self.turns == 0:
            self.end(self.code)
        elif self.beats:
            self.own.beat(time.monotonic_ns())
            self.own.tell_left(self.turns, self.turns)


NewWorker = Callable[..., FakeWorker]


@pytest.fixture
def new_worker() -> Iterator[NewWorker]:
    made: list[FakeWorker] = []

    def make(*, code: int = 0, turns: int = 3) -> FakeWorker:
        made.append(FakeWorker(len(made), code=code, turns=turns))
        return made[-1]

    yield make
    for worker in made:
        worker.own.close()
        os.close(worker.control_fd)


def run(
    *workers: FakeWorker,
    stop_timeout_s: float = LONG_S,
    stalled_after_s: float = LONG_S,
    starting_timeout_s: float = LONG_S,
    report_interval_s: float = LONG_S,
    then: Callable[[OrderlyStop], None] | None = None,
) -> int:
    async def stop() -> int:
        orderly = OrderlyStop(
            workers,
            stop_timeout_s,
            stalled_after_s,
            starting_timeout_s=starting_timeout_s,
            report_interval_s=report_interval_s,
        )
        running = asyncio.ensure_future(orderly.run())
        while not running.done():
            await asyncio.sleep(0.02)
            for worker in workers:
                worker.turn()
            if then is not None:
                then(orderly)
        return running.result()

    return asyncio.run(stop())


@pytest.mark.parametrize(
    ("codes", "wanted"),
    [
        ((0, 0), STOPPED),
        ((0, INCOMPLETE), NOT_ON_DISK),
        ((INCOMPLETE, BROKEN), KILLED),
        ((-9, 0), KILLED),
        # It never served. That the broker cannot start has an exit code of its own.
        ((CANNOT_BOOT, 0), STOPPED),
    ],
)
def test_exit_codes(new_worker: NewWorker, codes: tuple[int, int], wanted: int) -> None:
    workers = [new_worker(code=code) for code in codes]
    assert run(*workers) == wanted
    assert [worker.ordered for worker in workers] == [1, 1]


@pytest.mark.slow
def test_it_waits_longer_than_any_heartbeat_while_the_loop_turns(new_worker: NewWorker) -> None:
    assert run(new_worker(turns=100), stalled_after_s=1.5) == STOPPED


def test_a_loop_that_stands_still_is_killed(
    new_worker: NewWorker, caplog: pytest.LogCaptureFixture
) -> None:
    worker = new_worker(turns=10**9)
    worker.beats = False
    assert run(worker, new_worker(), stalled_after_s=SHORT_S) == KILLED
    assert "shard 0 has not moved" in caplog.text
    assert "has not begun to write" in caplog.text


def test_a_stop_that_takes_too_long_is_ended(
    new_worker: NewWorker, caplog: pytest.LogCaptureFixture
) -> None:
    worker = new_worker(turns=10**9)
    assert run(worker, stop_timeout_s=SHORT_S) == KILLED
    assert "system.stop_timeout" in caplog.text
    assert "partitions to write" in caplog.text


def test_one_that_still_starts_has_acknowledged_nothing(
    new_worker: NewWorker, caplog: pytest.LogCaptureFixture
) -> None:
    worker = new_worker(turns=10**9)
    worker.own.beat(0)
    worker.beats = False
    assert run(worker, starting_timeout_s=SHORT_S) == STOPPED
    assert worker.exit_code == -9
    assert "was still starting" in caplog.text


def errors(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelname == "ERROR"]


def test_killed_on_demand(new_worker: NewWorker, caplog: pytest.LogCaptureFixture) -> None:
    assert run(new_worker(turns=10**9), then=OrderlyStop.kill) == KILLED
    assert "SIGQUIT" in caplog.text
    assert errors(caplog) == ["shard 0 was killed and ended with code -9"]


def test_one_that_ends_by_itself_before_the_kill_is_no_error(
    new_worker: NewWorker, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    worker = new_worker(turns=10**9)
    monkeypatch.setattr(worker, "kill", lambda: worker.end(0))

    def kill(orderly: OrderlyStop) -> None:
        orderly.kill()
        orderly.report()

    assert run(worker, then=kill) == STOPPED
    assert "shard 0 is not waited for any longer (SIGQUIT) and is being killed" in caplog.text
    assert "was killed" not in caplog.text
    assert errors(caplog) == []


def test_an_order_that_cannot_be_given(
    new_worker: NewWorker, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    worker = new_worker(turns=10**9)
    worker.beats = False

    def full(_payload: bytes, _fds: tuple[int, ...]) -> None:
        raise ChannelFull("1024 messages wait already")

    monkeypatch.setattr(worker, "send", full)
    assert run(worker, stalled_after_s=SHORT_S) == KILLED
    assert "does not take the order to stop" in caplog.text


def test_what_is_left_is_said(new_worker: NewWorker, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    assert run(new_worker(turns=10), new_worker(turns=2), report_interval_s=0.01) == STOPPED
    assert "partitions to write" in caplog.text
    assert "shard 1 has stopped" in caplog.text
