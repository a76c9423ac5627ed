"""`borzoi context`, `borzoi login`, `borzoi logout`."""

import secrets
import time
from typing import Any, Final

import click

from borzoi.client.cli.choosing import place_of
from borzoi.client.cli.contexts import Contexts, Profile
from borzoi.client.cli.parameters import expiry_argument
from borzoi.client.cli.running import HELP, VERBS, Noun, given_options, shows, uses_client
from borzoi.client.cli.showing import Said, duration_text
from borzoi.client.cli.tokens import SESSION, Tokens
from borzoi.client.client import BorzoiClient
from borzoi.protocol.errors import ResourceNotFound
from borzoi.protocol.identifiers import U64_MAX
from borzoi.quantities import SECOND

PREFIX: Final = "borzoi-cli-"


@click.group(cls=Noun, short=VERBS | {"u": "use"})
def context() -> None:
    """Named servers, one of them in use."""


@context.command("list")
@shows
def list_contexts() -> list[dict[str, Any]]:
    """Show all contexts."""
    return Contexts().rows()


@context.command("create")
@click.argument("name")
@click.option("--server", required=True, help="host:port, or iggy+tls://host:port and so on.")
@click.option("--username", help="Who logs in there.")
@shows
def create_context(name: str, server: str, username: str | None) -> Said:
    """Name a server."""
    Contexts().create(name, Profile(server, username))
    return Said(f"context {name} is {server}; `borzoi context use {name}` takes it")


@context.command("use")
@click.argument("name")
@shows
def use_context(name: str) -> Said:
    """Take this server from now on, where nothing else is said."""
    contexts = Contexts()
    contexts.use(name)
    return Said(f"context {name} is in use: {contexts.profiles[name].server}")


@context.command("delete")
@click.argument("name")
@shows
def delete_context(name: str) -> Said:
    """Forget a server's name."""
    Contexts().delete(name)
    return Said(f"context {name} is deleted")


@click.command(context_settings=HELP)
@expiry_argument("15m")
@uses_client
async def login(client: BorzoiClient, expiry: int) -> Said:
    """Log in once, and keep a token for the commands that follow.

    EXPIRY is like `8h` or `never`; 15 minutes if missing.
    """
    name = f"{PREFIX}{secrets.token_hex(4)}"
    made = await client.create_personal_access_token(name, expiry=expiry)
    until = None if expiry == U64_MAX else time.time() + expiry / SECOND
    place = Tokens().keep(_server(), made.token, SESSION, until, name)
    how_long = "until `borzoi logout`" if until is None else f"for {duration_text(expiry)}"
    return Said(f"logged in {how_long}; the token is in {place}", {"token_name": name})


@click.command(context_settings=HELP)
@uses_client
async def logout(client: BorzoiClient) -> Said:
    """Withdraw the token that `borzoi login` has kept, and forget it."""
    name = Tokens().forget(_server())
    if name is None:
        raise click.ClickException("no login is kept for this server")
    try:
        await client.delete_personal_access_token(name)
    except ResourceNotFound:  # it was deleted elsewhere
        return Said("logged out; the server has forgotten the token before")
    return Said("logged out")


def _server() -> str:
    return place_of(given_options(**click.get_current_context().params))
