"""Accounts under `kill -9`: users, permissions, passwords and tokens are as acknowledged.

    python -m tests.access.accounts --cycles 100 [--seed N]

An administrator changes accounts without a pause, on either shard; the whole broker is killed at
a random moment and started again. What was acknowledged is there. The one change that was under
way may have happened or not, but not half.
"""

import argparse
import copy
import random
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from borzoi.protocol.commands.sessions import (
    CreatePersonalAccessToken,
    DeletePersonalAccessToken,
    GetPersonalAccessTokens,
    LoginUser,
    LoginWithPersonalAccessToken,
)
from borzoi.protocol.commands.users import (
    ChangePassword,
    CreateUser,
    DeleteUser,
    GetUser,
    GetUsers,
    UpdatePermissions,
    UpdateUser,
)
from borzoi.protocol.errors import ResourceNotFound
from borzoi.protocol.permissions import (
    GlobalPermissions,
    Permissions,
    StreamPermissions,
    TopicPermissions,
    UserStatus,
)
from tests.broker import BrokerProcess
from tests.shard_wires import TWO_SHARDS, one_per_shard
from tests.wire import Closed, Wire

NAMES: Final = tuple(f"user-{number}" for number in range(6))
TOKENS: Final = ("first", "second", "third")
PERMISSIONS: Final = (
    None,
    Permissions(),
    Permissions(GlobalPermissions(send_messages=True)),
    Permissions(streams={7: StreamPermissions(True, topics={9: TopicPermissions(True)})}),
)


@dataclass
class Account:
    """What is known of a user."""

    password: str
    status: UserStatus
    permissions: Permissions | None


@dataclass
class Model:
    """All accounts, and the tokens of root."""

    accounts: dict[str, Account] = field(default_factory=dict)
    tokens: dict[str, str] = field(default_factory=dict)


class Administrator(threading.Thread):
    """Changes accounts until the connection breaks."""

    def __init__(self, broker: BrokerProcess, model: Model, chance: random.Random) -> None:
        super().__init__(daemon=True)
        self._wire = Wire(broker)
        self._random = chance
        self.model = model
        self.acknowledged = 0
        # The model as it is if the change that is under way has happened.
        self.in_doubt: Model | None = None
        self.withdrawn: list[str] = []
        self.error: BaseException | None = None

    def run(self) -> None:
        try:
            while True:
                self._change()
        except Closed:
            pass
        except BaseException as error:
            self.error = error
        finally:
            self._wire.close()

    def _change(self) -> None:
        after = copy.deepcopy(self.model)
        ask = self._choose(after)
        self.in_doubt = after
        ask()
        self.model, self.in_doubt = after, None
        self.acknowledged += 1

    def _choose(self, after: Model) -> Callable[[], object]:
        chance, wire = self._random, self._wire
        name = chance.choice(NAMES)
        account = after.accounts.get(name)
        if chance.random() < 0.3:
            return self._choose_token(after, chance.choice(TOKENS))
        if account is None:
            account = Account(f"first {name}", chance.choice(list(UserStatus)), None)
            account.permissions = chance.choice(PERMISSIONS)
            after.accounts[name] = account
            command = CreateUser(name, account.password, account.status, account.permissions)
            return lambda: wire.ask(command)
        kind = chance.choice(("permissions", "status", "password", "delete"))
        if kind == "permissions":
            account.permissions = chance.choice(PERMISSIONS)
            permissions = UpdatePermissions(name, account.permissions)
            return lambda: wire.ask(permissions)
        if kind == "status":
            account.status = chance.choice(list(UserStatus))
            status = UpdateUser(name, status=account.status)
            return lambda: wire.ask(status)
        if kind == "password":
            old, account.password = account.password, f"password {chance.randrange(1000)}"
            password = ChangePassword(name, old, account.password)
            return lambda: wire.ask(password)
        del after.accounts[name]
        return lambda: wire.ask(DeleteUser(name))

    def _choose_token(self, after: Model, name: str) -> Callable[[], object]:
        if name in after.tokens:
            self.withdrawn.append(after.tokens.pop(name))
            return lambda: self._wire.ask(DeletePersonalAccessToken(name))
        after.tokens[name] = ""

        def create() -> None:
            after.tokens[name] = self._wire.ask(CreatePersonalAccessToken(name, 0)).token

        return create


