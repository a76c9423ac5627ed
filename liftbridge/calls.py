"""One gRPC call as the methods of the API see it: bytes in, bytes out, bounded.

The one file that knows the insides of grpclib. That library receives a message of any size, and has
Python work for each message of a stream; here a message has a bound, and whatever has arrived of a
stream is taken at once. Messages lie back to back in the bytes of a call:

    compressed u8 (0) | size u32, big-endian | message
"""

import asyncio
import struct
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any, Final

from grpclib.const import Status
from grpclib.exceptions import GRPCError
from grpclib.server import Stream

from borzoi.liftbridge.allowance import Allowance, CallMemory
from borzoi.liftbridge.refusals import exhausted, invalid

PREFIX: Final = struct.Struct(">BI")

MESSAGE_SIZE_MAX: Final = 4 * 1024 * 1024
"""A message of a client, as in the reference server."""

TAKEN_SIZE_MAX: Final = 1024 * 1024
"""So many bytes of a stream are taken at once, if a message is not larger."""

TAKEN_MAX: Final = 8192
"""So many messages of a stream are taken at once: each may have an answer."""

REQUEST_TIME_MAX_S: Final = 30.0
"""From the first byte of a message to its last one."""

UNBOUNDED: Final = CallMemory(1 << 62)
"""For calls of connections without an allowance: those of a client."""


def framed(message: bytes) -> bytes:
    """A message as it travels."""
    return PREFIX.pack(0, len(message)) + message


def give_allowance(connection: Any, allowance: Allowance) -> None:
    """Bound what the calls of a connection of the library hold."""
    connection.allowance = allowance


class Call:
    """One call, from its first byte to its last.

    What it has taken counts as held until `let_go`; the rest of it when the call ends (`close`).
    """

    def __init__(self, stream: Stream[Any, Any]) -> None:
        self._stream = stream
        self._wire = stream._stream
        self._rest = b""
        self._held = 0
        known = getattr(self._wire.connection, "allowance", None)
        self._allowance: Allowance = known or Allowance(UNBOUNDED, "")

    @property
    def authorization(self) -> str | None:
        """What the client says to be let in."""
        metadata = self._stream.metadata
        found = None if metadata is None else metadata.get("authorization")
        return found if isinstance(found, str) else None

    @property
    def has_deadline(self) -> bool:
        """Whether the client waits for a certain time only."""
        return self._stream.deadline is not None

    @property
    def transport(self) -> Any:
        """The connection; it lives longer than the call."""
        return self._wire.connection

    @property
    def address(self) -> str:
        """Where the client is."""
        peer = self._stream.peer.addr()
        return "" if peer is None else f"{peer[0]}:{peer[1]}"

    @property
    def certificate(self) -> dict[str, Any] | None:
        """The certificate that the client has shown."""
        return self._stream.peer.cert()

    @property
    def is_crowded(self) -> bool:
        """Whether the user of this call holds all it may: nothing more is to be taken."""
        return self._allowance.is_used_up

    def hold(self, size: int) -> None:
        """So much more is in memory for this call."""
        self._allowance.hold_anyway(size)
        self._held += size

    def let_go(self, size: int) -> None:
        """So much of what was taken is not in memory any more."""
        size = min(size, self._held)
        self._held -= size
        self._allowance.give_back(size)

    def close(self) -> None:
        """The call has ended."""
        self.let_go(self._held)

    async def request(self, kind: Any) -> Any:
        """The one message of a call. INVALID_ARGUMENT or RESOURCE_EXHAUSTED if it is none."""
        async with _in_time():
            taken = await self.take()
        if taken is None:
            raise invalid("the call has no request")
        start, end = taken[1][0]
        return parsed(kind, taken[0][start:end])

    async def take(self) -> tuple[bytes, list[tuple[int, int]]] | None:
        """Everything that has arrived, with the bounds of its messages: at least one.

        None when the client has ended the call.
        """
        data = self._rest
        bounds, rest = cut(data)
        if not bounds:
            more = await self._arrived()
            if not more:
                if data:
                    raise _ends_inside(data)
                return None
            data = data + more if data else more
            bounds, rest = cut(data)
            if not bounds:
                data, bounds, rest = await self._finished(data)
        self._rest = data[rest:]
        return data, bounds

    async def _finished(self, data: bytes) -> tuple[bytes, list[tuple[int, int]], int]:
        """The same bytes with the rest of their first message."""
        parts, size = [data], len(data)
        wanted = _size_of(data)
        async with _in_time():
            while size < wanted:
                more = await self._arrived()
                if not more:
                    raise _ends_inside(b"".join(parts))
                parts.append(more)
                size += len(more)
                if wanted == PREFIX.size:
                    parts = [b"".join(parts)]
                    wanted = _size_of(parts[0])
        data = b"".join(parts)
        return data, *cut(data)

    async def until_deadline(self) -> None:
        """Wait until the client waits no longer; ends with DEADLINE_EXCEEDED."""
        await asyncio.Event().wait()

    async def begin_answer(self) -> None:
        """Send the head of the answer, before its first message."""
        await self._stream.send_initial_metadata()

    async def send(self, data: bytes) -> None:
        """Send messages that are framed. Waits while the client takes none."""
        at = 0
        while at < len(data):
            room = await self.until_sendable()
            self.send_now(data[at : at + room])
            at += room

    @property
    def sendable(self) -> int:
        """How many bytes the client takes now."""
        wire = self._wire
        if wire.id is None or not wire.connection.write_ready.is_set():
            return 0
        return max(0, int(wire._h2_connection.local_flow_control_window(wire.id)))

    async def until_sendable(self) -> int:
        """Wait until the client takes something; how many bytes."""
        wire = self._wire
        while not (room := self.sendable):
            if not wire.connection.write_ready.is_set():
                await wire.connection.write_ready.wait()
            else:
                wire.window_updated.clear()
                await wire.window_updated.wait()
        return room

    def send_now(self, data: bytes) -> None:
        """Send so much as is `sendable`, all in one write."""
        wire = self._wire
        assert wire.id is not None, "a call that has begun has a number"
        http = wire._h2_connection
        frame_size = http.max_outbound_frame_size
        for at in range(0, len(data), frame_size):
            http.send_data(wire.id, data[at : at + frame_size])
        wire._transport.write(http.data_to_send())
        wire.connection.data_send_process()

    async def answer(self, message: Any) -> None:
        """The one answer of a call."""
        await self._stream.send_message(message)

    async def _arrived(self) -> bytes:
        """What has arrived and was not taken yet; b"" at the end."""
        buffer = self._wire.buffer
        queue = buffer._unacked
        parts: list[bytes] = []
        size = acknowledged = 0
        while size < TAKEN_SIZE_MAX:
            if not parts:
                if buffer._eof and queue.empty():
                    break
                data, _, ack_size = await queue.get()
            else:
                try:
                    data, _, ack_size = queue.get_nowait()
                except asyncio.QueueEmpty:
                    break
            acknowledged += ack_size
            if data:
                parts.append(data)
                size += len(data)
        if size:
            # The client may send as much again only behind this.
            await self._hold(size)
        # Once for all of them: each would be a frame of its own.
        if acknowledged:
            buffer._ack_callback(acknowledged)
        return parts[0] if len(parts) == 1 else b"".join(parts)

    async def _hold(self, size: int) -> None:
        try:
            await self._allowance.hold(size)
        except TimeoutError:
            raise exhausted("the calls of this user hold all the memory that they may") from None
        self._held += size


