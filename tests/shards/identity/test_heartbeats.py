"""Scans for silent clients: when they happen, and whom they find."""

from typing import cast

import pytest

from borzoi.protocol.responses.clients import Transport
from borzoi.shards.identity.clients import Clients
from borzoi.shards.identity.heartbeats import Heartbeats
from borzoi.shards.rings.gather import Gather
from tests.shards.hand_loop import HandLoop

INTERVAL_S = 10.0


class FakeSession:
    """A client that may ping."""

    def __init__(self, loop: HandLoop, client_id: int) -> None:
        self._loop = loop
        self.client_id = client_id
        self.user_id: int | None = None
        self.transport = Transport.TCP
        self.address = f"127.0.0.1:{client_id}"
        self.was_removed = False
        self.suspended_user: int | None = None
        self.last_heartbeat = loop.time()

    def ping(self) -> None:
        self.last_heartbeat = self._loop.time()


class Scene:
    """A loop turned by hand, clients, and scans that begin at once."""

    def __init__(self) -> None:
        self.loop = HandLoop()
        self.clients = Clients(cast(Gather, None), lambda _client_id: [])
        self.evicted: list[int] = []
        Heartbeats(
            self.loop.as_loop,
            self.clients,
            INTERVAL_S,
            lambda session: self.evicted.append(session.client_id),
            self.loop.time,
        ).start()

    def connect(self, client_id: int) -> FakeSession:
        session = FakeSession(self.loop, client_id)
        self.clients.add(session)
        return session

    def pass_time(self, seconds: float) -> None:
        self.loop.advance(seconds)


@pytest.fixture
def scene() -> Scene:
    return Scene()


def test_the_first_scan_comes_after_one_interval(scene: Scene) -> None:
    old = scene.connect(1)
    old.last_heartbeat -= 100 * INTERVAL_S
    scene.pass_time(9.9)
    assert scene.clients.is_registered(old)
    scene.pass_time(0.1)
    assert not scene.clients.is_registered(old)


def test_silence_is_measured_at_scans_only(scene: Scene) -> None:
    """Connected at 0: 10 s old at the first scan, which is allowed; gone at the second."""
    session = scene.connect(1)
    scene.pass_time(19.9)
    assert scene.clients.is_registered(session)
    scene.pass_time(0.1)
    assert not scene.clients.is_registered(session)


def test_exactly_the_longest_silence_allowed(scene: Scene) -> None:
    longest, too_long = scene.connect(1), scene.connect(2)
    now = scene.loop.time()
    longest.last_heartbeat = now - 2.0
    too_long.last_heartbeat = now - 2.01
    scene.pass_time(10.0)
    assert scene.clients.is_registered(longest)
    assert not scene.clients.is_registered(too_long)


def test_who_pings_stays(scene: Scene) -> None:
    pinging, silent = scene.connect(1), scene.connect(2)
    for _ in range(20):
        scene.pass_time(5.0)
        pinging.ping()
    assert scene.clients.is_registered(pinging)
    assert not scene.clients.is_registered(silent)


def test_a_ping_after_the_eviction_changes_nothing(scene: Scene) -> None:
    session = scene.connect(1)
    scene.pass_time(20.0)
    session.ping()
    scene.pass_time(1.0)
    assert not scene.clients.is_registered(session)
    assert scene.evicted == [1]


def test_a_loop_that_stood_still_scans_once_and_stays_on_its_grid(scene: Scene) -> None:
    session = scene.connect(1)
    # One callback is late by two and a half intervals; the next scan is at 40 all the same.
    scene.loop.now += 35.0
    session.ping()
    scene.pass_time(0.0)
    assert scene.clients.is_registered(session)
    session.last_heartbeat -= 100.0
    scene.pass_time(4.9)
    assert scene.clients.is_registered(session)
    scene.pass_time(0.1)
    assert not scene.clients.is_registered(session)


def test_a_successor_with_the_same_id_is_not_taken_for_the_old_one(scene: Scene) -> None:
    """A port is used again while its last connection has not quite ended."""
    old = scene.connect(1)
    new = scene.connect(1)
    scene.clients.remove(old)
    assert scene.clients.is_registered(new)
