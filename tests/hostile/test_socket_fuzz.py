"""A slice of the socket fuzz for every run of the suite, and everything that ever failed."""

from typing import Final

import pytest

from tests.broker import BrokerProcess
from tests.hostile.seeds import read_seeds, seed_files
from tests.hostile.socket_fuzz import run
from tests.topics import make_topic
from tests.wire import Closed, Wire

FRAMES: Final = 24_000


@pytest.mark.slow
def test_mutants_do_no_harm(shared_broker: BrokerProcess) -> None:
    tally, _, _ = run(shared_broker, 0, FRAMES)
    assert tally.frames >= FRAMES
    # They are not all refused at the door: many reach a handler, some change something.
    assert tally.statuses[0] > FRAMES // 50
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
