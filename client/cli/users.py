"""`borzoi user` and `borzoi pat`."""

import time
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import click

from borzoi.client.cli.choosing import place_of
from borzoi.client.cli.parameters import (
    GLOBAL_PERMISSIONS,
    IDENTIFIER,
    STREAM_PERMISSIONS,
    expiry_argument,
    permissions,
)
from borzoi.client.cli.running import VERBS, Noun, given_options, lists, uses_client
from borzoi.client.cli.showing import Said
from borzoi.client.cli.streams import found
from borzoi.client.cli.tokens import Tokens
from borzoi.client.client import BorzoiClient
from borzoi.protocol.identifiers import U64_MAX, Identifier
from borzoi.protocol.permissions import GlobalPermissions, StreamPermissions, UserStatus
from borzoi.protocol.responses import RawToken, TokenInfo, UserDetails, UserInfo
from borzoi.quantities import SECOND

STATUSES = [status.name.lower() for status in UserStatus]
Command = TypeVar("Command", bound=Callable[..., Any])


def names_user(command: Command) -> Command:
    """Adds the argument USER to a command."""
    return click.argument("user", type=IDENTIFIER)(command)


def grants(command: Command) -> Command:
    """Adds the options for permissions to a command."""
    for option in (
        click.option(
            "-s",
            "--stream-permissions",
            type=STREAM_PERMISSIONS,
            multiple=True,
            help="STREAM[:rights][#TOPIC[:rights]]..., by id; may be given several times.",
        ),
        click.option(
            "-g",
            "--global-permissions",
            type=GLOBAL_PERMISSIONS,
            help="Rights with commas between, such as read_streams,send_messages or r_str,s_msg.",
        ),
    ):
        command = option(command)
    return command


@click.group(
    cls=Noun, short=VERBS | {"n": "name", "s": "status", "pwd": "password", "p": "permissions"}
)
def user() -> None:
    """Users, their passwords and permissions."""


@user.command("create")
@click.argument("name", metavar="USERNAME")
@click.argument("new_password", metavar="[PASSWORD]", required=False)
@click.option(
    "-u", "--user-status", type=click.Choice(STATUSES), default="active", show_default=True
)
@grants
@uses_client
async def create_user(
    client: BorzoiClient,
    name: str,
    new_password: str | None,
    user_status: str,
    global_permissions: GlobalPermissions | None,
    stream_permissions: tuple[tuple[int, StreamPermissions], ...],
) -> UserDetails:
    """Create a user. A password that is not given is asked for."""
    return await client.create_user(
        name,
        new_password or ask_new_password(),
        status=UserStatus[user_status.upper()],
        permissions=permissions(global_permissions, stream_permissions),
    )


@user.command("delete")
@names_user
@uses_client
async def delete_user(client: BorzoiClient, user: Identifier) -> Said:
    """Delete a user."""
    await client.delete_user(user)
    return Said(f"user {user} is deleted")


@user.command("get")
@names_user
@uses_client
async def get_user(client: BorzoiClient, user: Identifier) -> UserDetails:
    """Show a user with all permissions."""
    details: UserDetails = found("user", user, await client.get_user(user))
    return details


@user.command("list")
@lists
@uses_client
async def list_users(client: BorzoiClient) -> Sequence[UserInfo]:
    """Show all users."""
    return await client.get_users()


@user.command("name")
@names_user
@click.argument("name", metavar="USERNAME")
@uses_client
async def rename_user(client: BorzoiClient, user: Identifier, name: str) -> Said:
    """Give a user another name."""
    await client.update_user(user, username=name)
    return Said(f"user {user} is named {name}")


@user.command("status")
@names_user
@click.argument("status", type=click.Choice(STATUSES))
@uses_client
async def change_status(client: BorzoiClient, user: Identifier, status: str) -> Said:
    """Let a user in, or keep a user out."""
    await client.update_user(user, status=UserStatus[status.upper()])
    return Said(f"user {user} is {status}")


@user.command("password")
@names_user
@click.argument("current_password", metavar="[CURRENT]", required=False)
@click.argument("new_password", metavar="[NEW]", required=False)
@uses_client
async def change_password(
    client: BorzoiClient,
    user: Identifier,
    current_password: str | None,
    new_password: str | None,
) -> Said:
    """Change a password. What is not given is asked for."""
    if current_password is None:
        current_password = click.prompt("Current password", hide_input=True, err=True)
    await client.change_password(user, current_password, new_password or ask_new_password())
    return Said(f"user {user} has a new password")


@user.command("permissions")
@names_user
@grants
@uses_client
async def update_permissions(
    client: BorzoiClient,
    user: Identifier,
    global_permissions: GlobalPermissions | None,
    stream_permissions: tuple[tuple[int, StreamPermissions], ...],
) -> Said:
    """Replace all permissions of a user by those given, or by none."""
    await client.update_permissions(user, permissions(global_permissions, stream_permissions))
    return Said(f"user {user} has new permissions")


@click.group(cls=Noun)
def pat() -> None:
    """Personal access tokens of the user who logs in."""


@pat.command("create")
@click.argument("name")
@expiry_argument("never")
@click.option("-s", "--store-token", is_flag=True, help="Keep it for --token-name NAME instead.")
@uses_client
async def create_token(
    client: BorzoiClient, name: str, expiry: int, store_token: bool
) -> RawToken | Said:
    """Create a token and show it, once. EXPIRY is like `1h 30m` or `never`."""
    made = await client.create_personal_access_token(name, expiry=expiry)
    if not store_token:
        return made
    server = place_of(given_options(**click.get_current_context().params))
    until = None if expiry == U64_MAX else time.time() + expiry / SECOND
    return Said(f"token {name} is in {Tokens().keep(server, made.token, name, until, name)}")


@pat.command("delete")
@click.argument("name")
@uses_client
async def delete_token(client: BorzoiClient, name: str) -> Said:
    """Withdraw a token."""
    await client.delete_personal_access_token(name)
    return Said(f"token {name} is deleted")


@pat.command("list")
@lists
@uses_client
async def list_tokens(client: BorzoiClient) -> Sequence[TokenInfo]:
    """Show names and expiry times; the tokens themselves are not kept."""
    return await client.get_personal_access_tokens()


def ask_new_password() -> str:
    """Returns a password that was typed twice, without showing it."""
    password: str = click.prompt(
        "New password", hide_input=True, confirmation_prompt=True, err=True
    )
    return password
