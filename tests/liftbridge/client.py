"""A client of Liftbridge for tests: raw gRPC by grpclib, one method per call."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from ssl import SSLContext
from types import TracebackType
from typing import Any, Final, Self

from grpclib.client import Channel, StreamStreamMethod, UnaryStreamMethod, UnaryUnaryMethod
from grpclib.const import Status
from grpclib.exceptions import GRPCError

from borzoi.liftbridge.schema import CLASSES, SERVICE
from tests.broker import BrokerProcess

TIMEOUT_S: Final = 20.0
ANONYMOUS: Final = {
    "IGGY_LIFTBRIDGE_ENABLED": "true",
    "IGGY_LIFTBRIDGE_ANONYMOUS_USER": "iggy",
    "IGGY_SYSTEM_SHARDING_CPU_ALLOCATION": "2",
}
"""Settings of a broker with Liftbridge on two shards that lets clients in without a login."""


class LiftbridgeClient:
    """One connection to a broker. Calls are named as the methods of the API."""

    def __init__(
        self,
        broker: BrokerProcess,
        *,
        metadata: dict[str, str] | None = None,
        ssl: SSLContext | None = None,
    ) -> None:
        host, _, port = broker.liftbridge_address.rpartition(":")
        self.channel = Channel(host, int(port), ssl=ssl)
        self._metadata = metadata

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        transport = getattr(getattr(self.channel._protocol, "connection", None), "_transport", None)
        self.channel.close()
        if transport is not None:
            # With TLS, or the goodbye would outlive the loop.
            transport.abort()
            await asyncio.sleep(0)

    async def call(
        self,
        method_name: str,
        /,
        *,
        deadline_s: Any = TIMEOUT_S,  # a number or None; Any, because `fields` may hold anything
        **fields: Any,
    ) -> Any:
        """One unary call; its answer."""
        asked, given = CLASSES[f"{method_name}Request"], CLASSES[f"{method_name}Response"]
        path = f"/{SERVICE}/{method_name}"
        method = UnaryUnaryMethod[Any, Any](self.channel, path, asked, given)
        return await method(asked(**fields), timeout=deadline_s, metadata=self._metadata)

    @asynccontextmanager
    async def subscribe(self, stream: str, **fields: Any) -> AsyncIterator[Any]:
        """An open subscription whose handshake was received."""
        method = UnaryStreamMethod[Any, Any](
            self.channel,
            f"/{SERVICE}/Subscribe",
            CLASSES["SubscribeRequest"],
            CLASSES["Message"],
        )
        async with method.open(metadata=self._metadata) as opened:
            await opened.send_message(
                CLASSES["SubscribeRequest"](stream=stream, **fields), end=True
            )
            async with asyncio.timeout(TIMEOUT_S):
                handshake = await opened.recv_message()
            assert handshake is None or handshake.ByteSize() == 0
            yield opened

    async def messages(self, stream: str, count: int, **fields: Any) -> list[Any]:
        """So many messages of a subscription, which is cancelled then."""
        async with self.subscribe(stream, **fields) as opened:
            found = [await received(opened) for _ in range(count)]
            await opened.cancel()
        return found

    async def until_end(
        self,
        stream: str,
        *,
        subscribed: Callable[[], Awaitable[object]] | None = None,
        **fields: Any,
    ) -> tuple[list[bytes], Status]:
        """What a subscription delivers, and the status that ends it."""
        found: list[bytes] = []
        try:
            async with self.subscribe(stream, **fields) as opened:
                if subscribed is not None:
                    await subscribed()
                while (message := await received(opened)) is not None:
                    found.append(message.value)
        except GRPCError as error:
            return found, error.status
        return found, Status.OK

    @asynccontextmanager
    async def publish_async(self) -> AsyncIterator[Any]:
        """An open call of PublishAsync."""
        method = StreamStreamMethod[Any, Any](
            self.channel,
            f"/{SERVICE}/PublishAsync",
            CLASSES["PublishRequest"],
            CLASSES["PublishResponse"],
        )
        async with method.open(metadata=self._metadata) as opened:
            yield opened


async def received(opened: Any) -> Any:
    """The next message of a stream of answers."""
    async with asyncio.timeout(TIMEOUT_S):
        return await opened.recv_message()


def publish(**fields: Any) -> Any:
    """A PublishRequest."""
    return CLASSES["PublishRequest"](**fields)
