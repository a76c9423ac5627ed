"""The ids of the last messages of a log, read back to know them again after a restart.

For a thread: it reads files, in pieces, and lets go of the interpreter while it does. It costs 16
bytes of index for each message the window may hold. Of those that have not expired it reads either
the bytes around the header (small messages: one read for many) or the header alone (large ones).

Ids are in clear in encrypted segments too, so this needs no key; but for compressed ones.

Reads only what `PartitionLog.tail` said was there. A segment that was deleted since is passed over.
"""

import os
from bisect import bisect_right
from collections.abc import Sequence
from typing import Final, NamedTuple

from borzoi.protocol.batch import (
    INDEX_ENTRY_SIZE,
    MESSAGE_HEADER_SIZE,
    SeenIds,
    first_at_or_after,
)
from borzoi.storage.compressed_log import CompressedLog, open_log
from borzoi.storage.encrypted import PartitionCipher
from borzoi.storage.files import Files
from borzoi.storage.layout import index_path
from borzoi.storage.scan import LogBytes
from borzoi.storage.segment import IndexEntry, LogEnd, SealedSegment
from borzoi.storage.segment_form import PLAIN


class ReadSizes(NamedTuple):
    """How much is read at once.

    Messages over `sparse_size` on average are not read, only their headers: a call costs as much.
    """

    entries: int = 16 * 1024
    log_bytes: int = 1024 * 1024
    sparse_size: int = 16 * 1024


READ_SIZES: Final = ReadSizes()


class Tail(NamedTuple):
    """A run of messages in one segment, by their numbers in it."""

    segment: int
    first: int
    end: int
    start: int = 0  # where the segment's first message begins in its .log


def tail_of(sealed: Sequence[SealedSegment], end: LogEnd, count_max: int) -> list[Tail]:
    """Where the last so many messages lie, oldest first."""
    tails: list[Tail] = []
    for segment, count, form in (
        (end.segment, end.message_count, end.form),
        *((one.first_offset, one.message_count, one.form) for one in reversed(sealed)),
    ):
        if count_max == 0:
            break
        wanted = min(count, count_max)
        if wanted:
            tails.append(Tail(segment, count - wanted, count, form.start))
        count_max -= wanted
    return tails[::-1]


def remember_tail(
    seen: SeenIds,
    directory: str,
    tails: Sequence[Tail],
    timestamp_min: int,
    files: Files,
    cipher: PartitionCipher | None = None,
    sizes: ReadSizes = READ_SIZES,
) -> None:
    """Let `seen` know the messages of these runs that are not before `timestamp_min`."""
    for tail in tails:
        try:
            index = files.open(index_path(directory, tail.segment), os.O_RDONLY)
            try:
                with open_log(directory, tail.segment, files, cipher) as log:
                    _remember_segment(seen, index, log, tail, timestamp_min, files, sizes)
            finally:
                files.close(index)
        except FileNotFoundError:
            continue


def _remember_segment(
    seen: SeenIds,
    index: int,
    log: LogBytes,
    tail: Tail,
    timestamp_min: int,
    files: Files,
    sizes: ReadSizes,
) -> None:
    def read(first: int, count: int) -> memoryview:
        found = files.pread(index, count * INDEX_ENTRY_SIZE, first * INDEX_ENTRY_SIZE)
        if log.index_form == PLAIN:
            return memoryview(found)
        whole = len(found) // INDEX_ENTRY_SIZE * INDEX_ENTRY_SIZE
        return memoryview(log.index_form.as_plain(bytearray(found[:whole]), first))

    start = 0 if isinstance(log, CompressedLog) else tail.start
    if tail.first:
        before = read(tail.first - 1, 1)
        if len(before) < INDEX_ENTRY_SIZE:
            return  # shorter than it was
        start = IndexEntry.at(before, 0).position
    for first in range(tail.first, tail.end, sizes.entries):
        entries = read(first, min(sizes.entries, tail.end - first))
        count = len(entries) // INDEX_ENTRY_SIZE
        if count == 0:
            return
        expired = first_at_or_after(entries, count, timestamp_min)
        if expired:
            start = IndexEntry.at(entries, expired - 1).position
        wanted = entries[expired * INDEX_ENTRY_SIZE : count * INDEX_ENTRY_SIZE]
        _remember_messages(seen, log, start, wanted, sizes)
        start = IndexEntry.at(entries, count - 1).position


def _remember_messages(
    seen: SeenIds, log: LogBytes, start: int, entries: memoryview, sizes: ReadSizes
) -> None:
    """The messages of these entries, of which the first begins at `start`."""
    count = len(entries) // INDEX_ENTRY_SIZE
    number = 0
    while number < count:
        # As many as fit into one read; the last one's header does, even if nothing else of it.
        room = start + sizes.log_bytes - MESSAGE_HEADER_SIZE
        reached = 1 + bisect_right(
            range(number, count - 1), room, key=lambda each: IndexEntry.at(entries, each).position
        )
        run = entries[number * INDEX_ENTRY_SIZE : (number + reached) * INDEX_ENTRY_SIZE]
        last_start = IndexEntry.at(run, reached - 2).position if reached > 1 else start
        if last_start - start > reached * sizes.sparse_size:
            for each in range(reached):
                header = log.read(start, MESSAGE_HEADER_SIZE)
                entry = run[each * INDEX_ENTRY_SIZE : (each + 1) * INDEX_ENTRY_SIZE]
                seen.remember(header, start, entry)
                start = IndexEntry.at(entry, 0).position
        else:
            # Bounded once more: a damaged index may say anything.
            size = min(max(last_start - start, 0) + MESSAGE_HEADER_SIZE, sizes.log_bytes)
            seen.remember(log.read(start, size), start, run)
            start = IndexEntry.at(run, reached - 1).position
        number += reached
