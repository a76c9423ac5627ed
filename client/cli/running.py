"""From a coroutine that uses a client to a command: connect, call, show, and say what failed.

    @stream.command()
    @click.argument("name")
    @uses_client
    async def create(client: BorzoiClient, name: str) -> StreamInfo: ...

Every such command takes the options for the address and the login, --json and --raw, behind the
verb or before it (choosing.py). What it returns is shown by showing.py. Always: whatever the server
or the network refuses is one line on standard error and exit code 1, and never a traceback. Nothing
from elsewhere acts on the terminal, except with --raw. Ctrl-C ends at once, whatever is waited for.
"""

import asyncio
import functools
import signal
import sys
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import AsyncExitStack, contextmanager
from dataclasses import replace
from typing import Any, Concatenate, Final, ParamSpec, TypeAlias

import click

from borzoi.client.arguments import InvalidArgument
from borzoi.client.cli.choosing import ENVIRONMENT, choose
from borzoi.client.cli.naming import text_of
from borzoi.client.cli.showing import Said, show
from borzoi.client.client import BorzoiClient
from borzoi.protocol.errors import (
    BrokerError,
    ConnectionClosed,
    FeatureUnavailable,
    InvalidCredentials,
    PersonalAccessTokenExpired,
    ResourceNotFound,
    UserInactive,
)
from borzoi.terminal import IN_JSON, NamedError, SuggestingGroup

Parameters = ParamSpec("Parameters")
Called: TypeAlias = Callable[Concatenate[BorzoiClient, Parameters], Awaitable[object]]

HELP: Final = {"help_option_names": ["-h", "--help"]}
INTERRUPTED: Final = 130
"""The exit code after Ctrl-C, as shells have it."""
LOGIN_REFUSED: Final = (
    FeatureUnavailable,
    InvalidCredentials,
    PersonalAccessTokenExpired,
    ResourceNotFound,
    UserInactive,
)
TIMEOUT_S: Final = 30.0
VERBS: Final = {
    "c": "create",
    "d": "delete",
    "g": "get",
    "l": "list",
    "u": "update",
    "p": "purge",
    "s": "send",
}
FROM_ROOT: Final = (
    "server", "username", "password", "token", "token_name", "timeout_s", "as_json", "raw", "quiet",
    "transport", "tcp_server_address", "tcp_tls_enabled", "http_api_url", "quic_server_address",
    "websocket_server_address",
)  # fmt: skip
"""Options that may stand before the verb."""
LIST_MODE: Final = "borzoi.list_mode"
SHOWN: Final = frozenset(
    {
        "stream", "topic", "partition", "group", "consumer", "kind", "user", "name", "count",
        "offset", "status", "fsync",
    }
)  # fmt: skip
"""Arguments that stand in the JSON of what was done."""


class Noun(SuggestingGroup):
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


def shows(function: Callable[..., object]) -> Callable[..., None]:
    """For commands that need no server: what they return is shown in the same way."""

    @functools.wraps(function)
    def command(as_json: bool, **arguments: Any) -> None:
        wanted = _with_root({"as_json": as_json})
        show(function(**arguments), as_json=wanted["as_json"])

    return JSON(command)


def given_options(**behind_verb: Any) -> dict[str, Any]:
    """The options of the command that runs: behind its verb, before it, and their defaults."""
    return _with_root(behind_verb)


