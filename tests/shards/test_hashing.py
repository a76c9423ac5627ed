"""Who is next to have a password hashed: one at a time, in order of rank, nobody for ever."""

import asyncio
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import pytest

from borzoi.protocol.errors import Disconnected
from borzoi.shards.hashing import Hashing

WAITING_MAX = 4


def present() -> bool:
    return True


class Turns:
    """Takes turns and notes in which order they came."""

    def __init__(self, hashing: Hashing) -> None:
        self.hashing = hashing
        self.order: list[str] = []
        self.ranks: dict[str, int] = {}
        self.running = 0
        self.go_on = asyncio.Event()

    async def take(self, name: str, rank: int = 0, is_there: Callable[[], bool] = present) -> None:
        async with self.hashing.turn(lambda: self.ranks.get(name, rank), is_there):
            self.running += 1
            assert self.running == 1, "one at a time"
            self.order.append(name)
            await self.go_on.wait()
            self.running -= 1


def run(check: Callable[[Turns], Coroutine[Any, Any, None]]) -> None:
    async def main() -> None:
        with ThreadPoolExecutor(1) as thread:
            await check(Turns(Hashing(thread, WAITING_MAX)))

    asyncio.run(main())


async def started(work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
    task = asyncio.ensure_future(work)
    await asyncio.sleep(0)
    return task


def test_in_order_of_rank_then_of_arrival() -> None:
    async def check(turns: Turns) -> None:
        tasks = [await started(turns.take("first", 9))]
        for name, rank in (("suspect", 7), ("b", 0), ("less suspect", 3), ("c", 0)):
            tasks.append(await started(turns.take(name, rank)))
        assert len(turns.hashing) == 4
        turns.go_on.set()
        await asyncio.gather(*tasks)
        assert turns.order == ["first", "b", "c", "less suspect", "suspect"]
        # And the queue is open again.
        await turns.take("later")

    run(check)


def test_ranks_change_while_one_waits() -> None:
    async def check(turns: Turns) -> None:
        tasks = [await started(turns.take("first"))]
        for name in ("guess 1", "guess 2", "good"):
            tasks.append(await started(turns.take(name)))
        turns.ranks |= {"guess 1": 2, "guess 2": 1}
        turns.go_on.set()
        await asyncio.gather(*tasks)
        assert turns.order == ["first", "good", "guess 2", "guess 1"]

    run(check)


def test_the_queue_is_bounded_and_the_gone_leave_it() -> None:
    async def check(turns: Turns) -> None:
        there = {"a": True, "b": True}
        tasks = [await started(turns.take("first"))]
        for name in ("a", "b"):
            tasks.append(await started(turns.take(name, 0, partial(there.__getitem__, name))))
        for name in ("c", "d"):
            tasks.append(await started(turns.take(name)))
        with pytest.raises(Disconnected):
            await turns.take("one too many")
        there["a"] = False
        tasks.append(await started(turns.take("instead of a")))
        # This one is found to be gone only when it would be its turn.
        there["b"] = False
        turns.go_on.set()
        ended = await asyncio.gather(*tasks, return_exceptions=True)
        assert [type(end) for end in ended] == [
            type(None), Disconnected, Disconnected, type(None), type(None), type(None),
        ]  # fmt: skip
        assert turns.order == ["first", "c", "d", "instead of a"]

    run(check)


def test_a_cancelled_turn_is_handed_on(monkeypatch: pytest.MonkeyPatch) -> None:
    async def check(turns: Turns) -> None:
        first = await started(turns.take("first"))
        cancelled = await started(turns.take("cancelled while waiting"))
        unlucky = await started(turns.take("cancelled with its turn in hand"))
        last = await started(turns.take("last"))
        cancelled.cancel()
        # `first` ends and hands the turn to `unlucky`, which is cancelled before it can run.
        hand_on = turns.hashing._next

        def hand_on_and_cancel() -> None:
            hand_on()
            unlucky.cancel()

        monkeypatch.setattr(turns.hashing, "_next", hand_on_and_cancel)
        turns.go_on.set()
        await asyncio.wait({first, cancelled, unlucky, last}, timeout=60)
        assert turns.order == ["first", "last"]
        await turns.take("later")

    run(check)


def test_a_failure_within_a_turn_ends_it() -> None:
    async def check(turns: Turns) -> None:
        with pytest.raises(ZeroDivisionError):
            async with turns.hashing.turn(lambda: 0, present):
                raise ZeroDivisionError
        turns.go_on.set()
        await turns.take("later")

    run(check)


def test_it_hashes_off_the_loop_and_knows_a_hash_for_nobody() -> None:
    async def check(turns: Turns) -> None:
        hashing = turns.hashing
        stored = await hashing.hash("secret")
        assert await hashing.verify(stored, "secret")
        assert not await hashing.verify(stored, "other")
        assert not await hashing.verify(None, "nobody has this password")
        assert await hashing._run(threading.get_ident) != threading.get_ident()

    run(check)
