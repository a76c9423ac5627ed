"""GET_SNAPSHOT: an archive that describes the broker, put together off the loop.

One at a time in each shard, because it starts programs and compresses megabytes; a few more may
wait, the rest are refused. Bounds of size and time are those of snapshot_parts.py.
"""

import asyncio
import contextlib
import os
from collections.abc import Awaitable, Callable
from concurrent.futures import Executor
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from borzoi.protocol.commands.system import GetSnapshot
from borzoi.protocol.errors import SnapshotFileCompletionFailed
from borzoi.shards.config.tree import values_of
from borzoi.shards.identity.root_account import PASSWORD_VARIABLE, ROOT_PASSWORD_FILE
from borzoi.shards.observing.snapshot_parts import SnapshotSources, collect
from borzoi.shards.observing.zip_archive import zip_archive
from borzoi.shards.settings.schema import Config
from borzoi.storage.layout import CURRENT_CONFIG_FILE, DataLayout

SNAPSHOTS_WAITING_MAX: Final = 4


class Snapshots:
    """The archives of one shard."""

    def __init__(
        self,
        config: Config,
        layout: DataLayout,
        supervisor_pid: int,
        thread: Executor,
        upkeep: Callable[[], Awaitable[bytes]],
    ) -> None:
        """`thread` has one thread. `upkeep` tells what became of old segments."""
        self._config = config
        self._layout = layout
        self._supervisor_pid = supervisor_pid
        self._thread = thread
        self._upkeep = upkeep
        self._in_work = 0

    async def take(self, command: GetSnapshot) -> bytes:
        """The archive."""
        if self._in_work > SNAPSHOTS_WAITING_MAX:
            raise SnapshotFileCompletionFailed(f"{self._in_work} snapshots are in work already")
        self._in_work += 1
        try:
            upkeep = await self._upkeep()
            return await asyncio.get_running_loop().run_in_executor(
                self._thread, self._make, command, upkeep
            )
        finally:
            self._in_work -= 1

    def _make(self, command: GetSnapshot, upkeep: bytes) -> bytes:
        entries = collect(command.types, self._sources(upkeep))
        return zip_archive(entries, command.compression, datetime.now(UTC))

    def _sources(self, upkeep: bytes) -> SnapshotSources:
        data = Path(self._layout.root)
        return SnapshotSources(
            data,
            data / self._config.system.logging.path,
            Path(self._layout.runtime, CURRENT_CONFIG_FILE),
            self._supervisor_pid,
            known_secrets(self._config, data),
            upkeep,
        )


def known_secrets(config: Config, data: Path) -> tuple[bytes, ...]:
    """What must not be in any snapshot, as far as this process knows it."""
    found = [str(value) for _, leaf, value in values_of(config) if leaf.kind.secret]
    found.append(os.environ.get(PASSWORD_VARIABLE, ""))
    with contextlib.suppress(FileNotFoundError):
        found.append((data / ROOT_PASSWORD_FILE).read_text().strip())
    return tuple(secret.encode() for secret in found if secret)