def _command(function: Called[Parameters], *, needs_login: bool) -> Callable[..., None]:
    @functools.wraps(function)
    def command(**everything: Any) -> None:
        named = {name: everything.pop(name) for name in BEHIND_VERB}
        given = _with_root(named)
        if given["raw"] and given["as_json"]:
            raise click.UsageError("--raw and --json: at most one can be given")
        # The options in force, for commands that write while they run.
        click.get_current_context().params.update(as_json=given["as_json"], raw=given["raw"])
        with failures_named(everything):
            # Asked before the event loop runs: a prompt would stop it.
            chosen = choose(given, needs_login=needs_login)

            async def call() -> object:
                options = chosen.options.copy()
                options["timeout_s"] = given["timeout_s"] or TIMEOUT_S
                connecting = BorzoiClient.connect(chosen.server, **options)
                async with AsyncExitStack() as open_things:
                    try:
                        client = await open_things.enter_async_context(connecting)
                    except LOGIN_REFUSED as error:
                        raise NamedError(
                            f"{chosen.place} refuses the login of {chosen.who}: {error}",
                            error.status,
                            type(error).__name__,
                        ) from error
                    return await function(client, **everything)  # type: ignore[call-arg]  # click's

            async def call_named() -> object:
                try:
                    return await call()
                except ConnectionClosed as error:
                    raise ConnectionClosed(f"{chosen.place}: {error}") from error

            value = run(call_named())
        if isinstance(value, Said):
            value = replace(value, about=_done(everything) | dict(value.about))
        if not (given["quiet"] and not given["as_json"]):
            one_by_one = click.get_current_context().meta.get(LIST_MODE) == "list"
            as_json = given["as_json"] or bool(click.get_current_context().meta.get(IN_JSON))
            show(value, as_json=as_json, raw=given["raw"], one_by_one=one_by_one)

    for option in OPTIONS:
        command = option(command)
    return command


def run(call: Any) -> Any:
    """The result of a coroutine. Ctrl-C ends the program here, also where the loop is blocked."""
    # A handler of our own: asyncio would cancel the task first, and wait for what blocks.
    previous = signal.signal(signal.SIGINT, _interrupt)
    try:
        return asyncio.run(call)
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
    finally:
        signal.signal(signal.SIGINT, previous)


def _interrupt(_number: int, _frame: object) -> None:
    raise KeyboardInterrupt


@contextmanager
def failures_named(arguments: Mapping[str, Any]) -> Iterator[None]:
    """What the server, the network or an argument refuses becomes one line that names it."""
    try:
        yield
    except BrokenPipeError:
        raise  # the reader of our output has closed it; click ends quietly
    except (BrokerError, InvalidArgument, OSError) as error:
        path = click.get_current_context().command_path.partition(" ")[2]
        status = error.status if isinstance(error, BrokerError) else None
        text = text_of(error, path, arguments)
        raise NamedError(text, status, type(error).__name__) from error


def _done(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """What was done, to what, for programs; nothing that may be secret."""
    path = click.get_current_context().command_path.partition(" ")[2]
    about = {
        name: value for name, value in arguments.items() if name in SHOWN and value is not None
    }
    return {"done": path, **about}


def _with_root(behind_verb: dict[str, Any]) -> dict[str, Any]:
    before = click.get_current_context().find_root().params
    return {
        name: behind_verb[name] if behind_verb.get(name) else before.get(name) for name in FROM_ROOT
    }


def _note_mode(ctx: click.Context, _param: click.Parameter, value: str) -> None:
    ctx.meta[LIST_MODE] = value


def lists(command: Any) -> Any:
    """Adds Iggy's option for how a list looks: a table, or one thing below the other."""
    return click.option(
        "-l",
        "--list-mode",
        type=click.Choice(["table", "list"]),
        default="table",
        show_default=True,
        expose_value=False,
        callback=_note_mode,
        help="A table, or one thing below the other.",
    )(command)


JSON: Final = click.option("--json", "as_json", is_flag=True, help="Print JSON.")

OPTIONS: Final[tuple[Callable[..., Any], ...]] = (
    click.option("--raw", is_flag=True, help="Print names and payloads as they are, unescaped."),
    JSON,
    click.option(
        "--timeout",
        "timeout_s",
        type=click.FloatRange(min=0, min_open=True),
        help=f"Seconds to wait for the connection and for each answer; {TIMEOUT_S:.0f} if missing.",
    ),
    click.option("--token", help=f"A personal access token; or {ENVIRONMENT}TOKEN."),
    click.option(
        "--password",
        help=f"Asked for when missing; {ENVIRONMENT}PASSWORD is not seen by other users.",
    ),
    click.option("--username", help=f"Who logs in; or {ENVIRONMENT}USERNAME."),
    click.option(
        "--server",
        help="host:port or iggy://username:password@host:port; also iggy+tls, ws, http, ...;"
        f" {ENVIRONMENT}SERVER, the context in use, or 127.0.0.1:8090 if missing.",
    ),
)
BEHIND_VERB: Final = ("raw", "as_json", "timeout_s", "token", "password", "username", "server")
