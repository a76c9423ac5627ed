"""`borzoi message` and `borzoi tail`.

A file written by `message poll --output-file` holds the messages as they travel. It can be sent
again by `message send --input-file` with everything that is theirs.
"""

import asyncio
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import click

from borzoi.client.cli.parameters import HEADER, IDENTIFIER, STREAM_AND_TOPIC
from borzoi.client.cli.running import HELP, VERBS, Noun, uses_client
from borzoi.client.cli.showing import MessageAt, Said, payload_text, show, time_text
from borzoi.client.cli.streams import names_partition, names_topic
from borzoi.client.client import BorzoiClient
from borzoi.client.committing import COMMIT_DISABLED
from borzoi.client.outgoing import Outgoing
from borzoi.client.strategies import FIRST, LAST, NEXT, from_offset
from borzoi.protocol.batch import decode_batch
from borzoi.protocol.headers import HeaderField, encode_user_headers
from borzoi.protocol.identifiers import Identifier
from borzoi.protocol.message import Message, encode_messages
from borzoi.terminal import say
from borzoi.visible import AS_BYTES

SEND_BATCH: Final = 1_000


@click.group(cls=Noun, short=VERBS | {"p": "poll", "f": "flush"})
def message() -> None:
    """Send and read messages."""


@message.command()
@names_topic
@click.argument("messages", nargs=-1)
@click.option("-p", "--partition-id", type=click.IntRange(min=0))
@click.option("-m", "--message-key")
@click.option(
    "-H", "--header", "headers", type=HEADER, multiple=True, help="key:kind:value, repeatable."
)
@click.option(
    "--input-file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Send what `message poll --output-file` has written.",
)
@uses_client
async def send(
    client: BorzoiClient,
    stream: Identifier,
    topic: Identifier,
    messages: tuple[str, ...],
    partition_id: int | None,
    message_key: str | None,
    headers: tuple[tuple[HeaderField, HeaderField], ...],
    input_file: Path | None,
) -> Said:
    """Send MESSAGES, or the lines of standard input when there are none."""
    outgoing = _outgoing(messages, headers, input_file)
    for start in range(0, len(outgoing), SEND_BATCH):
        await client.send_messages(
            stream,
            topic,
            outgoing[start : start + SEND_BATCH],
            partition_id=partition_id,
            key=message_key,
        )
    return Said(f"{len(outgoing)} messages are sent")


@message.command()
@names_partition
@click.option("-m", "--message-count", type=click.IntRange(min=1), default=1, show_default=True)
@click.option("-o", "--offset", type=click.IntRange(min=0), help="Start at this offset.")
@click.option("-f", "--first", is_flag=True, help="Start at the oldest message.")
@click.option("-l", "--last", is_flag=True, help="The newest messages.")
@click.option("-n", "--next", "from_next", is_flag=True, help="Behind the last commit.")
@click.option("-c", "--consumer", type=IDENTIFIER, default="0", help="Who reads.")
@click.option("-a", "--auto-commit", is_flag=True, help="Commit what is read.")
@click.option("-s", "--show-headers", is_flag=True, help="Show the user headers.")
@click.option("--output-file", type=click.Path(dir_okay=False, path_type=Path))
@uses_client
async def poll(
    client: BorzoiClient,
    stream: Identifier,
    topic: Identifier,
    partition: int,
    message_count: int,
    offset: int | None,
    first: bool,
    last: bool,
    from_next: bool,
    consumer: Identifier,
    auto_commit: bool,
    show_headers: bool,
    output_file: Path | None,
) -> object:
    """Read messages of one partition; without a start, behind the last commit."""
    starts = [
        strategy
        for wanted, strategy in (
            (offset is not None, from_offset(offset or 0)),
            (first, FIRST),
            (last, LAST),
            (from_next, NEXT),
        )
        if wanted
    ]
    if len(starts) > 1:
        raise click.UsageError("--offset, --first, --last and --next: at most one can be given")
    polled = await client.poll_messages(
        stream,
        topic,
        partition,
        strategy=starts[0] if starts else NEXT,
        count=message_count,
        consumer=consumer,
        auto_commit=auto_commit,
    )
    if output_file is not None:
        await asyncio.to_thread(output_file.write_bytes, encode_messages(polled.messages))
        return Said(f"{len(polled.messages)} messages are in {output_file}")
    return [MessageAt(polled.partition_id, one, show_headers) for one in polled.messages]


@message.command()
@names_partition
@click.option("-f", "--fsync", is_flag=True, help="Wait until the disk has it.")
@uses_client
async def flush(
    client: BorzoiClient, stream: Identifier, topic: Identifier, partition: int, fsync: bool
) -> Said:
    """Make the server write what it holds in memory."""
    await client.flush_unsaved_buffer(stream, topic, partition, fsync=fsync)
    return Said(f"partition {partition} is written")


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
@click.option("-p", "--partition", "partitions", type=click.IntRange(min=0), multiple=True)
@click.option("-c", "--count", type=click.IntRange(min=1), help="End after so many messages.")
@uses_client
async def tail(
    client: BorzoiClient,
    place: tuple[Identifier, Identifier],
    follow: bool,
    lines: int,
    partitions: tuple[int, ...],
    count: int | None,
) -> None:
    """Show the newest messages, and with -f those that come. Commits nothing."""
    given = click.get_current_context().params
    stream, topic = place
    consumer = client.consumer(
        stream,
        topic,
        partitions=partitions or None,
        start=LAST,
        last_count=lines,
        commit=COMMIT_DISABLED,
    )
    shown = 0
    async with consumer:
        async for batch in consumer.batches(wait=follow):
            for one in batch.messages:
                if given["as_json"]:
                    show(MessageAt(batch.partition_id, one), as_json=True)
                else:
                    say(_line(batch.partition_id, one), raw=given["raw"])
                shown += 1
                if shown == count:
                    return


def _line(partition_id: int, one: Message) -> str:
    return f"{partition_id}:{one.offset}  {time_text(one.timestamp)}  {payload_text(one)}"


def _outgoing(
    messages: tuple[str, ...],
    headers: tuple[tuple[HeaderField, HeaderField], ...],
    input_file: Path | None,
) -> Sequence[Outgoing]:
    if input_file is not None:
        if messages or headers:
            raise click.UsageError("--input-file has messages and headers of its own")
        return decode_batch(memoryview(input_file.read_bytes()))
    block = encode_user_headers(dict(headers))
    return [Message(payload, user_headers=block) for payload in _payloads(messages)]


def _payloads(messages: tuple[str, ...]) -> list[bytes]:
    """The bytes that were given, UTF-8 or not; a line of standard input ends at its line feed."""
    if messages:
        return [one.encode("utf-8", AS_BYTES) for one in messages]
    lines = sys.stdin.buffer.read().split(b"\n")
    return lines if lines[-1] else lines[:-1]
