"""A user without permissions who changes what it may, its own tokens, as fast as it can.

Everything is sent at once, so that only the broker decides what comes next, and it is read from
its log: how long something takes says how busy the machine is.
"""

import re
import statistics
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from itertools import pairwise
from typing import Final

import pytest

from borzoi.protocol.commands.sessions import (
    CreatePersonalAccessToken,
    DeletePersonalAccessToken,
    LoginUser,
)
from borzoi.protocol.commands.streams import CreateStream
from borzoi.protocol.commands.users import CreateUser
from tests.broker import BrokerProcess, wait_for
from tests.conftest import NewBroker
from tests.wire import Wire, frame_of

CONNECTIONS: Final = 24
PAIRS: Final = 300
TRIES: Final = 15
ONE_SHARD: Final = {
    "IGGY_SYSTEM_MEMORY_POOL_SIZE": "512MiB",
    "IGGY_SYSTEM_SHARDING_CPU_ALLOCATION": "1",
}
MADE: Final = re.compile(r"entry (\d+) by user 0 at \d+: CreateStream name='([^']+)'")
BY_NOISY: Final = re.compile(r"entry \d+ by user 1 at")


def changes_between(broker: BrokerProcess, wire: Wire) -> float:
    """How many changes of others come between two of one connection, typically."""
    names = [f"stream {number}" for number in range(TRIES)]
    wire.put(b"".join(frame_of(CreateStream(name)) for name in names))
    assert [answer.status for answer in wire.answers(TRIES)] == [0] * TRIES
    said = broker.output()
    made = dict(reversed(pair) for pair in MADE.findall(said))
    entries = [int(made[name]) for name in names]
    return statistics.median(later - entry - 1 for entry, later in pairwise(entries))


@contextmanager
def change_flood(broker: BrokerProcess) -> Iterator[None]:
    """Thousands of changes on their way, of a user that is made for it."""
    with Wire(broker, login=False) as root:
        root.log_in()
        assert root.answer_to(CreateUser("noisy", "password")).status == 0
    with ExitStack() as opened:
        wires = [opened.enter_context(Wire(broker, login=False)) for _ in range(CONNECTIONS)]
        for wire in wires:
            assert wire.answer_to(LoginUser("noisy", "password")).status == 0
        for number, wire in enumerate(wires):
            name = f"token-{number}"
            pair = frame_of(CreatePersonalAccessToken(name, 0)) + frame_of(
                DeletePersonalAccessToken(name)
            )
            wire.put(pair * PAIRS)
        yield


@pytest.mark.slow
def test_no_other_request_waits_for_a_flood_of_changes(new_broker: NewBroker) -> None:
    """With one shard: the kernel decides how often two of them get a word in."""
    broker = new_broker(**ONE_SHARD)
    with Wire(broker, login=False) as root:
        root.log_in()
        with change_flood(broker):
            between = changes_between(broker, root)
            # There were more of them all the time.
            assert len(BY_NOISY.findall(broker.output())) < CONNECTIONS * 2 * PAIRS
    # One of theirs or two, not one of each connection.
    assert between < CONNECTIONS / 3
    assert "fault of ours" not in broker.output()


@pytest.mark.slow
def test_a_user_has_a_pace_and_only_waits(new_broker: NewBroker) -> None:
    broker = new_broker(
        **ONE_SHARD,
        IGGY_LIMITS_CHANGES_PER_SECOND="20",
        IGGY_LIMITS_CHANGES_BURST="30",
    )
    with Wire(broker, login=False) as root:
        root.log_in()
        began = time.monotonic()
        with change_flood(broker):

            def made() -> int:
                return len(BY_NOISY.findall(broker.output()))

            wait_for(lambda: made() >= 80)
            found = made()
            assert found <= 30 + 20 * (time.monotonic() - began) + 1
            # No other user has used up anything, and the flood goes on.
            assert root.answer_to(CreateStream("of another user")).status == 0
            wait_for(lambda: made() > found)
        # What was refused would have been answered: all that was answered was carried out.
        assert "user 1 waits for 1 changes of metadata" in broker.output()
        assert broker.output().count("waits for 1 changes of metadata") == 1
