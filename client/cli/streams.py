"""`borzoi stream`, `borzoi topic`, `borzoi partition`, `borzoi segment`."""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import click

from borzoi.client.cli.parameters import COMPRESSIONS, IDENTIFIER, SIZE, expiry_argument
from borzoi.client.cli.running import Noun, lists, uses_client
from borzoi.client.cli.showing import Said
from borzoi.client.client import BorzoiClient
from borzoi.protocol.identifiers import Identifier
from borzoi.protocol.responses import (
    PartitionInfo,
    StreamDetails,
    StreamInfo,
    TopicDetails,
    TopicInfo,
)

Command = TypeVar("Command", bound=Callable[..., Any])


def names_stream(command: Command) -> Command:
    """Adds the argument STREAM to a command."""
    return click.argument("stream", type=IDENTIFIER)(command)


def names_topic(command: Command) -> Command:
    """Adds the arguments STREAM and TOPIC to a command."""
    return names_stream(click.argument("topic", type=IDENTIFIER)(command))


def names_partition(command: Command) -> Command:
    """Adds the arguments STREAM, TOPIC and PARTITION to a command."""
    return names_topic(click.argument("partition", type=click.IntRange(min=0))(command))


def counted(count: int, noun: str) -> str:
    """`1 segment`, `2 segments`."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def found(what: str, name: Identifier, value: Any) -> Any:
    """What was looked up; what does not exist is an error here."""
    if value is None:
        raise click.ClickException(f"{what} {name} does not exist")
    return value


@click.group(cls=Noun)
def stream() -> None:
    """Streams, which hold topics."""


@stream.command("create")
@click.argument("name")
@uses_client
async def create_stream(client: BorzoiClient, name: str) -> StreamInfo:
    """Create a stream; the server chooses its id."""
    return await client.create_stream(name)


@stream.command("delete")
@names_stream
@uses_client
async def delete_stream(client: BorzoiClient, stream: Identifier) -> Said:
    """Delete a stream with everything in it."""
    await client.delete_stream(stream)
    return Said(f"stream {stream} is deleted")


@stream.command("get")
@names_stream
@uses_client
async def get_stream(client: BorzoiClient, stream: Identifier) -> StreamDetails:
    """Show a stream and its topics."""
    details: StreamDetails = found("stream", stream, await client.get_stream(stream))
    return details


@stream.command("list")
@lists
@uses_client
async def list_streams(client: BorzoiClient) -> Sequence[StreamInfo]:
    """Show all streams."""
    return await client.get_streams()


@stream.command("update")
@names_stream
@click.argument("name")
@uses_client
async def update_stream(client: BorzoiClient, stream: Identifier, name: str) -> Said:
    """Rename a stream."""
    await client.update_stream(stream, name)
    return Said(f"stream {stream} is named {name}")


@stream.command("purge")
@names_stream
@uses_client
async def purge_stream(client: BorzoiClient, stream: Identifier) -> Said:
    """Delete all messages of a stream, keep its topics."""
    await client.purge_stream(stream)
    return Said(f"stream {stream} is empty")


@click.group(cls=Noun)
def topic() -> None:
    """Topics, which hold partitions."""


def topic_settings(command: Command) -> Command:
    """Adds the settings of a topic to a command."""
    for option in (
        click.option("-r", "--replication-factor", type=click.IntRange(0, 255), default=0),
        click.option("-m", "--max-topic-size", type=SIZE, default="default", show_default=True),
    ):
        command = option(command)
    for argument in (
        expiry_argument("default"),
        click.argument("compression", type=click.Choice(list(COMPRESSIONS)), default="none"),
    ):
        command = argument(command)
    return command


@topic.command("create")
@names_stream
@click.argument("name")
@click.argument("partitions", type=click.IntRange(min=0))
@topic_settings
@uses_client
async def create_topic(
    client: BorzoiClient,
    stream: Identifier,
    name: str,
    partitions: int,
    compression: str,
    expiry: int,
    max_topic_size: int,
    replication_factor: int,
) -> TopicDetails:
    """Create a topic. EXPIRY is like `1h 30m`, `never` or `default`."""
    return await client.create_topic(
        stream,
        name,
        partitions,
        compression_algorithm=COMPRESSIONS[compression],
        message_expiry=expiry,
        max_topic_size=max_topic_size,
        replication_factor=replication_factor,
    )


@topic.command("update")
@names_topic
@click.argument("name")
@topic_settings
@uses_client
async def update_topic(
    client: BorzoiClient,
    stream: Identifier,
    topic: Identifier,
    name: str,
    compression: str,
    expiry: int,
    max_topic_size: int,
    replication_factor: int,
) -> Said:
    """Change name and settings of a topic; those that are not given become the default."""
    await client.update_topic(
        stream,
        topic,
        name,
        compression_algorithm=COMPRESSIONS[compression],
        message_expiry=expiry,
        max_topic_size=max_topic_size,
        replication_factor=replication_factor,
    )
    return Said(f"topic {topic} of stream {stream} is changed")


@topic.command("delete")
@names_topic
@uses_client
async def delete_topic(client: BorzoiClient, stream: Identifier, topic: Identifier) -> Said:
    """Delete a topic with everything in it."""
    await client.delete_topic(stream, topic)
    return Said(f"topic {topic} of stream {stream} is deleted")


@topic.command("get")
@names_topic
@uses_client
async def get_topic(client: BorzoiClient, stream: Identifier, topic: Identifier) -> TopicDetails:
    """Show a topic and its partitions."""
    details = await client.get_topic(stream, topic)
    if details is None:
        found("stream", stream, await client.get_stream(stream))
    shown: TopicDetails = found("topic", f"{topic} of stream {stream}", details)
    return shown


@topic.command("list")
@names_stream
@lists
@uses_client
async def list_topics(client: BorzoiClient, stream: Identifier) -> Sequence[TopicInfo]:
    """Show the topics of a stream."""
    topics = await client.get_topics(stream)
    if not topics:
        # Iggy answers an empty list for a stream that does not exist.
        found("stream", stream, await client.get_stream(stream))
    return topics


@topic.command("purge")
@names_topic
@uses_client
async def purge_topic(client: BorzoiClient, stream: Identifier, topic: Identifier) -> Said:
    """Delete all messages of a topic."""
    await client.purge_topic(stream, topic)
    return Said(f"topic {topic} of stream {stream} is empty")


@click.group(cls=Noun)
def partition() -> None:
    """Partitions of a topic."""


@partition.command("create")
@names_topic
@click.argument("count", type=click.IntRange(min=1))
@uses_client
async def create_partitions(
    client: BorzoiClient, stream: Identifier, topic: Identifier, count: int
) -> Said:
    """Add COUNT partitions."""
    await client.create_partitions(stream, topic, count)
    return Said(f"topic {topic} of stream {stream} has {counted(count, 'more partition')}")


@partition.command("delete")
@names_topic
@click.argument("count", type=click.IntRange(min=1))
@uses_client
async def delete_partitions(
    client: BorzoiClient, stream: Identifier, topic: Identifier, count: int
) -> Said:
    """Delete the last COUNT partitions with everything in them."""
    await client.delete_partitions(stream, topic, count)
    return Said(f"topic {topic} of stream {stream} has lost {counted(count, 'partition')}")


@click.group(cls=Noun)
def segment() -> None:
    """Segments of a partition."""


@segment.command("delete")
@names_partition
@click.argument("count", type=click.IntRange(min=1))
@uses_client
async def delete_segments(
    client: BorzoiClient, stream: Identifier, topic: Identifier, partition: int, count: int
) -> Said:
    """Delete the COUNT oldest closed segments, except what committed offsets protect."""
    before = await _partition_info(client, stream, topic, partition)
    await client.delete_segments(stream, topic, partition, count)
    after = await _partition_info(client, stream, topic, partition)
    segments = max(0, before.segments_count - after.segments_count)
    messages = max(0, before.messages_count - after.messages_count)
    about = {"segments": segments, "messages": messages}
    place = f"partition {partition} of {stream}/{topic}"
    if not segments:
        return Said(
            f"nothing is deleted: {place} has {counted(after.segments_count, 'segment')}; the"
            " active one and those with messages that consumers have not read stay",
            about,
        )
    deleted = f"{counted(segments, 'segment')} with {counted(messages, 'message')}"
    return Said(f"{place} has lost {deleted}", about)


async def _partition_info(
    client: BorzoiClient, stream: Identifier, topic: Identifier, partition: int
) -> PartitionInfo:
    found("stream", stream, await client.get_stream(stream))
    details: TopicDetails = found("topic", topic, await client.get_topic(stream, topic))
    for one in details.partitions:
        if one.id == partition:
            return one
    count = counted(len(details.partitions), "partition")
    raise click.ClickException(
        f"partition {partition} does not exist: topic {topic} of stream {stream} has {count}"
    )
