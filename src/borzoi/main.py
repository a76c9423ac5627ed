"""`borzoi`: one command line for the broker and for its client.

The two know nothing of each other, and meet here by name only. A command's module is imported when
the command is used. So `borzoi serve` loads nothing of the client and `borzoi ping` nothing of the
broker. `borzoi --help` loads none of them: what they are for stands here.
"""

from collections.abc import Iterable, Mapping
from importlib import import_module
from typing import Any, Final, NamedTuple

import click

import borzoi
from borzoi.terminal import VisibleGroup


class Place(NamedTuple):
    """Where a command is, and what it is for."""

    place: str
    help: str


_BROKER: Final = "borzoi.shards.admin"
_CLI: Final = "borzoi.client.cli"

BROKER: Final[Mapping[str, Place]] = {
    "serve": Place(f"{_BROKER}.commands:serve", "Run the broker."),
    "doctor": Place("borzoi.shards.doctor.command:doctor", "Look whether a broker can run here."),
    "check": Place(f"{_BROKER}.commands:check_command", "Verify a data directory."),
    "compression": Place(f"{_BROKER}.commands:compression_command", "What compression saves."),
    "encryption": Place("borzoi.shards.keys.command:encryption", "Keys, and another key."),
    "config": Place(f"{_BROKER}.commands:config", "Look at the configuration."),
    "archive": Place(f"{_BROKER}.archive_commands:archive", "Look at the archive, or restore."),
    "reset-root": Place(f"{_BROKER}.commands:reset_root_command", "A new password for root."),
}
CLIENT: Final[Mapping[str, Place]] = {
    "stream": Place(f"{_CLI}.streams:stream", "Streams, which hold topics."),
    "topic": Place(f"{_CLI}.streams:topic", "Topics, which hold partitions."),
    "partition": Place(f"{_CLI}.streams:partition", "Partitions of a topic."),
    "segment": Place(f"{_CLI}.streams:segment", "Segments of a partition."),
    "message": Place(f"{_CLI}.messages:message", "Send and read messages."),
    "tail": Place(f"{_CLI}.tailing:tail", "The newest messages, and with -f those that come."),
    "demo": Place(f"{_CLI}.demo:demo", "Generated orders and sensor data."),
    "top": Place(f"{_CLI}.top:top", "What the broker is doing, live."),
    "consumer-group": Place(f"{_CLI}.consumers:consumer_group", "Groups of consumers."),
    "consumer-offset": Place(f"{_CLI}.consumers:consumer_offset", "How far consumers have come."),
    "user": Place(f"{_CLI}.users:user", "Users, their passwords and permissions."),
    "pat": Place(f"{_CLI}.users:pat", "Personal access tokens."),
    "client": Place(f"{_CLI}.system:clients", "The clients that are connected."),
    "cluster": Place(f"{_CLI}.system:cluster", "The nodes there are."),
    "ping": Place(f"{_CLI}.system:ping", "Ask the server whether it is there."),
    "me": Place(f"{_CLI}.system:me", "This session as the server sees it."),
    "stats": Place(f"{_CLI}.system:stats", "The server's numbers."),
    "snapshot": Place(f"{_CLI}.system:snapshot", "An archive for finding a fault."),
    "context": Place(f"{_CLI}.profiles:context", "Named servers, one of them in use."),
    "login": Place(f"{_CLI}.profiles:login", "Log in once, for the commands that follow."),
    "logout": Place(f"{_CLI}.profiles:logout", "Withdraw what `borzoi login` has kept."),
}
MORE: Final[Mapping[str, Place]] = {
    "bench": Place("borzoi.extras:bench", "Load generators and reports."),
    "pipeline": Place("borzoi.spark.pipeline:pipeline", "Topics into files and back, with Spark."),
    "completion": Place("borzoi.completion:completion", "Complete commands in bash, zsh or fish."),
    "test": Place("borzoi.extras:test", "Run the tests of a checkout."),
}
PLACES: Final[Mapping[str, Place]] = {**BROKER, **CLIENT, **MORE}
# Commands of a group above that another folder has.
ADDED: Final[Mapping[str, str]] = {"cluster": "borzoi.cluster.commands:check_store"}
# The short names of iggy's command line.
SHORT: Final = {
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
    "ctx": "context",
    "li": "login",
    "lo": "logout",
}


class Commands(VisibleGroup):
    """Looks commands up by name and imports them then."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Returns the names of the commands in the order of the help text."""
        return list(PLACES)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Imports and returns the command of a name or short name; None if there is none."""
        name = SHORT.get(cmd_name, cmd_name)
        found = PLACES.get(name)
        return None if found is None else _with_added(name, _load(found.place))

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Writes the lines of the help without importing a command."""
        parts: Iterable[tuple[str, Mapping[str, Place]]] = (
            ("Broker", BROKER), ("Client", CLIENT), ("More", MORE)
        )  # fmt: skip
        for title, places in parts:
            with formatter.section(title):
                formatter.write_dl([(name, place.help) for name, place in places.items()])


def _generate(ctx: click.Context, _param: click.Parameter, shell: str | None) -> None:
    """Iggy's way to ask for what `borzoi completion` prints."""
    if shell is not None:
        ctx.invoke(_load(MORE["completion"].place), shell=shell)
        ctx.exit()


@click.command(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(borzoi.__version__, "-V", "--version", prog_name="borzoi")
@click.option("--server", help="host:port or iggy://username:password@host:port.")
@click.option("-u", "--username", help="Who logs in.")
@click.option("-p", "--password", help="Asked for when missing.")
@click.option("-t", "--token", help="A personal access token.")
@click.option("-n", "--token-name", help="A token that `pat create --store-token` has kept.")
@click.option("--timeout", "timeout_s", type=click.FloatRange(min=0, min_open=True))
@click.option("--json", "as_json", is_flag=True, help="Print JSON, also of errors.")
@click.option("--raw", is_flag=True, help="Print names and payloads as they are, unescaped.")
@click.option("-q", "--quiet", is_flag=True, help="Print errors only.")
@click.option(
    "--transport",
    type=click.Choice(["tcp", "http", "quic", "websocket", "ws"]),
    help="Which of the addresses counts.",
)
@click.option("--tcp-server-address", metavar="HOST:PORT")
@click.option("--tcp-tls-enabled", is_flag=True, help="Encrypt the connection.")
@click.option("--http-api-url", metavar="URL")
@click.option("--quic-server-address", metavar="HOST:PORT")
@click.option("--websocket-server-address", metavar="HOST:PORT")
@click.option(
    "--generate",
    type=click.Choice(["bash", "zsh", "fish"]),
    callback=_generate,
    expose_value=False,
    is_eager=True,
    help="Print the completion for a shell.",
)
def main(**_options: Any) -> None:
    """A message-streaming broker that serves Apache Iggy clients, and a client of its own.

    Options here are for the commands of the client.
    """


def _with_added(name: str, command: click.Command) -> click.Command:
    if name in ADDED:
        assert isinstance(command, click.Group)
        command.add_command(_load(ADDED[name]))
    return command


def _load(place: str) -> click.Command:
    module, _, name = place.partition(":")
    command = getattr(import_module(module), name)
    assert isinstance(command, click.Command)
    return command
