"""Passwords are hashed off the loop, behind it, one at a time; unknown users as slowly."""

import asyncio
import os
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from borzoi.shards.identity.hashing import NICENESS, Asker, Hashing, hashing_thread
from borzoi.shards.loop.turns import FairTurns, always
from borzoi.shares import Shares


def run(check: Callable[[Hashing], Coroutine[Any, Any, None]]) -> None:
    async def main() -> None:
        thread = hashing_thread()
        try:
            await check(Hashing(thread, FairTurns(Shares("places", 4))))
        finally:
            thread.shutdown()

    asyncio.run(main())


def test_it_hashes_off_the_loop_and_knows_a_hash_for_unknown_users() -> None:
    async def check(hashing: Hashing) -> None:
        stored = await hashing.hash("secret")
        assert await hashing.verify(stored, "secret")
        assert not await hashing.verify(stored, "other")
        assert not await hashing.verify(None, "no account has this password")
        assert await hashing._run(threading.get_ident) != threading.get_ident()

    run(check)


@pytest.mark.parametrize("niced_by", [0, 3])
def test_the_loop_comes_first(niced_by: int) -> None:
    """Also in a broker that was started with a niceness of its own."""

    async def check(hashing: Hashing) -> None:
        here = os.getpriority(os.PRIO_PROCESS, threading.get_native_id())
        there = await hashing._run(
            lambda: os.getpriority(os.PRIO_PROCESS, threading.get_native_id())
        )
        assert there == min(19, here + NICENESS)

    def niced() -> None:
        thread = threading.get_native_id()
        os.setpriority(os.PRIO_PROCESS, thread, os.getpriority(os.PRIO_PROCESS, thread) + niced_by)
        run(check)

    # A thread of its own: what is nice stays so.
    with ThreadPoolExecutor(1) as threads:
        threads.submit(niced).result()


def test_askers_take_turns() -> None:
    async def check(hashing: Hashing) -> None:
        order: list[str] = []

        async def ask(taker: str) -> None:
            async with hashing.turn(Asker(taker, always)):
                order.append(taker)
                await asyncio.sleep(0)

        await asyncio.gather(*(ask(taker) for taker in ("a", "a", "a", "b")))
        assert order == ["a", "a", "b", "a"]

    run(check)


@pytest.mark.parametrize("password", ["", "\ud800"])
def test_odd_passwords_fit_nothing(password: str) -> None:
    async def check(hashing: Hashing) -> None:
        assert not await hashing.verify(await hashing.hash("secret"), password)

    run(check)
