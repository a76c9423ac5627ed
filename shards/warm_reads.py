"""Reading without ever letting the loop wait for a disk.

A page that is not in memory would stop the whole loop inside `send`, or inside the check of a
checksum: milliseconds for a megabyte. So bytes that were not written lately are looked up first
(mincore, some microseconds), and missing ones are read by a thread before they are touched. What
is encrypted is decrypted by a thread as well, if it is more than a little.
"""

import asyncio
import logging
import os
from collections.abc import Callable
from concurrent.futures import Executor
from typing import Final

from borzoi.protocol.errors import BrokerError, CannotDecryptData, CannotReadFile
from borzoi.shards.copy_memory import CopyMemory
from borzoi.storage.decryption import Decryption, Plain
from borzoi.storage.files import Files
from borzoi.storage.published import Published
from borzoi.storage.reader import Cold, Encrypted, PartitionReader, Slices
from borzoi.storage.segment_view import ColdRange

LOG: Final = logging.getLogger(__name__)

WARM_TRIES_MAX: Final = 8
"""So many ranges are fetched for one read; then it may wait, the machine is short of memory."""

FETCH_SIZE: Final = 1024 * 1024

Read = Callable[[Slices | None, BrokerError | None], None]
"""Told the slices, or why there are none."""


class WarmReads:
    """Fetches cold bytes in the disk threads of a worker."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        disk: Executor,
        files: Files,
        memory: CopyMemory | None = None,
    ) -> None:
        """`memory` is needed where something may be encrypted."""
        self._loop = loop
        self._disk = disk
        self._files = files
        self._memory = memory

    def read(
        self,
        reader: PartitionReader,
        published: Published,
        first_offset: int,
        count: int,
        bytes_max: int,
        ended: Read,
    ) -> None:
        """Read as `PartitionReader.read` does; `ended` is called at once if nothing is cold."""
        self._attempt(reader, published, first_offset, count, bytes_max, ended, WARM_TRIES_MAX)

    def _attempt(
        self,
        reader: PartitionReader,
        published: Published,
        first_offset: int,
        count: int,
        bytes_max: int,
        ended: Read,
        tries_left: int,
    ) -> None:
        try:
            slices = reader.read(
                published, first_offset, count, bytes_max, may_wait=tries_left == 0
            )
        except Cold as cold:
            if tries_left == WARM_TRIES_MAX:
                reader.cold_count += 1
            self._fetch(
                cold.range,
                lambda: self._attempt(
                    reader, published, first_offset, count, bytes_max, ended, tries_left - 1
                ),
                ended,
            )
        except Encrypted as encrypted:
            self._decrypt(reader, encrypted.work, ended)
        except BrokerError as error:
            ended(None, error)
        else:
            ended(slices, None)

    def _decrypt(self, reader: PartitionReader, work: Decryption, ended: Read) -> None:
        def finish(outcome: Plain | BrokerError) -> None:
            try:
                slices = reader.decrypted(work, outcome)
            except BrokerError as error:
                ended(None, error)
            else:
                ended(slices, None)

        def ready(memory: memoryview) -> None:
            self._disk.submit(run, memory)

        def run(memory: memoryview) -> None:
            try:
                outcome = work.run(memory)
            except Exception as error:
                # A fault of ours, but whoever waits must hear of it, and in the loop's thread.
                LOG.exception("a decryption broke")
                outcome = CannotDecryptData(str(error))
            self._loop.call_soon_threadsafe(finish, outcome)

        assert self._memory is not None, "somebody who has a key has memory, too"
        self._memory.give(work.size, ready)

    def _fetch(self, cold: ColdRange, again: Callable[[], None], ended: Read) -> None:
        def run() -> None:
            try:
                self._read_through(cold)
            except FileNotFoundError:
                # Deleted or purged meanwhile: the next attempt finds out what that means.
                self._loop.call_soon_threadsafe(again)
            except OSError as error:
                failed = CannotReadFile(f"{cold.path}: {error}")
                self._loop.call_soon_threadsafe(ended, None, failed)
            else:
                self._loop.call_soon_threadsafe(again)

        self._disk.submit(run)

    def _read_through(self, cold: ColdRange) -> None:
        fd = self._files.open(cold.path, os.O_RDONLY)
        try:
            for position in range(cold.start, cold.end, FETCH_SIZE):
                self._files.pread(fd, min(FETCH_SIZE, cold.end - position), position)
        finally:
            self._files.close(fd)
