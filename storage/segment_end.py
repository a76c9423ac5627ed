"""Where a segment ends: by its index, if that fits the log, or by entries made from the log."""

import os
import struct
from typing import Final

from borzoi.protocol.batch import INDEX_ENTRY_SIZE, MESSAGE_HEADER_SIZE, first_bad_message
from borzoi.storage.compressed_log import CompressedLog
from borzoi.storage.files import Files
from borzoi.storage.layout import index_path
from borzoi.storage.scan import LogBytes, LogFile
from borzoi.storage.segment import IndexEntry, LogEnd
from borzoi.storage.segment_form import read_form

TIMESTAMP: Final = struct.Struct("<32xQ")  # in the header of a message


def open_log(files: Files, fd: int, segment: int) -> LogFile:
    """The log behind a descriptor, with its size and form."""
    return LogFile(files, fd, segment, files.size(fd), read_form(files, fd))


def end_by_index(directory: str, log: LogBytes, expected: int, files: Files) -> LogEnd | None:
    """The end of a segment as its index has it, None when the sizes do not fit each other."""
    start = log.form.start
    try:
        fd = files.open(index_path(directory, log.segment), os.O_RDONLY)
    except FileNotFoundError:
        return None
    try:
        if files.size(fd) != expected * INDEX_ENTRY_SIZE:
            return None
        if expected == 0:
            empty = LogEnd(log.segment, start, log.segment, 0, 0, log.form)
            return empty if log.size == start else None
        first = IndexEntry.at(files.pread(fd, INDEX_ENTRY_SIZE, 0), 0)
        last_at = (expected - 1) * INDEX_ENTRY_SIZE
        last = IndexEntry.at(files.pread(fd, INDEX_ENTRY_SIZE, last_at), 0)
        if expected > 1:
            before = files.pread(fd, INDEX_ENTRY_SIZE, last_at - INDEX_ENTRY_SIZE)
            start = IndexEntry.at(before, 0).position
    finally:
        files.close(fd)
    end = log.index_form.message_bytes(last.position, expected)
    if end != log.size or last.relative_offset != expected - 1:
        return None
    if not _has_time(log, start, last):
        return None
    end_offset = log.segment + expected
    return LogEnd(log.segment, log.size, end_offset, last.timestamp, first.timestamp, log.form)


def end_by_entries(
    log: LogBytes, entries: bytes | bytearray, position: int, before: LogEnd
) -> LogEnd:
    """The end of a segment whose log has these messages up to a position."""
    count = len(entries) // INDEX_ENTRY_SIZE
    first = IndexEntry.at(entries, 0).timestamp if count else 0
    last = IndexEntry.at(entries, count - 1).timestamp if count else before.last_timestamp
    return LogEnd(log.segment, position, log.segment + count, last, first, log.form)


def _has_time(log: LogBytes, start: int, entry: IndexEntry) -> bool:
    """Whether the message that begins at `start` has the time that its index entry says.

    By the last entry of a segment its messages expire and the next ones get their times. Where
    the two differ, the message decides, if it is sound.
    """
    facts = log.index.facts if isinstance(log, CompressedLog) else None
    if facts is not None:
        # Its block index has a checksum: no block need be read.
        return entry.timestamp == facts.last_timestamp
    if start >= entry.position:
        return False
    header = log.read(start, MESSAGE_HEADER_SIZE)
    if len(header) == MESSAGE_HEADER_SIZE and TIMESTAMP.unpack_from(header)[0] == entry.timestamp:
        return True
    message = log.read(start, entry.position - start)
    offset = log.segment + entry.relative_offset | log.form.mark
    return first_bad_message(message, 1, offset) is not None
