"""The eight kinds as commands, with the options of iggy-bench.

options_of() is where the two places an option can stand in, before the kind and behind it, become
one Options value; nothing is measured here.
"""

import shlex
import socket
import sys
from collections.abc import Callable
from typing import Any, Final, TypeVar

import click

from borzoi.bench.kinds import Kind
from borzoi.bench.options import TRANSPORT, Options, OptionsConflict, Output, resolve
from borzoi.bench.plans import CLASSIC, CONSENSUS, TRANSPORTS, Credentials
from borzoi.bench.quantities import NS_PER_US
from borzoi.bench.quantity_types import (
    ADDRESS,
    DIRECTORY,
    DURATION,
    POSITIVE,
    RANGE,
    SIZE,
    Quantity,
)

IGGY_WORDS: Final = {"tcp": "tcp", "http": "http", "websocket": "ws", "ws": "ws"}
"""A transport as iggy-bench has it, between the options of a kind."""

ENCRYPTED: Final = {"tcp": "tls", "ws": "wss"}
READ_AMPLIFICATION: Final = 1.05

Command = TypeVar("Command", bound=Callable[..., Any])

# Name, its short form before the kind and behind it, type, default, help.
COMMON: Final[tuple[tuple[str, str, str, Any, Any, str], ...]] = (
    ("--message-size", "-m", "-m", RANGE, "1000", "Bytes per message, or min..max."),
    ("--messages-per-batch", "-P", "-P", RANGE, "1000", "Messages per batch, or min..max."),
    ("--message-batches", "-b", "-b", POSITIVE, None, "Batches per actor (1000)."),
    ("--total-data", "-T", "", SIZE, None, "User data of all actors together, instead of -b."),
    ("--duration", "-d", "-d", DURATION, None, "Run for this long, instead of -b."),
    ("--rate-limit", "-r", "-r", SIZE, None, "Bytes per second of all actors together."),
    ("--warmup-time", "-w", "-w", DURATION, "0s", "Unmeasured run first."),
    ("--sampling-time", "-t", "-t", DURATION, "10ms", "Width of a point of the series."),
    ("--moving-average-window", "-W", "-W", POSITIVE, 20, "Points to smooth over."),
    ("--username", "-u", "-u", str, "iggy", "Who logs in."),
    ("--password", "-p", "", str, "iggy", "With which password."),
)
FLAGS: Final = (
    ("--reuse-streams", "Keep bench streams that exist instead of making new ones."),
    ("--pretty", "Print a table (always done)."),
    ("--high-level-api", "Not offered: the wire is measured, not a client library."),
    ("--no-limits", "Do not measure the bare limits first."),
    ("--no-output", "Print only; write no report."),
)
TYPES: Final = {row[0].removeprefix("--").replace("-", "_"): row[3] for row in COMMON}
DEFAULTS: Final = {row[0].removeprefix("--").replace("-", "_"): row[4] for row in COMMON}


def common_options(*, behind_kind: bool) -> Callable[[Command], Command]:
    """The options every kind has. Unset ones are None, so that either place can speak."""

    def add(command: Command) -> Command:
        for name, short_before, short_behind, kind, default, text in reversed(COMMON):
            short = short_behind if behind_kind else short_before
            names = [name, short] if short else [name]
            shown = f"{text} [{default}]" if default is not None else text
            command = click.option(*names, type=kind, default=None, help=shown)(command)
        for name, text in reversed(FLAGS):
            command = click.option(name, is_flag=True, help=text)(command)
        return command

    return add


def kind_command(kind: Kind, run_kind: Callable[[Options], None]) -> click.Command:
    """The command of one kind, with the options that mean something for it."""

    @click.pass_context
    def run(ctx: click.Context, /, **given: Any) -> None:
        run_kind(options_of(kind, ctx.obj or {}, given))

    command: Callable[..., None] = run
    for option in reversed(_kind_options(kind)):
        command = option(command)
    command = common_options(behind_kind=True)(command)
    command = click.argument("words", nargs=-1, metavar="[tcp] [output]")(command)
    return click.command(
        name=kind.name,
        help=f"{kind.about}\n\nAlias: {kind.alias}.",
        short_help=f"({kind.alias}) {kind.about}",
    )(command)


