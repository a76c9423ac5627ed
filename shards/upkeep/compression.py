"""Compressing the sealed segments of the partitions we own, one at a time, beside everything else.

Owned by the worker's loop. A segment is taken once it is sealed and on the disk. Those that the
last run did not get to are found at the start. Steps, for one segment:

    compress      in a thread of low priority: a temporary, synced, read back and compared
    rename        gives it its name; the plain log, which is still there, goes on counting
    sync          of the directory, in the thread: now the name survives a power cut
    retire        the plain log leaves for the trash, the compressed one counts
    tell          every shard unmaps the plain log; who looks for it in vain looks again
    unlink        in the thread

A kill in between may leave a temporary, which recovery removes. It may leave both files: recovery
removes the compressed one, and it is made again. Or it leaves a file in the trash, which the
successor unlinks. Whether a partition is still alive is looked at before each step that names a
file.

Nothing is forgotten: compression_backlog.py says what becomes of segments that failed. With the
lowest priority it may lag behind on a machine that has no time to spare, and says so.
"""

import asyncio
import errno
import logging
import os
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import suppress
from itertools import islice
from typing import Final, NamedTuple

from borzoi.router.target import Target
from borzoi.shards.lifecycle.deleting import TRASH_PREFIX
from borzoi.shards.loop.periodic import Periodic
from borzoi.shards.metadata.state import Topic
from borzoi.shards.partitions.partition import OwnedPartition
from borzoi.shards.settings.schema import Compression
from borzoi.shards.tallies.traffic import CompressionBacklog
from borzoi.shards.upkeep.compression_backlog import (
    Backlog,
    SegmentPlace,
    WaitingSegments,
    place_of,
)
from borzoi.storage.codecs import Codec
from borzoi.storage.compressed_log import packed_form
from borzoi.storage.compressor import CompressionStopped, compress_segment
from borzoi.storage.files import Files
from borzoi.storage.layout import compressing_path
from borzoi.storage.ratio import Ratio
from borzoi.storage.sealed_blocks import SegmentStays
from borzoi.storage.segment import Compressed, SealedSegment
from borzoi.storage.segment_form import SegmentForm

LOG: Final = logging.getLogger(__name__)

NICENESS: Final = 19
LOOK_AGAIN_S: Final = 60.0
"""After so long all partitions are looked at again: a full disk may have room by then."""

LOOKS_PER_TURN: Final = 64
"""So many partitions are looked at before the loop gets its turn."""

LACKING: Final = frozenset(
    {errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EMFILE, errno.ENFILE, errno.ENOMEM}
)
"""Not the segment's fault: the others of its partition need not be tried before the next look."""


class InForce(NamedTuple):
    """What a topic's segments are compressed with, if their last message is not older."""

    codec: Codec
    since_us: int


def in_force(settings: Compression, topic: Topic) -> InForce:
    """The codec of a topic: its own if topics may choose, else the server's.

    A topic whose codec was changed keeps the segments that were complete by then as they are.
    """
    if settings.allow_override:
        return InForce(Codec(topic.compression_algorithm), topic.compression_since)
    return InForce(Codec[settings.default_algorithm.upper()], 0)


def ignored(settings: Compression, wanted: int) -> Codec | None:
    """The codec that a topic asks for in vain, if it does."""
    codec, default = Codec(wanted), Codec[settings.default_algorithm.upper()]
    in_vain = not settings.allow_override and codec not in (Codec.NONE, default)
    return codec if in_vain else None


def ratio_of(partition: OwnedPartition) -> Ratio:
    """What compression has saved in one partition."""
    found = Ratio()
    for segment in partition.log.sealed:
        found = found.with_segment(segment)
    return found


def low_priority_thread() -> Executor:
    """Where compressing happens: on the worker's core, when it has nothing better to do."""

    def lower() -> None:
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), NICENESS)

    return ThreadPoolExecutor(1, "compress", initializer=lower)


class CompressingStats(NamedTuple):
    """What was compressed since the start, and what waits for it now."""

    segments: int = 0
    waiting: int = 0
    partitions: int = 0
    waited_s: float = 0.0
    left_plain: int = 0


class _Job(NamedTuple):
    partition: OwnedPartition
    segment: SealedSegment
    codec: Codec
    began: float

    @property
    def place(self) -> SegmentPlace:
        return place_of(self.partition.target, self.segment)


class _Made(NamedTuple):
    size: int
    form: SegmentForm


