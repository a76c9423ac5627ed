"""A file of a partition is made shorter behind the broker's back while it is mapped.

That is forbidden, and the messages are lost. What is sent from the log is read by the kernel,
which fails where a process would die: the client is cut off and the worker lives. What can not be
helped is an index that loses whole pages between a look at it and the read of an entry.
"""

import os
from pathlib import Path

import pytest

from tests.broker import BrokerProcess
from tests.topics import make_topic
from tests.wire import Closed, Wire, poll_frame, send_frame

MESSAGES = 1000
COUNT = 100


def only(broker: BrokerProcess, pattern: str) -> Path:
    (found,) = (broker.data / "streams").rglob(pattern)
    return found


def test_a_log_that_lost_its_end(shared_broker: BrokerProcess) -> None:
    broker = shared_broker
    workers = broker.workers()
    with Wire(broker, login=False) as wire:
        wire.log_in()
        make_topic(wire, "shrunk", "t")
        wire.put(send_frame("shrunk", "t", [bytes(1000)] * MESSAGES))
        assert wire.answer().status == 0
        for _ in range(3):
            wire.put(poll_frame("shrunk", "t", MESSAGES - COUNT, COUNT))
            assert len(wire.answer().payload) > COUNT * 1000
        os.truncate(only(broker, "*.log"), 10_000)
        wire.put(poll_frame("shrunk", "t", MESSAGES - COUNT, COUNT))
        with pytest.raises(Closed):
            wire.answer()
    with Wire(broker, login=False) as wire:
        wire.log_in()
        wire.put(poll_frame("shrunk", "t", 0, 5))
        assert wire.answer().status == 0
        assert wire.is_in_step()
    assert broker.workers() == workers
