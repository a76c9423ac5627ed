"""Asking over the rings: two ends in one process, over real shared memory."""

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from borzoi.protocol.errors import ShardCommunicationError
from borzoi.router.arena import Arena, PeerArena, create_arena
from borzoi.router.buffer import Buffer
from borzoi.router.control import ControlLayout, OwnControl, SharedControl, create_control
from borzoi.router.link import Link
from borzoi.router.pool import MemoryPool
from borzoi.router.ring import DRAIN_MAX, RING_SLOTS
from borzoi.router.target import Target
from borzoi.router.wake import Wake
from borzoi.shards.changes.requests import Barrier
from borzoi.shards.faults.in_work import OF_PEER, REQUEST, WHERE_BITS, user_bits
from borzoi.shards.ports.requests import DeleteOffset, GetOffset, ResolvePoll
from borzoi.shards.rings.peers import (
    ABANDONED,
    AWAY_CHECK_INTERVAL_S,
    DEATHS_MAX,
    ID_MASK,
    Peers,
)
from borzoi.shards.rings.poll import Poll
from borzoi.shards.rings.requests import NO_SLOT, Append, Done, Request, Serve
from tests.shards.hand_loop import HandLoop

LAYOUT = ControlLayout(2)
ARENA_SIZE = 4 * 1024 * 1024
TIMEOUT_S = 2.0
TARGET = Target(5, 6, NO_SLOT)
POLL = Poll(1, 2, 3, 1, 4, auto_commit=False, user=5)


class Numbered(Request):
    """A request that may be repeated, and that no client has chosen."""

    KIND = 200

    number: int = 0


@dataclass
class Life:
    """The memories of one life of a shard."""

    shard: int
    generation: int
    control_fd: int
    arena_fd: int

    @classmethod
    def begin(cls, shard: int, generation: int) -> "Life":
        control_fd = create_control(LAYOUT, shard, generation)
        return cls(shard, generation, control_fd, create_arena(shard, ARENA_SIZE))

    def shared(self) -> SharedControl:
        return SharedControl(self.control_fd, LAYOUT, self.shard, self.generation)

    def peer_arena(self) -> PeerArena:
        return PeerArena(self.arena_fd, ARENA_SIZE, self.shard, self.generation)


@dataclass
class Asked:
    """A request that arrived, for the test to answer."""

    request: Any
    lent: memoryview
    done: Done


class End:
    """One shard's Peers, whose peer is the other shard."""

    def __init__(self, loop: HandLoop, life: Life, wakes: list[Wake], other: Life) -> None:
        self.life = life
        self.arrived: list[Asked] = []
        self.own = OwnControl(life.control_fd, LAYOUT, life.shard, life.generation)
        arena = Arena(life.arena_fd, ARENA_SIZE, life.shard)
        self.pool = MemoryPool(arena, ARENA_SIZE, 64, life.generation)
        self.peers = Peers(loop.as_loop, self.own, wakes[life.shard], TIMEOUT_S)
        self.peers.add(other.shared(), other.peer_arena(), wakes[other.shard])

    @staticmethod
    def table(serve: Serve) -> dict[type[Request], Serve]:
        kinds = (Append, Barrier, DeleteOffset, GetOffset, Numbered, ResolvePoll)
        return dict.fromkeys(kinds, serve)

    def _serve(self, _shard: int, request: Request, lent: memoryview, done: Done) -> None:
        self.arrived.append(Asked(request, lent, done))

    def live(self) -> None:
        self.own.beat(1)
        self.peers.start(self.table(self._serve))

    def take(self) -> list[Asked]:
        arrived, self.arrived = self.arrived, []
        return arrived


@dataclass
class Answers:
    """What `done` was called with, in order."""

    given: list[tuple[int, int, int, int]] = field(default_factory=list)

    def __call__(self, status: int, first: int = 0, second: int = 0, third: int = 0) -> None:
        self.given.append((status, first, second, third))

    @property
    def statuses(self) -> list[int]:
        return [one[0] for one in self.given]


