"""Users, passwords and tokens beside a broker's: the mixin that also knows who may do what.

Permissions are those of tests/access/permission_matrix.txt, added up over the levels.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from borzoi.protocol.codes import Code
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
from borzoi.protocol.errors import (
    CannotChangePermissions,
    CannotDeleteUser,
    ClientNotFound,
    InvalidCredentials,
    PersonalAccessTokenAlreadyExists,
    ResourceNotFound,
    StaleClient,
    Unauthenticated,
    Unauthorized,
    UserAlreadyExists,
    UserInactive,
)
from borzoi.protocol.identifiers import Identifier
from borzoi.protocol.permissions import ALL_PERMISSIONS, Permissions, UserStatus
from borzoi.protocol.responses.users import Identity, RawToken, TokenInfo, UserDetails, UserInfo
from tests.access.matrix import ALLOWED, BITS, NOTHING, read_matrix
from tests.crash.model import ModelSession, ModelUser, World, named

MATRIX: Final = read_matrix()
BEFORE_LOGIN: Final = (Code.LOGIN_USER, Code.LOGIN_WITH_PERSONAL_ACCESS_TOKEN)
ROOT: Final = "iggy"


class UsersModel(World):
    """Who may log in, and what they may do then."""

    def __init__(self) -> None:
        super().__init__()
        self.users.append(ModelUser(0, 0, ROOT, ROOT, UserStatus.ACTIVE, ALL_PERMISSIONS))
        self.withdrawn: list[str] = []
        """Tokens that were good once."""
        self._code: Code | None = None

    @contextmanager
    def sent_by(
        self, session: ModelSession, code: Code, *, for_group: bool = False
    ) -> Iterator[None]:
        """Commands within are those of a session. Outside of it no permission is needed."""
        if session.user is None and code not in BEFORE_LOGIN:
            if not session.removed:
                raise Unauthenticated
            raise StaleClient if for_group else Unauthorized
        self.session, self._code = session, code
        try:
            yield
        finally:
            self._code = None

    def permit(self, stream_id: int | None = None, topic_id: int | None = None) -> None:
        if self._code is None:
            return
        assert self.session.user is not None
        granted = _granted(self.session.user.permissions, stream_id, topic_id)
        cells = MATRIX[self._code].cells
        if not any(cells[bit] == ALLOWED for bit in (*granted, NOTHING)):
            raise Unauthorized

    # Users.

    def user(self, identifier: Identifier) -> ModelUser:
        return named(self.users, identifier, ResourceNotFound)

    def get_user(self, command: GetUser, reply: UserDetails | None) -> UserDetails | None:
        user = next((u for u in self.users if command.user in (u.id, u.name)), None)
        if user is None:
            return None
        if user is not self.session.user:
            self.permit()
        if user.id == 0 and reply is not None:
            user.created_at = user.created_at or reply.user.created_at
        return UserDetails(_seen(user), user.permissions)

    def get_users(self, _command: GetUsers, reply: list[UserInfo]) -> list[UserInfo]:
        self.permit()
        self.users[0].created_at = self.users[0].created_at or reply[0].created_at
        return [_seen(user) for user in sorted(self.users, key=lambda one: one.id)]

    def create_user(self, command: CreateUser, reply: UserDetails) -> UserDetails:
        self.permit()
        self._check_name(command.username, None)
        # Other sequences of commands have left free ids of which this one knows nothing.
        id = self.free_user_ids.pop() if self.free_user_ids else reply.user.id
        assert id not in [user.id for user in self.users]
        user = ModelUser(
            id,
            reply.user.created_at,
            command.username,
            command.password,
            command.status,
            command.permissions,
        )
        self.users.append(user)
        return UserDetails(_seen(user), user.permissions)

    def update_user(self, command: UpdateUser, _reply: None) -> None:
        self.permit()
        user = self.user(command.user)
        if command.username is not None:
            self._check_name(command.username, user)
            user.name = command.username
        user.status = command.status or user.status
        if user.status is UserStatus.INACTIVE:
            self._end_sessions(user, removed=False)

    def delete_user(self, command: DeleteUser, _reply: None) -> None:
        self.permit()
        user = self.user(command.user)
        if user.id == 0:
            raise CannotDeleteUser
        self.users.remove(user)
        self.free_user_ids.append(user.id)
        self.withdrawn += user.tokens.values()
        self._end_sessions(user, removed=True)

    def update_permissions(self, command: UpdatePermissions, _reply: None) -> None:
        self.permit()
        user = self.user(command.user)
        if user.id == 0:
            raise CannotChangePermissions
        user.permissions = command.permissions

    def change_password(self, command: ChangePassword, _reply: None) -> None:
        user = self.user(command.user)
        if user is not self.session.user:
            self.permit()
        if user.password != command.current_password:
            raise InvalidCredentials
        user.password = command.new_password

    # Sessions and tokens.

    def login_user(self, command: LoginUser, _reply: Any) -> Identity:
        user = next((one for one in self.users if one.name == command.username), None)
        if user is None:
            raise InvalidCredentials
        if user.status is UserStatus.INACTIVE:
            raise UserInactive
        if user.password != command.password:
            raise InvalidCredentials
        return self._become(user)

    def login_with_personal_access_token(
        self, command: LoginWithPersonalAccessToken, _reply: Any
    ) -> Identity:
        user = next((one for one in self.users if command.token in one.tokens.values()), None)
        if user is None:
            raise ResourceNotFound
        if user.status is UserStatus.INACTIVE:
            raise UserInactive
        return self._become(user)

    def logout_user(self, _command: LogoutUser, _reply: None) -> None:
        self.session.user = None

    def get_personal_access_tokens(
        self, _command: GetPersonalAccessTokens, _reply: Any
    ) -> list[TokenInfo]:
        assert self.session.user is not None
        return [TokenInfo(name, None) for name in sorted(self.session.user.tokens)]

    def create_personal_access_token(
        self, command: CreatePersonalAccessToken, reply: RawToken
    ) -> RawToken:
        assert self.session.user is not None
        if command.name in self.session.user.tokens:
            raise PersonalAccessTokenAlreadyExists
        self.session.user.tokens[command.name] = reply.token
        return reply

    def delete_personal_access_token(
        self, command: DeletePersonalAccessToken, _reply: None
    ) -> None:
        assert self.session.user is not None
        token = self.session.user.tokens.pop(command.name, None)
        if token is None:
            raise ResourceNotFound
        self.withdrawn.append(token)

    def _become(self, user: ModelUser) -> Identity:
        if self.session.removed:
            raise ClientNotFound
        self.session.user = user
        return Identity(user.id)

    def _end_sessions(self, user: ModelUser, *, removed: bool) -> None:
        for session in self.sessions.values():
            if session.user is user:
                session.user, session.removed = None, removed
                self.gone(session)

    def _check_name(self, name: str, user: ModelUser | None) -> None:
        if any(one.name == name for one in self.users if one is not user):
            raise UserAlreadyExists


def _seen(user: ModelUser) -> UserInfo:
    return UserInfo(user.id, user.created_at, user.status, user.name)


def _granted(
    permissions: Permissions | None, stream_id: int | None, topic_id: int | None
) -> list[str]:
    """The columns of the matrix that apply to a user there."""
    if permissions is None:
        return []
    levels: dict[str, Any] = {"global": permissions.global_permissions}
    on_stream = None if stream_id is None else permissions.streams.get(stream_id)
    if on_stream is not None:
        levels["stream"] = on_stream
        if topic_id is not None and topic_id in on_stream.topics:
            levels["topic"] = on_stream.topics[topic_id]
    return [
        bit
        for level, _, flag, bit in ((*bit.partition(" "), bit) for bit in BITS)
        if level in levels and getattr(levels[level], flag)
    ]
