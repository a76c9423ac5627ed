"""A value that is made once for all who ask within a moment."""

import asyncio

import pytest

from borzoi.shards.metrics.fresh import Fresh


class Maker:
    """Counts how often it makes something, and can be held up or fail."""

    def __init__(self) -> None:
        self.made = 0
        self.may_end = asyncio.Event()
        self.may_end.set()
        self.error: Exception | None = None

    async def make(self) -> int:
        self.made += 1
        await self.may_end.wait()
        if self.error is not None:
            raise self.error
        return self.made


def test_all_who_come_while_it_is_made_or_kept_get_the_same() -> None:
    async def run() -> None:
        maker = Maker()
        fresh = Fresh(maker.make, 60.0)
        maker.may_end.clear()
        waiting = [asyncio.ensure_future(fresh.get()) for _ in range(50)]
        await asyncio.sleep(0)
        # One goes away, even the first: the others are not let down.
        waiting[0].cancel()
        await asyncio.sleep(0)
        maker.may_end.set()
        assert await asyncio.gather(*waiting[1:]) == [1] * 49
        assert await fresh.get() == 1
        assert maker.made == 1

    asyncio.run(run())


def test_what_is_too_old_is_made_again() -> None:
    async def run() -> None:
        maker = Maker()
        fresh = Fresh(maker.make, 0.0)
        assert [await fresh.get(), await fresh.get()] == [1, 2]

    asyncio.run(run())


def test_a_failure_is_raised_and_not_kept() -> None:
    async def run() -> None:
        maker = Maker()
        fresh = Fresh(maker.make, 60.0)
        maker.error = OSError("no")
        with pytest.raises(OSError, match="no"):
            await fresh.get()
        maker.error = None
        assert await fresh.get() == 2

    asyncio.run(run())
