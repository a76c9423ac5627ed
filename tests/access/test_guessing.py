"""Passwords cannot be guessed by trying, nor names by timing."""

from collections.abc import Iterator

import pytest

from borzoi.protocol.commands.sessions import LoginUser
from borzoi.protocol.commands.users import ChangePassword, CreateUser, GetUser
from borzoi.protocol.errors import InvalidCredentials
from tests.access.brute_force import FREE, PASSWORD, PATIENT, TARGET, attack, check, prepare
from tests.access.enumeration import TRIES_PER_NAME, create_users, ratio_of_times
from tests.broker import BrokerProcess
from tests.cpu_time import scheduled
from tests.shard_wires import one_per_shard
from tests.wire import Wire

pytestmark = pytest.mark.slow

WRONG = LoginUser("ann", "wrong password")
RIGHT = LoginUser("ann", PASSWORD)


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """A broker for all tests of this file. Once begun, a wait lasts longer than they do."""
    settings = {**PATIENT, "IGGY_LIMITS_LOGIN_BACKOFF_MIN": "1m"}
    broker = BrokerProcess(tmp_path_factory.mktemp("guessing") / "data", settings)
    broker.start()
    prepare(broker)
    yield broker
    broker.close()


@pytest.mark.parametrize("addresses", [1, 10])
def test_brute_force(broker: BrokerProcess, addresses: int) -> None:
    sources = [f"127.0.{addresses}.{number + 1}" for number in range(addresses)]
    summary = attack(broker, sources, tries=500)
    check(summary, sources)
    # The target from an address without guesses, and others from an address with guesses.
    assert status_from("127.0.0.8", broker, LoginUser(TARGET, PASSWORD)) == 0
    assert status_from(sources[0], broker, LoginUser("good", PASSWORD)) == 0
    assert status_from(sources[0], broker, LoginUser(TARGET, PASSWORD)) == InvalidCredentials.status


def test_five_tries_are_five_whatever_shard_they_land_on(broker: BrokerProcess) -> None:
    with one_per_shard(broker) as wires:
        wires[0].ask(CreateUser("ann", PASSWORD))
        for number in range(FREE - 1):
            assert wires[number % 2].status(WRONG) == InvalidCredentials.status
        # A success forgives.
        assert wires[0].status(RIGHT) == 0
        for number in range(FREE):
            assert wires[number % 2].status(WRONG) == InvalidCredentials.status
        for wire in wires:
            assert wire.status(RIGHT) == InvalidCredentials.status
        # There is no way around it: this asks for a password, too.
        change = ChangePassword("ann", PASSWORD, "new password")
        assert Wire(broker).status(change) == InvalidCredentials.status
        # Who is in stays in.
        assert wires[0].ask(GetUser("ann")).user.username == "ann"
    assert broker.output().count("login of 'ann' from 127.0.0.1 failed") == 2 * FREE - 1
    assert "no more for 60 s" in broker.output()


def test_names_that_do_not_exist_take_as_long(broker: BrokerProcess) -> None:
    known = create_users(broker, 6)
    workers = list(broker.workers().values())
    ratio = ratio_of_times(
        broker, known, TRIES_PER_NAME, min, clock=lambda: scheduled(workers).ran_s
    )
    # Without the hash it would be a hundredth; the borders are for machines with other work.
    assert 0.8 < ratio < 1.25


def status_from(source: str, broker: BrokerProcess, command: LoginUser) -> int:
    wire = Wire(broker, login=False, source=source)
    try:
        return wire.status(command)
    finally:
        wire.close()
