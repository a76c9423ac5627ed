"""What is done to users and by them, for the machine that compares a broker with its model."""

from typing import Any, Final

from hypothesis import strategies as st
from hypothesis.stateful import rule

from borzoi.protocol.commands.sessions import (
    CreatePersonalAccessToken,
    DeletePersonalAccessToken,
    GetPersonalAccessTokens,
    LoginUser,
    LoginWithPersonalAccessToken,
    LogoutUser,
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
from borzoi.protocol.identifiers import Identifier
from borzoi.protocol.permissions import Permissions, UserStatus
from tests.crash.model_machine import GUEST_NAME, GUESTS, ON, PASSWORD, PERMISSIONS, Agreement
from tests.crash.model_users import ROOT

NAMES: Final = st.sampled_from([GUEST_NAME, "bob"])
USERS: Final = st.sampled_from([GUEST_NAME] * 4 + ["bob", "absent", 1, 2])
STATUSES: Final = st.sampled_from([UserStatus.ACTIVE] * 3 + [UserStatus.INACTIVE])
PASSWORDS: Final = st.sampled_from([PASSWORD] * 3 + ["other"])
TOKENS: Final = st.sampled_from(["one", "two"])
GRANTS: Final = st.one_of(st.none(), PERMISSIONS)
GUEST: Final = st.sampled_from(GUESTS)
NO_TOKEN: Final = "no token"


class UserRules(Agreement):
    """Users, their permissions, passwords and tokens, and who is logged in."""

    @rule(on=ON, name=NAMES, password=PASSWORDS, status=STATUSES, permissions=GRANTS)
    def create_user(
        self,
        on: int,
        name: str,
        password: str,
        status: UserStatus,
        permissions: Permissions | None,
    ) -> None:
        self.step(on, CreateUser(name, password, status, permissions))

    @rule(on=ON, user=USERS, name=st.none() | NAMES, status=st.none() | STATUSES)
    def update_user(
        self, on: int, user: Identifier, name: str | None, status: UserStatus | None
    ) -> None:
        self.step(on, UpdateUser(user, name, status))

    @rule(on=ON, user=st.one_of(USERS, USERS, st.just(ROOT)))
    def delete_user(self, on: int, user: Identifier) -> None:
        self.step(on, DeleteUser(user))

    @rule(on=ON, user=st.one_of(USERS, USERS, st.just(ROOT)), permissions=GRANTS)
    def grant(self, on: int, user: Identifier, permissions: Permissions | None) -> None:
        self.step(on, UpdatePermissions(user, permissions))

    @rule(on=ON, user=USERS, current=PASSWORDS, new=PASSWORDS)
    def change_password(self, on: int, user: Identifier, current: str, new: str) -> None:
        self.step(on, ChangePassword(user, current, new))

    @rule(on=ON, user=USERS)
    def read_users(self, on: int, user: Identifier) -> None:
        self.step(on, GetUsers())
        self.step(on, GetUser(user))

    @rule(on=GUEST, name=NAMES, password=PASSWORDS)
    def log_in(self, on: int, name: str, password: str) -> None:
        self.step(on, LoginUser(name, password))

    @rule(on=GUEST)
    def log_out(self, on: int) -> None:
        self.step(on, LogoutUser())

    @rule(on=GUEST, name=TOKENS, change=st.sampled_from([CreatePersonalAccessToken] * 3 + [None]))
    def change_tokens(self, on: int, name: str, change: Any) -> None:
        # One that never expires: time is not what this is about.
        self.step(on, change(name, 0) if change else DeletePersonalAccessToken(name))
        self.step(on, GetPersonalAccessTokens())

    @rule(on=GUEST, place=st.integers(0, 5))
    def log_in_with_token(self, on: int, place: int) -> None:
        known = [token for user in self.model.users for token in user.tokens.values()]
        tokens = [*known, *self.model.withdrawn[-2:], NO_TOKEN]
        self.step(on, LoginWithPersonalAccessToken(tokens[place % len(tokens)]))
