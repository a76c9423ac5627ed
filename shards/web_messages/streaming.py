"""Reading on over HTTP: a poll that waits for messages, and a stream of server-sent events.

    id: 17
    data: {"header":{...},"payload":"...","user_headers":[]}

A client that comes back says in Last-Event-ID what it has seen, and the stream goes on behind it.
The token and the permission are looked at before every read, so a logout ends a stream as well.
"""

import asyncio
from collections.abc import Iterator
from typing import Final

import msgspec
from aiohttp import web

from borzoi.protocol.errors import BrokerError
from borzoi.quantities import parse_duration_us
from borzoi.shards.ports.arrivals import Arrivals, Place
from borzoi.shards.web_connections.connections import WebConnection
from borzoi.shards.web_connections.exchange import Exchange, Outcome
from borzoi.shards.web_forms.bodies import PollQuery, StreamQuery
from borzoi.shards.web_forms.failures import Failure, failure_of, plain
from borzoi.shards.web_messages.message_json import pieces
from borzoi.shards.web_messages.messages import Polled, poll_target, polled
from borzoi.shards.web_tokens.tokens import InvalidToken, Tokens

EVENTS: Final = "text/event-stream"
WAIT_MAX_S: Final = 60.0
"""The longest wait of one poll."""

SILENCE_MAX_S: Final = 15.0
"""A stream without messages says so this often, for proxies in between."""

LOOK_INTERVAL_S: Final = 1.0
"""So soon a stream notices that its client is gone, or that its token has ended."""

EVENTS_AT_ONCE_MAX: Final = 100
SILENCE: Final = b": nothing yet\n\n"


class Streaming:
    """Long polls and streams of one shard."""

    def __init__(self, arrivals: Arrivals, tokens: Tokens, closing: asyncio.Event) -> None:
        self._arrivals = arrivals
        self._tokens = tokens
        self._closing = closing

    async def poll(self, one: Exchange, query: PollQuery) -> Polled:
        """What a poll finds; one without messages waits for some as long as it asks to."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + wait_s(query.wait)
        while True:
            place = self._place(one, query)
            found = await polled(one, query)
            left = deadline - loop.time()
            if found.slices.message_count or query.count == 0 or left <= 0 or self._is_over(one):
                return found
            await self._arrivals.wait([place], min(left, LOOK_INTERVAL_S))

    async def stream(self, one: Exchange) -> Outcome:
        """Messages as events, until one side ends it."""
        query = _first(one)
        place = self._place(one, query)
        # Errors of the first read are answered, those of a later one end the stream.
        found = await polled(one, query)
        response = web.StreamResponse(
            headers={**one.headers, "Content-Type": EVENTS, "Cache-Control": "no-store"}
        )
        await response.prepare(one.request)
        if one.request.method == "HEAD":
            # Bytes behind this head would be read as the answer to the next request.
            await response.write_eof()
            return response
        try:
            await self._write_on(one, query, place, found, response)
        except (BrokerError, Failure, InvalidToken) as error:
            await response.write(_parting(error))
        await response.write_eof()
        return response

    async def _write_on(
        self,
        one: Exchange,
        query: PollQuery,
        place: Place,
        found: Polled,
        response: web.StreamResponse,
    ) -> None:
        loop = asyncio.get_running_loop()
        spoken_at = loop.time()
        while not self._is_over(one):
            if found.slices.message_count:
                for piece in _events(found):
                    await response.write(piece)
                last = found.slices.first_offset + found.slices.message_count
                query = msgspec.structs.replace(query, kind="offset", value=last)
                spoken_at = loop.time()
            else:
                if loop.time() - spoken_at > SILENCE_MAX_S:
                    await response.write(SILENCE)
                    spoken_at = loop.time()
                await self._arrivals.wait([place], LOOK_INTERVAL_S)
            self._tokens.check_again(one.caller.claims)
            place = self._place(one, query)
            found = await polled(one, query)

    def _place(self, one: Exchange, query: PollQuery) -> Place:
        """The partition, and the offset whose message ends a wait. Before the read it is for."""
        target = poll_target(one, query.partition_id)
        end = self._arrivals.end(target)
        return Place(target, max(end, query.value) if query.kind in ("offset", "o") else end)

    def _is_over(self, one: Exchange) -> bool:
        connection = one.request.protocol
        return self._closing.is_set() or (
            isinstance(connection, WebConnection) and connection.ended
        )


def wait_s(text: str) -> float:
    """A duration of a query. 400 if it is none, or too long."""
    if not text:
        return 0.0
    try:
        waits_s = parse_duration_us(text) / 1_000_000
    except ValueError:
        raise plain(400, f'wait is {text!r}: needs a duration like "30s"') from None
    if waits_s > WAIT_MAX_S:
        raise plain(400, f"wait is {text!r}: needs at most {WAIT_MAX_S:.0f} s")
    return waits_s


def _first(one: Exchange) -> PollQuery:
    query: StreamQuery = one.query
    seen = one.request.headers.get("Last-Event-ID", "")
    kind, value = query.kind, query.value
    if seen:
        if not (seen.isascii() and seen.isdigit() and len(seen) <= len(str(1 << 64))):
            raise plain(400, f"Last-Event-ID is {seen[:64]!r}: needs the offset of an event")
        kind, value = "offset", int(seen) + 1
    return PollQuery(
        consumer_id=query.consumer_id,
        partition_id=query.partition_id,
        kind=kind,
        value=value,
        count=EVENTS_AT_ONCE_MAX,
        auto_commit=query.auto_commit,
    )


def _events(found: Polled) -> Iterator[bytes]:
    first = found.slices.first_offset
    return pieces(found.slices.views, lambda number: f"id: {first + number}\ndata: ", "\n\n")


def _parting(error: Exception) -> bytes:
    if isinstance(error, InvalidToken):
        return b'event: end\ndata: {"reason":"the token is not valid any more"}\n\n'
    body = failure_of(error).body if isinstance(error, BrokerError) else b"{}"
    return b"event: end\ndata: " + body + b"\n\n"
