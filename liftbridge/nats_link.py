"""The connection of a shard to NATS: subscriptions that outlive it, and publishing.

Owns one client of nats-py after the other, and the subscriptions of this shard's partitions. When a
connection ends, for whatever reason, the next client subscribes again. (nats-py reconnects, too,
but not after errors of the server, and a close meanwhile can leave it trying for ever.) A message
that comes while there is no connection is lost: NATS keeps nothing.

Always: `take` of a subscription is called in the order in which the server sent the messages, and
does not wait. No message of a stranger ends the reading of the others.
"""

import asyncio
import logging
import secrets
import ssl
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final, NamedTuple, TypeAlias

from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.aio.subscription import Subscription
from nats.errors import Error as NatsError
from nats.errors import MaxPayloadError
from nats.protocol.parser import Parser

LOG: Final = logging.getLogger(__name__)

CONNECT_TIMEOUT_S: Final = 2
PING_INTERVAL_S: Final = 20
OUTBOUND_SIZE_MAX: Final = 2 * 1024 * 1024
"""Bytes that wait to be written; beyond them a publish waits for the socket."""

CANCEL_INTERVAL_S: Final = 0.1

BITE_SIZE: Final = 8192
"""Bytes of the server that are looked at before the clock is."""

TURN_S: Final = 0.001
"""Then all else has its turn: what one read brings may be thousands of small messages."""

Take: TypeAlias = Callable[[Msg], None]


class Access(NamedTuple):
    """Where NATS is, and what it wants to know."""

    servers: tuple[str, ...]
    user: str = ""
    password: str = ""
    token: str = ""
    tls: ssl.SSLContext | None = None
    reconnect_interval_s: float = 0.5


@dataclass(slots=True)
class LinkCounts:
    """Since the start of this worker."""

    is_connected: bool = False
    disconnects: int = 0
    unreadable: int = 0
    """Messages whose subject or headers could not be read."""

    unsent: int = 0
    """Acks that could not be sent, because the connection was away."""


@dataclass(eq=False, slots=True)
class Interest:
    """A subscription, whichever connection carries it."""

    subject: str
    queue: str
    take: Take
    carried: Subscription | None = field(default=None, repr=False)


