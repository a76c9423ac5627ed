"""Reading without ever letting the loop wait for a disk.

A page that is not in memory would stop the whole loop inside `send`, or inside the check of a
checksum: milliseconds for a megabyte. So bytes that were not written lately are looked up first
(mincore, some microseconds), and missing ones are read by a thread before they are touched. What
is encrypted is decrypted by a thread as well, if it is more than a little, and blocks of
compressed segments are read and decompressed by one.

Both are copies, which take memory until they are sent; a read for which there is none left waits
until others have been sent. It is shared by user: the one that holds least is next.
"""

import asyncio
import logging
import os
from collections.abc import Callable
from concurrent.futures import Executor
from typing import Final, NamedTuple

from borzoi.protocol.errors import BrokerError, CannotDecryptData, CannotReadFile
from borzoi.shards.loop.periodic import Periodic
from borzoi.shares import Line, user_taker
from borzoi.storage.compressed_file import Replaced
from borzoi.storage.copy_memory import Copy, CopyMemory
from borzoi.storage.decryption import Decryption, Plain
from borzoi.storage.files import Files
from borzoi.storage.published import Published
from borzoi.storage.reader import Cold, Encrypted, Packed, PartitionReader, Slices
from borzoi.storage.segment_view import ColdRange

LOG: Final = logging.getLogger(__name__)

WARM_TRIES_MAX: Final = 8
"""So many ranges are fetched for one read; then it may wait, the machine is short of memory."""

FETCH_SIZE: Final = 1024 * 1024

ROOM_INTERVAL_S: Final = 0.01
"""How often a look is taken whether memory for copies has become free."""

Read = Callable[[Slices | None, BrokerError | None], None]
"""Told the slices, or why there are none."""


class Wanted(NamedTuple):
    """What is to be read: the arguments of PartitionReader.read."""

    reader: PartitionReader
    published: Published
    first_offset: int
    count_max: int
    bytes_max: int
    whole: bool
    taker: str


class Waiting:
    """Work that waits for memory."""

    __slots__ = ("size", "start")

    def __init__(self, size: int, start: Callable[[], object]) -> None:
        self.size = size
        self.start = start


