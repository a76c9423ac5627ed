"""Deleting the oldest segments of the partitions we own, for clients and for the cleaner.

Owned by the worker's loop. Sealed segments only, the oldest first. What a consumer or group with a
committed offset has not read stays as far as storage/retention.py protects it. A deletion's steps:

    sync          if a segment is not on the disk yet: a power cut must not bring back a gap
    publish       first_offset moves, readers stop looking for what goes
    rename        into the trash, two quick calls for each segment
    unlink        in a thread, with the sync of the directory; then it is answered

A kill in between leaves segments that are there as a whole. Or it leaves an index without its log
(recovery removes it), or files in the trash (the successor unlinks them).
"""

import asyncio
import logging
import os
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from contextlib import suppress
from typing import Final, NamedTuple

from borzoi.protocol.errors import BrokerError, CannotDeleteFile, PartitionNotFound
from borzoi.router.target import Target
from borzoi.shards.lifecycle.blockers import Blocker, Blockers
from borzoi.shards.partitions.group_commit import GroupCommit
from borzoi.shards.partitions.owned import Partitions
from borzoi.shards.partitions.partition import Ended, OwnedPartition
from borzoi.shards.rings.requests import Done
from borzoi.storage.files import Files
from borzoi.storage.retention import (
    Candidate,
    Choice,
    Cut,
    Protection,
    Unread,
    choose,
    choose_expired,
    choose_up_to,
    count_up_to,
    read_count,
    spare_last,
)
from borzoi.storage.segment import SealedSegment

LOG: Final = logging.getLogger(__name__)

Choose = Callable[[Sequence[SealedSegment], int | None], Choice]
"""Which of the oldest segments go, where this is the least of all committed offsets."""

MayGo = Callable[[OwnedPartition, Sequence[SealedSegment]], int]
"""How many of these oldest segments may be deleted already, as far as others are concerned."""

TRASH_PREFIX: Final = "segment-"
"""What deleted segments are called in the trash, before their namespace and birth."""


class DeletingStats(NamedTuple):
    """What was deleted since the start, how often a consumer stood in the way, and since when.

    Of the segments `unread_segments` were deleted although a consumer had not read them.
    """

    segments: int
    size_bytes: int
    blocked: dict[Blocker, int]
    blocked_since_us: dict[Blocker, int]
    unread_segments: int


