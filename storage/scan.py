"""Walking over a .log file to find out what is really in it.

Reads with pread in pieces, so memory stays bounded and a bad sector is an OSError, where a map
would kill the process. There are two walks. The first, scan_file, stops at the first message that
is not sound, as a torn tail needs it. The other, rebuild_index, goes on behind damage, so that what
follows stays readable.
"""

import re
import struct
from collections.abc import Iterator
from typing import Final, NamedTuple, Protocol

from borzoi.protocol.batch import (
    INDEX_ENTRY,
    INDEX_ENTRY_SIZE,
    MESSAGE_HEADER_SIZE,
    MESSAGE_PAYLOAD_SIZE_MAX,
    USER_HEADERS_SIZE_MAX,
    Scan,
    first_bad_message,
    scan_log,
)
from borzoi.storage.files import Files
from borzoi.storage.segment_form import (
    ENCRYPTED_MARK,
    MESSAGE_OVERHEAD,
    PLAIN,
    SegmentForm,
    seal_place,
)

CHUNK_SIZE: Final = 8 * 1024 * 1024
MESSAGE_SIZE_MAX: Final = (
    MESSAGE_HEADER_SIZE + MESSAGE_PAYLOAD_SIZE_MAX + USER_HEADERS_SIZE_MAX + MESSAGE_OVERHEAD
)

# How far behind a damaged message the next sound one is looked for. In bytes, because a damaged one
# may have the largest size; in messages, because a bad sector holds many small ones.
SEARCH_SIZE_MAX: Final = 2 * MESSAGE_SIZE_MAX
LOST_MESSAGES_MAX: Final = 4096

LENGTHS: Final = struct.Struct("<II")  # user headers, payload
LENGTHS_AT: Final = 48


class LogBytes(Protocol):
    """The messages of a segment, however they are stored."""

    @property
    def segment(self) -> int:
        """The first offset of the segment."""

    @property
    def size(self) -> int:
        """The size of the bytes that count."""

    @property
    def form(self) -> SegmentForm:
        """The form of the bytes that read() returns."""

    @property
    def index_form(self) -> SegmentForm:
        """What positions in its .index follow from; PLAIN where they are those of these bytes."""

    def read(self, position: int, size: int) -> memoryview:
        """Bytes from a position on; fewer at the end."""


class LogFile(NamedTuple):
    """An open .log, and how much of it counts."""

    files: Files
    fd: int
    segment: int  # its first offset
    size: int
    form: SegmentForm = PLAIN

    @property
    def index_form(self) -> SegmentForm:
        """Plain: positions in the .index are those of the file."""
        return PLAIN

    def read(self, position: int, size: int) -> memoryview:
        """Returns bytes from a position on; fewer, or none, at the end."""
        # A damaged index may lead behind the end.
        room = max(0, min(size, self.size - position))
        return memoryview(self.files.pread(self.fd, room, position))


class Rebuilt(NamedTuple):
    """An index made from the log. Lost messages have entries too, so that offsets stay dense."""

    entries: bytearray
    lost: list[tuple[int, int]]  # ranges of offsets that do not verify, end excluded
    end_position: int

    @property
    def message_count(self) -> int:
        """The number of entries, those of lost messages too."""
        return len(self.entries) // INDEX_ENTRY_SIZE


def scan_file(log: LogBytes, position: int, first_offset: int, timestamp_min: int) -> Scan:
    """The sound messages from `position` on, up to the first that is not."""
    entries = bytearray()
    mark = log.form.mark
    at, offset, timestamp = position, first_offset, timestamp_min
    chunk_size = CHUNK_SIZE
    while at < log.size:
        chunk = log.read(at, chunk_size)
        found = scan_log(
            chunk,
            offset | mark,
            segment_first_offset=log.segment | mark,
            position=at,
            timestamp_min=timestamp,
        )
        entries += found.index_entries
        at += found.valid_size
        offset += found.message_count
        timestamp = found.last_timestamp
        if found.message_count == 0:
            if chunk_size >= MESSAGE_SIZE_MAX or len(chunk) < chunk_size:
                break
            chunk_size = MESSAGE_SIZE_MAX  # one message may be larger than a usual piece
        else:
            chunk_size = CHUNK_SIZE
    return Scan(entries, at - position, offset - first_offset, timestamp)


def whole_seals(found: Scan, log: LogBytes, position: int) -> Scan:
    """What a walk from `position` on found, without the seal at its end if that is not whole."""
    entries = found.index_entries
    count = found.message_count
    if count == 0:
        return found
    last_at = _end_in(entries, count - 1, position)
    place = seal_place(log.read(last_at, MESSAGE_HEADER_SIZE))
    if place.is_last:
        return found
    count = max(0, count - place.number - 1)
    valid_size = _end_in(entries, count, position) - position
    return Scan(entries[: count * INDEX_ENTRY_SIZE], valid_size, count, found.last_timestamp)


