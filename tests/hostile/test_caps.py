"""Too many connections, and connections that say next to nothing.

The refused are closed at once; the silent and the slow are closed when their time is over; a good
client beside them notices nothing, and the broker is left with the descriptors it had before.
"""

from contextlib import ExitStack
from typing import Final

import psutil
import pytest

from borzoi.protocol.codes import Code
from borzoi.protocol.commands.sessions import LoginUser
from borzoi.protocol.commands.users import CreateUser
from borzoi.protocol.framing import REQUEST_HEADER
from tests.broker import BrokerProcess, wait_for
from tests.conftest import NewBroker
from tests.hostile.neighbour import CONNECTIONS, good_neighbour
from tests.wire import PING, Closed, Wire

CAP: Final = 20
SLOW: Final = 200
CLOSED_TIMEOUT_S: Final = 60.0
ONE_SHARD: Final = {
    "IGGY_SYSTEM_MEMORY_POOL_SIZE": "512MiB",
    "IGGY_SYSTEM_SHARDING_CPU_ALLOCATION": "1",
}


def is_let_in(wire: Wire) -> bool:
    try:
        return wire.is_in_step()
    except Closed:
        return False


def descriptors(broker: BrokerProcess) -> int:
    return sum(psutil.Process(pid).num_fds() for pid in broker.workers().values())


@pytest.mark.slow
def test_no_user_has_all_connections_of_a_shard(new_broker: NewBroker) -> None:
    broker = new_broker(**ONE_SHARD, IGGY_LIMITS_CONNECTIONS_MAX=str(CAP))
    with ExitStack() as opened:
        # Who is there before the user that takes all it gets.
        first = opened.enter_context(Wire(broker, source="127.0.0.2"))
        assert first.answer_to(CreateUser("other", "password")).status == 0
        greedy: list[Wire] = []

        def gets_in() -> bool:
            wire = opened.enter_context(Wire(broker, login=False))
            if not is_let_in(wire):
                return False
            greedy.append(wire.log_in())
            return True

        while len(greedy) < CAP and gets_in():
            pass
        assert CAP / 2 < len(greedy) < CAP - 1
        with Wire(broker, login=False, source="127.0.0.3") as other:
            assert other.answer_to(LoginUser("other", "password")).status == 0
        assert all(is_let_in(wire) for wire in (first, *greedy))
        # A place that is given up is free for another connection.
        greedy.pop().close()
        wait_for(gets_in)
        assert not gets_in()
    said = broker.output()
    assert said.count("is refused 1 connections") == 1
    assert "fault of ours" not in said


@pytest.mark.slow
def test_connections_without_a_login_give_way(new_broker: NewBroker) -> None:
    """A thousand silent ones of one address, and logins of others through the same door."""
    broker = new_broker(**ONE_SHARD, IGGY_LIMITS_CONNECTIONS_MAX=str(CAP))
    with ExitStack() as opened:
        patient = opened.enter_context(Wire(broker, login=False, source="127.0.0.2"))
        assert is_let_in(patient)
        silent = [opened.enter_context(Wire(broker, login=False)) for _ in range(5 * CAP)]
        with Wire(broker, login=False, source="127.0.0.3") as other:
            other.log_in()
        # Of the address that has most, the oldest: not of one that has a single connection.
        patient.log_in()
        assert is_let_in(silent[-1])
        assert all(wire.drain_until_closed() for wire in silent[:CAP])
    assert "fault of ours" not in broker.output()


@pytest.mark.slow
def test_the_cap_on_connections_from_one_address(new_broker: NewBroker) -> None:
    broker = new_broker(**ONE_SHARD, IGGY_LIMITS_CONNECTIONS_PER_ADDRESS_MAX=str(CAP))
    with ExitStack() as opened:
        for source in ("127.0.0.1", "127.0.0.2"):
            wires = [
                opened.enter_context(Wire(broker, login=False, source=source)) for _ in range(CAP)
            ]
            assert all(is_let_in(wire) for wire in wires)
            with Wire(broker, login=False, source=source) as refused:
                assert not is_let_in(refused)
        with Wire(broker, login=False, source="127.0.0.3") as other:
            assert is_let_in(other)
            other.log_in()
    assert "fault of ours" not in broker.output()


@pytest.mark.slow
def test_hundreds_of_slow_sockets(new_broker: NewBroker) -> None:
    """Some say nothing, some a byte of a frame now and then, some throw a refused frame away."""
    broker = new_broker(
        IGGY_SYSTEM_MEMORY_POOL_SIZE="512MiB",
        IGGY_LIMITS_LOGIN_TIMEOUT="3s",
        IGGY_LIMITS_FRAME_TIMEOUT="2s",
    )
    workers = broker.workers()
    kinds = (
        b"",
        PING,
        PING[:5],
        REQUEST_HEADER.pack(4 + 100, Code.LOGIN_USER) + b"\x04",
        REQUEST_HEADER.pack(1_000_000, Code.SEND_MESSAGES),
    )
    with good_neighbour(broker) as neighbour, ExitStack() as opened:
        neighbour.check(rounds_more=20)  # Its connections have found their shards.
        before = descriptors(broker)
        wires = [opened.enter_context(Wire(broker, login=False)) for _ in range(SLOW)]
        for number, wire in enumerate(wires):
            wire.put(kinds[number % len(kinds)])
        living = [wire for number, wire in enumerate(wires) if number % len(kinds) > 1]

        def trickle() -> bool:
            """One more byte of each unfinished frame; True when the broker has closed them all."""
            for wire in list(living):
                try:
                    wire.put(b"\0")
                except Closed:
                    living.remove(wire)
            neighbour.check(rounds_more=1)
            return not living

        wait_for(trickle, CLOSED_TIMEOUT_S)
        wait_for(lambda: descriptors(broker) == before, CLOSED_TIMEOUT_S)
        for wire in wires:
            wire.drain_until_closed()
    assert neighbour.rounds > CONNECTIONS
    said = broker.output()
    assert said.count("it did not log in") + said.count("it did not finish a frame") == SLOW
    assert broker.workers() == workers
    assert "fault of ours" not in said


@pytest.mark.slow
def test_connections_that_end_before_they_begin(new_broker: NewBroker) -> None:
    """A reset may come before the broker has even accepted the connection."""
    broker = new_broker(IGGY_SYSTEM_MEMORY_POOL_SIZE="512MiB")
    workers = broker.workers()
    with good_neighbour(broker) as neighbour:
        neighbour.check(rounds_more=20)  # Its connections have found their shards.
        before = descriptors(broker)
        for number in range(600):
            wire = Wire(broker, login=False)
            if number % 3 == 1:
                wire.put(PING)
            if number % 3 == 2:
                wire.close()
            else:
                wire.reset()
        wait_for(lambda: descriptors(broker) == before)
    assert broker.workers() == workers
    assert "fault of ours" not in broker.output()
