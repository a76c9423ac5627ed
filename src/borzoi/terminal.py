"""What the commands say: the one way to standard output and standard error.

Always: a line is one line. Nothing that a server, a file or a user put into it acts on the terminal
(visible.py). That holds for the texts of commands and for the errors of click. Only `raw` writes
the bytes as they are.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import click

from borzoi.visible import AS_BYTES, visible, visible_json


def say(line: str, *, err: bool = False, raw: bool = False) -> None:
    """Write one line; `raw` writes it unescaped, undecodable bytes as the bytes they were."""
    shown = line.encode("utf-8", AS_BYTES) if raw else visible(line)
    click.echo(shown, err=err)


def say_json(document: str | bytes) -> None:
    """Write a JSON document, of one line or of several."""
    text = document if isinstance(document, str) else document.decode()
    click.echo(visible_json(text))


class VisibleErrors(click.Command):
    """For the command or the group that a program starts with: its errors are escaped too.

    Click writes them itself, and they quote what it was given.
    """

    def make_context(self, *positional: Any, **named: Any) -> click.Context:
        """Parses the arguments; errors are raised with escaped texts."""
        with _visible_errors():
            return super().make_context(*positional, **named)

    def invoke(self, ctx: click.Context) -> Any:
        """Runs the command; errors are raised with escaped texts."""
        with _visible_errors():
            return super().invoke(ctx)


class VisibleGroup(VisibleErrors, click.Group):
    """A group that a program starts with."""


@contextmanager
def _visible_errors() -> Iterator[None]:
    try:
        yield
    except click.ClickException as error:
        # Final for type checkers in newer versions of click, and an attribute like any other.
        vars(error)["message"] = visible(error.message)
        raise
