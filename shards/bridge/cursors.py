"""Cursors on their way to the metadata log: what comes while an entry is written shares the next.

Owned by the loop of one shard. However many clients set cursors, a shard has one such change in
work, so the log has a few entries a second more and not one for each cursor.
"""

import asyncio
from typing import Final, Protocol

from borzoi.shards.changes.service import Change
from borzoi.shards.decisions.attaching import SetCursors
from borzoi.shards.metadata.state import ROOT_USER_ID

CURSORS_AT_ONCE_MAX: Final = 1000
"""Cursors of one entry."""

PAUSE_S: Final = 0.01
"""Between two entries of one shard: each makes all sessions look at the metadata again."""


class Changes(Protocol):
    """The way of a change to the metadata."""

    async def change(self, command: object, user_id: int) -> Change:
        """Have a change carried out."""


class CursorWriting:
    """Collects cursors, and logs them."""

    def __init__(self, changes: Changes) -> None:
        self._changes = changes
        self._waiting: dict[str, tuple[int, list[asyncio.Future[None]]]] = {}
        self._writing: asyncio.Task[None] | None = None

    async def set(self, key: str, offset: int) -> None:
        """Keep a cursor; it is on the disk when this returns. The latest of a key counts."""
        future = asyncio.get_running_loop().create_future()
        _, futures = self._waiting.get(key, (0, []))
        self._waiting[key] = (offset, [*futures, future])
        if self._writing is None:
            self._writing = asyncio.create_task(self._write())
        await future

    async def _write(self) -> None:
        try:
            while self._waiting:
                keys = list(self._waiting)[:CURSORS_AT_ONCE_MAX]
                await self._write_some({key: self._waiting.pop(key) for key in keys})
                await asyncio.sleep(PAUSE_S)
        finally:
            self._writing = None

    async def _write_some(self, taken: dict[str, tuple[int, list[asyncio.Future[None]]]]) -> None:
        error: Exception | None = None
        cursors = {key: offset for key, (offset, _) in taken.items()}
        try:
            await self._changes.change(SetCursors(cursors), ROOT_USER_ID)
        except Exception as failure:  # all that wait for the entry get it, whatever it is
            error = failure
        for _, futures in taken.values():
            for future in futures:
                if future.done():
                    continue
                if error is None:
                    future.set_result(None)
                else:
                    future.set_exception(error)