def found(wire: Wire) -> dict[str, tuple[UserStatus, Permissions | None]]:
    """The users but root, as the broker tells them."""
    names = [user.username for user in wire.ask(GetUsers()) if user.id]
    details = {name: wire.ask(GetUser(name)) for name in names}
    return {name: (one.user.status, one.permissions) for name, one in details.items()}


def modelled(model: Model) -> dict[str, tuple[UserStatus, Permissions | None]]:
    """The same accounts as the model has them."""
    return {name: (one.status, one.permissions) for name, one in model.accounts.items()}


def check(broker: BrokerProcess, administrator: Administrator) -> Model:
    """Which of the possible worlds this is; AssertionError if it is none."""
    with one_per_shard(broker) as wires:
        for wire in wires:
            possible = [
                model
                for model in (administrator.model, administrator.in_doubt)
                if model is not None
                and found(wire) == modelled(model)
                and {token.name for token in wire.ask(GetPersonalAccessTokens())}
                == set(model.tokens)
            ]
            assert possible, (found(wire), administrator.model, administrator.in_doubt)
        # The answer to the last one may be lost, so its token or password is not known.
        for wire in wires:
            for token in possible[0].tokens.values():
                if token:
                    assert wire.ask(LoginWithPersonalAccessToken(token)).user_id == 0
            for token in administrator.withdrawn[:-1]:
                status = wire.status(LoginWithPersonalAccessToken(token))
                assert status == ResourceNotFound.status
        for name, account in possible[0].accounts.items():
            if account.status == UserStatus.ACTIVE:
                passwords = {model.accounts[name].password for model in possible}
                stranger = Wire(broker, login=False)
                assert any(stranger.status(LoginUser(name, one)) == 0 for one in passwords), name
                stranger.close()
                if len(passwords) == 2:
                    # Which of the two holds was just found out by one that may be wrong.
                    account.password = _holding(broker, name, passwords)
    model = possible[0]
    for name in [name for name, token in model.tokens.items() if not token]:
        _withdraw(broker, name)
        del model.tokens[name]
    return model


def _holding(broker: BrokerProcess, name: str, passwords: set[str]) -> str:
    wire = Wire(broker, login=False)
    try:
        return next(one for one in passwords if wire.status(LoginUser(name, one)) == 0)
    finally:
        wire.close()


def _withdraw(broker: BrokerProcess, name: str) -> None:
    wire = Wire(broker)
    wire.ask(DeletePersonalAccessToken(name))
    wire.close()


def run(broker: BrokerProcess, cycles: int, seed: int) -> int:
    """Kill and look, so many times; the number of acknowledged changes."""
    chance = random.Random(seed)
    model = Model()
    acknowledged = 0
    for _ in range(cycles):
        administrator = Administrator(broker, model, chance)
        administrator.start()
        deadline = time.monotonic() + chance.uniform(0.05, 0.6)
        while time.monotonic() < deadline or not administrator.acknowledged:
            time.sleep(0.005)
            assert administrator.is_alive(), administrator.error
        broker.kill()
        administrator.join(30)
        assert administrator.error is None, administrator.error
        broker.start()
        model = check(broker, administrator)
        acknowledged += administrator.acknowledged
    return acknowledged


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--cycles", type=int, default=100)
    parser.add_argument("--seed", type=int, default=random.randrange(2**32))
    options = parser.parse_args()
    print(f"seed {options.seed}", flush=True)
    with tempfile.TemporaryDirectory() as directory:
        broker = BrokerProcess(Path(directory) / "data", TWO_SHARDS)
        broker.start()
        try:
            acknowledged = run(broker, options.cycles, options.seed)
        finally:
            with suppress(AssertionError):
                broker.close()
    print(f"{options.cycles} kills, {acknowledged} acknowledged changes of accounts, 0 lost")
    return 0


if __name__ == "__main__":
    sys.exit(main())