class Deleting:
    """Deletes segments of this shard's partitions."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        disk: Executor,
        files: Files,
        trash_dir: str,
        partitions: Partitions,
        commit: GroupCommit,
        now_us: Callable[[], int],
        unread: Unread,
    ) -> None:
        self._loop = loop
        self._disk = disk
        self._files = files
        self._trash_dir = trash_dir
        self._partitions = partitions
        self._commit = commit
        self._now_us = now_us
        self._unread = unread
        self._segments = 0
        self._size_bytes = 0
        self._unread_segments = 0
        self._blockers = Blockers()
        self.may_go: MayGo = _all_of_them

    def stats(self) -> DeletingStats:
        """The figures of this moment."""
        return DeletingStats(
            self._segments,
            self._size_bytes,
            self._blockers.counts(),
            self._blockers.standing(self._partitions),
            self._unread_segments,
        )

    def delete_count(self, target: Target, count: int, done: Done) -> None:
        """DELETE_SEGMENTS: up to `count` of the oldest, as long as they are read."""
        self._delete_of(target, lambda sealed, committed: choose(sealed, count, committed), done)

    def delete_up_to(self, target: Target, cut: Cut, done: Done) -> None:
        """The size limit: those that end at this offset or before. May be repeated."""
        self._delete_of(
            target, lambda sealed, committed: choose_up_to(sealed, cut, committed), done
        )

    def delete_expired(
        self, partition: OwnedPartition, now_us: int, expiry_us: int, done: Done
    ) -> None:
        """Message expiry: those in which every message is too old."""

        def choose(sealed: Sequence[SealedSegment], committed: int | None) -> Choice:
            return choose_expired(sealed, now_us, expiry_us, committed, self._unread)

        self._delete(partition, choose, done)

    def candidates(self, target: Target) -> list[Candidate]:
        """What the size limit of the topic may choose from."""
        partition = self._partitions.find(target)
        published = partition.published
        visible = [
            one for one in partition.log.sealed if one.first_offset < published.active_segment
        ]
        sealed = spare_last(
            visible, active_is_empty=published.next_offset == published.active_segment
        )
        read = read_count(sealed, _committed(partition))
        return [
            Candidate(one.end_offset, one.size_bytes, one.first_timestamp, number >= read)
            for number, one in enumerate(sealed)
        ]

    def _delete_of(self, target: Target, choose: Choose, done: Done) -> None:
        try:
            partition = self._partitions.find(target)
        except BrokerError as error:
            done(error.status)
            return
        self._delete(partition, choose, done)

    def _delete(self, partition: OwnedPartition, choose: Choose, ended: Ended) -> None:
        sealed = partition.log.sealed
        choice = choose(sealed, _committed(partition))
        if choice.unread:
            kept = sealed[choice.segments].first_offset
            self._blockers.note(partition, kept, self._now_us())

        def synced(status: int) -> None:
            if status:
                ended(status)
            elif not partition.alive:
                ended(PartitionNotFound.status)
            else:
                # Looked at again: meanwhile others have deleted, and consumers have committed.
                # The oldest may be others by now, which have to be asked about as well.
                deletable = partition.log.segments.deletable(partition.published)
                choice = choose(deletable, _committed(partition))
                chosen = deletable[: choice.segments]
                count = self.may_go(partition, chosen) if chosen else 0
                missed = max(0, count - (choice.segments - choice.missed))
                self._delete_now(partition, count, missed, ended)

        oldest = partition.log.sealed[: choice.segments]
        synced_count = len(partition.log.segments.deletable(partition.published))
        if synced_count < len(oldest) and synced_count < self.may_go(partition, oldest):
            self._commit.flush(partition, synced, fsync=True)
        else:
            synced(0)

    def _delete_now(self, partition: OwnedPartition, count: int, missed: int, ended: Ended) -> None:
        if count == 0:
            ended(0)
            return
        log, target = partition.log, partition.target
        oldest = log.sealed[:count]
        end_offset = oldest[-1].end_offset
        before = partition.published
        self._commit.publish(partition, log.segments.without_oldest(before, count))
        name = f"{TRASH_PREFIX}{target.namespace}-{target.birth}"
        paths, error = log.segments.retire_oldest(count, self._trash_dir, name)
        if error is not None:
            LOG.error("partition %s: segments stay: %s", target, error)
            # Those that are still there can still be read.
            self._commit.publish(partition, log.segments.without_oldest(before, 0))
        gone = oldest[: count - count_up_to(log.sealed, end_offset)]
        size_bytes = sum(one.size_bytes for one in gone)
        self._segments += len(gone)
        self._size_bytes += size_bytes
        unread = max(0, missed - (count - len(gone)))
        self._unread_segments += unread
        if unread and self._unread.protection is not Protection.NEVER:
            self._blockers.missed(partition, unread, self._now_us())
        LOG.info(
            "partition %s: deleted %d segments with %d bytes, it begins at offset %d now",
            target,
            len(gone),
            size_bytes,
            partition.published.first_offset,
        )

        def finished(failed: OSError | None) -> None:
            if failed is not None:
                LOG.warning("deleted segments still take disk space under trash/: %s", failed)
            ended(error.status if error is not None else CannotDeleteFile.status if failed else 0)

        def run() -> None:
            failed = None
            try:
                self._unlink(log.directory, paths)
            except OSError as problem:
                failed = problem
            self._loop.call_soon_threadsafe(finished, failed)

        self._disk.submit(run)

    def remove_leftovers(self, is_ours: Callable[[int], bool]) -> None:
        """At a start: unlink, in a thread, what a predecessor has moved away but not unlinked.

        `is_ours` tells whether a namespace belongs to this shard.
        """

        def run() -> None:
            try:
                for name in self._files.listdir(self._trash_dir):
                    namespace = name.removeprefix(TRASH_PREFIX).partition("-")[0]
                    if name.startswith(TRASH_PREFIX) and is_ours(int(namespace)):
                        self._files.unlink_if_there(os.path.join(self._trash_dir, name))
            except OSError as error:
                LOG.warning("deleted segments still take disk space under trash/: %s", error)

        self._disk.submit(run)

    def _unlink(self, directory: str, paths: list[str]) -> None:
        """In a thread: give the space back, and make it durable that the segments are gone."""
        for path in paths:
            self._files.unlink_if_there(path)
        # The partition may have been deleted meanwhile: then there is nothing to make durable.
        with suppress(FileNotFoundError):
            self._files.fsync_directory(directory)


def _all_of_them(_partition: OwnedPartition, oldest: Sequence[SealedSegment]) -> int:
    return len(oldest)


def _committed(partition: OwnedPartition) -> int | None:
    """The least of all committed offsets, None if there is none."""
    lowest = partition.offsets.lowest()
    return None if lowest is None else lowest[0]
