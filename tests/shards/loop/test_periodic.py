"""Rounds: when they come, when they end, and what an error does to them."""

import asyncio

import pytest

from borzoi.shards.loop.periodic import Periodic, PeriodicTask
from borzoi.shards.loop.tasks import Tasks
from tests.shards.hand_loop import HandLoop

INTERVAL_S = 10.0


class Scene:
    """A loop turned by hand, and the times of the rounds since its beginning."""

    def __init__(self, *, on_grid: bool = False) -> None:
        self.loop = HandLoop()
        self.began = self.loop.now
        self.rounds: list[float] = []
        self.takes_s = 0.0
        self.periodic = Periodic(self.loop.as_loop, INTERVAL_S, self.work, on_grid=on_grid)

    def work(self) -> None:
        self.rounds.append(self.loop.now - self.began)
        self.loop.now += self.takes_s


def test_the_first_round_comes_after_an_interval() -> None:
    scene = Scene()
    scene.periodic.start()
    scene.loop.advance(INTERVAL_S - 1)
    assert scene.rounds == []
    scene.loop.advance(2 * INTERVAL_S + 1)
    assert scene.rounds == [10, 20, 30]


def test_the_first_round_may_come_at_once() -> None:
    scene = Scene()
    scene.periodic.start_at_once()
    scene.loop.advance(INTERVAL_S)
    assert scene.rounds == [0, 10]


def test_a_second_start_changes_nothing() -> None:
    scene = Scene()
    scene.periodic.start()
    scene.loop.advance(INTERVAL_S / 2)
    scene.periodic.start()
    scene.loop.advance(1.5 * INTERVAL_S)
    assert scene.rounds == [10, 20]


def test_the_next_interval_begins_at_the_end_of_a_round() -> None:
    scene = Scene()
    scene.takes_s = 3
    scene.periodic.start()
    scene.loop.advance(4 * INTERVAL_S)
    assert scene.rounds == [10, 23, 36]


def test_on_a_grid_rounds_keep_their_times_and_missed_ones_are_left_out() -> None:
    scene = Scene(on_grid=True)
    scene.takes_s = 3
    scene.periodic.start()
    scene.loop.advance(2 * INTERVAL_S)
    assert scene.rounds == [10, 20]
    scene.takes_s = 25
    scene.loop.advance(INTERVAL_S)
    scene.takes_s = 0
    scene.loop.advance(3 * INTERVAL_S)
    assert scene.rounds[2:] == [30, 60]


def test_after_a_stop_there_is_no_round_until_the_next_start() -> None:
    scene = Scene()
    scene.periodic.start()
    scene.loop.advance(INTERVAL_S)
    scene.periodic.stop()
    scene.loop.advance(3 * INTERVAL_S)
    assert scene.rounds == [10]
    scene.periodic.start()
    scene.loop.advance(INTERVAL_S)
    assert scene.rounds == [10, 50]


@pytest.mark.parametrize(("starts_again", "expected"), [(False, [10]), (True, [10, 20, 30])])
def test_the_work_may_stop_itself_and_start_again(
    starts_again: bool, expected: list[float]
) -> None:
    loop = HandLoop()
    began = loop.now
    rounds: list[float] = []

    def work() -> None:
        rounds.append(loop.now - began)
        periodic.stop()
        if starts_again:
            periodic.start()

    periodic = Periodic(loop.as_loop, INTERVAL_S, work)
    periodic.start()
    loop.advance(3 * INTERVAL_S)
    assert rounds == expected


def test_an_error_reaches_the_loop_each_time_and_the_rounds_go_on() -> None:
    loop = HandLoop()

    def work() -> None:
        raise ZeroDivisionError

    periodic = Periodic(loop.as_loop, INTERVAL_S, work)
    periodic.start()
    for _ in range(2):
        with pytest.raises(ZeroDivisionError):
            loop.advance(INTERVAL_S)
    periodic.stop()
    loop.advance(3 * INTERVAL_S)


def test_the_rounds_of_a_task_do_not_overlap() -> None:
    running = 0
    rounds = 0

    async def work() -> None:
        nonlocal running, rounds
        running += 1
        assert running == 1
        for _ in range(5):
            await asyncio.sleep(0)
        running -= 1
        rounds += 1
        if rounds == 3:
            ended.set()

    async def check() -> None:
        broken: list[BaseException] = []
        periodic = PeriodicTask(asyncio.get_running_loop(), 0.001, work, Tasks(broken.append))
        periodic.start()
        async with asyncio.timeout(10):
            await ended.wait()
        periodic.stop()
        assert broken == []

    ended = asyncio.Event()
    asyncio.run(check())
    assert rounds == 3


def test_a_round_that_is_cancelled_at_the_stop_is_the_last() -> None:
    rounds = 0

    async def work() -> None:
        nonlocal rounds
        rounds += 1
        began.set()
        await asyncio.Event().wait()

    async def check() -> None:
        broken: list[BaseException] = []
        tasks = Tasks(broken.append)
        PeriodicTask(asyncio.get_running_loop(), 0.001, work, tasks).start()
        async with asyncio.timeout(10):
            await began.wait()
        await tasks.drain(0.001)
        await asyncio.sleep(0.01)
        assert broken == []

    began = asyncio.Event()
    asyncio.run(check())
    assert rounds == 1


def test_an_error_of_a_task_is_reported_and_ends_the_rounds() -> None:
    rounds = 0

    async def work() -> None:
        nonlocal rounds
        rounds += 1
        raise ZeroDivisionError

    async def check() -> None:
        broken: asyncio.Future[BaseException] = asyncio.get_running_loop().create_future()
        tasks = Tasks(broken.set_result)
        PeriodicTask(asyncio.get_running_loop(), 0.001, work, tasks).start()
        async with asyncio.timeout(10):
            assert isinstance(await broken, ZeroDivisionError)
        await asyncio.sleep(0.01)

    asyncio.run(check())
    assert rounds == 1