def _end_in(entries: bytearray, count: int, position: int) -> int:
    """Where the first `count` messages end that begin at `position`."""
    if count == 0:
        return position
    end: int = INDEX_ENTRY.unpack_from(entries, (count - 1) * INDEX_ENTRY_SIZE)[1]
    return end


def rebuild_index(
    log: LogBytes, message_count_max: int, timestamp_min: int, *, fill: bool
) -> Rebuilt:
    """The index of a segment of which it is known how many messages it has at most.

    With `fill` they are known to have been there: those that cannot be found at the end are
    lost messages. Without, the log may simply end early.
    """
    end_offset = log.segment + message_count_max
    entries = bytearray()
    lost: list[tuple[int, int]] = []
    at, offset, timestamp = log.form.start, log.segment, timestamp_min
    while offset < end_offset:
        found = scan_file(log, at, offset, timestamp)
        entries += found.index_entries
        at += found.valid_size
        offset += found.message_count
        timestamp = found.last_timestamp
        if at >= log.size or offset >= end_offset:
            break
        following = _next_sound(log, at, offset, end_offset)
        if following is None:
            if _fills_the_rest(log, at):
                following = log.size, offset + 1
            else:
                break
        position, next_offset = following
        lost.append((offset, next_offset))
        for missing in range(offset, next_offset):
            entries += INDEX_ENTRY.pack(missing - log.segment, position, timestamp)
        at, offset = position, next_offset
    del entries[message_count_max * INDEX_ENTRY_SIZE :]
    offset = min(offset, end_offset)
    if fill and offset < end_offset:
        lost.append((offset, end_offset))
        for missing in range(offset, end_offset):
            entries += INDEX_ENTRY.pack(missing - log.segment, log.size, timestamp)
    end = log.form.start
    if entries:
        end = INDEX_ENTRY.unpack_from(entries, len(entries) - INDEX_ENTRY_SIZE)[1]
    return Rebuilt(entries, lost, end)


def _next_sound(
    log: LogBytes, damaged_at: int, damaged_offset: int, end_offset: int
) -> tuple[int, int] | None:
    """Position and offset of the next message that verifies, behind one that does not."""
    search_end = min(log.size, damaged_at + SEARCH_SIZE_MAX)
    mark = log.form.mark
    last_offset = min(end_offset - 1, damaged_offset + LOST_MESSAGES_MAX)
    for pattern in _header_patterns(damaged_offset + 1 | mark, last_offset | mark):
        # Pieces overlap by a header, so that none is missed between two of them.
        for at in range(damaged_at + 1, search_end, CHUNK_SIZE):
            piece = log.read(at, CHUNK_SIZE + MESSAGE_HEADER_SIZE)
            for match in pattern.finditer(piece):
                position = at + match.start()
                stored = int.from_bytes(piece[match.start() + 24 : match.start() + 32], "little")
                offset = stored - mark
                if offset <= last_offset and _is_sound(log, position, offset):
                    return position, offset
    return None


def _header_patterns(first: int, last: int) -> Iterator[re.Pattern[bytes]]:
    """What a header with one of these offsets looks like: the offset at 24, zeros at 56.

    The zeros only if it is not encrypted.
    """
    reserved = b".{8}" if first & ENCRYPTED_MARK else b"\0{8}"
    for high in range(first >> 8, (last >> 8) + 1):
        low = max(first, high << 8) & 0xFF
        yield re.compile(
            b"(?s)(?=.{24}[%b-\xff]%b.{24}%b)"
            % (re.escape(bytes([low])), re.escape(high.to_bytes(7, "little")), reserved)
        )


def _is_sound(log: LogBytes, position: int, offset: int) -> bool:
    size = message_size(log, position)
    if size is None or position + size > log.size:
        return False
    return first_bad_message(log.read(position, size), 1, offset | log.form.mark) is None


def _fills_the_rest(log: LogBytes, position: int) -> bool:
    """Returns whether the damaged message at `position` at least ends where the log ends."""
    size = message_size(log, position)
    return size is not None and position + size == log.size


def message_size(log: LogBytes, position: int) -> int | None:
    """How large the message at this position says it is, None if it cannot be one."""
    header = log.read(position, MESSAGE_HEADER_SIZE)
    if len(header) < MESSAGE_HEADER_SIZE:
        return None
    size: int = MESSAGE_HEADER_SIZE + sum(LENGTHS.unpack_from(header, LENGTHS_AT))
    return size if size <= MESSAGE_SIZE_MAX else None