class Pair:
    """Shards 0 and 1. Shard 1 is the one that dies."""

    def __init__(self) -> None:
        self.loop = HandLoop()
        self.wakes = [Wake.create(), Wake.create()]
        self.lives = [Life.begin(0, 1), Life.begin(1, 1)]
        self.a = End(self.loop, self.lives[0], self.wakes, self.lives[1])
        self.b = End(self.loop, self.lives[1], self.wakes, self.lives[0])
        self.a.live()
        self.b.live()
        self.loop.settle()

    def kill_b(self) -> None:
        """From now on shard 1 does nothing."""
        self.b.peers.stop()

    def announce_successor(self) -> None:
        """What the supervisor does: new memories for shard 1, handed to shard 0."""
        self.kill_b()
        life = Life.begin(1, self.lives[-1].generation + 1)
        self.lives.append(life)
        self.a.peers.replace(life.shared(), life.peer_arena())

    def start_successor(self) -> None:
        self.b = End(self.loop, self.lives[-1], self.wakes, self.lives[0])
        self.b.live()
        self.loop.settle()

    def close(self) -> None:
        for life in self.lives:
            os.close(life.control_fd)
            os.close(life.arena_fd)
        for wake in self.wakes:
            wake.close()


@pytest.fixture
def pair() -> Iterator[Pair]:
    made = Pair()
    yield made
    made.close()


def lend(end: End, payload: bytes) -> Buffer:
    buffer = end.pool.take(len(payload))
    assert buffer is not None
    buffer.view[:] = payload
    return buffer


def ask_append(pair: Pair, done: Done, buffer: Buffer) -> None:
    assert buffer.position is not None
    pair.a.peers.ask(1, Append(5, 6, 1, 0, buffer.position, buffer.length), done, buffer)


def test_a_request_arrives_as_it_was_asked_and_its_answer_comes_back(pair: Pair) -> None:
    answers = Answers()
    request = ResolvePoll(
        Target(2**64 - 1, 2**64 - 2, NO_SLOT),
        Poll(0xEF, 2**64 - 3, 2**32 - 4, 0xCD, 2**32 - 5, auto_commit=True, user=2**32 - 6),
    )
    pair.a.peers.ask(1, request, answers)
    pair.loop.settle()
    (asked,) = pair.b.take()
    assert asked.request == request
    assert answers.given == []
    asked.done(0, 1, 2**64 - 1, 3)
    pair.loop.settle()
    assert answers.given == [(0, 1, 2**64 - 1, 3)]


def test_the_owner_reads_and_stamps_the_lent_bytes_in_place(pair: Pair) -> None:
    answers = Answers()
    buffer = lend(pair.a, b"batch")
    ask_append(pair, answers, buffer)
    assert buffer.holds == 2
    pair.loop.settle()
    (asked,) = pair.b.take()
    assert bytes(asked.lent) == b"batch"
    asked.lent[0:1] = b"B"
    assert bytes(buffer.view) == b"Batch"
    asked.done(0)
    pair.loop.settle()
    assert answers.statuses == [0]
    assert buffer.holds == 1


def test_both_sides_ask_at_the_same_time(pair: Pair) -> None:
    to_a, to_b = Answers(), Answers()
    pair.a.peers.ask(1, Numbered(1), to_b)
    pair.b.peers.ask(0, Numbered(2), to_a)
    pair.loop.settle()
    for end in (pair.a, pair.b):
        for asked in end.take():
            asked.done(0, asked.request.number)
    pair.loop.settle()
    assert to_a.given == [(0, 2, 0, 0)]
    assert to_b.given == [(0, 1, 0, 0)]


def test_a_full_ring_of_requests_is_in_flight_and_the_rest_waits_its_turn(pair: Pair) -> None:
    answers = Answers()
    for number in range(RING_SLOTS + 10):
        pair.a.peers.ask(1, Numbered(number), answers)
    pair.loop.settle()
    arrived = pair.b.take()
    # Taken from the ring, but not answered: the credit is used up all the same.
    assert [one.request.number for one in arrived] == list(range(RING_SLOTS))
    for asked in arrived[:3]:
        asked.done(0, asked.request.number)
    pair.loop.settle()
    later = pair.b.take()
    assert [one.request.number for one in later] == list(range(RING_SLOTS, RING_SLOTS + 3))
    for asked in [*arrived[3:], *later]:
        asked.done(0, asked.request.number)
    pair.loop.settle()
    for asked in pair.b.take():
        asked.done(0, asked.request.number)
    pair.loop.settle()
    assert [one[1] for one in answers.given] == list(range(RING_SLOTS + 10))


def test_a_turn_handles_a_bounded_number_of_descriptors(pair: Pair) -> None:
    for number in range(DRAIN_MAX + 1):
        pair.a.peers.ask(1, Numbered(number), Answers())
    pair.loop.turn()
    assert len(pair.b.arrived) == DRAIN_MAX
    pair.loop.settle()
    assert len(pair.b.arrived) == DRAIN_MAX + 1


