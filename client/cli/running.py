"""From a coroutine that uses a client to a command: connect, call, show, and say what failed.

    @stream.command()
    @click.argument("name")
    @uses_client
    async def create(client: BorzoiClient, name: str) -> StreamInfo: ...

Every such command takes the options for the address and the login, --json and --raw. What it
returns is shown by showing.py. Always: whatever the server or the network refuses is one line on
standard error and exit code 1, and never a traceback. Nothing from elsewhere acts on the terminal,
except with --raw.
"""

import asyncio
import functools
import sys
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Concatenate, Final, ParamSpec, TypeAlias

import click

from borzoi.client.address import parse_address
from borzoi.client.arguments import InvalidArgument
from borzoi.client.cli.showing import show
from borzoi.client.client import BorzoiClient, OpenOptions
from borzoi.protocol.errors import BrokerError
from borzoi.visible import visible

Parameters = ParamSpec("Parameters")
Called: TypeAlias = Callable[Concatenate[BorzoiClient, Parameters], Awaitable[object]]

HELP: Final = {"help_option_names": ["-h", "--help"]}
ENVIRONMENT: Final = "BORZOI_"
VERBS: Final = {
    "c": "create",
    "d": "delete",
    "g": "get",
    "l": "list",
    "u": "update",
    "p": "purge",
    "s": "send",
}


class Noun(click.Group):
    """A group of commands about one kind of thing; its verbs have the short names of iggy's CLI."""

    def __init__(self, *positional: Any, short: Mapping[str, str] = VERBS, **named: Any) -> None:
        super().__init__(*positional, context_settings=HELP, **named)
        self._short = short

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Returns the command of a name or short name; None if there is none."""
        name = cmd_name if cmd_name in self.commands else self._short.get(cmd_name, cmd_name)
        return super().get_command(ctx, name)


def uses_client(function: Called[Parameters]) -> Callable[..., None]:
    """For commands that need a login."""
    return _command(function, needs_login=True)


def uses_client_without_login(function: Called[Parameters]) -> Callable[..., None]:
    """Makes a command of a coroutine that gets a connected client without a login."""
    return _command(function, needs_login=False)


def _command(function: Called[Parameters], *, needs_login: bool) -> Callable[..., None]:
    @functools.wraps(function)
    def command(
        server: str,
        username: str | None,
        password: str | None,
        token: str | None,
        timeout_s: float,
        as_json: bool,
        raw: bool,
        **arguments: Any,
    ) -> None:
        async def call() -> object:
            options = _login(server, username, password, token, needs_login)
            options["timeout_s"] = timeout_s
            async with BorzoiClient.connect(server, **options) as client:
                return await function(client, **arguments)  # type: ignore[call-arg]  # click's

        if raw and as_json:
            raise click.UsageError("--raw and --json: at most one can be given")
        try:
            value = asyncio.run(call())
        except BrokenPipeError:
            raise  # the reader of our output has closed it; click ends quietly
        except (BrokerError, InvalidArgument, OSError) as error:
            raise click.ClickException(f"{error}") from error
        except KeyboardInterrupt:
            sys.exit(130)  # as shells have it
        show(value, as_json=as_json, raw=raw)

    for option in OPTIONS:
        command = option(command)
    return command


def _login(
    server: str, username: str | None, password: str | None, token: str | None, needs_login: bool
) -> OpenOptions:
    if token is not None:
        return {"token": token}
    if username is not None:
        if password is None:
            password = click.prompt(f"Password of {visible(username)}", hide_input=True, err=True)
        return {"username": username, "password": password}
    if needs_login and parse_address(server).login is None:
        raise click.ClickException(
            "this needs a login: give --username and --password, --token, or"
            f" {ENVIRONMENT}USERNAME and {ENVIRONMENT}PASSWORD, {ENVIRONMENT}TOKEN"
        )
    return {}


OPTIONS: Final[tuple[Callable[..., Any], ...]] = (
    click.option("--raw", is_flag=True, help="Print names and payloads as they are, unescaped."),
    click.option("--json", "as_json", is_flag=True, help="Print JSON."),
    click.option(
        "--timeout",
        "timeout_s",
        type=click.FloatRange(min=0, min_open=True),
        default=30.0,
        show_default=True,
        help="Seconds to wait for the connection and for each answer.",
    ),
    click.option("--token", envvar=f"{ENVIRONMENT}TOKEN", help="A personal access token."),
    click.option(
        "--password",
        envvar=f"{ENVIRONMENT}PASSWORD",
        help=f"Asked for when missing; {ENVIRONMENT}PASSWORD is not seen by other users.",
    ),
    click.option("--username", envvar=f"{ENVIRONMENT}USERNAME", help="Who logs in."),
    click.option(
        "--server",
        envvar=f"{ENVIRONMENT}SERVER",
        default="127.0.0.1:8090",
        show_default=True,
        help="host:port or iggy://username:password@host:port.",
    ),
)
