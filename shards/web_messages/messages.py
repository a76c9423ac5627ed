"""Sending and polling over HTTP: through the ports, without a session.

A batch is rebuilt in memory of its own and lent to the owner of its partition. A poll is answered
from slices of mapped files, rendered piece by piece as the client takes them: what is in memory of
a large answer is one piece.
"""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Final, NamedTuple

from aiohttp import web

from borzoi.protocol.codes import Code
from borzoi.protocol.errors import InvalidMessagesCount, PartitionNotFound, error_for
from borzoi.protocol.identifiers import ConsumerKind, Partitioning, StrategyKind
from borzoi.protocol.send_messages import SendMessages
from borzoi.router.target import Target
from borzoi.shards.metadata.access import require
from borzoi.shards.ports.reads import Ended
from borzoi.shards.rings.asking import Abandoned
from borzoi.shards.rings.peers import ABANDONED
from borzoi.shards.rings.poll import Poll
from borzoi.shards.serving.new_life import Named, new_life
from borzoi.shards.web_connections.exchange import Exchange, Outcome, Raw, RawBody
from borzoi.shards.web_forms.bodies import MessageBody, PollQuery
from borzoi.shards.web_forms.failures import JSON
from borzoi.shards.web_forms.limits import PIECE_SIZE
from borzoi.shards.web_forms.paths import identifier
from borzoi.shards.web_messages import octets
from borzoi.shards.web_messages.message_json import batch_of, partitioning_of, polled_pieces
from borzoi.storage.outcome import NO_SLICES, Slices

STRATEGIES: Final = {
    **{kind.name.lower(): kind for kind in StrategyKind},
    **{kind.name[0].lower(): kind for kind in StrategyKind},
}

MESSAGES_PER_TURN: Final = 2048
"""Messages in JSON cost Python time: so many are made stored ones before others have their turn."""


class Polled(NamedTuple):
    """What a poll has found."""

    partition_id: int
    current_offset: int
    slices: Slices


async def send(one: Exchange) -> Outcome:
    """Append a batch given as JSON, as lines of JSON or as bytes."""
    body, now_us = one.body, one.services.clock.now_us()
    if not isinstance(body, RawBody):
        batch = await _batch(body.messages, now_us)
        await append(one, partitioning_of(body.partitioning), batch, len(body.messages))
        return
    partitioning = octets.partitioning_of(one.query)
    if body.content_type == octets.LINES:
        lines = octets.messages_of(body.data)
        await append(one, partitioning, await _batch(lines, now_us), len(lines))
    else:
        stored, count = octets.batch_of(body.data, one.query.count)
        await append(one, partitioning, stored, count)


async def _batch(messages: Sequence[MessageBody], now_us: int) -> bytearray:
    """The messages of a body as they are stored; others have their turn between some of them."""
    if not messages:
        raise InvalidMessagesCount("a batch without messages")
    batch = bytearray()
    for first in range(0, len(messages), MESSAGES_PER_TURN):
        if first:
            await asyncio.sleep(0)
        batch += batch_of(messages[first : first + MESSAGES_PER_TURN], now_us, first)
    return batch


async def append(one: Exchange, partitioning: Partitioning, batch: bytearray, count: int) -> None:
    """Append a batch whose messages are checked to the partition that is meant."""
    services, user = one.services, one.caller.user
    view = memoryview(batch)
    wanted = SendMessages(one.stream, one.topic, partitioning, count, view, None)
    target = services.send_targets.target(user, wanted)
    try:
        await services.appends.offset_of(user, target, view, count)
    except PartitionNotFound:
        # Purged meanwhile: once more, to the life that has begun there.
        moved = _moved(one, target, Code.SEND_MESSAGES)
        if moved is None:
            raise
        await services.appends.offset_of(user, moved, view, count)


async def polled(one: Exchange, query: PollQuery) -> Polled:
    """What a poll finds; with auto-commit it is committed."""
    target = poll_target(one, query.partition_id)
    try:
        return await read(one, target, poll_of(one, query))
    except PartitionNotFound:
        moved = _moved(one, target, Code.POLL_MESSAGES)
        if moved is None:
            raise
        return await read(one, moved, poll_of(one, query))


def poll_target(one: Exchange, partition_id: int) -> Target:
    """The partition of a poll: stream, topic, permission, partition, in this order."""
    metadata = one.services.metadata
    state = metadata.refresh()
    stream = state.stream(one.stream)
    topic = stream.topic(one.topic)
    require(state, one.caller.user, Code.POLL_MESSAGES, stream.id, topic.id)
    return metadata.target(stream.id, topic, partition_id)


def poll_of(one: Exchange, query: PollQuery) -> Poll:
    """A query as the ports take it. Over HTTP the consumer is never a group."""
    return Poll(
        STRATEGIES[query.kind],
        query.value,
        query.count,
        ConsumerKind.CONSUMER,
        one.services.consumer_names.number_of(identifier(query.consumer_id)),
        query.auto_commit,
        one.caller.user,
    )


async def read(one: Exchange, target: Target, poll: Poll) -> Polled:
    """What is found for a poll. Errors are raised."""
    return await found_by(target.partition_id, partial(one.services.reads.poll, target, poll))


async def found_by(partition_id: int, start: Callable[[Ended[Slices]], None]) -> Polled:
    """What a poll that is started so finds in a partition. Errors are raised."""
    future: asyncio.Future[tuple[int, int, Slices | None]]
    future = asyncio.get_running_loop().create_future()

    def ended(status: int, current: int, slices: Slices | None) -> None:
        if not future.done():
            future.set_result((status, current, slices))

    start(ended)
    status, current, slices = await future
    if status == ABANDONED:
        raise Abandoned
    if status:
        raise error_for(status)
    return Polled(partition_id, current, NO_SLICES if slices is None else slices)


async def answer(one: Exchange, found: Polled) -> Outcome:
    """Messages as the client accepts them: JSON at once if they are few, else in pieces."""
    accepted = one.request.headers.get("Accept", "")
    slices = found.slices
    if octets.OCTETS in accepted or octets.LINES in accepted:
        return await _answer_otherwise(one, found, octets.OCTETS in accepted)
    pieces = polled_pieces(
        found.partition_id, found.current_offset, slices.message_count, slices.views
    )
    if slices.size <= PIECE_SIZE:
        return Raw(b"".join(pieces), JSON)
    return await write_pieces(one, pieces, JSON, {})


async def _answer_otherwise(one: Exchange, found: Polled, as_octets: bool) -> Outcome:
    slices = found.slices
    headers = {
        "Partition-Id": str(found.partition_id),
        "Current-Offset": str(found.current_offset),
        "Messages-Count": str(slices.message_count),
    }
    if not as_octets:
        return await write_pieces(one, octets.lines_of(slices.views), octets.LINES, headers)
    headers["Content-Length"] = str(slices.size)
    return await write_pieces(one, octets.pieces_of(slices.views), octets.OCTETS, headers)


async def write_pieces(
    one: Exchange, pieces: Iterator[bytes | memoryview], content_type: str, headers: dict[str, str]
) -> web.StreamResponse:
    """A large answer, each piece when the one before has left."""
    response = web.StreamResponse(headers={**one.headers, **headers, "Content-Type": content_type})
    await response.prepare(one.request)
    if one.request.method != "HEAD":
        for piece in pieces:
            await response.write(piece)
    await response.write_eof()
    return response


def _moved(one: Exchange, target: Target, code: Code) -> Target | None:
    named = Named(code, one.stream, one.topic)
    return new_life(one.services.metadata, one.caller.user, target, named)
