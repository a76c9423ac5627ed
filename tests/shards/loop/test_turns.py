"""Fair turns: one at a time, each taker in turn, at a pace, in places that one cannot fill."""

import asyncio
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any

import pytest

from borzoi.protocol.errors import Disconnected
from borzoi.shards.loop.pace import Pace
from borzoi.shards.loop.turns import RANK_TURNS, FairTurns, always
from borzoi.shares import Shares
from tests.shards.hand_clock import HandClock

PLACES = 8
DEADLINE_S = 60.0


class Game:
    """Takes turns and notes in which order they came."""

    def __init__(self, turns: FairTurns) -> None:
        self.turns = turns
        self.order: list[str] = []
        self.ranks: dict[str, int] = {}
        self.orders: dict[str, int] = {}
        self.running = 0
        self.go_on = asyncio.Event()

    async def take(
        self, name: str, is_there: Callable[[], bool] = always, *, is_paced: bool = True
    ) -> None:
        """`name` is the taker and a number."""
        taker = name.rstrip("0123456789")
        async with self.turns.turn(
            taker,
            rank=lambda: self.ranks.get(taker, 0),
            order=lambda: self.orders.get(name, 0),
            is_there=is_there,
            is_paced=is_paced,
        ):
            self.running += 1
            assert self.running == 1, "one at a time"
            self.order.append(name)
            await asyncio.sleep(0)
            await self.go_on.wait()
            self.running -= 1


async def started(game: Game, *names: str, **how: Any) -> list[asyncio.Task[None]]:
    tasks = []
    for name in names:
        tasks.append(asyncio.ensure_future(game.take(name, **how)))
        await asyncio.sleep(0)
    return tasks


def run(
    check: Callable[[Game], Coroutine[Any, Any, None]],
    places: int = 10_000,
    pace: Pace | None = None,
    clock: HandClock | None = None,
) -> FairTurns:
    async def main() -> FairTurns:
        shares = Shares("places", places)
        turns = FairTurns(shares, pace, clock) if clock else FairTurns(shares, pace)
        game = Game(turns)
        await check(game)
        # Nothing is left of it.
        assert len(turns) == shares.taken == 0
        game.go_on.set()
        await asyncio.wait_for(game.take("later", is_paced=False), DEADLINE_S)
        return turns

    return asyncio.run(main())


def test_one_that_wants_much_costs_others_one_turn_each() -> None:
    async def check(game: Game) -> None:
        tasks = await started(game, *[f"greedy{number}" for number in range(50)])
        tasks += await started(game, "a1", "b1", "a2")
        game.go_on.set()
        await asyncio.gather(*tasks)
        assert game.order[:7] == ["greedy0", "greedy1", "a1", "b1", "greedy2", "a2", "greedy3"]
        assert game.order[7:] == [f"greedy{number}" for number in range(4, 50)]

    run(check)


def test_one_that_comes_again_at_once_is_no_better_off() -> None:
    """Taking one turn after the other is worth as much as asking for all of them."""

    async def again(game: Game, taker: str) -> None:
        for number in range(20):
            await game.take(f"{taker}{number}")

    async def check(game: Game) -> None:
        tasks = [asyncio.ensure_future(again(game, taker)) for taker in "abc"]
        game.go_on.set()
        await asyncio.gather(*tasks)
        takers = [name[0] for name in game.order]
        for start in range(0, 57, 3):
            assert sorted(takers[start : start + 3]) == ["a", "b", "c"]

    run(check)


def test_a_rank_is_a_handicap_but_not_for_ever() -> None:
    async def check(game: Game) -> None:
        game.ranks = {"late": 1, "later": 2}
        tasks = await started(game, "first0", "late0", "later0")
        for number in range(3 * RANK_TURNS):
            tasks += await started(game, f"a{number}")
        game.go_on.set()
        await asyncio.gather(*tasks)
        assert game.order.index("late0") == pytest.approx(RANK_TURNS, abs=2)
        assert game.order.index("later0") == pytest.approx(2 * RANK_TURNS, abs=3)

    run(check)