class Compressing:
    """Compresses what this shard owns."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        thread: Executor,
        files: Files,
        trash_dir: str,
        partitions: Callable[[], list[OwnedPartition]],
        codec_of: Callable[[Target], InForce | None],
        tell: Callable[[Target, int], None],
    ) -> None:
        """`tell` lets every shard know that a segment of a partition has another file."""
        self._loop = loop
        self._thread = thread
        self._files = files
        self._trash_dir = trash_dir
        self._partitions = partitions
        self._codec_of = codec_of
        self._tell = tell
        self._waiting: dict[OwnedPartition, None] = {}
        self._backlog = Backlog()
        self._measured: list[WaitingSegments] = []
        self._segments = 0
        self._running = False
        self._goes_on = False
        self._stopped = False
        self._looks = Periodic(loop, LOOK_AGAIN_S, self._look)

    def start(self) -> None:
        """Look at all partitions, now and again and again."""
        if not self._stopped:
            self._look()
            self._looks.start()

    def _look(self) -> None:
        partitions = self._partitions()
        self._backlog.look_again()
        self._waiting.update(dict.fromkeys(partitions))
        self._next()
        self._backlog.forget_ended({partition.target for partition in partitions})
        self._measure(iter(partitions), [])

    def sealed(self, partition: OwnedPartition) -> None:
        """A segment of this partition was sealed and is on the disk."""
        self._waiting[partition] = None
        self._next()

    def repaired(self, partition: OwnedPartition, first_offset: int) -> None:
        """Offers a segment again whose index was replaced: that may be why it failed."""
        target = partition.target
        self._backlog.forget(SegmentPlace(target.namespace, target.birth, first_offset))
        self.sealed(partition)

    def stats(self) -> CompressingStats:
        """The figures of this moment."""
        found = [self._waiting_of(partition) for partition in self._partitions()]
        waiting = [one for one in found if one.segments]
        return CompressingStats(
            self._segments,
            sum(one.segments for one in waiting),
            len(waiting),
            max((one.waited_s for one in waiting), default=0.0),
            self._backlog.left_plain,
        )

    def last_measured(self) -> CompressionBacklog:
        """What waited when it was looked at last, which was done in turns."""
        found = self._measured
        return CompressionBacklog(
            sum(one.segments for one in found),
            max((one.waited_s for one in found), default=0.0),
            self._backlog.left_plain,
        )

    def stop(self) -> None:
        """Begin nothing any more; what runs ends after the block it is at."""
        self._stopped = True
        self._looks.stop()
        self._waiting.clear()

    def _next(self) -> None:
        for _ in range(LOOKS_PER_TURN):
            if not self._waiting or self._running or self._stopped:
                return
            partition = next(iter(self._waiting))
            del self._waiting[partition]
            job = self._job(partition)
            if job is not None:
                # Behind all others: it may have more.
                self._waiting[partition] = None
                self._running = True
                self._compress(job)
        if not self._goes_on:
            self._goes_on = True
            self._loop.call_soon(self._go_on)

    def _go_on(self) -> None:
        self._goes_on = False
        self._next()

    def _job(self, partition: OwnedPartition) -> _Job | None:
        if not partition.alive:
            return None
        codec, wanted = self._wanted(partition)
        segment = self._backlog.next_of(partition.target, wanted)
        return None if segment is None else _Job(partition, segment, codec, time.monotonic())

    def _wanted(self, partition: OwnedPartition) -> tuple[Codec, list[SealedSegment]]:
        """What should be compressed of a partition, oldest first, and with what."""
        wanted = self._codec_of(partition.target)
        if wanted is None or wanted.codec is Codec.NONE:
            return Codec.NONE, []
        segments = partition.log.segments.compressible(partition.published)
        young = (one for one in segments if one.last_timestamp >= wanted.since_us)
        return wanted.codec, self._backlog.wanted(partition.target, young)

    def _waiting_of(self, partition: OwnedPartition) -> WaitingSegments:
        wanted = self._wanted(partition)[1] if partition.alive else []
        return self._backlog.measure(partition.target, wanted, self._loop.time())

    def _measure(self, rest: Iterator[OwnedPartition], waiting: list[WaitingSegments]) -> None:
        """Find out how much waits, and say so if it has waited for long."""
        if self._stopped:
            return
        found = [self._waiting_of(partition) for partition in islice(rest, LOOKS_PER_TURN)]
        if found:
            waiting += (one for one in found if one.segments)
            self._loop.call_soon(self._measure, rest, waiting)
            return
        self._measured = waiting
        if warning := self._backlog.warning(waiting, self._loop.time()):
            LOG.warning("%s", warning)

    def _compress(self, job: _Job) -> None:
        directory = job.partition.log.directory

        def run() -> None:
            try:
                size = compress_segment(
                    directory,
                    job.segment,
                    job.codec,
                    self._files,
                    lambda: self._stopped,
                    cipher=job.partition.log.cipher,
                )
                path = compressing_path(directory, job.segment.first_offset, job.codec)
                made = _Made(size, packed_form(path, self._files))
            except (OSError, MemoryError, SegmentStays, CompressionStopped) as error:
                self._loop.call_soon_threadsafe(self._failed, job, error)
            except Exception as error:
                # A fault of ours, but all that waits behind this segment must not suffer from it.
                LOG.exception("compressing in %s broke", directory)
                self._loop.call_soon_threadsafe(self._failed, job, SegmentStays(str(error)))
            else:
                self._loop.call_soon_threadsafe(self._place, job, made)

        self._thread.submit(run)

    def _failed(self, job: _Job, error: Exception) -> None:
        partition = job.partition
        if not partition.alive or job.segment not in partition.log.sealed:
            # Purged or deleted meanwhile: no wonder.
            self._end()
            return
        # A file that is lost does not come back: what lies behind it must not wait for it.
        times = 1
        if isinstance(error, SegmentStays | FileNotFoundError):
            self._backlog.leave_plain(job.place)
        else:
            times = self._backlog.failed(job.place)
            if not isinstance(error, OSError) or error.errno in LACKING:
                self._waiting.pop(partition, None)
        # The first time, the second, the fourth and so on.
        if not isinstance(error, CompressionStopped) and times & (times - 1) == 0:
            LOG.warning(
                "partition %s: segment %d is not compressed: %s",
                partition.target,
                job.segment.first_offset,
                error,
            )
        self._end()

    def _put_off(self, job: _Job, error: OSError) -> None:
        """It is made, but the directory cannot be changed: none of its segments gets further."""
        self._waiting.pop(job.partition, None)
        self._failed(job, error)

    def _place(self, job: _Job, made: _Made) -> None:
        log, first = job.partition.log, job.segment.first_offset
        # With a key that was exchanged meanwhile nothing comes into being any more.
        is_outdated = log.cipher is not None and log.cipher.is_outdated(made.form)
        if self._stopped or not job.partition.alive or is_outdated:
            self._remove_temporary(job)
            return
        try:
            if not log.segments.place_compressed(first, job.codec):
                self._end()
                return
        except OSError as error:
            self._put_off(job, error)
            return

        def run() -> None:
            failed = None
            try:
                self._files.fsync_directory(log.directory)
            except OSError as error:
                failed = error
            self._loop.call_soon_threadsafe(self._retire, job, made, failed)

        self._thread.submit(run)

    def _retire(self, job: _Job, made: _Made, failed: OSError | None) -> None:
        partition, first = job.partition, job.segment.first_offset
        if failed is not None:
            # Both are there, and the plain one counts until it is all done once more.
            self._put_off(job, failed)
            return
        if not partition.alive:
            self._end()
            return
        target = partition.target
        compressed = Compressed(job.codec, made.size)
        name = f"{TRASH_PREFIX}{target.namespace}-{target.birth}"
        try:
            paths = partition.log.segments.retire_plain(
                first, compressed, made.form, self._trash_dir, name
            )
        except OSError as error:
            self._put_off(job, error)
            return
        self._backlog.forget(job.place)
        self._segments += bool(paths)
        self._tell(target, first)
        done = Ratio().with_segment(job.segment._replace(compressed=compressed))
        LOG.info(
            "partition %s: segment %d compressed with %s: %d bytes are %d now, ratio %.2f, in"
            " %.3f s; all of the partition: ratio %.2f, %d bytes saved",
            target,
            first,
            job.codec.label,
            done.plain_bytes,
            done.stored_bytes,
            done.ratio,
            time.monotonic() - job.began,
            *_summary(ratio_of(partition)),
        )

        def run() -> None:
            try:
                for path in paths:
                    self._files.unlink_if_there(path)
                with suppress(FileNotFoundError):
                    self._files.fsync_directory(partition.log.directory)
            except OSError as error:
                LOG.warning("a compressed segment still takes space under trash/: %s", error)
            self._loop.call_soon_threadsafe(self._end)

        self._thread.submit(run)

    def _remove_temporary(self, job: _Job) -> None:
        """The partition ended, or the broker does; a new life has no such file of its own."""
        path = compressing_path(job.partition.log.directory, job.segment.first_offset, job.codec)

        def run() -> None:
            with suppress(OSError):
                self._files.unlink_if_there(path)
            self._loop.call_soon_threadsafe(self._end)

        self._thread.submit(run)

    def _end(self) -> None:
        self._running = False
        self._next()


def _summary(ratio: Ratio) -> tuple[float, int]:
    return ratio.ratio, ratio.saved_bytes
