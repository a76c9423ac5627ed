"""`borzoi tail`: the newest messages, those from a place on, and those that come."""

import re
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, Final

import click

from borzoi.client.cli.forms import FORM, Form, written
from borzoi.client.cli.parameters import STREAM_AND_TOPIC, Parsed
from borzoi.client.cli.running import HELP, uses_client
from borzoi.client.cli.showing import MessageAt, payload_text, show, time_text
from borzoi.client.client import BorzoiClient
from borzoi.client.committing import COMMIT_DISABLED
from borzoi.client.consumer import MessageConsumer
from borzoi.client.strategies import FIRST, LAST, from_offset, from_timestamp
from borzoi.protocol.errors import StreamIdNotFound, TopicIdNotFound
from borzoi.protocol.identifiers import Identifier, PollingStrategy
from borzoi.protocol.message import Message
from borzoi.quantities import SECOND, parse_duration_us
from borzoi.terminal import say

AGO: Final = re.compile(r"[0-9].*[a-z]")


def start_of(text: str) -> PollingStrategy:
    """`first`, `last`, an offset, `10m` ago, or a time such as 2026-11-18T20:00:00Z."""
    if text in ("first", "last"):
        return FIRST if text == "first" else LAST
    if text.isascii() and text.isdigit():
        return from_offset(int(text))
    try:
        if AGO.fullmatch(text):
            return from_timestamp(max(0, time.time_ns() // 1000 - parse_duration_us(text)))
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        raise ValueError(
            f"{text!r} is no start: first, last, an offset, a duration such as 10m, or a time such"
            " as 2026-11-18T20:00:00Z"
        ) from error
    moment = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
    return from_timestamp(max(0, int(moment.timestamp() * SECOND)))


def matching(text: str) -> Callable[[bytes], object]:
    """Payloads that hold this text; /expression/ is a regular one."""
    if len(text) > 1 and text[0] == text[-1] == "/":
        try:
            return re.compile(text[1:-1].encode()).search
        except re.error as error:
            raise ValueError(f"{text!r} is no regular expression: {error}") from error
    wanted = text.encode()
    return lambda payload: wanted in payload


@click.command(context_settings=HELP)
@click.argument("place", metavar="STREAM/TOPIC", type=STREAM_AND_TOPIC)
@click.option("-f", "--follow", is_flag=True, help="Go on with what comes, until interrupted.")
@click.option(
    "-n",
    "--lines",
    type=click.IntRange(min=0),
    default=10,
    show_default=True,
    help="The newest messages of each partition to begin with.",
)
@click.option(
    "--from",
    "start",
    type=Parsed("start", start_of),
    help="Begin there instead: first, an offset, a duration ago (10m), or a time.",
)
@click.option(
    "--filter",
    "wanted",
    type=Parsed("filter", matching),
    help="Only payloads with this text; /.../ is a regular expression.",
)
@click.option("--format", "form", type=FORM, help=FORM.help)
@click.option("-p", "--partition", "partitions", type=click.IntRange(min=0), multiple=True)
@click.option("-c", "--count", type=click.IntRange(min=1), help="End after so many messages.")
@uses_client
async def tail(
    client: BorzoiClient,
    place: tuple[Identifier, Identifier],
    follow: bool,
    lines: int,
    start: PollingStrategy | None,
    wanted: Callable[[bytes], object] | None,
    form: Form | None,
    partitions: tuple[int, ...],
    count: int | None,
) -> None:
    """Show the newest messages, and with -f those that come. Commits nothing."""
    write = _writer(form, click.get_current_context().params)
    stream, topic = place
    consumer = client.consumer(
        stream,
        topic,
        partitions=partitions or None,
        start=start or LAST,
        last_count=lines,
        commit=COMMIT_DISABLED,
    )
    try:
        await _write_all(consumer, follow, wanted, count, write)
    except TopicIdNotFound:
        if await client.get_stream(stream) is None:
            raise StreamIdNotFound(f"stream {stream} does not exist") from None
        raise


async def _write_all(
    consumer: MessageConsumer,
    follow: bool,
    wanted: Callable[[bytes], object] | None,
    count: int | None,
    write: Callable[[MessageAt], None],
) -> None:
    shown = 0
    async with consumer:
        async for batch in consumer.batches(wait=follow):
            for one in batch.messages:
                if wanted is not None and not wanted(one.payload):
                    continue
                write(MessageAt(batch.partition_id, one))
                shown += 1
                if shown == count:
                    return


def _writer(form: Form | None, options: dict[str, Any]) -> Callable[[MessageAt], None]:
    if form is not None:
        return lambda one: written(form, one)
    if options["as_json"]:
        return lambda one: show(one, as_json=True)
    return lambda one: say(_line(one.partition_id, one.message), raw=options["raw"])


def _line(partition_id: int, one: Message) -> str:
    return f"{partition_id}:{one.offset}  {time_text(one.timestamp)}  {payload_text(one)}"
