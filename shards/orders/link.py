"""A worker's end of the channel to the supervisor: events go up, orders come down.

Owned by the worker's loop. An order to stop is noted and ends every waiting. The steps of a boot
(recover, listen) wait here until the worker asks for them. Every other order goes to a callback at
once. A supervisor that is gone counts as an order to stop.
"""

import asyncio
import logging
import socket
from collections.abc import Callable, Coroutine
from typing import Any, Final

import msgspec

from borzoi.router.fds import BadMessage, ChannelClosed, FdChannel
from borzoi.shards.orders.spec import Event, Order

LOG: Final = logging.getLogger(__name__)


class SupervisorLink:
    """The supervisor as a worker sees it."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        channel_fd: int,
        carry_out: Callable[[Order, list[int]], None],
    ) -> None:
        self._carry_out = carry_out
        self._steps: asyncio.Queue[Order] = asyncio.Queue()
        self._stop_ordered = asyncio.Event()
        channel = socket.socket(fileno=channel_fd)
        self._channel = FdChannel(loop, channel, self._take, self._gone)

    def tell(self, event: Event, fds: tuple[int, ...] = ()) -> None:
        """Let the supervisor know; the descriptors stay open here."""
        self._channel.send(msgspec.json.encode(event), fds)

    async def wait_stop(self) -> None:
        """Wait for the order to stop."""
        await self._stop_ordered.wait()

    async def wait_step(self, wanted: str) -> Order:
        """Waits for a step of the boot; an order to stop ends the process instead."""
        getting = asyncio.ensure_future(self._steps.get())
        stopping = asyncio.ensure_future(self._stop_ordered.wait())
        await asyncio.wait({getting, stopping}, return_when=asyncio.FIRST_COMPLETED)
        if not getting.done():
            getting.cancel()
            raise SystemExit(0)
        stopping.cancel()
        order = getting.result()
        assert order.order == wanted, f"expected the order {wanted}, got {order.order}"
        return order

    async def unless_stopped(self, work: Coroutine[Any, Any, None]) -> bool:
        """Waits for work that needs other shards; False if the order to stop came first."""
        working = asyncio.ensure_future(work)
        stopping = asyncio.ensure_future(self._stop_ordered.wait())
        await asyncio.wait({working, stopping}, return_when=asyncio.FIRST_COMPLETED)
        stopping.cancel()
        if working.done():
            working.result()
            return True
        working.cancel()
        return False

    def _take(self, payload: bytes, fds: list[int]) -> None:
        order = msgspec.json.decode(payload, type=Order)
        match order.order:
            case "stop":
                self._stop_ordered.set()
            case "recover" | "listen":
                self._steps.put_nowait(order)
            case _:
                self._carry_out(order, fds)

    def _gone(self, reason: ChannelClosed | BadMessage) -> None:
        LOG.error("the supervisor is gone (%s): stopping", reason)
        self._stop_ordered.set()