class WarmReads:
    """Fetches cold bytes in the disk threads of a worker."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        disk: Executor,
        files: Files,
        memory: CopyMemory,
    ) -> None:
        self._loop = loop
        self._disk = disk
        self._files = files
        self._memory = memory
        # At most one for each connection of this shard, and for each poll of a peer.
        self._waiting: Line[Waiting] = Line(memory.shares)
        self._looks = Periodic(loop, ROOM_INTERVAL_S, self._look_for_room)

    def read(
        self,
        reader: PartitionReader,
        published: Published,
        first_offset: int,
        count: int,
        bytes_max: int,
        ended: Read,
        *,
        user: int,
        whole: bool = False,
    ) -> None:
        """Read as `PartitionReader.read` does, for a user; `ended` is called at once if nothing is
        cold."""
        taker = self._memory.reading_for = user_taker(user)
        try:
            slices = reader.read(
                published, first_offset, count, bytes_max, may_wait=False, whole=whole
            )
        except (Cold, Packed) as missing:
            reader.cold_count += 1
            wanted = Wanted(reader, published, first_offset, count, bytes_max, whole, taker)
            self._fetch_for(wanted, missing, ended, WARM_TRIES_MAX)
        except Encrypted as encrypted:
            self._decrypt(reader, encrypted.work, ended, taker)
        except BrokerError as error:
            ended(None, error)
        else:
            ended(slices, None)

    def _attempt(self, wanted: Wanted, ended: Read, tries_left: int) -> None:
        reader, published, first_offset, count, bytes_max, whole, taker = wanted
        self._memory.reading_for = taker
        may_wait = tries_left == 0
        try:
            slices = reader.read(
                published, first_offset, count, bytes_max, may_wait=may_wait, whole=whole
            )
        except (Cold, Packed) as missing:
            self._fetch_for(wanted, missing, ended, tries_left)
        except Encrypted as encrypted:
            self._decrypt(reader, encrypted.work, ended, taker)
        except BrokerError as error:
            ended(None, error)
        else:
            ended(slices, None)

    def _fetch_for(
        self, wanted: Wanted, missing: Cold | Packed, ended: Read, tries_left: int
    ) -> None:
        def again() -> None:
            self._attempt(wanted, ended, tries_left - 1)

        if isinstance(missing, Cold):
            self._fetch(missing.range, again, ended)
        else:
            self._load(missing, again, lambda error: ended(None, error), wanted.taker)

    def load(
        self,
        packed: Packed,
        again: Callable[[], None],
        failed: Callable[[BrokerError], None],
        *,
        user: int,
    ) -> None:
        """Decompress what a read needs, when there is memory for it, then call `again`."""
        self._load(packed, again, failed, user_taker(user))

    def _load(
        self,
        packed: Packed,
        again: Callable[[], None],
        failed: Callable[[BrokerError], None],
        taker: str,
    ) -> None:
        def loaded(error: BrokerError | None) -> None:
            self._memory.release(packed.size_max, taker)
            self._memory.reading_for = taker
            if error is not None:
                failed(error)
                return
            held = [missing.take_in() for missing in packed.missing if missing.is_loaded]
            again()
            # Until then nobody else held them.
            del held

        def run() -> None:
            error = None
            try:
                for missing in packed.missing:
                    missing.load()
            except (FileNotFoundError, Replaced):
                # Deleted or purged meanwhile: the next attempt finds out what that means.
                pass
            except OSError as problem:
                error = CannotReadFile(f"{packed}: {problem}")
            except Exception as problem:
                # A fault of ours, but what waits must be answered, and in the loop's thread.
                LOG.exception("a decompression broke")
                error = CannotReadFile(f"{packed}: {problem}")
            self._loop.call_soon_threadsafe(loaded, error)

        self._when_there_is_room(packed.size_max, taker, lambda: self._disk.submit(run))

    def _when_there_is_room(self, size: int, taker: str, start: Callable[[], object]) -> None:
        self._memory.reading_for = taker
        if not self._waiting and self._memory.reserve(size):
            start()
            return
        waiting = Waiting(size, start)
        self._waiting.add(taker, waiting)
        self._start_what_fits()
        if self._waiting:
            self._memory.shares.note_wait(taker, size)
            self._looks.start()

    def _look_for_room(self) -> None:
        self._start_what_fits()
        if not self._waiting:
            self._looks.stop()

    def _start_what_fits(self) -> None:
        while (found := self._next_that_fits()) is not None:
            taker, waiting = found
            self._waiting.remove(taker, waiting)
            waiting.start()

    def _next_that_fits(self) -> tuple[str, Waiting] | None:
        """The first for which there is memory, which is reserved then."""
        for taker, waiting in self._waiting.heads():
            self._memory.reading_for = taker
            if self._memory.reserve(waiting.size):
                return taker, waiting
            if self._memory.is_full(waiting.size):
                return None  # Smaller reads of those that hold more do not come first.
        return None

    def _decrypt(self, reader: PartitionReader, work: Decryption, ended: Read, taker: str) -> None:
        def finish(copy: Copy, outcome: Plain | BrokerError) -> None:
            self._memory.release(work.size, taker)
            self._memory.reading_for = taker
            self._memory.hold(copy)
            try:
                slices = reader.decrypted(work, outcome)
            except BrokerError as error:
                ended(None, error)
            else:
                ended(slices, None)

        def run() -> None:
            copy = Copy()
            try:
                copy = Copy(work.size)
                outcome = work.run(memoryview(copy))
            except Exception as error:
                # A fault of ours, but whoever waits must hear of it, and in the loop's thread.
                LOG.exception("a decryption broke")
                outcome = CannotDecryptData(str(error))
            self._loop.call_soon_threadsafe(finish, copy, outcome)

        self._when_there_is_room(work.size, taker, lambda: self._disk.submit(run))

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
