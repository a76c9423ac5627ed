"""Asking every other shard: all at once, and what each of them does to the whole."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar, cast

import pytest

from borzoi.protocol.errors import BrokerError, ShardCommunicationError
from borzoi.router.pool import MemoryPool
from borzoi.shards.rings.gather import Gather, answers
from borzoi.shards.rings.lending import FIRST_LENT_SIZE, TRIES_MAX, tell
from borzoi.shards.rings.peers import Peers
from borzoi.shards.rings.requests import Done, Request, Telling

T = TypeVar("T")


class TellName(Telling):
    """Write a name into the lent buffer."""

    KIND = 201


class Lent:
    """A buffer that need not lie in an arena."""

    position = 7

    def __init__(self, size: int) -> None:
        self.view = memoryview(bytearray(size))
        self.is_released = False

    def release(self) -> None:
        assert not self.is_released
        self.is_released = True


class Shards:
    """Peers whose answers a test chooses, and the pool of their buffers."""

    def __init__(self, **serve: Callable[[memoryview, Done], None]) -> None:
        self._serve = {int(name[1:]): one for name, one in serve.items()}
        self.asked: list[int] = []
        self.taken: list[Lent] = []

    def shards(self) -> list[int]:
        return sorted(self._serve)

    def ask(self, shard: int, request: Request, done: Done, buffer: Lent | None = None) -> None:
        self.asked.append(shard)
        view = memoryview(bytearray())
        if buffer is not None:
            assert isinstance(request, TellName)
            assert (request.position, request.length) == (buffer.position, buffer.view.nbytes)
            view = buffer.view
        self._serve[shard](view, done)

    def take(self, size: int) -> Lent:
        self.taken.append(Lent(size))
        return self.taken[-1]

    def run(self, work: Callable[[Gather], Coroutine[Any, Any, T]]) -> T:
        gather = Gather(cast("Peers", self), cast("MemoryPool", self))

        async def all_of_it() -> T:
            async with asyncio.timeout(10):
                return await work(gather)

        try:
            return asyncio.run(all_of_it())
        finally:
            assert all(one.is_released for one in self.taken)


def named(name: bytes) -> Callable[[memoryview, Done], None]:
    return lambda lent, done: tell(lent, name, done, 3)


def replaced(_lent: memoryview, done: Done) -> None:
    """What the rule COMPLETE answers for a shard that has died."""
    done(0)


def failing(_lent: memoryview, done: Done) -> None:
    done(ShardCommunicationError.status)


def silent(_lent: memoryview, _done: Done) -> None:
    """Never answers."""


def test_what_all_shards_tell_by_shard() -> None:
    shards = Shards(_0=named(b"ann"), _2=replaced, _3=named(b"cid"))
    assert shards.run(lambda gather: gather.reports(TellName)) == {0: b"ann", 2: b"", 3: b"cid"}


def test_all_are_asked_before_any_has_answered() -> None:
    waiting: list[Done] = []

    def last(_lent: memoryview, done: Done) -> None:
        for one in [*waiting, done]:
            one(0)

    def wait(_lent: memoryview, done: Done) -> None:
        waiting.append(done)

    shards = Shards(_1=wait, _2=wait, _3=last)
    assert shards.run(lambda gather: gather.answers(TellName(0, 0))) == [(0, 0, 0)] * 3
    assert shards.asked == [1, 2, 3]


def test_results_without_a_buffer_in_the_order_of_the_shards() -> None:
    shards = Shards(_1=named(b"ann"), _2=replaced, _3=named(b""))
    found = asyncio.run(answers(cast("Peers", shards), TellName(0, 0)))
    assert found == [(3, 3, 0), (0, 0, 0), (0, 3, 0)]
    assert shards.taken == []


def test_an_error_of_one_shard_is_raised() -> None:
    shards = Shards(_1=named(b"ann"), _2=failing)
    with pytest.raises(ShardCommunicationError):
        shards.run(lambda gather: gather.reports(TellName))
    with pytest.raises(ShardCommunicationError):
        shards.run(lambda gather: gather.answers(TellName(0, 0)))


def test_within_a_time_errors_stand_in_for_the_answer() -> None:
    shards = Shards(_0=named(b"ann"), _1=silent, _2=failing, _3=replaced)
    found = shards.run(lambda gather: gather.reports_within(0.02, TellName))
    assert (found[0], found[3]) == (b"ann", b"")
    assert isinstance(found[1], TimeoutError)
    assert isinstance(found[2], BrokerError)


def test_a_buffer_grows_until_all_fits() -> None:
    much = b"x" * (3 * FIRST_LENT_SIZE)
    shards = Shards(_1=named(much))
    assert shards.run(lambda gather: gather.reports(TellName)) == {1: much}
    assert [one.view.nbytes for one in shards.taken] == [FIRST_LENT_SIZE, 4 * FIRST_LENT_SIZE]


def test_what_always_grows_is_given_up() -> None:
    shards = Shards(_1=lambda lent, done: done(0, lent.nbytes + 1))
    with pytest.raises(ShardCommunicationError, match="shard 1"):
        shards.run(lambda gather: gather.reports(TellName))
    assert len(shards.taken) == TRIES_MAX