def options_of(kind: Kind, before: dict[str, Any], behind: dict[str, Any]) -> Options:
    """One set of options: what stands behind the kind wins over what stands before it."""
    transport = _transport(behind.pop("words"), behind["transport"], tls=behind["tls"])
    given: dict[str, Any] = {
        name: behind.get(name) if behind.get(name) is not None else before.get(name)
        for name in DEFAULTS
    }
    for name, default in DEFAULTS.items():
        if given[name] is None and default is not None:
            given[name] = _default(name, default)
    flags = {
        name: bool(behind.get(name) or before.get(name))
        for name in ("reuse_streams", "pretty", "high_level_api", "no_limits", "no_output")
    }
    if flags["high_level_api"]:
        raise click.UsageError("--high-level-api is not offered: the wire itself is measured")
    try:
        return resolve(
            kind,
            message_size=given["message_size"],
            messages_per_batch=given["messages_per_batch"],
            message_batches=given["message_batches"],
            total_data=given["total_data"],
            duration_ns=given["duration"],
            streams=behind["streams"],
            partitions=behind.get("partitions"),
            producers=behind.get("producers"),
            consumers=behind.get("consumers"),
            groups=behind.get("consumer_groups"),
            rate_limit=given["rate_limit"],
            warmup_ns=given["warmup_time"],
            sampling_ns=given["sampling_time"],
            window=given["moving_average_window"],
            credentials=Credentials(given["username"], given["password"]),
            address=behind["server_address"],
            shards=behind["shards"],
            reuse_streams=flags["reuse_streams"],
            with_limits=not flags["no_limits"],
            max_topic_size=behind.get("max_topic_size"),
            message_expiry_us=_microseconds(behind.get("message_expiry")),
            read_amplification=behind.get("read_amplification") or READ_AMPLIFICATION,
            generation=behind["generation"],
            transport=transport,
            ca_file=behind["tls_ca_file"],
            command="borzoi bench " + shlex.join(_arguments()),
            directory=behind["data_dir"],
            output=Output(
                directory=None if flags["no_output"] else behind["output_dir"],
                identifier=behind["identifier"] or socket.gethostname(),
                remark=behind["remark"],
                extra_info=behind["extra_info"],
                gitref=behind["gitref"],
                gitref_date=behind["gitref_date"],
            ),
        )
    except OptionsConflict as error:
        raise click.UsageError(str(error)) from error


def _kind_options(kind: Kind) -> list[Callable[[Command], Command]]:
    count = click.IntRange(min=1)
    actors = "producing consumers" if kind.pairs and not kind.groups else "producers"
    found = [click.option("-s", "--streams", type=count, help="Streams to use.")]
    if kind.partitions_default is not None:
        text = f"Partitions per stream [{kind.partitions_default}]."
        found.append(click.option("-a", "--partitions", type=count, help=text))
        found.append(click.option("-T", "--max-topic-size", type=SIZE, help="[unlimited]"))
        found.append(click.option("-e", "--message-expiry", type=DURATION, help="[never]"))
    if kind.produces:
        found.append(click.option("-p", "--producers", type=count, help=f"Number of {actors} [8]."))
    if kind.consumes and not (kind.pairs and not kind.groups):
        found.append(click.option("-c", "--consumers", type=count, help="Number of consumers [8]."))
    if kind.groups:
        found.append(click.option("-g", "--consumer-groups", type=count, help="Groups [1]."))
    if kind.produces and kind.consumes and not kind.pairs:
        text = "Rate of consumers over that of producers [1.05]."
        found.append(
            click.option("-R", "--read-amplification", type=float, default=1.05, help=text)
        )
    found += [
        click.option("--server-address", type=ADDRESS, help="Without it: a broker of our own."),
        click.option("--nodelay", is_flag=True, help="Always on."),
        click.option("--tls", is_flag=True, help="As --transport tls, or wss over ws."),
        click.option("--tls-ca-file", default="", help="Without it none is verified."),
        click.option(
            "--transport",
            type=click.Choice(TRANSPORTS),
            help="What carries the load [tcp]; over http messages are bytes.",
        ),
        click.option(
            "--generation",
            type=click.Choice([CLASSIC, CONSENSUS]),
            default=CLASSIC,
            show_default=True,
            help="Of clients, in whose bytes the load speaks.",
        ),
        click.option("--shards", type=count, help="Of our own broker [all CPUs but one]."),
        click.option("--data-dir", type=DIRECTORY, help="Where files lie meanwhile."),
        click.option(
            "-o", "--output-dir", type=DIRECTORY, default="performance_results", show_default=True
        ),
        click.option("--identifier", default="", help="Name of this machine in reports."),
        click.option("--remark", default="", help="A word for the report."),
        click.option("--extra-info", default="", help="More words for the report."),
        click.option("--gitref", default="", help="What was measured."),
        click.option("--gitref-date", default="", help="And from when."),
    ]
    return found


def _transport(words: tuple[str, ...], chosen: str | None, *, tls: bool) -> str:
    said = chosen
    for word in words:
        if word == "quic":
            raise click.UsageError("quic is not offered: the generator has no QUIC yet")
        if word in IGGY_WORDS:
            if said not in (None, IGGY_WORDS[word]):
                raise click.UsageError(f"{word} and --transport {said}: one of them is enough")
            said = IGGY_WORDS[word]
        elif word != "output":
            raise click.UsageError(f"{word!r} is neither a transport nor `output`")
    transport = said or TRANSPORT
    if tls and transport in ENCRYPTED:
        return ENCRYPTED[transport]
    if tls and transport not in ENCRYPTED.values():
        raise click.UsageError(f"--tls and --transport {transport} are not measured together")
    return transport


def _default(name: str, default: Any) -> Any:
    kind = TYPES[name]
    return kind.convert(default, None, None) if isinstance(kind, Quantity) else default


def _microseconds(duration_ns: int | None) -> int | None:
    return None if duration_ns is None else duration_ns // NS_PER_US


def _arguments() -> list[str]:
    """What was typed behind `bench`, for the report."""
    arguments = sys.argv[1:]
    return arguments[arguments.index("bench") + 1 :] if "bench" in arguments else arguments
