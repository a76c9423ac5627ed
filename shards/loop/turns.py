"""Fair turns: one at a time, and who is next, so that no taker keeps the others waiting.

A *taker* is a user, or before the login an address, like in borzoi.shares. However much one of
them wants, the others wait for one of its turns each and no more:

    The taker is next whose last turn was longest ago. One that has just come counts as one that
    has just had its turn. Of what it wants, the lowest `order` comes first, then the oldest.

A *rank* is a handicap: a taker of rank 3 lets RANK_TURNS x 3 turns of others go first that would
have come after it. So a suspect taker is late, but none waits for ever, however many of a better
rank come. Ranks and orders are asked for when a taker is chosen: they change while one waits.

With a *pace* each taker has so many turns a second, after a burst. Who has had them waits, and
meanwhile all others go on.

Waiting places are `Shares`: one taker never fills the queue. Who has gone is passed over. Between
two turns the loop serves everybody else.

Always: at most one turn is taken; a taker that waits for nothing costs nothing but its pace.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Final

from borzoi.protocol.errors import Disconnected
from borzoi.shards.loop.pace import Pace, Paces
from borzoi.shares import Shares

RANK_TURNS: Final = 32
"""Turns of others that one rank costs. A hash takes 23 ms: three quarters of a second then."""

PACED_MAX: Final = 16_384
"""Takers whose pace is remembered."""


def no_handicap() -> int:
    """The rank, or the order, of all that are equal."""
    return 0


def always() -> bool:
    """The `is_there` of a taker that cannot leave."""
    return True


class _Wish:
    """One who waits."""

    __slots__ = ("is_there", "order", "rank", "turn")

    def __init__(
        self,
        turn: asyncio.Future[None],
        rank: Callable[[], int],
        order: Callable[[], int],
        is_there: Callable[[], bool],
    ) -> None:
        self.turn = turn
        self.rank = rank
        self.order = order
        self.is_there = is_there


class _Queue:
    """What one taker waits for."""

    __slots__ = ("is_held_up", "is_paced", "since", "wishes")

    def __init__(self, since: int, *, is_paced: bool) -> None:
        self.since = since  # how many turns there had been when it came, or had its last one
        self.is_paced = is_paced
        self.is_held_up = False  # whether it would have been its turn but for its pace
        self.wishes: list[_Wish] = []


class FairTurns:
    """Says who is next. Owned by one loop."""

    def __init__(
        self,
        places: Shares,
        pace: Pace | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`places` are those to wait in: one for each that has not got its turn."""
        self.places = places
        self._paces = None if pace is None else Paces[str](pace, PACED_MAX, clock)
        self._queues: dict[str, _Queue] = {}
        self._taken = False
        self._turns = 0
        self._timer: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        """How many wait."""
        return sum(len(queue.wishes) for queue in self._queues.values())

    @asynccontextmanager
    async def turn(
        self,
        taker: str,
        *,
        rank: Callable[[], int] = no_handicap,
        order: Callable[[], int] = no_handicap,
        is_there: Callable[[], bool] = always,
        is_paced: bool = True,
    ) -> AsyncIterator[None]:
        """Wait for a turn, and have it.

        Disconnected if the taker has no place to wait in, or is not there any more when its turn
        comes.
        """
        # While no taker has the turn, all that wait do so for their pace.
        if self._taken or taker in self._queues or (is_paced and self._pace_s(taker)):
            await self._wait(taker, _Wish(_future(), rank, order, is_there), is_paced=is_paced)
        else:
            self._begin(taker, is_paced=is_paced)
        try:
            yield
        finally:
            self._end()

    async def _wait(self, taker: str, wish: _Wish, *, is_paced: bool) -> None:
        if not self.places.allows(taker, 1):
            self._drop_the_gone()
        if not self.places.take(taker, 1):
            self.places.note_refusal(taker, 1)
            raise Disconnected(f"{len(self)} others wait, {self.places.held(taker)} for {taker}")
        queue = self._queues.get(taker)
        if queue is None:
            queue = self._queues[taker] = _Queue(self._turns, is_paced=is_paced)
        queue.wishes.append(wish)
        if not self._taken:
            self._next()
        try:
            await wish.turn
        except asyncio.CancelledError:
            if wish in queue.wishes:
                self._remove(taker, queue, wish)
            elif not wish.turn.cancelled() and wish.turn.exception() is None:
                # It had the turn already: hand it on.
                self._end()
            raise

    def _end(self) -> None:
        """The next turn begins with the next turn of the loop.

        Turns that wait for nothing would otherwise all come in one turn of the loop, as they were
        asked for, and all others behind them.
        """
        asyncio.get_running_loop().call_soon(self._free)

    def _free(self) -> None:
        self._taken = False
        self._next()

    def _next(self) -> None:
        """Give the turn to the next, if there is one that may have it now."""
        while (chosen := self._chosen()) is not None:
            taker, queue = chosen
            wish = min(queue.wishes, key=lambda one: one.order())
            self._remove(taker, queue, wish)
            if wish.turn.done():
                continue
            if not wish.is_there():
                wish.turn.set_exception(Disconnected("the client is gone"))
                continue
            self._begin(taker, is_paced=queue.is_paced)
            wish.turn.set_result(None)
            return
        self._look_again_later()

    def _chosen(self) -> tuple[str, _Queue] | None:
        found: tuple[str, _Queue] | None = None
        best = 0
        for taker, queue in self._queues.items():
            if queue.is_paced and self._pace_s(taker):
                self._note_wait(taker, queue)
                continue
            due = queue.since + RANK_TURNS * queue.wishes[0].rank()
            # The first of several that are equal is the one that has waited longest.
            if found is None or due < best:
                found, best = (taker, queue), due
        return found

    def _note_wait(self, taker: str, queue: _Queue) -> None:
        if not queue.is_held_up:
            queue.is_held_up = True
            self.places.note_wait(taker, 1, "it has had its part of this second")

    def _begin(self, taker: str, *, is_paced: bool) -> None:
        self._taken = True
        self._turns += 1
        if is_paced and self._paces is not None:
            self._paces.spend(taker)
        queue = self._queues.pop(taker, None)
        if queue is not None:
            # It wants more: behind all others.
            queue.since = self._turns
            queue.is_held_up = False
            self._queues[taker] = queue

    def _remove(self, taker: str, queue: _Queue, wish: _Wish) -> None:
        queue.wishes.remove(wish)
        self.places.give_back(taker, 1)
        if not queue.wishes:
            del self._queues[taker]

    def _drop_the_gone(self) -> None:
        for taker, queue in list(self._queues.items()):
            for wish in [one for one in queue.wishes if not one.is_there()]:
                self._remove(taker, queue, wish)
                if not wish.turn.done():
                    wish.turn.set_exception(Disconnected("the client is gone"))

    def _pace_s(self, taker: str) -> float:
        return 0.0 if self._paces is None else self._paces.wait_s(taker)

    def _look_again_later(self) -> None:
        """No taker has the turn: those that wait do so for their pace."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._queues:
            wait_s = min(self._pace_s(taker) for taker in self._queues)
            self._timer = asyncio.get_running_loop().call_later(wait_s, self._look_again)

    def _look_again(self) -> None:
        self._timer = None
        if not self._taken:
            self._next()


def _future() -> asyncio.Future[None]:
    return asyncio.get_running_loop().create_future()
