"""`borzoi message`.

A file written by `message poll --output-file` holds the messages as they travel. It can be sent
again by `message send --input-file` with everything that is theirs.
"""

import asyncio
import sys
from pathlib import Path
from typing import Final

import click

from borzoi.client.cli.forms import FORM, Form, written
from borzoi.client.cli.lines import lines_of
from borzoi.client.cli.parameters import HEADER, IDENTIFIER
from borzoi.client.cli.running import VERBS, Noun, uses_client
from borzoi.client.cli.sending import Sent, TopicSender, lingering
from borzoi.client.cli.showing import MessageAt, Said
from borzoi.client.cli.streams import names_partition, names_topic
from borzoi.client.client import BorzoiClient
from borzoi.client.strategies import FIRST, LAST, NEXT, from_offset
from borzoi.protocol.batch import decode_batch
from borzoi.protocol.headers import HeaderField, encode_user_headers
from borzoi.protocol.identifiers import Identifier
from borzoi.protocol.message import Message, encode_messages
from borzoi.visible import AS_BYTES

EXISTING: Final = click.Path(exists=True, dir_okay=False, path_type=Path)


@click.group(cls=Noun, short=VERBS | {"p": "poll", "f": "flush"})
def message() -> None:
    """Send and read messages."""


@message.command()
@names_topic
@click.argument("messages", nargs=-1)
@click.option("-p", "--partition-id", type=click.IntRange(min=0))
@click.option("-m", "--message-key")
@click.option(
    "-H",
    "--header",
    "--headers",
    "headers",
    type=HEADER,
    multiple=True,
    help="key:kind:value, repeatable.",
)
@click.option(
    "--file",
    "files",
    type=EXISTING,
    multiple=True,
    help="Send the whole file as one message; repeatable.",
)
@click.option(
    "--input-file",
    "input_files",
    type=EXISTING,
    multiple=True,
    help="Send what `message poll --output-file` has written; repeatable.",
)
@click.option(
    "--linger",
    "linger_s",
    type=click.FloatRange(min=0),
    default=0.1,
    show_default=True,
    help="Seconds that a line of standard input waits for others to go with it.",
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
    files: tuple[Path, ...],
    input_files: tuple[Path, ...],
    linger_s: float,
) -> Sent:
    """Send MESSAGES and files, or the lines of standard input when there are none.

    Lines are sent as they come, with the bytes they have; empty ones are left out. Memory is
    bounded, however much comes.
    """
    if input_files and (messages or files or headers):
        raise click.UsageError("--input-file has messages and headers of its own")
    sending = TopicSender(client, stream, topic, partition_id, message_key)
    block = encode_user_headers(dict(headers))
    for path in input_files:
        await sending.send(decode_batch(memoryview(path.read_bytes())))
    for path in files:
        await sending.send([Message(path.read_bytes(), user_headers=block)])
    payloads = [one.encode("utf-8", AS_BYTES) for one in messages]
    await sending.send([Message(payload, user_headers=block) for payload in payloads])
    if not (messages or files or input_files):
        async for lines in lingering(lines_of(sys.stdin.buffer), linger_s):
            await sending.send_lines(lines, block)
    return Sent(sending.sent_count, sending.empty_count)


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
@click.option(
    "--output-file",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write the messages as they travel; `message send --input-file` sends them again.",
)
@click.option("--format", "form", type=FORM, help=FORM.help)
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
    form: Form | None,
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
    found = [MessageAt(polled.partition_id, one, show_headers) for one in polled.messages]
    if form is None:
        return found
    for one in found:
        written(form, one)
    return None


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