def test_ranks_and_orders_change_while_one_waits() -> None:
    async def check(game: Game) -> None:
        tasks = await started(game, "first0", "a1", "a2", "a3", "b1")
        game.ranks["a"] = 1
        game.orders = {"a1": 5, "a2": 3}
        game.go_on.set()
        await asyncio.gather(*tasks)
        assert game.order == ["first0", "b1", "a3", "a2", "a1"]

    run(check)


def test_one_taker_never_fills_the_queue_and_the_gone_leave_it() -> None:
    async def check(game: Game) -> None:
        there = {"greedy1": True, "greedy2": True}
        tasks = await started(game, "first0")
        for name in there:
            tasks += await started(game, name, is_there=partial(there.__getitem__, name))
        tasks += await started(game, "greedy3", "greedy4")
        assert len(game.turns) == PLACES / 2
        with pytest.raises(Disconnected):
            await game.take("greedy5")
        there["greedy1"] = False
        tasks += await started(game, "greedy6", "other1")
        # This one is found to be gone only when it would be its turn.
        there["greedy2"] = False
        game.go_on.set()
        ended = await asyncio.gather(*tasks, return_exceptions=True)
        gone = [type(end) for end in ended].count(Disconnected)
        assert gone == 2
        assert game.order == ["first0", "greedy3", "other1", "greedy4", "greedy6"]

    assert run(check, PLACES).places.figures().refusals == 1


def test_a_cancelled_turn_is_handed_on(monkeypatch: pytest.MonkeyPatch) -> None:
    async def check(game: Game) -> None:
        first, cancelled, unlucky, last = await started(game, "first0", "a1", "b1", "c1")
        cancelled.cancel()
        # `first` ends and hands the turn to `unlucky`, which is cancelled before it can run.
        hand_on = game.turns._next

        def hand_on_and_cancel() -> None:
            hand_on()
            unlucky.cancel()

        monkeypatch.setattr(game.turns, "_next", hand_on_and_cancel)
        game.go_on.set()
        await asyncio.wait({first, cancelled, unlucky, last}, timeout=DEADLINE_S)
        assert game.order == ["first0", "c1"]

    run(check)


def test_one_that_is_gone_and_cancelled_hands_nothing_on() -> None:
    async def check(game: Game) -> None:
        there = {"a1": True}
        first, gone = (
            *await started(game, "first0"),
            *await started(game, "a1", is_there=lambda: there["a1"]),
        )
        (second,) = await started(game, "b1")
        there["a1"] = False
        game.turns._drop_the_gone()
        gone.cancel()
        await asyncio.wait({gone}, timeout=DEADLINE_S)
        assert game.order == ["first0"]
        game.go_on.set()
        await asyncio.gather(first, second)
        assert game.order == ["first0", "b1"]

    run(check)


def test_a_failure_within_a_turn_ends_it() -> None:
    async def check(game: Game) -> None:
        with pytest.raises(ZeroDivisionError):
            async with game.turns.turn("a"):
                raise ZeroDivisionError

    run(check)


def test_one_above_its_pace_waits_and_stops_no_other() -> None:
    clock = HandClock()

    async def check(game: Game) -> None:
        game.go_on.set()
        tasks = await started(game, *[f"greedy{number}" for number in range(5)])
        # The burst is over, so it waits with none before it.
        await asyncio.gather(*tasks[:3])
        assert game.order == ["greedy0", "greedy1", "greedy2"]
        await asyncio.wait_for(game.take("other0"), DEADLINE_S)
        clock.now += 0.01
        await asyncio.wait_for(tasks[3], DEADLINE_S)
        assert not tasks[4].done()
        clock.now += 0.01
        await asyncio.wait_for(tasks[4], DEADLINE_S)
        assert game.order[3:] == ["other0", "greedy3", "greedy4"]

    turns = run(check, pace=Pace(100.0, 3), clock=clock)
    assert turns.places.figures().waits == 2


def test_who_is_cancelled_while_it_waits_for_its_pace_leaves_nothing() -> None:
    async def check(game: Game) -> None:
        game.go_on.set()
        await game.take("a1")
        (waiting,) = await started(game, "a2")
        waiting.cancel()
        await asyncio.wait({waiting}, timeout=DEADLINE_S)
        assert game.order == ["a1"]

    run(check, pace=Pace(0.001, 1))
