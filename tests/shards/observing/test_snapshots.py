"""How many snapshots a shard makes at once."""

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from borzoi.protocol.commands.system import GetSnapshot, SnapshotCompression, SnapshotType
from borzoi.protocol.errors import SnapshotFileCompletionFailed
from borzoi.shards.config import Config
from borzoi.shards.observing.snapshots import SNAPSHOTS_WAITING_MAX, Snapshots
from borzoi.storage.layout import DataLayout
from tests.shards.unzipping import unzipped

COMMAND = GetSnapshot(SnapshotCompression.STORED, (SnapshotType.TEST,))


async def nothing_deleted() -> bytes:
    return b""


def test_one_at_a_time_few_wait_and_the_rest_are_refused(tmp_path: Path) -> None:
    may_go_on = threading.Event()
    layout = DataLayout(tmp_path)

    async def check() -> None:
        with ThreadPoolExecutor(1) as thread:
            thread.submit(may_go_on.wait)
            snapshots = Snapshots(Config(), layout, 1, thread, nothing_deleted)
            waiting = [
                asyncio.ensure_future(snapshots.take(COMMAND))
                for _ in range(SNAPSHOTS_WAITING_MAX + 1)
            ]
            await asyncio.sleep(0)
            with pytest.raises(SnapshotFileCompletionFailed):
                await snapshots.take(COMMAND)
            may_go_on.set()
            for archive in await asyncio.gather(*waiting):
                assert unzipped(archive) == {"test.txt": b"test\n"}
            # The next request is served again.
            assert unzipped(await snapshots.take(COMMAND)) == {"test.txt": b"test\n"}

    asyncio.run(check())
