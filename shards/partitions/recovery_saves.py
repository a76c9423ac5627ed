"""Recovery points: once a sync is done, a note of how far a start after a crash need not look.

A thread writes them; a stop waits until none is being written.
"""

import asyncio
import logging
from concurrent.futures import Executor
from typing import Final

from borzoi.protocol.errors import BrokerError
from borzoi.shards.partitions.partition import Ended, OwnedPartition
from borzoi.storage.offsets import OffsetsSync

LOG: Final = logging.getLogger(__name__)


class RecoverySaves:
    """Those of one shard, touched by its event loop only."""

    def __init__(self, loop: asyncio.AbstractEventLoop, disk: Executor) -> None:
        self._loop = loop
        self._disk = disk
        self.running = 0
        """How many a thread is saving."""

    def after_sync(self, partition: OwnedPartition) -> Ended:
        """Ends a sync of the saver, and saves the point that was reached."""

        def save(offsets: OffsetsSync) -> None:
            error = None
            try:
                partition.offsets.run_sync(offsets)
                partition.log.save_recovery_point()
            except BrokerError as failure:
                error = failure
            # In a turn of the loop: by then a directory that is moved away has no partition.
            self._loop.call_soon_threadsafe(saved, error)

        def saved(error: BrokerError | None) -> None:
            self.running -= 1
            if error is None:
                return
            if partition.alive:
                LOG.warning("partition %s: %s", partition.target, error)
            else:
                # Purged or deleted meanwhile: how far it got does not matter.
                LOG.info("partition %s ended before it was saved", partition.target)

        def ended(status: int) -> None:
            if status == 0 and partition.alive:
                self.running += 1
                self._disk.submit(save, partition.offsets.plan_sync())

        return ended


def said_of_failed_sync(partition: OwnedPartition) -> Ended:
    """Logs a sync that has failed, where no request waits for it."""

    def ended(status: int) -> None:
        if status and partition.alive:
            LOG.error("partition %s: sync ended with status %d", partition.target, status)

    return ended