def test_a_dead_peers_requests_follow_their_rules(pair: Pair) -> None:
    again, failed, completed = Answers(), Answers(), Answers()
    buffer = lend(pair.a, b"batch")
    ask_append(pair, again, buffer)
    pair.a.peers.ask(1, DeleteOffset(TARGET, 1, 2), failed)
    pair.a.peers.ask(1, Barrier(1), completed)
    pair.loop.settle()
    assert len(pair.b.take()) == 3
    pair.announce_successor()
    assert failed.statuses == [ShardCommunicationError.status]
    assert completed.given == [(0, 0, 0, 0)]
    assert again.given == []
    assert buffer.holds == 2
    pair.start_successor()
    (asked,) = pair.b.take()
    assert isinstance(asked.request, Append)
    assert asked.request.is_resubmitted
    assert bytes(asked.lent) == b"batch"
    asked.done(0)
    pair.loop.settle()
    assert again.statuses == [0]
    assert buffer.holds == 1


def test_only_an_append_says_that_it_is_submitted_again(pair: Pair) -> None:
    requests: list[Request] = [ResolvePoll(TARGET, POLL), GetOffset(TARGET, 1, 2), Numbered(3)]
    for request in requests:
        pair.a.peers.ask(1, request, Answers())
    pair.loop.settle()
    assert [asked.request for asked in pair.b.take()] == requests
    pair.announce_successor()
    pair.start_successor()
    assert [asked.request for asked in pair.b.take()] == requests


def test_requests_keep_their_order_through_a_death(pair: Pair) -> None:
    answers = Answers()
    for number in range(RING_SLOTS + 5):
        pair.a.peers.ask(1, Numbered(number), answers)
    pair.loop.settle()
    pair.announce_successor()
    pair.start_successor()
    arrived = pair.b.take()
    for asked in arrived:
        asked.done(0, asked.request.number)
    pair.loop.settle()
    arrived += pair.b.arrived
    for asked in pair.b.take():
        asked.done(0, asked.request.number)
    pair.loop.settle()
    assert [one.request.number for one in arrived] == list(range(RING_SLOTS + 5))
    assert [one[1] for one in answers.given] == list(range(RING_SLOTS + 5))


def test_a_complete_answer_of_the_dead_peer_counts_and_the_rings_begin_again(pair: Pair) -> None:
    for _ in range(3):
        earlier = Answers()
        pair.a.peers.ask(1, Numbered(), earlier)
        pair.loop.settle()
        pair.b.take()[0].done(0)
        pair.loop.settle()
        assert earlier.statuses == [0]
    answered, open_ = Answers(), Answers()
    buffer = lend(pair.a, b"batch")
    ask_append(pair, answered, buffer)
    pair.a.peers.ask(1, Numbered(), open_)
    pair.loop.settle()
    pair.a.peers.stop()  # shard 0 is busy elsewhere: the answer lies in the ring when B dies
    pair.b.take()[0].done(0, 77)
    pair.loop.settle()
    assert answered.given == []
    pair.announce_successor()
    assert answered.given == [(0, 77, 0, 0)]
    assert buffer.holds == 1
    pair.a.live()
    pair.start_successor()
    (asked,) = pair.b.take()
    asked.done(0)
    pair.loop.settle()
    assert open_.statuses == [0]


def test_an_answer_to_a_dead_peer_disturbs_no_other(pair: Pair) -> None:
    """The old rings and the new ones of a peer lie in the same words of our own memory."""
    for number in range(5):
        pair.b.peers.ask(0, Numbered(number), Answers())
    pair.loop.settle()
    owed = pair.a.take()
    assert len(owed) == 5
    pair.announce_successor()
    pair.start_successor()
    answers = Answers()
    pair.b.peers.ask(0, Numbered(100), answers)
    pair.loop.settle()
    for asked in owed:
        asked.done(0, asked.request.number)
    pair.loop.settle()
    (asked,) = pair.a.take()
    assert asked.request.number == 100
    assert answers.given == []
    asked.done(0, 100)
    pair.loop.settle()
    assert answers.given == [(0, 100, 0, 0)]


def test_what_an_answer_asks_next_is_not_lost_in_the_rings_of_the_dead(pair: Pair) -> None:
    follow_up = Answers()

    def ask_more(_status: int, _first: int = 0, _second: int = 0, _third: int = 0) -> None:
        pair.a.peers.ask(1, Numbered(2), follow_up)

    pair.a.peers.ask(1, Numbered(1), ask_more)
    pair.loop.settle()
    pair.a.peers.stop()
    pair.b.take()[0].done(0)
    pair.loop.settle()
    pair.announce_successor()
    pair.a.live()
    pair.start_successor()
    assert [one.request.number for one in pair.b.arrived] == [2]
    pair.b.take()[0].done(0)
    pair.loop.settle()
    assert follow_up.statuses == [0]


