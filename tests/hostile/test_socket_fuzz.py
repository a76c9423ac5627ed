"""A slice of the socket fuzz for every run of the suite, and everything that ever failed."""

import ssl
from pathlib import Path
from typing import Final

import pytest

from borzoi.protocol.generations import CLASSIC
from tests.broker import QUIC, BrokerProcess, standing
from tests.certificates import Authority
from tests.hostile.conftest import SMALL_POOL
from tests.hostile.dialects import DIALECTS, Dialect
from tests.hostile.seeds import read_seeds, seed_files
from tests.hostile.socket_fuzz import Tally, run
from tests.topics import make_topic
from tests.ways import client_context, wire_through, with_tls
from tests.wire import Closed, Wire

FRAMES: Final = 24_000
FRAMES_OF_OTHERS: Final = 6_000
FRAMES_OF_A_DOOR: Final = 2_400
OTHERS: Final = sorted(set(DIALECTS) - {CLASSIC.name})


@pytest.mark.slow
def test_mutants_do_no_harm(shared_broker: BrokerProcess) -> None:
    tally, _, _ = run(shared_broker, 0, FRAMES)
    check(tally, FRAMES)


@pytest.mark.slow
@pytest.mark.parametrize("generation", OTHERS)
def test_mutants_of_other_generations_do_no_harm(tmp_path: Path, generation: str) -> None:
    with standing(tmp_path / "data", SMALL_POOL) as broker:
        tally, _, _ = run(broker, 0, FRAMES_OF_OTHERS, DIALECTS[generation])
    check(tally, FRAMES_OF_OTHERS)


class ThroughDoor(Dialect):
    """The same frames through another door than TCP."""

    def __init__(self, way: str, context: ssl.SSLContext) -> None:
        super().__init__()
        self._way = way
        self._context = context

    def connect(self, broker: BrokerProcess, *, login: bool) -> Wire:
        return wire_through(broker, self._way, self._context, login=login)


@pytest.mark.slow
@pytest.mark.parametrize("way", ["tls", "ws", "wss", "quic"])
def test_mutants_through_every_door_do_no_harm(tmp_path: Path, way: str) -> None:
    authority = Authority()
    context = client_context(authority.pem)
    is_encrypted = way in ("tls", "wss")
    settings = {**SMALL_POOL, **(with_tls(authority.issue(tmp_path)) if is_encrypted else QUIC)}
    with standing(tmp_path / "data", settings) as broker:
        if is_encrypted:
            broker.through = lambda below: context.wrap_socket(below, server_hostname="localhost")
        tally, _, _ = run(broker, 0, FRAMES_OF_A_DOOR, ThroughDoor(way, context))
    check(tally, FRAMES_OF_A_DOOR)


def check(tally: Tally, frames: int) -> None:
    assert tally.frames >= frames
    # They are not all refused at the door: many reach a handler, some change something.
    assert tally.statuses[0] > frames // 50
    assert len(tally.statuses) > 10


def test_what_once_failed(shared_broker: BrokerProcess) -> None:
    workers = shared_broker.workers()
    with Wire(shared_broker, login=False) as good:
        good.log_in()
        make_topic(good, "replay", "t")
        for path in seed_files():
            for logged_in in (False, True):
                with Wire(shared_broker, login=False) as wire:
                    if logged_in:
                        wire.log_in()
                    try:
                        for kind, mutated in read_seeds(path):
                            if kind == "request":
                                wire.request(mutated.code, mutated.payload)
                    except Closed:
                        pass  # Closing is a fair answer to what once did worse.
            assert good.is_in_step(), path.name
    assert shared_broker.workers() == workers
