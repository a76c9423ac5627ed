"""Clients that number their requests: one session at a time has the memory of each.

A client that connects again registers under its old id, on whatever shard it lands. The session
before may still have a request in work there, or bytes that it has not read yet. So the register
takes the client over first: the session before begins nothing more, and has ended what it had in
work when the register goes on. A shard that died meanwhile has ended everything by that.

Owned by the worker's loop. Always: a client is held by one session of the broker, as far as it has
registered with one connection at a time; the answer of an earlier one is in the memory by then.
"""

import time
from collections.abc import Callable
from functools import partial
from typing import Final

from borzoi.protocol.errors import ShardCommunicationError
from borzoi.router.request_entry import ClientKey, Entry
from borzoi.router.request_memory import Found, RequestMemory
from borzoi.shards.rings.asking import asked
from borzoi.shards.rings.peers import Peers
from borzoi.shards.rings.requests import DeathRule, Done, Request

TAKE_OVER_TRIES_MAX: Final = 8
"""So often a client may be taken by another session while it is being taken over."""

HALF: Final = (1 << 64) - 1


class TakeOver(Request):
    """To the shard of a client's last session: end that, a client has come here."""

    KIND = 68
    RULE = DeathRule.COMPLETE

    user_id: int
    created_at: int
    client_low: int
    client_high: int

    @property
    def key(self) -> ClientKey:
        """The client that is meant."""
        return ClientKey(self.user_id, self.created_at, self.client_high << 64 | self.client_low)


class Held:
    """The memory of one client, while a session of this shard has it."""

    __slots__ = ("_numbers", "_own", "_waiting", "begun", "entry", "is_given_up", "is_in_work")

    def __init__(self, numbers: "RequestNumbers", entry: Entry) -> None:
        self._numbers = numbers
        self._own = numbers.own
        self.entry = entry
        self.begun = entry.begun  # the last number: while it is held, no other changes it
        self.is_in_work = False
        self.is_given_up = False
        self._waiting: list[Callable[[], None]] = []

    def begin(self, number: int) -> None:
        """The request of this number is carried out from now on."""
        self.is_in_work = True
        self.begun = number
        self.entry.begin(number, self._own)

    def begin_again(self) -> None:
        """The last request, which is in doubt, is taken up again."""
        self.is_in_work = True
        self.entry.begin_again(self._own)

    def end(self, status: int, body: bytes = b"") -> None:
        """The request in work was answered."""
        self.entry.end(self.begun, status, body)
        self.is_in_work = False
        if self.is_given_up:
            self.let_go()

    def end_in_doubt(self) -> None:
        """Nothing more is done for the request in work, and its outcome is unknown."""
        self.is_in_work = False
        if self.is_given_up:
            self.let_go()

    def give_up(self, then: Callable[[], None] | None = None) -> None:
        """The session begins nothing more; `then` is called once nothing is in work."""
        was_given_up, self.is_given_up = self.is_given_up, True
        if then is not None:
            self._waiting.append(then)
        if not self.is_in_work and (self._waiting or not was_given_up):
            self.let_go()

    @property
    def is_settled(self) -> bool:
        """Whether what the last request has done so far is all that it will do."""
        return self._numbers.is_settled(self.entry.beginner.shard)

    def let_go(self) -> None:
        """Nothing is in work, and the session begins nothing more."""
        self._numbers.let_go(self)
        waiting, self._waiting = self._waiting, []
        for then in waiting:
            then()


class RequestNumbers:
    """The clients of one shard that number their requests."""

    def __init__(self, memory: RequestMemory, peers: Peers) -> None:
        self._memory = memory
        self._peers = peers
        self.own = memory.own
        self._held: dict[ClientKey, Held] = {}

    async def take(self, key: ClientKey) -> Held | None:
        """The memory of a client that registers here; None if there is no room for one more."""
        for _ in range(TAKE_OVER_TRIES_MAX):
            found = self._memory.find(key)
            if found is None or not self._is_held(found, key):
                return self.take_free(key)
            await asked(partial(self._ask_for, found, key))
        raise ShardCommunicationError("the client registers on several connections at once")

    def take_free(self, key: ClientKey) -> Held | None:
        """The same of a client that no other session has, because that one has let it go."""
        entry = self._memory.claim(key, time.monotonic_ns())
        if entry is None:
            return None
        held = self._held[key] = Held(self, entry)
        return held

    def let_go(self, held: Held) -> None:
        """A session has nothing more to do with its client."""
        key = held.entry.key
        if self._held.get(key) is held:
            del self._held[key]
            self._memory.release(held.entry, time.monotonic_ns())

    def serve(self, _shard: int, request: TakeOver, _lent: memoryview, done: Done) -> None:
        """A client of ours has registered on another shard."""
        held = self._held.get(request.key)
        if held is None:
            done(0)
        else:
            held.give_up(lambda: done(0))

    def is_settled(self, shard: int) -> bool:
        """Whether nothing that a dead worker of this shard had asked of others is still to come.

        Its successor is born only once every shard has let go of that.
        """
        return shard == self.own.shard or not self._peers.is_away(shard)

    def _is_held(self, found: Found, key: ClientKey) -> bool:
        """Whether a living session has the client."""
        if found.place.shard == self.own.shard:
            return key in self._held
        return found.holder == self._peers.generation(found.place.shard)

    def _ask_for(self, found: Found, key: ClientKey, done: Done) -> None:
        if found.place.shard == self.own.shard:
            self._held[key].give_up(lambda: done(0))
        else:
            user_id, created_at, client = key
            request = TakeOver(user_id, created_at, client & HALF, client >> 64)
            self._peers.ask(found.place.shard, request, done)
