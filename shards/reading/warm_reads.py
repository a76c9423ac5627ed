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
from borzoi.storage.decryption import Encrypted
from borzoi.storage.files import Files
from borzoi.storage.outcome import Cold, Doubt, Packed, Slices
from borzoi.storage.published import Published
from borzoi.storage.reader import Outcome, PartitionReader

LOG: Final = logging.getLogger(__name__)

WARM_TRIES_MAX: Final = 8
"""So many ranges are fetched for one read; then it may wait, the machine is short of memory."""

FETCH_SIZE: Final = 1024 * 1024

ROOM_INTERVAL_S: Final = 0.01
"""How often a look is taken whether memory for copies has become free."""

Read = Callable[[Slices | Doubt | BrokerError], None]
"""Called once with the messages, or with why there are none."""


class Wanted(NamedTuple):
    """What is to be read: the arguments of PartitionReader.attempt."""

    reader: PartitionReader
    published: Published
    first_offset: int
    count_max: int
    bytes_max: int
    copied_max: int | None
    taker: str

    def attempt(self, *, may_wait: bool) -> Outcome | BrokerError:
        """What a read comes to, errors included."""
        try:
            return self.reader.attempt(
                self.published,
                self.first_offset,
                self.count_max,
                self.bytes_max,
                may_wait=may_wait,
                copied_max=self.copied_max,
            )
        except BrokerError as error:
            return error


class WaitingRead:
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
        self._waiting: Line[WaitingRead] = Line(memory.shares)
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
        copied_max: int | None = None,
    ) -> None:
        """Read as `PartitionReader.attempt` does, for a user.

        `ended` is called at once if nothing is cold.
        """
        taker = user_taker(user)
        wanted = Wanted(reader, published, first_offset, count, bytes_max, copied_max, taker)
        self._attempt(wanted, ended, WARM_TRIES_MAX)

    def _attempt(self, wanted: Wanted, ended: Read, tries_left: int) -> None:
        self._memory.reading_for = wanted.taker
        outcome = wanted.attempt(may_wait=tries_left == 0)
        if isinstance(outcome, Encrypted):
            self._decrypt(outcome, ended, wanted.taker)
            return
        if not isinstance(outcome, Cold | Packed):
            ended(outcome)
            return
        if tries_left == WARM_TRIES_MAX:
            wanted.reader.cold_count += 1

        def again() -> None:
            self._attempt(wanted, ended, tries_left - 1)

        if isinstance(outcome, Cold):
            self._fetch(outcome, again, ended)
        else:
            self._load(outcome, again, ended, wanted.taker)

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
            # Until then nothing else held them.
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
        waiting = WaitingRead(size, start)
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

    def _next_that_fits(self) -> tuple[str, WaitingRead] | None:
        """The first for which there is memory, which is reserved then."""
        for taker, waiting in self._waiting.heads():
            self._memory.reading_for = taker
            if self._memory.reserve(waiting.size):
                return taker, waiting
            if self._memory.is_full(waiting.size):
                return None  # Smaller reads of those that hold more do not come first.
        return None

    def _decrypt(self, encrypted: Encrypted, ended: Read, taker: str) -> None:
        size = encrypted.size

        def finish(copy: Copy, outcome: Slices | Doubt | BrokerError) -> None:
            self._memory.release(size, taker)
            self._memory.reading_for = taker
            self._memory.hold(copy)
            ended(outcome)

        def run() -> None:
            copy = Copy()
            outcome: Slices | Doubt | BrokerError
            try:
                copy = Copy(size)
                outcome = encrypted.decrypt(memoryview(copy))
            except Exception as error:
                # A fault of ours, but what waits must be answered, and in the loop's thread.
                LOG.exception("a decryption broke")
                outcome = CannotDecryptData(str(error))
            self._loop.call_soon_threadsafe(finish, copy, outcome)

        self._when_there_is_room(size, taker, lambda: self._disk.submit(run))

    def _fetch(self, cold: Cold, again: Callable[[], None], ended: Read) -> None:
        def run() -> None:
            try:
                self._read_through(cold)
            except FileNotFoundError:
                # Deleted or purged meanwhile: the next attempt finds out what that means.
                self._loop.call_soon_threadsafe(again)
            except OSError as error:
                failed = CannotReadFile(f"{cold.path}: {error}")
                self._loop.call_soon_threadsafe(ended, failed)
            else:
                self._loop.call_soon_threadsafe(again)

        self._disk.submit(run)

    def _read_through(self, cold: Cold) -> None:
        fd = self._files.open(cold.path, os.O_RDONLY)
        try:
            for position in range(cold.start, cold.end, FETCH_SIZE):
                self._files.pread(fd, min(FETCH_SIZE, cold.end - position), position)
        finally:
            self._files.close(fd)
