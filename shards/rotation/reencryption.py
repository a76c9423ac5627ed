"""Encrypting what a shard owns with the key of now, one segment at a time, beside everything else.

Owned by the worker's loop. An exchange of the key, or a start in the middle of one, begins a round
over all partitions. Steps, for one of them:

    roll        an active segment of an older key is sealed and synced; an empty one is made again
    copy        in a thread of low priority: a temporary, synced, read back and compared
    rename      over the file that it stands for, in the loop
    tell        every shard unmaps the old file; a reader that had it open has read it
    close       in the thread, with the sync of the directory: only now are the old bytes freed

A kill leaves the old file or the new one, and perhaps a temporary, which recovery removes. Both are
readable: the older key is there until nothing on the disk needs it. Then the round reports to the
supervisor. What cannot be copied keeps its key, and is tried again at the next start.
"""

import asyncio
import logging
import os
import time
from collections.abc import Callable
from concurrent.futures import Executor
from contextlib import suppress
from functools import partial
from typing import Final

from borzoi.router.target import Target
from borzoi.shards.loop.tasks import Tasks
from borzoi.shards.partitions.group_commit import GroupCommit
from borzoi.shards.partitions.partition import Ended, OwnedPartition
from borzoi.shards.rotation.metadata_keys import MetadataKeys
from borzoi.shards.tallies.traffic import KeyExchange
from borzoi.shards.upkeep.compression_backlog import SegmentPlace, place_of
from borzoi.storage.encrypted import Encryption
from borzoi.storage.files import Files
from borzoi.storage.layout import compressing_path
from borzoi.storage.reencryptor import Reencrypted, ReencryptionStopped, reencrypt_segment
from borzoi.storage.sealed_blocks import SegmentStays
from borzoi.storage.segment import SealedSegment

LOG: Final = logging.getLogger(__name__)

LOOK_AGAIN_MIN_S: Final = 2.0
LOOK_AGAIN_MAX_S: Final = 60.0
"""What is left is tried again, ever more rarely: a shard may be back, a full disk have room."""

LOOKS_PER_TURN: Final = 64
"""So many partitions are looked at before the loop gets its turn."""