class NatsLink:
    """One connection after the other, to whichever of the servers answers."""

    def __init__(self, access: Access, name: str, counts: LinkCounts) -> None:
        self.counts = counts
        self._access = access
        self._name = name
        self._interests: dict[Interest, None] = {}
        self._client: Client | None = None
        self._is_carrying = asyncio.Event()
        """Set while a connection has been asked for all subscriptions."""

        self._running: asyncio.Task[None] | None = None
        self._last_said = ""

    def start(self) -> None:
        """Connect, now and whenever the connection is lost; nothing waits for it."""
        self._running = asyncio.get_running_loop().create_task(self._run())

    async def stop(self) -> None:
        """End the connection; what was published is sent."""
        running, self._running = self._running, None
        while running is not None and not running.done():
            # More than once: a connection attempt that ends at that very moment takes no notice.
            running.cancel()
            await asyncio.wait([running], timeout=CANCEL_INTERVAL_S)

    async def subscribe(self, subject: str, queue: str, take: Take) -> Interest:
        """Have `take` called with every message of a subject, from now or the next connection."""
        interest = Interest(subject, queue, take)
        self._interests[interest] = None
        if self._client is not None:
            await self._carry(self._client, interest)
        return interest

    async def unsubscribe(self, interest: Interest) -> None:
        """Have no more messages of it."""
        del self._interests[interest]
        if interest.carried is not None:
            # A connection that is away at this moment has no subscription either.
            with suppress(NatsError, OSError):
                await interest.carried.unsubscribe()

    async def settle(self, timeout_s: float) -> bool:
        """Wait until the server knows all subscriptions; False without a connection in time."""
        try:
            async with asyncio.timeout(timeout_s):
                await self._is_carrying.wait()
                if self._client is not None:
                    await self._client.flush()
        except (NatsError, OSError, TimeoutError):
            return False
        return self._client is not None

    async def publish(self, subject: str, payload: bytes) -> bool:
        """Publish; False if the connection is away, or the payload is too large."""
        if self._client is None:
            self.counts.unsent += 1
            return False
        try:
            await self._client.publish(subject, payload)
        except (NatsError, OSError):
            self.counts.unsent += 1
            return False
        return True

    async def first_answer(self, subject: str, payload: bytes, inbox: str) -> bytes:
        """Publish, and wait for the first message of an inbox that the payload names.

        The caller bounds the time. Raises ConnectionError without a connection, and ValueError if
        the payload is larger than what the server takes.
        """
        client = self._client
        if client is None or not client.is_connected:
            raise ConnectionError(f"no NATS server is connected, of {self._places()}")
        answer: asyncio.Future[Msg] = asyncio.get_running_loop().create_future()
        try:
            # On one connection the server subscribes before it publishes.
            subscription = await client.subscribe(inbox, future=answer)
            try:
                await client.publish(subject, payload)
                return bytes((await answer).data)
            finally:
                with suppress(NatsError, OSError):
                    await subscription.unsubscribe()
        except MaxPayloadError as error:
            raise ValueError(
                f"the message takes {len(payload)} bytes, the NATS server allows"
                f" {client.max_payload}"
            ) from error
        except (NatsError, OSError) as error:
            raise ConnectionError(f"NATS: {error}") from error

    def new_inbox(self) -> str:
        """A subject that is used nowhere else."""
        return f"_INBOX.{secrets.token_hex(11)}"

    # The connection.

    async def _run(self) -> None:
        while True:
            client, closed = _Reader(self.counts), asyncio.Event()
            try:
                await self._connect(client, closed)
                await self._serve(client, closed)
            except (NatsError, OSError, TimeoutError) as error:
                await self._said(error)
            finally:
                self._disconnected()
                # Also one that never was connected: nats-py leaves its socket open.
                with suppress(NatsError, OSError, TimeoutError):
                    await client.close()
            await asyncio.sleep(self._access.reconnect_interval_s)

    async def _serve(self, client: Client, closed: asyncio.Event) -> None:
        self._client = client
        for interest in list(self._interests):
            await self._carry(client, interest)
        LOG.info("NATS at %s: connected", self._places())
        self._last_said = ""
        self.counts.is_connected = True
        self._is_carrying.set()
        await closed.wait()

    async def _connect(self, client: Client, closed: asyncio.Event) -> None:
        access = self._access

        async def ended() -> None:
            closed.set()

        await client.connect(
            list(access.servers),
            name=self._name,
            error_cb=self._said,
            closed_cb=ended,
            allow_reconnect=False,
            # One means two tries of each server, and zero means tries without an end.
            max_reconnect_attempts=1,
            reconnect_time_wait=0,
            connect_timeout=CONNECT_TIMEOUT_S,
            ping_interval=PING_INTERVAL_S,
            pending_size=OUTBOUND_SIZE_MAX,
            user=access.user or None,
            password=access.password or None,
            token=access.token or None,
            tls=access.tls,
        )

    async def _carry(self, client: Client, interest: Interest) -> None:
        async def take(message: Msg) -> None:
            interest.take(message)

        try:
            interest.carried = await client.subscribe(
                interest.subject, interest.queue, cb=take, pending_msgs_limit=0
            )
        except (NatsError, OSError) as error:
            # The next connection tries again.
            LOG.warning("NATS: no subscription of %r: %r", interest.subject, error)

    async def _said(self, error: Exception) -> None:
        """Log what goes wrong, once as long as it is the same."""
        said = repr(error)
        if said != self._last_said:
            LOG.warning("NATS at %s: %s", self._places(), said)
        self._last_said = said

    def _disconnected(self) -> None:
        self._client = None
        self._is_carrying.clear()
        if self.counts.is_connected:
            self.counts.disconnects += 1
            LOG.warning("NATS at %s: the connection is lost", self._places())
        self.counts.is_connected = False

    def _places(self) -> str:
        """The servers, without what logs in there."""
        return ", ".join(server.rpartition("@")[2] for server in self._access.servers)


class _Reader(Client):
    """The client of nats-py, which reads on behind a message that it cannot read.

    Subjects are bytes to the server, and text to nats-py. One that is no UTF-8, or a status line in
    the headers that is none, would end its task that reads, and the connection would be silent
    until its pings are missed.
    """

    def __init__(self, counts: LinkCounts) -> None:
        super().__init__()
        self._counts = counts
        self._ps = _InTurns(self)

    async def _process_msg(
        self, sid: int, subject: bytes, reply: bytes, data: bytes, headers: bytes
    ) -> None:
        try:
            await super()._process_msg(sid, subject, reply, data, headers)
        except (UnicodeError, LookupError, ValueError):
            self._counts.unreadable += 1


class _InTurns(Parser):
    """The parser of nats-py, which goes on without a pause for as long as there are messages.

    The tasks that take them would, too: neither of them waits for anything during a flood. So here
    the loop has its turn between, and only then more is looked at.
    """

    async def parse(self, data: bytes = b"") -> None:
        """Look at what came, a little at a time."""
        began = time.perf_counter()
        for at in range(0, len(data), BITE_SIZE):
            await super().parse(data[at : at + BITE_SIZE])
            if time.perf_counter() - began > TURN_S:
                await asyncio.sleep(0)
                began = time.perf_counter()
