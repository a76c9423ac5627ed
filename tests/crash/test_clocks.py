"""F5: the clock of the machine is set back or forward, or stands still.

Times within a partition never decrease, messages and tokens expire when they should and not
because of it, and clients that give signs of life stay while silent ones are evicted.
"""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest

from borzoi.protocol.commands.sessions import (
    CreatePersonalAccessToken,
    LoginWithPersonalAccessToken,
)
from borzoi.protocol.commands.streams import CreateStream
from borzoi.protocol.commands.system import GetClients, GetMe, Ping
from borzoi.protocol.commands.topics import CreateTopic
from borzoi.protocol.errors import PersonalAccessTokenExpired, ResourceNotFound
from borzoi.shards.identity.heartbeats import SILENT_INTERVALS_MAX
from tests.broker import BrokerProcess, wait_for
from tests.crash.set_clock import SettableClock
from tests.shard_wires import ONE_SHARD, connect
from tests.wire import Wire

HOUR_S = 3600
HOUR_US = HOUR_S * 1_000_000
MESSAGES = 10
BRIEF_US = 1_000_000
HEARTBEAT_S = 1
SILENT_S_MAX = SILENT_INTERVALS_MAX * HEARTBEAT_S
TIMEOUT_S = 30.0
pytestmark = pytest.mark.slow

JUMPS: dict[str, Callable[[SettableClock], None]] = {
    "back": lambda clock: clock.shift_s(-HOUR_S),
    "forward": lambda clock: clock.shift_s(24 * HOUR_S),
    "frozen": lambda clock: clock.freeze(),
}


@dataclass
class Place:
    broker: BrokerProcess
    clock: SettableClock


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """A broker whose clock can be set, with everything on that looks at clocks."""
    directory = tmp_path_factory.mktemp("clock")
    clock = SettableClock(directory / "clock")
    settings = {
        **clock.environment,
        **ONE_SHARD,
        "IGGY_SYSTEM_SEGMENT_SIZE": "512 B",
        "IGGY_HEARTBEAT_ENABLED": "true",
        "IGGY_HEARTBEAT_INTERVAL": f"{HEARTBEAT_S} s",
        "IGGY_PERSONAL_ACCESS_TOKEN_CLEANER_INTERVAL": "100 ms",
        "IGGY_DATA_MAINTENANCE_MESSAGES_CLEANER_ENABLED": "true",
        "IGGY_DATA_MAINTENANCE_MESSAGES_INTERVAL": "100 ms",
    }
    broker = BrokerProcess(directory / "data", settings)
    broker.start()
    yield Place(broker, clock)
    broker.close()


@pytest.mark.parametrize("jump", JUMPS)
def test_f5_the_clock_is_set(place: Place, jump: str) -> None:
    place.clock.shift_s(0)
    with connect(place.broker) as wire, connect(place.broker) as silent:
        connected_at = time.monotonic()
        # Asked now: on a busy machine the silent one may be evicted before the others are done.
        me, other = (one.ask(GetMe()).client.client_id for one in (wire, silent))
        wire.ask(CreateStream(jump))
        # Two hours: the day ahead would make everything expire.
        wire.ask(CreateTopic(jump, 1, 1, 2 * HOUR_US, 0, 1, "t"))
        send(wire, jump)
        before = times(wire, jump)
        lasting = wire.ask(CreatePersonalAccessToken(f"{jump}-lasting", HOUR_US)).token
        brief = wire.ask(CreatePersonalAccessToken(f"{jump}-brief", BRIEF_US)).token
        pinged_at = ping_until(wire, connected_at + SILENT_S_MAX)
        JUMPS[jump](place.clock)
        send(wire, jump)
        wait_for_eviction(wire, me, other, pinged_at)
        # The cleaners have looked several times by then.
        after = times(wire, jump)
        assert after[:MESSAGES] == before
        assert len(after) == 2 * MESSAGES, "messages expired because the clock was set"
        assert after == sorted(after)
        if jump == "forward":
            assert after[-1] - after[0] > 20 * HOUR_US, "the clock was not set at all"
        else:
            assert len(set(after[MESSAGES:])) == 1, "the clock was not set at all"
        assert opens(place.broker, lasting)
        wait_for(lambda: not opens(place.broker, brief), TIMEOUT_S)


def send(wire: Wire, stream: str) -> None:
    for _ in range(MESSAGES):
        wire.append(stream, "t", 0, [bytes(600)])


def times(wire: Wire, stream: str) -> list[int]:
    return [message.timestamp for message in wire.read(stream, "t", 0)]


def ping_until(wire: Wire, end: float) -> float:
    """When the last ping was begun."""
    while True:
        pinged_at = time.monotonic()
        wire.ask(Ping())
        if pinged_at > end:
            return pinged_at
        time.sleep(0.01)


def wait_for_eviction(lively: Wire, me: int, other: int, pinged_at: float) -> None:
    """The next look evicts clients that were silent for too long, not one that has just pinged."""

    def evicted() -> bool:
        found = {client.client_id for client in lively.ask(GetClients())}
        # If all of this was held up for so long, it is silent as well.
        assert me in found or time.monotonic() - pinged_at > SILENT_S_MAX, "evicted by the clock"
        return other not in found

    wait_for(evicted, TIMEOUT_S)


def opens(broker: BrokerProcess, token: str) -> bool:
    """Whether the token logs in; if not, because it has expired or is cleared away."""
    with connect(broker, login=False) as wire:
        try:
            wire.ask(LoginWithPersonalAccessToken(token))
        except (PersonalAccessTokenExpired, ResourceNotFound):
            return False
    return True
