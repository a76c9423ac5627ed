"""Users, their passwords and their permissions."""

from borzoi.client.calls.calling import Calling
from borzoi.protocol import commands
from borzoi.protocol.identifiers import Identifier
from borzoi.protocol.permissions import Permissions, UserStatus
from borzoi.protocol.responses import UserDetails, UserInfo


class UserCalls(Calling):
    """The calls of a client that are about users."""

    async def create_user(
        self,
        username: str,
        password: str,
        *,
        status: UserStatus = UserStatus.ACTIVE,
        permissions: Permissions | None = None,
    ) -> UserDetails:
        """A new user; without permissions it may log in and look at itself."""
        command = commands.CreateUser(username, password, status, permissions)
        details: UserDetails = await self._ask(command)
        return details

    async def get_user(self, user: Identifier) -> UserDetails | None:
        """Returns a user with its permissions; None if there is none."""
        details: UserDetails | None = await self._ask(commands.GetUser(user))
        return details

    async def get_users(self) -> tuple[UserInfo, ...]:
        """Returns all users."""
        users: tuple[UserInfo, ...] = await self._ask(commands.GetUsers())
        return users

    async def update_user(
        self,
        user: Identifier,
        *,
        username: str | None = None,
        status: UserStatus | None = None,
    ) -> None:
        """A new name, a new status, or both; None leaves a thing as it is."""
        await self._ask(commands.UpdateUser(user, username, status))

    async def update_permissions(self, user: Identifier, permissions: Permissions | None) -> None:
        """Replaces all permissions of the user; None takes them away."""
        await self._ask(commands.UpdatePermissions(user, permissions))

    async def change_password(
        self, user: Identifier, current_password: str, new_password: str
    ) -> None:
        """Changes the password of a user; the current one is needed."""
        await self._ask(commands.ChangePassword(user, current_password, new_password))

    async def delete_user(self, user: Identifier) -> None:
        """Deletes a user; its connections are logged out."""
        await self._ask(commands.DeleteUser(user))
