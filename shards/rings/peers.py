"""Asking the other shards, and answering them, over the shared-memory rings.

Owned by the worker's loop. For every peer there is one Link (four ring ends) that lives as long
as both processes do. A request keeps its entry here, and the buffer it lends, until its reply
comes or the peer dies; then its `DeathRule` says what becomes of it (design: an owner that died
may or may not have written a batch, so it is shown to the successor, never answered blindly).

Costs per loop turn: one eventfd write per peer that something was pushed to, one eventfd read
when woken, one tail load and one head store per ring that moved.
"""

import asyncio
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from borzoi.protocol.errors import ShardCommunicationError
from borzoi.router.arena import PeerArena
from borzoi.router.buffer import Buffer
from borzoi.router.control import OwnControl, SharedControl
from borzoi.router.link import Link
from borzoi.router.ring import DRAIN_MAX, RING_SLOTS
from borzoi.router.wake import Wake
from borzoi.shards.faults.in_work import NOTHING, OF_PEER, REQUEST, WHERE_BITS, WHERE_MASK
from borzoi.shards.loop.periodic import Periodic
from borzoi.shards.loop.slow_requests import Course, SlowRequests, timed
from borzoi.shards.rings.requests import DeathRule, Done, Request, Serve, ignore

ABANDONED: Final = 0xFFFFFFFF
"""Status that never reaches the wire: the outcome is unknown, close the connection silently.

A reply of a peer may carry it: it fits the 32 bits of a status there.
"""

AWAY_CHECK_INTERVAL_S: Final = 0.1

NEXT_ID: Final = 1 << WHERE_BITS
ID_MASK: Final = (1 << 64) - NEXT_ID

DEATHS_MAX: Final = 2
"""A request of a client that was on its way to so many dead peers is not shown to a third."""

NOTHING_LENT: Final = memoryview(b"")


class InFlight(msgspec.Struct, eq=False):
    """A request that waits for its reply."""

    request: Request
    request_id: int
    done: Done
    buffer: Buffer | None
    since: float
    course: Course | None = None
    abandoned: bool = False
    deaths: int = 0

    def end(self, status: int) -> None:
        """No reply will come: give the buffer back and answer."""
        self.give_back()
        self.done(status)

    def give_back(self) -> None:
        """The peer does not look at the buffer any more."""
        if self.buffer is not None:
            self.buffer.release()


@dataclass(slots=True)
class Peer:
    """One other shard as this one sees it now."""

    shard: int
    generation: int
    control: SharedControl
    link: Link
    arena: PeerArena
    wake: Wake
    in_flight: dict[int, InFlight] = field(default_factory=dict)
    waiting: deque[InFlight] = field(default_factory=deque)
    away_since: float | None = None

    def is_away(self) -> bool:
        """True from the death of the peer until its successor beats."""
        if self.away_since is not None and self.control.last_beat() != 0:
            self.away_since = None
        return self.away_since is not None


