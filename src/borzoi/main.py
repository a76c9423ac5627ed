"""`borzoi`: one command line for the broker and for its client.

The two know nothing of each other, and meet here by name only. A command's module is imported when
the command is used. So `borzoi serve` loads nothing of the client and `borzoi ping` nothing of the
broker. Only `borzoi --help` loads all of them.
"""

from collections.abc import Mapping
from importlib import import_module
from typing import Final

import click

import borzoi
from borzoi.terminal import VisibleGroup

BROKER: Final = "borzoi.shards.admin.commands:main"  # a group; all of its commands are ours
OFFLINE: Final[Mapping[str, str]] = {"archive": "borzoi.shards.admin.archive_commands:archive"}
CLIENT: Final[Mapping[str, str]] = {
    "ping": "borzoi.client.cli.system:ping",
    "me": "borzoi.client.cli.system:me",
    "stats": "borzoi.client.cli.system:stats",
    "snapshot": "borzoi.client.cli.system:snapshot",
    "client": "borzoi.client.cli.system:clients",
    "cluster": "borzoi.client.cli.system:cluster",
    "stream": "borzoi.client.cli.streams:stream",
    "topic": "borzoi.client.cli.streams:topic",
    "partition": "borzoi.client.cli.streams:partition",
    "segment": "borzoi.client.cli.streams:segment",
    "user": "borzoi.client.cli.users:user",
    "pat": "borzoi.client.cli.users:pat",
    "consumer-group": "borzoi.client.cli.consumers:consumer_group",
    "consumer-offset": "borzoi.client.cli.consumers:consumer_offset",
    "message": "borzoi.client.cli.messages:message",
    "tail": "borzoi.client.cli.messages:tail",
}
SPARK: Final[Mapping[str, str]] = {"pipeline": "borzoi.spark.pipeline:pipeline"}
# The short names of iggy's command line.
SHORT: Final[Mapping[str, str]] = {
    "s": "stream",
    "t": "topic",
    "p": "partition",
    "seg": "segment",
    "u": "user",
    "c": "client",
    "cl": "cluster",
    "g": "consumer-group",
    "o": "consumer-offset",
    "m": "message",
}


class Commands(VisibleGroup):
    """Looks commands up by name and imports them then."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Returns the names of the commands in the order of the help text."""
        return [*_broker().list_commands(ctx), *OFFLINE, *CLIENT, *SPARK]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Imports and returns the command of a name or short name; None if there is none."""
        client = CLIENT.get(SHORT.get(cmd_name, cmd_name))
        place = OFFLINE.get(cmd_name) or client or SPARK.get(cmd_name)
        if place is not None:
            return _load(place)
        return _broker().get_command(ctx, cmd_name)


@click.command(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(borzoi.__version__, "-V", "--version", prog_name="borzoi")
def main() -> None:
    """A message-streaming broker that serves Apache Iggy clients, and a client of its own."""


def _broker() -> click.Group:
    group = _load(BROKER)
    assert isinstance(group, click.Group)
    return group


def _load(place: str) -> click.Command:
    module, _, name = place.partition(":")
    command = getattr(import_module(module), name)
    assert isinstance(command, click.Command)
    return command
