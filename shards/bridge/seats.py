"""One subscriber per consumer group and partition, on whichever shard it is: the newest one.

A subscriber takes the seat of its group on its own shard, then all other shards are asked. One with
an earlier epoch, or of the same epoch and taken earlier, gives way; a later one keeps the seat, and
the one that asks is refused. A shard that is being replaced has no subscribers.
"""

import time
from collections.abc import Awaitable, Callable
from typing import NamedTuple

import xxhash

from borzoi.liftbridge.ports import OutdatedMember
from borzoi.shards.rings.requests import DeathRule, Done, Request


class SeatTaken(Request):
    """To all shards: a subscriber has taken a seat. The result is 1 where a later one sits."""

    KIND = 77
    RULE = DeathRule.COMPLETE

    seat: int
    epoch: int
    taken_at: int


class Seated(NamedTuple):
    """A subscriber; what comes first decides."""

    epoch: int
    taken_at: int
    end: Callable[[], None]

    @property
    def age(self) -> tuple[int, int]:
        """Later ones are greater."""
        return self.epoch, self.taken_at


class Seats:
    """The seats that are taken on this shard."""

    def __init__(self, ask_all: Callable[[Request], Awaitable[list[tuple[int, int, int]]]]) -> None:
        self._ask_all = ask_all
        self._seated: dict[int, Seated] = {}

    async def take(self, name: str, epoch: int, end: Callable[[], None]) -> Callable[[], None]:
        """Take a seat, until what this returns is called. OutdatedMember if a later one sits."""
        seat = xxhash.xxh64_intdigest(name.encode())
        mine = Seated(epoch, time.time_ns(), end)
        if not self._give_way(seat, mine.age):
            raise OutdatedMember("a member of the group with a later epoch has the partition")
        self._seated[seat] = mine

        def leave() -> None:
            if self._seated.get(seat) is mine:
                del self._seated[seat]

        request = SeatTaken(seat, *mine.age)
        if any(refused for refused, _, _ in await self._ask_all(request)):
            leave()
            raise OutdatedMember("a member of the group with a later epoch has the partition")
        return leave

    def serve(self, _shard: int, request: SeatTaken, _lent: memoryview, done: Done) -> None:
        """A subscriber of another shard has taken a seat."""
        done(0, int(not self._give_way(request.seat, (request.epoch, request.taken_at))))

    def _give_way(self, seat: int, age: tuple[int, int]) -> bool:
        """Whether the seat is free for one of this age now."""
        known = self._seated.get(seat)
        if known is None:
            return True
        if known.age > age:
            return False
        del self._seated[seat]
        known.end()
        return True