@asynccontextmanager
async def _in_time() -> AsyncIterator[None]:
    """DEADLINE_EXCEEDED if a request does not come within REQUEST_TIME_MAX_S."""
    try:
        async with asyncio.timeout(REQUEST_TIME_MAX_S) as timeout:
            yield
    except TimeoutError:
        if not timeout.expired():
            raise
        text = f"the request did not come within {REQUEST_TIME_MAX_S:.0f} s"
        raise GRPCError(Status.DEADLINE_EXCEEDED, text) from None


def _ends_inside(data: bytes) -> GRPCError:
    return invalid(f"the call ends inside a message, after {len(data)} bytes of it")


def _size_of(data: bytes) -> int:
    """The bytes of the first message, as far as they are known."""
    if len(data) < PREFIX.size:
        return PREFIX.size
    return PREFIX.size + int(PREFIX.unpack_from(data)[1])


def cut(data: bytes) -> tuple[list[tuple[int, int]], int]:
    """The bounds of the whole messages in these bytes, and where the next one begins."""
    bounds: list[tuple[int, int]] = []
    at, end = 0, len(data)
    while end - at >= PREFIX.size and len(bounds) < TAKEN_MAX:
        compressed, size = PREFIX.unpack_from(data, at)
        if compressed:
            raise GRPCError(Status.UNIMPLEMENTED, "compressed messages are not understood")
        if size > MESSAGE_SIZE_MAX:
            raise GRPCError(
                Status.RESOURCE_EXHAUSTED,
                f"grpc: received message larger than max ({size} vs. {MESSAGE_SIZE_MAX})",
            )
        start = at + PREFIX.size
        if end - start < size:
            break
        at = start + size
        bounds.append((start, at))
    return bounds, at


def parsed(kind: Any, data: bytes) -> Any:
    """The message of a kind in these bytes; INVALID_ARGUMENT if there is none."""
    try:
        return kind.FromString(data)
    except Exception as error:  # protobuf's own, of which each implementation has another
        raise invalid(f"{kind.DESCRIPTOR.name} cannot be read: {error}") from None


def messages_in(data: bytes) -> Iterator[bytes]:
    """The messages of framed bytes, all whole."""
    for start, end in cut(data)[0]:
        yield data[start:end]
