"""Logins under invented names by the thousand: no other login waits for them.

How long a login takes says how busy the machine is, so it is compared with what it took before:
with the flood in one queue before it, it took hundreds of times as long.
"""

import re
import statistics
import time
from contextlib import ExitStack
from threading import Event, Thread
from typing import Final

import pytest

from borzoi.protocol.commands.sessions import LoginUser
from borzoi.protocol.commands.users import ChangePassword, CreateUser
from borzoi.protocol.errors import Disconnected, InvalidCredentials
from tests.broker import BrokerProcess, wait_for
from tests.conftest import NewBroker
from tests.hostile.login_flood import login_flood
from tests.hostile.neighbour import good_neighbour
from tests.wire import Wire, frame_of

SMALL_POOL: Final = {"IGGY_SYSTEM_MEMORY_POOL_SIZE": "512MiB"}
ONE_SHARD: Final = {**SMALL_POOL, "IGGY_SYSTEM_SHARDING_CPU_ALLOCATION": "1"}
HERE, ELSEWHERE, NEVER_SEEN = "127.0.0.1", "127.0.0.2", "127.0.0.3"
ROOT: Final = LoginUser("iggy", "iggy")
TRIES: Final = 11
SLOWED: Final = re.compile(r"names .* are looked at 5 times a second by each shard for \d+ s")
SLOWER_MAX: Final = 20
"""With 800 sockets in one queue before it a login took 250 times as long, and more."""


def login_s(broker: BrokerProcess, source: str, login: LoginUser = ROOT) -> float:
    """How long a correct login takes, with its connect."""
    began = time.perf_counter()
    with Wire(broker, login=False, source=source) as wire:
        assert wire.answer_to(login).status == 0
    return time.perf_counter() - began


def typical_login_s(broker: BrokerProcess, source: str) -> float:
    return statistics.median(login_s(broker, source) for _ in range(TRIES))


@pytest.mark.slow
def test_no_login_waits_for_a_flood_of_invented_names(new_broker: NewBroker) -> None:
    broker = new_broker(**SMALL_POOL)
    workers = broker.workers()
    with good_neighbour(broker) as neighbour:
        before = {source: typical_login_s(broker, source) for source in (HERE, ELSEWHERE)}
        neighbour.check(rounds_more=200)
        before_ms = neighbour.percentile_ms(50)
        with login_flood(broker, source=HERE) as flood:
            neighbour.latencies_s.clear()
            # At once: from an address of which nothing is known.
            assert login_s(broker, NEVER_SEEN) < SLOWER_MAX * before[ELSEWHERE]
            for source, undisturbed in before.items():
                during = typical_login_s(broker, source)
                assert during < SLOWER_MAX * undisturbed, (source, undisturbed, during)
            neighbour.check(rounds_more=200)
            # Hardly more than before, if no other tests run beside this one.
            assert neighbour.percentile_ms(50) < SLOWER_MAX * before_ms
            wait_for(lambda: SLOWED.search(broker.output()))
            # And now that it is slowed down.
            assert typical_login_s(broker, HERE) < SLOWER_MAX * before[HERE]
    # Slowly, but it was answered, as what it is.
    assert flood.answered >= 100
    assert set(flood.answers) <= {InvalidCredentials.status, Disconnected.status}
    said = broker.output()
    # The free ones, those under way then, and hardly one more.
    assert 100 <= said.count("failed: wrong name or password") < 150
    assert "fault of ours" not in said
    assert broker.workers() == workers


@pytest.mark.slow
def test_hardly_anything_of_a_slowed_address_is_hashed(new_broker: NewBroker) -> None:
    broker = new_broker(
        **ONE_SHARD,
        IGGY_LIMITS_LOGIN_FAILURES_FREE_PER_ADDRESS="10",
        IGGY_LIMITS_LOGINS_SLOWED_PER_SECOND="1",
    )
    good = LoginUser("good", "password")
    with Wire(broker, login=False, source=ELSEWHERE) as root:
        root.log_in()
        root.answer_to(CreateUser("good", "password"))
        login_s(broker, HERE, good)
        with Wire(broker, login=False, source=HERE) as guessing:
            for number in range(10):
                wrong = LoginUser(f"name {number}", "wrong")
                assert guessing.answer_to(wrong).status == InvalidCredentials.status
            # One more is looked at, and then the next is not, even if it is right.
            guessing.put(frame_of(LoginUser("one more", "wrong")) + frame_of(ROOT) * 20)
            refused = [answer.status for answer in guessing.answers(21)]
            assert refused[1] == InvalidCredentials.status
        # Who was here before is not concerned, nor is anybody who comes from elsewhere.
        login_s(broker, HERE, good)
        login_s(broker, ELSEWHERE)
        # Who is slow gets in after all.
        with Wire(broker, login=False, source=HERE) as patient:
            wait_for(lambda: patient.answer_to(ROOT).status == 0)


@pytest.mark.slow
def test_a_user_who_changes_passwords_all_the_time_stops_no_other(new_broker: NewBroker) -> None:
    broker = new_broker(**ONE_SHARD)
    undisturbed = typical_login_s(broker, ELSEWHERE)
    connections = 32
    ended = Event()

    def change(wire: Wire) -> None:
        """To what it is already; a change that another one overtook gets an error."""
        again = ChangePassword("busy", "password", "password")
        while not ended.is_set():
            assert wire.answer_to(again).status in (0, InvalidCredentials.status)

    with Wire(broker, login=False) as root, ExitStack() as opened:
        root.log_in()
        root.answer_to(CreateUser("busy", "password"))
        wires = [opened.enter_context(Wire(broker, login=False)) for _ in range(connections)]
        for wire in wires:
            assert wire.answer_to(LoginUser("busy", "password")).status == 0
        threads = [Thread(target=change, args=(wire,)) for wire in wires]
        for thread in threads:
            thread.start()
        try:
            during = typical_login_s(broker, ELSEWHERE)
        finally:
            ended.set()
            for thread in threads:
                thread.join()
    # It waits for one of their hashes, not for one of each of them.
    assert during < connections / 3 * undisturbed, (undisturbed, during)