class Peers:
    """All other shards of this run."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        own_control: OwnControl,
        own_wake: Wake,
        request_timeout_s: float,
    ) -> None:
        self._loop = loop
        self._own_control = own_control
        self._head = own_control.generation << 32
        self._own_wake = own_wake
        self._kinds: dict[int, tuple[type[Request], Serve]] = {}
        self._request_timeout_s = request_timeout_s
        self._peers: dict[int, Peer] = {}
        self._next_id = NEXT_ID
        self._in_work = own_control.in_work
        self.slow: SlowRequests | None = None
        """Watches where the time of requests goes, if that is wanted."""
        self._pushed: set[int] = set()
        self._drain_scheduled = False
        self._away_checks = Periodic(loop, AWAY_CHECK_INTERVAL_S, self._check_away)

    def shards(self) -> list[int]:
        """The numbers of the other shards."""
        return sorted(self._peers)

    def is_away(self, shard: int) -> bool:
        """Whether the shard has died and its successor does not serve yet."""
        return self._peers[shard].is_away()

    def generation(self, shard: int) -> int:
        """Which life of the shard is the present one, or is about to begin."""
        return self._peers[shard].generation

    def start(self, table: Mapping[type[Request], Serve]) -> None:
        """Listen for wake-ups and serve; what was pushed before is drained at once."""
        self._kinds = {kind.KIND: (kind, serve) for kind, serve in table.items()}
        assert len(self._kinds) == len(table), "two kinds of requests have one number"
        self._loop.add_reader(self._own_wake.fd, self._woken)
        self._woken()

    def stop(self) -> None:
        """Stop listening; nothing is answered any more."""
        self._loop.remove_reader(self._own_wake.fd)
        self._away_checks.stop()

    def add(self, control: SharedControl, arena: PeerArena, wake: Wake) -> None:
        """Know a peer for the first time."""
        link = Link(self._own_control, control)
        peer = Peer(control.shard, control.generation, control, link, arena, wake)
        if control.last_beat() == 0:
            # Not born yet. It may lie in a back-off, so it is not waited for without an end.
            peer.away_since = self._loop.time()
            self._away_checks.start()
        self._peers[control.shard] = peer

    def replace(self, control: SharedControl, arena: PeerArena) -> None:
        """The peer died: its successor will use these memories. Its requests follow their rule.

        Replies still owed to the dead peer go nowhere: they hold the old Peer, which is not in
        the table any more. Its arena stays mapped as long as a batch is being written from it.
        """
        shard, generation = control.shard, control.generation
        old = self._peers[shard]
        # A complete reply is a real answer, also of a dead peer.
        while replies := old.link.replies_in.drain(DRAIN_MAX):
            for words in replies:
                self._take_reply(old, words)
        # The new link uses the same words of our control memory: the old one must be silent.
        old.link.drop()
        link = Link(self._own_control, control)
        peer = Peer(shard, generation, control, link, arena, old.wake)
        peer.away_since = self._loop.time()
        self._peers[shard] = peer
        for entry in [*old.in_flight.values(), *old.waiting]:
            entry.deaths += entry.request_id in old.in_flight
            rule = entry.request.rule()
            if entry.abandoned:
                entry.give_back()
            elif entry.deaths >= DEATHS_MAX and entry.request.OF_CLIENT:
                # It may be what they die of. The last of them may have carried it out.
                entry.end(_status_if_never_answered(rule))
            elif rule in (DeathRule.RESUBMIT, DeathRule.REREAD):
                entry.request.submit_again()
                entry.since = self._loop.time()
                self._send(peer, entry)
            else:
                entry.end(_status_after_death(rule))
        self._away_checks.start()

    def ask(self, shard: int, request: Request, done: Done, buffer: Buffer | None = None) -> None:
        """Send a request; `done` is called exactly once. `buffer` is held until then."""
        peer = self._peers[shard]
        now = self._loop.time()
        if peer.is_away() and now - (peer.away_since or now) > self._request_timeout_s:
            # The request was never sent, so an error is the truth and the client may retry.
            done(_status_after_death(request.rule()))
            return
        # With where the batch of the client lies: if the peer dies of it, it is found there. Only
        # batches stay where they are until they are answered.
        request_id = self._next_id
        if request.IS_BATCH:
            request_id |= self._in_work[REQUEST] & WHERE_MASK
        self._next_id = self._next_id + NEXT_ID & ID_MASK
        if buffer is not None:
            buffer.hold()
        course = None if self.slow is None else self.slow.current
        self._send(peer, InFlight(request, request_id, done, buffer, now, course))

    def tell_all(self, request: Request) -> None:
        """Let every other shard know something that needs no answer."""
        assert request.rule() is DeathRule.COMPLETE
        for shard in self.shards():
            self.ask(shard, request, ignore)

    def push_done(self, shard: int) -> None:
        """Something was pushed for the peer: wake it once at the end of this turn."""
        if not self._pushed:
            self._loop.call_soon(self._notify_pushed)
        self._pushed.add(shard)

    def _send(self, peer: Peer, entry: InFlight) -> None:
        if peer.waiting or not self._push(peer, entry):
            peer.waiting.append(entry)

    def _push(self, peer: Peer, entry: InFlight) -> bool:
        request_id = entry.request_id
        # As many requests in flight as the reply ring has slots: a reply never waits.
        if len(peer.in_flight) >= RING_SLOTS or not peer.link.requests_out.push(
            *entry.request.words(self._head, request_id)
        ):
            return False
        peer.in_flight[request_id] = entry
        self.push_done(peer.shard)
        return True

    def _notify_pushed(self) -> None:
        pushed, self._pushed = self._pushed, set()
        for shard in pushed:
            self._peers[shard].wake.notify()

    def _woken(self) -> None:
        # The eventfd is read first and the rings afterwards, so no wake-up is lost.
        self._own_wake.clear()
        self._drain()

    def _drain(self) -> None:
        self._drain_scheduled = False
        more = False
        for peer in list(self._peers.values()):
            link = peer.link
            replies = link.replies_in.drain(DRAIN_MAX)
            for words in replies:
                self._take_reply(peer, words)
            requests = link.requests_in.drain(DRAIN_MAX)
            for words in requests:
                self._take_request(peer, words)
            # Fewer: that was all. A push of more rings the bell again.
            more = more or len(replies) == DRAIN_MAX or len(requests) == DRAIN_MAX
            while peer.waiting and self._push(peer, peer.waiting[0]):
                peer.waiting.popleft()
        if more and not self._drain_scheduled:
            self._drain_scheduled = True
            self._loop.call_soon(self._drain)

    def _take_reply(self, peer: Peer, words: tuple[int, ...]) -> None:
        entry = peer.in_flight.pop(words[1])
        entry.give_back()
        if entry.course is not None:
            entry.course.was_asked(entry.since)
        if not entry.abandoned:
            entry.done(words[0] & 0xFFFFFFFF, words[2], words[3], words[4])

    def _take_request(self, peer: Peer, words: tuple[int, ...]) -> None:
        head, request_id = words[0], words[1]
        if head >> 32 != peer.generation:
            raise AssertionError(
                f"shard {peer.shard} sent a descriptor of generation {head >> 32}, "
                f"its rings are of generation {peer.generation}"
            )
        kind, serve = self._kinds[head & 0xFF]
        request: Any = kind.of_words(words)
        lent = peer.arena.lent(request.position, request.length) if kind.LENDS else NOTHING_LENT

        def answer(status: int, first: int = 0, second: int = 0, third: int = 0) -> None:
            if self._peers[peer.shard] is not peer:
                return
            pushed = peer.link.replies_out.push(
                status | self._head, request_id, first, second, third
            )
            assert pushed, "the asking shard has more requests in flight than replies have slots"
            self.push_done(peer.shard)

        if self.slow is not None:
            answer = timed(self.slow, peer.shard, kind.__name__, answer)
        self._in_work[OF_PEER] = request_id & WHERE_MASK | peer.shard + 1 << WHERE_BITS
        serve(peer.shard, request, lent, answer)
        self._in_work[OF_PEER] = NOTHING

    def _check_away(self) -> None:
        """Give up on what waits too long for a successor; the buffers stay lent."""
        now = self._loop.time()
        away = [peer for peer in self._peers.values() if peer.is_away()]
        if not away:
            self._away_checks.stop()
        for peer in away:
            while peer.waiting and now - peer.waiting[0].since > self._request_timeout_s:
                entry = peer.waiting.popleft()
                entry.end(_status_after_death(entry.request.rule()))
            for entry in list(peer.in_flight.values()):
                if not entry.abandoned and now - entry.since > self._request_timeout_s:
                    entry.abandoned = True
                    entry.done(_status_if_never_answered(entry.request.rule()))


def _status_after_death(rule: DeathRule) -> int:
    return 0 if rule is DeathRule.COMPLETE else ShardCommunicationError.status


def _status_if_never_answered(rule: DeathRule) -> int:
    """For what lies in the ring of a successor that may yet carry it out."""
    if rule in (DeathRule.COMPLETE, DeathRule.REREAD):
        return _status_after_death(rule)
    return ABANDONED