def test_requests_asked_while_the_peer_is_away_wait_in_its_ring(pair: Pair) -> None:
    answers = Answers()
    pair.announce_successor()
    pair.a.peers.ask(1, Numbered(), answers)
    pair.loop.advance(TIMEOUT_S / 2)
    assert answers.given == []
    pair.start_successor()
    pair.b.take()[0].done(0)
    pair.loop.settle()
    assert answers.statuses == [0]
    # It lives: nothing is given up any more, however long it takes.
    pair.a.peers.ask(1, Numbered(), answers)
    pair.loop.advance(TIMEOUT_S * 10)
    assert answers.statuses == [0]


def test_asking_for_an_away_peer_fails_once_the_timeout_is_over(pair: Pair) -> None:
    pair.announce_successor()
    pair.loop.advance(TIMEOUT_S + AWAY_CHECK_INTERVAL_S)
    answers = Answers()
    buffer = lend(pair.a, b"batch")
    ask_append(pair, answers, buffer)
    assert answers.statuses == [ShardCommunicationError.status]
    assert buffer.holds == 1


def test_what_is_in_flight_too_long_is_abandoned_but_its_buffer_stays_lent(pair: Pair) -> None:
    answers = Answers()
    buffer = lend(pair.a, b"batch")
    ask_append(pair, answers, buffer)
    pair.loop.settle()
    pair.announce_successor()
    pair.loop.advance(TIMEOUT_S)
    assert answers.given == []
    pair.loop.advance(2 * AWAY_CHECK_INTERVAL_S)
    assert answers.statuses == [ABANDONED]
    # The successor may be writing from it already.
    assert buffer.holds == 2
    pair.start_successor()
    (asked,) = pair.b.take()
    assert bytes(asked.lent) == b"batch"
    assert buffer.holds == 2
    asked.done(0)
    pair.loop.settle()
    assert buffer.holds == 1
    assert answers.statuses == [ABANDONED]


def test_what_changes_nothing_ends_in_an_error_instead(pair: Pair) -> None:
    answers = Answers()
    pair.a.peers.ask(1, GetOffset(TARGET, 1, 2), answers)
    pair.loop.settle()
    pair.announce_successor()
    pair.loop.advance(TIMEOUT_S + 2 * AWAY_CHECK_INTERVAL_S)
    # No client loses a connection, and its memberships with it, for a question.
    assert answers.statuses == [ShardCommunicationError.status]
    pair.start_successor()
    pair.b.take()[0].done(0)
    pair.loop.settle()
    assert answers.statuses == [ShardCommunicationError.status]


def test_the_buffer_of_an_abandoned_request_comes_back_by_the_next_death(pair: Pair) -> None:
    answers = Answers()
    buffer = lend(pair.a, b"batch")
    ask_append(pair, answers, buffer)
    pair.loop.settle()
    pair.announce_successor()
    pair.loop.advance(TIMEOUT_S + 2 * AWAY_CHECK_INTERVAL_S)
    assert answers.statuses == [ABANDONED]
    assert buffer.holds == 2
    pair.announce_successor()
    assert buffer.holds == 1
    pair.start_successor()
    assert pair.b.take() == []
    assert answers.statuses == [ABANDONED]


def test_without_credit_a_request_to_an_away_peer_ends_in_an_error(pair: Pair) -> None:
    in_flight, waiting = Answers(), Answers()
    pair.announce_successor()
    for _ in range(RING_SLOTS):
        pair.a.peers.ask(1, Numbered(), in_flight)
    buffer = lend(pair.a, b"batch")
    ask_append(pair, waiting, buffer)
    pair.loop.advance(TIMEOUT_S + 2 * AWAY_CHECK_INTERVAL_S)
    assert set(in_flight.statuses) == {ABANDONED}
    # It was never sent, so nothing of it can have happened.
    assert waiting.statuses == [ShardCommunicationError.status]
    assert buffer.holds == 1


def test_an_away_peer_has_nothing_to_complete(pair: Pair) -> None:
    before, after = Answers(), Answers()
    pair.announce_successor()
    pair.a.peers.ask(1, Barrier(1), before)
    pair.loop.advance(TIMEOUT_S + 2 * AWAY_CHECK_INTERVAL_S)
    assert before.statuses == [0]
    pair.a.peers.ask(1, Barrier(1), after)
    assert after.statuses == [0]
    pair.start_successor()
    for asked in pair.b.take():
        asked.done(0)
    pair.loop.settle()
    assert before.statuses == [0]
    assert after.statuses == [0]