class Reencrypting:
    """Encrypts what this shard owns with the key of now."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        tasks: Tasks,
        thread: Executor,
        files: Files,
        encryption: Encryption,
        partitions: Callable[[], list[OwnedPartition]],
        commit: GroupCommit,
        metadata: MetadataKeys | None,
        tell: Callable[[Target, int], None],
        report: Callable[[bytes], None],
    ) -> None:
        """`tell` lets every shard know that a segment has another file.

        `report` is called with the id of the key once all that can be is encrypted with it.
        """
        self._loop = loop
        self._tasks = tasks
        self._thread = thread
        self._files = files
        self._encryption = encryption
        self._partitions = partitions
        self._commit = commit
        self._metadata = metadata
        self._tell = tell
        self._report = report
        self._delay_s = LOOK_AGAIN_MIN_S
        self._timer: asyncio.TimerHandle | None = None
        self._running = False
        self._again = False
        self._stopped = False
        self._reported = b""
        self._stay: set[SegmentPlace] = set()
        self._waiting = 0
        self._done = 0

    def stop(self) -> None:
        """Begin nothing any more; what runs ends after the block it is at."""
        self._stopped = True
        if self._timer is not None:
            self._timer.cancel()

    def look(self) -> None:
        """The key may be another one; begins a round unless nothing is left to do."""
        encryption = self._encryption
        if self._stopped or len(encryption.keys) == 1 or self._reported == encryption.key.id:
            return
        if self._running:
            self._again = True
            return
        self._running, self._again = True, False
        self._tasks.start(self._round())

    def figures(self) -> KeyExchange:
        """What waits by the last count, what was done since the start, what cannot be done."""
        return KeyExchange(self._waiting, self._done, len(self._stay))

    async def _round(self) -> None:
        began, before, key_id = time.monotonic(), self._done, self._encryption.key.id
        try:
            partitions = self._partitions()
            self._waiting = 0
            for number, partition in enumerate(partitions, 1):
                self._waiting += partition.log.segments.outdated_count
                await self._turn(number)
            is_complete = True
            for number, partition in enumerate(partitions, 1):
                is_complete &= await self._renew(partition)
                await self._turn(number)
                if self._stopped:
                    return
            if self._metadata is not None:
                is_complete &= await self._metadata.renew()
        finally:
            self._running = False
        LOG.info(
            "%d segments are encrypted with the key %s in %.3f s, %s",
            self._done - before,
            key_id.hex(),
            time.monotonic() - began,
            self._outcome(is_complete),
        )
        if self._again or key_id != self._encryption.key.id:
            self._delay_s = LOOK_AGAIN_MIN_S
            self.look()
        elif is_complete:
            self._waiting = len(self._stay)
            self._reported = key_id
            self._report(key_id)
        elif not self._stopped:
            self._timer = self._loop.call_later(self._delay_s, self.look)
            self._delay_s = min(2 * self._delay_s, LOOK_AGAIN_MAX_S)

    def _outcome(self, is_complete: bool) -> str:
        if not is_complete:
            return "the rest is tried again"
        if self._stay:
            return f"{len(self._stay)} keep an older one, see above"
        return "no other key is needed here"

    async def _turn(self, number: int) -> None:
        if number % LOOKS_PER_TURN == 0:
            await asyncio.sleep(0)

    async def _renew(self, partition: OwnedPartition) -> bool:
        """Whether nothing is left of a partition that could be encrypted with the key of now."""
        log = partition.log
        if partition.alive and log.is_active_outdated:
            await self._ended(partial(self._commit.roll, partition))
        if partition.alive and log.sealed_unsynced and log.segments.outdated_count:
            # What a crash left may be in the cache only.
            await self._ended(partial(self._commit.flush, partition, fsync=True))
        if not partition.alive:
            return True
        for segment in log.segments.outdated(partition.published):
            if self._stopped or not partition.alive:
                break
            place = place_of(partition.target, segment)
            if place not in self._stay and await self._rewrite(partition, segment, place):
                self._done += 1
                self._waiting = max(0, self._waiting - 1)
        if not partition.alive:
            return True
        outdated = log.segments.outdated(partition.published)
        stay = sum(place_of(partition.target, one) in self._stay for one in outdated)
        return log.segments.outdated_count == stay and not log.is_active_outdated

    async def _ended(self, begin: Callable[[Ended], None]) -> None:
        """Wait for the end of a commit, whatever comes of it: then the log says what is left."""
        ending: asyncio.Future[int] = self._loop.create_future()

        def ended(status: int) -> None:
            if not ending.done():
                ending.set_result(status)

        begin(ended)
        await ending

    async def _rewrite(
        self, partition: OwnedPartition, segment: SealedSegment, place: SegmentPlace
    ) -> bool:
        log = partition.log
        cipher = log.cipher
        assert cipher is not None, "without a key nothing is outdated"
        work = partial(
            reencrypt_segment, log.directory, segment, self._files, self._is_stopped, cipher
        )
        try:
            made = await self._loop.run_in_executor(self._thread, work)
        except ReencryptionStopped:
            return False
        except (OSError, SegmentStays) as error:
            if partition.alive and segment in log.sealed:
                LOG.warning(
                    "partition %s: segment %d keeps its old key: %s",
                    partition.target,
                    segment.first_offset,
                    error,
                )
                if isinstance(error, SegmentStays):
                    self._stay.add(place)
            return False
        is_placed = self._place(partition, segment, made)
        finish = partial(self._finish, log.directory, segment, made, is_placed)
        await self._loop.run_in_executor(self._thread, finish)
        return is_placed

    def _is_stopped(self) -> bool:
        return self._stopped

    def _place(self, partition: OwnedPartition, segment: SealedSegment, made: Reencrypted) -> bool:
        if self._stopped or not partition.alive:
            return False
        try:
            is_placed = partition.log.segments.place_reencrypted(segment, made.form)
        except OSError as error:
            LOG.warning("partition %s: %s", partition.target, error)
            return False
        if is_placed:
            self._tell(partition.target, segment.first_offset)
        return is_placed

    def _finish(
        self, directory: str, segment: SealedSegment, made: Reencrypted, is_placed: bool
    ) -> None:
        """In the thread: the old bytes go, or the temporary that is of no use."""
        self._files.close(made.old_file)
        with suppress(OSError):
            if is_placed:
                self._files.fsync_directory(directory)
            else:
                temporary = compressing_path(directory, segment.first_offset, segment.codec)
                self._files.unlink_if_there(os.fspath(temporary))
