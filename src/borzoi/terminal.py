"""What the commands say: the one way to standard output and standard error.

Always: a line is one line. Nothing that a server, a file or a user put into it acts on the terminal
(visible.py). That holds for the texts of commands and for the errors of click. Only `raw` writes
the bytes as they are.
"""

import difflib
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, Any, Final

import click

from borzoi.visible import AS_BYTES, visible, visible_json


def say(line: str, *, err: bool = False, raw: bool = False) -> None:
    """Write one line; `raw` writes it unescaped, undecodable bytes as the bytes they were."""
    shown = line.encode("utf-8", AS_BYTES) if raw else visible(line)
    click.echo(shown, err=err)


LABEL_WIDTH: Final = 12


def say_title(line: str) -> None:
    """Write a line that stands out where the output is a terminal."""
    click.secho(visible(line), bold=True, color=_wants_colour())


def say_beside(label: str, text: str) -> None:
    """Write a text beside its label, which steps back where the output is a terminal."""
    shown = click.style(f"  {visible(label):<{LABEL_WIDTH}}", dim=True)
    click.echo(shown + visible(text), color=_wants_colour())


def clear() -> None:
    """Empty the screen where the output is a terminal."""
    click.clear()


def _wants_colour() -> bool | None:
    """None: click looks whether it is a terminal."""
    return False if os.environ.get("NO_COLOR") else None


def say_json(document: str | bytes, *, err: bool = False) -> None:
    """Write a JSON document, of one line or of several."""
    text = document if isinstance(document, str) else document.decode()
    click.echo(visible_json(text), err=err)


IN_JSON: Final = "borzoi.json"


def _note_json(ctx: click.Context, _param: click.Parameter, value: bool) -> bool:
    ctx.meta[IN_JSON] = ctx.meta.get(IN_JSON, False) or value
    return value


json_option = click.option(
    "--json",
    is_flag=True,
    expose_value=False,
    callback=_note_json,
    help="Print JSON, also of errors.",
)
"""For commands that ask in_json(); behind the verb and before it."""


def in_json() -> bool:
    """Whether the command that runs is asked for JSON."""
    ctx = click.get_current_context()
    return bool(ctx.meta.get(IN_JSON) or ctx.find_root().params.get("as_json"))


class SuggestingGroup(click.Group):
    """Says which command may have been meant."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The command of the first word; the error names the nearest ones."""
        try:
            name, command, rest = super().resolve_command(ctx, args)
            # Short names are long ones from here on.
            return (name if command is None else command.name), command, rest
        except click.UsageError as error:
            # Newer versions of click find names themselves; one text for all of them.
            name = args[0]
            text = f"No such command {name!r}."
            if near := difflib.get_close_matches(name, self.list_commands(ctx), n=2, cutoff=0.7):
                text += f" Did you mean {', '.join(near)}?"
            raise click.UsageError(text, ctx) from error


class NamedError(click.ClickException):
    """What a server or the network refused, with its number and its name on the wire."""

    def __init__(self, message: str, status: int | None = None, name: str | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.name = name


class JsonError(click.ClickException):
    """An error as programs read it: one line of JSON on standard error."""

    def __init__(self, error: click.ClickException) -> None:
        super().__init__(error.message)
        vars(self)["exit_code"] = error.exit_code  # a class variable for type checkers
        self.about: dict[str, object] = {"message": error.format_message()}
        if isinstance(error, NamedError):
            self.about |= {"name": error.name, "status": error.status}
        elif isinstance(error, click.UsageError):
            self.about["name"] = "UsageError"

    def show(self, file: IO[Any] | None = None) -> None:
        """Writes the line."""
        text = visible_json(json.dumps({"error": self.about}, ensure_ascii=False))
        click.echo(text, file=file, err=file is None)


# A group without a verb; before click 8.2 that was no error.
HELP_INSTEAD: Final[type[Exception] | tuple[()]] = getattr(
    click.exceptions, "NoArgsIsHelpError", ()
)


class VisibleErrors(click.Command):
    """For the command or the group that a program starts with: its errors are escaped too.

    Click writes them itself, and they quote what it was given. With --json they are JSON.
    """

    _in_json = False

    def make_context(self, *positional: Any, **named: Any) -> click.Context:
        """Parses the arguments; errors are raised with escaped texts."""
        arguments: list[str] = positional[1] if len(positional) > 1 else named.get("args", [])
        self._in_json = "--json" in arguments
        with _visible_errors(in_json=self._in_json):
            return super().make_context(*positional, **named)

    def invoke(self, ctx: click.Context) -> Any:
        """Runs the command; errors are raised with escaped texts."""
        with _visible_errors(in_json=self._in_json):
            return super().invoke(ctx)


class VisibleGroup(VisibleErrors, SuggestingGroup):
    """A group that a program starts with."""


@contextmanager
def _visible_errors(*, in_json: bool) -> Iterator[None]:
    try:
        yield
    except click.ClickException as error:
        is_help = isinstance(error, HELP_INSTEAD)
        if in_json:
            raise JsonError(click.UsageError("Missing command.") if is_help else error) from error
        if is_help:
            raise  # lines of our own
        # Final for type checkers in newer versions of click, and an attribute like any other.
        vars(error)["message"] = visible(error.message)
        raise
