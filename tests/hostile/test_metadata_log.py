"""A user without any permission changes metadata as fast as it can: the log stays short.

Meanwhile a worker dies and comes back, and all shards agree on everything all the time.
"""

import os
import signal
import threading
from typing import Final

import pytest

from borzoi.protocol.commands.sessions import (
    CreatePersonalAccessToken,
    DeletePersonalAccessToken,
    GetPersonalAccessTokens,
    LoginUser,
)
from borzoi.protocol.commands.streams import CreateStream, DeleteStream, GetStreams
from borzoi.protocol.commands.users import CreateUser
from borzoi.storage.files import Files
from borzoi.storage.layout import DataLayout
from borzoi.storage.wal import log_start
from tests.broker import BrokerProcess, wait_for
from tests.conftest import NewBroker
from tests.shard_wires import TWO_SHARDS, one_per_shard
from tests.wire import Closed, Wire

pytestmark = pytest.mark.slow

SNAPSHOT_ENTRIES: Final = 200
CHANGES: Final = 3000  # of each of two attackers
ENTRY_SIZE: Final = 150
"""About what an entry of these takes."""
ENTRIES_BOUND: Final = 2 * CHANGES // 3
"""A third of all. Two intervals between snapshots are 400, but on a busy machine a snapshot takes
long to write, and commands go on meanwhile."""
EVE: Final = LoginUser("eve", "secret")


class Attacker(threading.Thread):
    """Creates and deletes a token of its own, again and again, whatever its shard goes through."""

    def __init__(self, broker: BrokerProcess, name: str) -> None:
        super().__init__()
        self._broker = broker
        self._name = name
        self.changes = 0

    def run(self) -> None:
        while self.changes < CHANGES:
            try:
                wire = Wire(self._broker, login=False)
                wire.ask(EVE)
                wire.status(DeletePersonalAccessToken(self._name))
                while self.changes < CHANGES:
                    wire.ask(CreatePersonalAccessToken(self._name, 0))
                    wire.ask(DeletePersonalAccessToken(self._name))
                    self.changes += 2
            except Closed:
                continue


def kill_worker(broker: BrokerProcess, shard: int) -> None:
    """Kill it and wait for its successor."""
    pid = broker.workers()[shard]
    os.kill(pid, signal.SIGKILL)
    wait_for(lambda: broker.workers().get(shard, pid) != pid)


def streams_of(wire: Wire) -> list[str]:
    return [stream.name for stream in wire.ask(GetStreams())]


def check_agreement(broker: BrokerProcess, expected: list[str]) -> None:
    with one_per_shard(broker) as wires:
        for wire in wires:
            assert streams_of(wire) == expected


def test_a_user_cannot_make_the_metadata_log_grow(new_broker: NewBroker) -> None:
    broker = new_broker(
        **TWO_SHARDS,
        IGGY_SYSTEM_STATE_SNAPSHOT_ENTRIES=str(SNAPSHOT_ENTRIES),
        IGGY_LIMITS_CHANGES_BURST=str(100 * CHANGES),  # as fast as it can: no pace
    )
    log = DataLayout(broker.data).state_log
    Wire(broker).ask(CreateUser(EVE.username, EVE.password))
    attackers = [Attacker(broker, f"token-{number}") for number in range(2)]
    for attacker in attackers:
        attacker.start()
    largest = made = 0
    killed = False
    try:
        while any(attacker.is_alive() for attacker in attackers):
            if not killed:
                largest = max(largest, os.stat(log).st_size)
            name = f"stream-{made}"
            with one_per_shard(broker) as wires:
                wires[made % 2].ask(CreateStream(name))
                assert [streams_of(one) for one in wires] == [[name], [name]]
                wires[1 - made % 2].ask(DeleteStream(name))
                assert [streams_of(one) for one in wires] == [[], []]
            made += 1
            if not killed and attackers[0].changes > CHANGES // 3:
                # Shard 1. Clients of shard 0 go on meanwhile, and the log is not replaced until
                # the successor is there, so its size is looked at again in the end.
                kill_worker(broker, 1)
                killed = True
    finally:
        for attacker in attackers:
            attacker.join()
    assert killed
    assert made
    size = os.stat(log).st_size
    assert max(largest, size) < ENTRIES_BOUND * ENTRY_SIZE, f"{largest} and {size} bytes"
    assert log_start(Files(), log).index > CHANGES
    tokens = Wire(broker, login=False)
    tokens.ask(EVE)
    assert tokens.ask(GetPersonalAccessTokens()) == ()
    Wire(broker).ask(CreateStream("last"))
    check_agreement(broker, ["last"])
    broker.kill()
    broker.start()
    check_agreement(broker, ["last"])
    assert "fault of ours" not in broker.output()
