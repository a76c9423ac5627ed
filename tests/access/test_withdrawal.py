"""What is withdrawn is withdrawn: nothing of that user follows in the log, however much waits."""

import re
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from borzoi.protocol.commands.sessions import (
    CreatePersonalAccessToken,
    LoginUser,
    LoginWithPersonalAccessToken,
)
from borzoi.protocol.commands.streams import CreateStream
from borzoi.protocol.commands.users import (
    CreateUser,
    DeleteUser,
    UpdatePermissions,
    UpdateUser,
    UserStatus,
)
from borzoi.protocol.errors import BrokerError, Unauthenticated, Unauthorized
from borzoi.protocol.permissions import GlobalPermissions, Permissions
from tests.broker import BrokerProcess, wait_for
from tests.crash.kill_cycles import TWO_SHARDS
from tests.shard_wires import connect
from tests.wire import Wire

CONNECTIONS = 12
NAME = "crowd"
PASSWORD = "secret"
MAY_CREATE = Permissions(GlobalPermissions(manage_streams=True))
ENTRY = re.compile(r"entry (\d+) by user (\d+) at \d+: (\w+)")


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    broker = BrokerProcess(Path(tmp_path_factory.mktemp("withdrawal"), "data"), TWO_SHARDS)
    broker.start()
    yield broker
    broker.close()


class Crowd:
    """Many connections of one user that create streams until they are refused."""

    def __init__(self, broker: BrokerProcess, token: str) -> None:
        self.refusals: list[BrokerError] = []
        self.created = 0
        self._wires = [connect(broker, login=False) for _ in range(CONNECTIONS)]
        for wire in self._wires:
            wire.ask(LoginWithPersonalAccessToken(token))
        self._threads = [
            threading.Thread(target=self._create, args=(number, wire))
            for number, wire in enumerate(self._wires)
        ]
        for thread in self._threads:
            thread.start()

    def _create(self, number: int, wire: Wire) -> None:
        with wire:
            for turn in range(100_000):
                try:
                    wire.ask(CreateStream(f"{id(self)}-{number}-{turn}"))
                except BrokerError as error:
                    self.refusals.append(error)
                    return
                self.created += 1

    def end(self) -> None:
        for thread in self._threads:
            thread.join()


@pytest.mark.slow
@pytest.mark.parametrize(
    "withdraw",
    [
        UpdatePermissions(NAME, None),
        UpdateUser(NAME, status=UserStatus.INACTIVE),
        DeleteUser(NAME),
    ],
    ids=lambda command: type(command).__name__,
)
def test_nothing_follows_a_withdrawal(
    broker: BrokerProcess, withdraw: UpdatePermissions | UpdateUser | DeleteUser
) -> None:
    with connect(broker) as root, connect(broker, login=False) as own:
        user = root.ask(CreateUser(NAME, PASSWORD, permissions=MAY_CREATE)).user
        own.ask(LoginUser(NAME, PASSWORD))
        crowd = Crowd(broker, own.ask(CreatePersonalAccessToken("token", 0)).token)
        wait_for(lambda: crowd.created > 10 * CONNECTIONS, 60.0)
        root.ask(withdraw)
        crowd.end()
        if not isinstance(withdraw, DeleteUser):
            root.ask(DeleteUser(NAME))
    assert len(crowd.refusals) == CONNECTIONS
    assert {type(error) for error in crowd.refusals} <= {Unauthorized, Unauthenticated}
    written = [(int(entry), int(by), what) for entry, by, what in ENTRY.findall(broker.output())]
    withdrawn = max(at for at, _, what in written if what == type(withdraw).__name__)
    late = [at for at, by, _ in written if by == user.id and at > withdrawn]
    assert late == []