def test_a_peer_that_has_not_begun_to_live_is_not_waited_for_for_ever(pair: Pair) -> None:
    """A worker that is born while its peer lies in a back-off."""
    pair.announce_successor()
    young = End(pair.loop, Life.begin(0, 2), pair.wakes, pair.lives[-1])
    pair.lives.append(young.life)
    pair.a.peers.stop()
    young.live()
    append, barrier = Answers(), Answers()
    young.peers.ask(1, Numbered(), append)
    young.peers.ask(1, Barrier(1), barrier)
    pair.loop.advance(TIMEOUT_S + 2 * AWAY_CHECK_INTERVAL_S)
    assert append.statuses == [ABANDONED]
    assert barrier.statuses == [0]


def test_a_descriptor_of_an_older_life_is_refused(pair: Pair) -> None:
    pair.announce_successor()
    own = OwnControl(pair.lives[-1].control_fd, LAYOUT, 1, 2)
    link = Link(own, pair.lives[0].shared())
    assert link.requests_out.push(*Numbered().words(1 << 32, 1))
    pair.wakes[0].notify()
    with pytest.raises(AssertionError, match="generation 1"):
        pair.loop.settle()
    assert pair.a.take() == []


def test_what_the_dead_peer_had_asked_is_forgotten(pair: Pair) -> None:
    pair.a.peers.stop()
    pair.b.peers.ask(0, Numbered(), Answers())
    pair.loop.settle()
    pair.announce_successor()
    pair.a.live()
    pair.loop.settle()
    assert pair.a.take() == []


def test_what_a_peer_carries_out_is_known_to_belong_to_a_clients_request(pair: Pair) -> None:
    buffer = lend(pair.a, b"12345678the payload of a client")
    assert buffer.position is not None
    where = buffer.position + 8
    pair.a.own.in_work[REQUEST] = where + user_bits(5)
    seen: list[int] = []

    def serve(_shard: int, _request: Request, _lent: memoryview, done: Done) -> None:
        seen.append(pair.b.own.in_work[OF_PEER])
        done(0)

    pair.b.peers.start(End.table(serve))
    answers = Answers()
    pair.a.peers.ask(1, Append(5, 6, 1, 0, buffer.position, 8), answers, buffer)
    pair.loop.settle()
    # Only a batch stays where it is until it is answered.
    pair.a.peers.ask(1, ResolvePoll(TARGET, POLL), answers)
    pair.loop.settle()
    # Of no client's request, as what a shard does on its own.
    pair.a.own.in_work[REQUEST] = 0
    pair.a.peers.ask(1, Append(5, 6, 1, 0, buffer.position, 8), answers, buffer)
    pair.loop.settle()
    assert answers.statuses == [0, 0, 0]
    asked_by_shard_0 = 1 << WHERE_BITS
    assert seen == [where | asked_by_shard_0, asked_by_shard_0, asked_by_shard_0]
    assert pair.b.own.in_work[OF_PEER] == 0
    buffer.release()


def test_request_ids_differ_when_their_number_begins_again(pair: Pair) -> None:
    pair.a.peers._next_id = ID_MASK
    answers = Answers()
    for _ in range(3):
        pair.a.peers.ask(1, Numbered(), answers)
    pair.loop.settle()
    assert len(pair.a.peers._peers[1].in_flight) == 3
    for asked in pair.b.take():
        asked.done(0)
    pair.loop.settle()
    assert answers.statuses == [0] * 3


def test_a_clients_request_is_not_shown_to_a_third_after_two_deaths(pair: Pair) -> None:
    buffer = lend(pair.a, b"batch")
    sent, polled, waited, own = Answers(), Answers(), Answers(), Answers()
    ask_append(pair, sent, buffer)
    pair.a.peers.ask(1, ResolvePoll(TARGET, POLL), polled)
    pair.a.peers.ask(1, Numbered(), own)
    pair.loop.settle()
    for death in range(DEATHS_MAX):
        pair.announce_successor()
        assert (sent.statuses, polled.statuses) == (
            ([], []) if death == 0 else ([ABANDONED], [ShardCommunicationError.status])
        )
        if death == 0:
            # One that was sent after the first death has seen one only.
            pair.a.peers.ask(1, ResolvePoll(TARGET, POLL), waited)
        pair.start_successor()
    assert buffer.holds == 1
    # What shards do on their own goes on for ever.
    kinds = [type(asked.request) for asked in pair.b.take()]
    assert sorted(kinds, key=str) == [ResolvePoll, Numbered]
    assert own.statuses == []
    buffer.release()
