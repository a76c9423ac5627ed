"""Messages that are published in one turn of the loop go to their partition as one batch.

Owns the batches of this turn, by user and partition. The first message of a turn schedules their
end with `call_soon`, which runs when everything that has arrived was looked at. Then each batch is
one append. Batches of a partition are appended in the order in which they were begun.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Final

from borzoi.liftbridge.bridge import Route
from borzoi.liftbridge.ports import Place, PortError, Store, User

LOG: Final = logging.getLogger(__name__)

BATCH_SIZE_MAX: Final = 8 * 1024 * 1024
"""A batch that has so many bytes is appended, and another one begun."""

Appended = Callable[[int, PortError | None], None]
"""Called once: the offset of the first of these messages, or why there is none."""


class Batch:
    """Messages of one user for one partition."""

    __slots__ = ("count", "parts", "place", "size", "syncs", "user", "waiting")

    def __init__(self, user: User, place: Place) -> None:
        self.user = user
        self.place = place
        self.parts: list[bytes] = []
        self.count = 0
        self.size = 0
        self.syncs = False
        self.waiting: list[tuple[int, Appended]] = []

    def joined(self) -> bytearray:
        """All messages, which are not here any more."""
        data = bytearray(b"".join(self.parts))
        self.parts.clear()
        return data


class Appending:
    """Collects messages and appends them."""

    def __init__(self, store: Store, loop: asyncio.AbstractEventLoop) -> None:
        self._store = store
        self._loop = loop
        self._batches: dict[tuple[User, Place], Batch] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def put(
        self, user: User, route: Route, parts: Sequence[bytes], appended: Appended, *, syncs: bool
    ) -> None:
        """Append stored messages at the end of the turn; with `syncs` they reach the disk first."""
        key = (user, route.place)
        batch = self._batches.get(key)
        if batch is None:
            if not self._batches:
                self._loop.call_soon(self._end_turn)
            batch = self._batches[key] = Batch(user, route.place)
        batch.waiting.append((batch.count, appended))
        batch.parts += parts
        batch.count += len(parts)
        batch.size += sum(map(len, parts))
        batch.syncs |= syncs
        if batch.size >= BATCH_SIZE_MAX:
            del self._batches[key]
            self._start(self._append(batch))

    async def put_at(
        self, user: User, route: Route, message: bytes, expected: int, *, syncs: bool
    ) -> None:
        """Append one message if it gets the offset that is expected. PortError otherwise."""
        await self._store.append_at(user, route.place, bytearray(message), expected)
        if syncs:
            await self._store.sync(route.place)

    async def appended(
        self, user: User, route: Route, message: bytes, *, syncs: bool = False
    ) -> int:
        """Append one message; its offset. PortError otherwise."""
        future: asyncio.Future[int] = self._loop.create_future()

        def ended(offset: int, error: PortError | None) -> None:
            if future.done():
                return
            if error is None:
                future.set_result(offset)
            else:
                future.set_exception(error)

        self.put(user, route, (message,), ended, syncs=syncs)
        return await future

    def _end_turn(self) -> None:
        batches, self._batches = self._batches, {}
        for batch in batches.values():
            self._start(self._append(batch))

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _append(self, batch: Batch) -> None:
        first = 0
        failed: PortError | None = None
        try:
            # Of the messages nothing is kept while they are synced.
            first = await self._store.append(batch.user, batch.place, batch.joined(), batch.count)
            if batch.syncs:
                await self._store.sync(batch.place)
        except PortError as error:
            failed = error
        for number, appended in batch.waiting:
            appended(first + number, failed)
