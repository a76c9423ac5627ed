"""`borzoi consumer-group` and `borzoi consumer-offset`."""

from collections.abc import Callable, Sequence
from typing import Any, Final, TypeVar

import click

from borzoi.client.cli.parameters import IDENTIFIER
from borzoi.client.cli.running import VERBS, Noun, lists, uses_client
from borzoi.client.cli.showing import Said
from borzoi.client.cli.streams import found, names_partition, names_topic
from borzoi.client.client import BorzoiClient
from borzoi.protocol.identifiers import Consumer, ConsumerKind, Identifier
from borzoi.protocol.responses import (
    ConsumerGroupDetails,
    ConsumerGroupInfo,
    ConsumerOffsetInfo,
)

KINDS: Final = {"consumer": ConsumerKind.CONSUMER, "consumer-group": ConsumerKind.GROUP}
Command = TypeVar("Command", bound=Callable[..., Any])


def names_consumer(command: Command) -> Command:
    """Adds the argument CONSUMER and the option --kind to a command."""
    command = click.option(
        "-k", "--kind", type=click.Choice(list(KINDS)), default="consumer", show_default=True
    )(command)
    return click.argument("consumer", type=IDENTIFIER)(command)


async def topic_exists(client: BorzoiClient, stream: Identifier, topic: Identifier) -> None:
    """Iggy answers nothing, not an error, for groups of a topic that does not exist."""
    found("stream", stream, await client.get_stream(stream))
    found("topic", f"{topic} of stream {stream}", await client.get_topic(stream, topic))


@click.group("consumer-group", cls=Noun)
def consumer_group() -> None:
    """Groups, whose members share the partitions of a topic."""


@consumer_group.command("create")
@names_topic
@click.argument("name")
@uses_client
async def create_group(
    client: BorzoiClient, stream: Identifier, topic: Identifier, name: str
) -> ConsumerGroupInfo:
    """Create a group."""
    return await client.create_consumer_group(stream, topic, name)


@consumer_group.command("delete")
@names_topic
@click.argument("group", type=IDENTIFIER)
@uses_client
async def delete_group(
    client: BorzoiClient, stream: Identifier, topic: Identifier, group: Identifier
) -> Said:
    """Delete a group with its offsets."""
    await client.delete_consumer_group(stream, topic, group)
    return Said(f"group {group} is deleted")


@consumer_group.command("get")
@names_topic
@click.argument("group", type=IDENTIFIER)
@uses_client
async def get_group(
    client: BorzoiClient, stream: Identifier, topic: Identifier, group: Identifier
) -> ConsumerGroupDetails:
    """Show a group, its members and what partitions they have."""
    details = await client.get_consumer_group(stream, topic, group)
    if details is None:
        await topic_exists(client, stream, topic)
    shown: ConsumerGroupDetails = found("group", f"{group} of {stream}/{topic}", details)
    return shown


@consumer_group.command("list")
@names_topic
@lists
@uses_client
async def list_groups(
    client: BorzoiClient, stream: Identifier, topic: Identifier
) -> Sequence[ConsumerGroupInfo]:
    """Show the groups of a topic."""
    groups = await client.get_consumer_groups(stream, topic)
    if not groups:
        await topic_exists(client, stream, topic)
    return groups


@click.group("consumer-offset", cls=Noun, short=VERBS | {"s": "set"})
def consumer_offset() -> None:
    """How far consumers and groups have come."""


@consumer_offset.command("get")
@names_consumer
@names_partition
@uses_client
async def get_offset(
    client: BorzoiClient,
    consumer: Identifier,
    kind: str,
    stream: Identifier,
    topic: Identifier,
    partition: int,
) -> ConsumerOffsetInfo:
    """Show what a consumer has committed in a partition."""
    who = Consumer(KINDS[kind], consumer)
    info = await client.get_consumer_offset(stream, topic, partition, consumer=who)
    if info is None:
        await topic_exists(client, stream, topic)
        raise click.ClickException(f"{kind} {consumer} has no offset in partition {partition}")
    return info


@consumer_offset.command("set")
@names_consumer
@names_partition
@click.argument("offset", type=click.IntRange(min=0))
@uses_client
async def set_offset(
    client: BorzoiClient,
    consumer: Identifier,
    kind: str,
    stream: Identifier,
    topic: Identifier,
    partition: int,
    offset: int,
) -> Said:
    """Commit OFFSET for a consumer: it goes on behind that."""
    who = Consumer(KINDS[kind], consumer)
    await client.store_consumer_offset(stream, topic, partition, offset, consumer=who)
    return Said(f"{kind} {consumer} stands at {offset} in partition {partition}")


@consumer_offset.command("delete")
@names_consumer
@names_partition
@uses_client
async def delete_offset(
    client: BorzoiClient,
    consumer: Identifier,
    kind: str,
    stream: Identifier,
    topic: Identifier,
    partition: int,
) -> Said:
    """Delete the offset that a consumer has committed."""
    who = Consumer(KINDS[kind], consumer)
    await client.delete_consumer_offset(stream, topic, partition, consumer=who)
    return Said(f"the offset of {kind} {consumer} in partition {partition} is deleted")
