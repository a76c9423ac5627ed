"""The loops over stored messages that leave in another layout, in plain Python.

Names and behaviour are those of the compiled twin, _leaving.pyx; callers import neither, but
edges.py. The layouts are drawn in edge_layouts.py. Views hold whole stored messages; one that
leaves its view is damaged, and raises CannotReadMessage.

Messages become one batch record as long as they lie in one view, follow one another without a
gap, have one timestamp, were made within 2**32 microseconds, and fit RECORD_SIZE_MAX.

An old client gives up when 45 bytes or less are left behind a message. That is what a last
message without payload and user headers has; a zero byte behind it, which such a client does not
read, makes it seen.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple, TypeAlias
from zlib import crc32

import xxhash

from borzoi.protocol.bare_headers import bare_headers
from borzoi.protocol.edge_layouts import (
    AVAILABLE,
    BATCH_CHECKED,
    BATCH_HEADER,
    BATCH_HEADER_SIZE,
    FRAME_HEADER,
    FRAME_HEADER_SIZE,
    NO_RESERVED,
    OLD_SHOWN_HEADER,
    OLD_SHOWN_SIZE_MIN,
    PIECE_SIZE_MAX,
    RECORD_SIZE_MAX,
    SHORT_HEADER,
    EdgeLayout,
)
from borzoi.protocol.errors import CannotReadMessage
from borzoi.protocol.identifiers import U32_MAX
from borzoi.protocol.message import (
    CHECKSUM_SIZE,
    MESSAGE_HEADER,
    MESSAGE_HEADER_SIZE,
    SENT_FIELDS,
)
from borzoi.protocol.payload import U32, U64


class Stored(NamedTuple):
    """One message of a view: its fields, and where it ends there."""

    id_bytes: bytes
    offset: int
    timestamp: int
    origin_timestamp: int
    payload: memoryview
    user_headers: memoryview
    end: int


Unit: TypeAlias = list[Stored]
"""Messages that stay together: those of one batch record, otherwise a single one."""


def converted_size(layout: int, views: Sequence[memoryview]) -> int:
    """How many bytes converted() gives."""
    units = [unit for view in views for unit in _units(layout, view, 0)]
    if layout == EdgeLayout.CONSENSUS:
        return sum(BATCH_HEADER_SIZE + sum(map(_frame_size, unit)) for unit in units)
    return len(_written(layout, units, 0, True))


def converted(layout: int, views: Sequence[memoryview], partition_id: int) -> bytes:
    """All messages in that layout; only batch records show the partition."""
    units = [unit for view in views for unit in _units(layout, view, 0)]
    return _written(layout, units, partition_id, True)


def whole_messages(view: memoryview, start: int) -> int:
    """Where the last message ends of those that begin at `start` and end within the view."""
    at = start
    while at + MESSAGE_HEADER_SIZE <= len(view):
        _offset, headers_size, payload_size = SENT_FIELDS.unpack_from(view, at)
        end = at + MESSAGE_HEADER_SIZE + headers_size + payload_size
        if end > len(view):
            break
        at = end
    return at


def converted_piece(
    layout: int, view: memoryview, start: int, partition_id: int, is_last: bool
) -> tuple[bytes, int]:
    """The messages that begin at `start`, about PIECE_SIZE_MAX bytes of them, and where they end.

    Pieces one after the other are what converted() gives; the last view with messages is so called.
    A record, or a message that is no part of one, is never cut, so a piece can be larger.
    """
    units: list[Unit] = []
    end = start
    for unit in _units(layout, view, start):
        if units and unit[-1].end - start > PIECE_SIZE_MAX:
            break
        units.append(unit)
        end = unit[-1].end
    return _written(layout, units, partition_id, is_last and end == len(view)), end


def _written(layout: int, units: list[Unit], partition_id: int, is_end: bool) -> bytes:
    if layout == EdgeLayout.CONSENSUS:
        return b"".join(_record(unit, partition_id) for unit in units)
    write = _old if layout == EdgeLayout.OLD else _short
    parts = [write(message) for (message,) in units]
    if is_end and layout == EdgeLayout.OLD and parts and len(parts[-1]) == OLD_SHOWN_SIZE_MIN:
        parts.append(b"\0")
    return b"".join(parts)


def _units(layout: int, view: memoryview, start: int) -> Iterator[Unit]:
    if layout == EdgeLayout.CONSENSUS:
        yield from _runs(_messages(view, start))
    else:
        yield from ([message] for message in _messages(view, start))


def _messages(view: memoryview, at: int) -> Iterator[Stored]:
    while at < len(view):
        start = at + MESSAGE_HEADER_SIZE
        if start > len(view):
            raise CannotReadMessage(f"a header at {at} leaves its view of {len(view)} bytes")
        head = MESSAGE_HEADER.unpack_from(view, at)
        _checksum, id_bytes, offset, timestamp, origin, headers_size, payload_size, _reserved = head
        middle = start + payload_size
        end = middle + headers_size
        if end > len(view):
            raise CannotReadMessage(f"a message at {at} leaves its view of {len(view)} bytes")
        yield Stored(id_bytes, offset, timestamp, origin, view[start:middle], view[middle:end], end)
        at = end


def _runs(messages: Iterator[Stored]) -> Iterator[Unit]:
    run: Unit = []
    size = smallest = largest = 0
    for message in messages:
        origin = message.origin_timestamp
        grown = size + _frame_size(message)
        fits = (
            bool(run)
            and message.offset == run[-1].offset + 1
            and message.timestamp == run[0].timestamp
            and max(largest, origin) - min(smallest, origin) <= U32_MAX
            and grown <= RECORD_SIZE_MAX
        )
        if fits:
            run.append(message)
            size, smallest, largest = grown, min(smallest, origin), max(largest, origin)
            continue
        if run:
            yield run
        run, smallest, largest = [message], origin, origin
        size = BATCH_HEADER_SIZE + _frame_size(message)
    if run:
        yield run


def _frame_size(message: Stored) -> int:
    return FRAME_HEADER_SIZE + len(message.payload) + len(message.user_headers)


def _record(run: Unit, partition_id: int) -> bytes:
    first = run[0]
    origin = min(message.origin_timestamp for message in run)
    frames = [_frame(message, delta, origin) for delta, message in enumerate(run)]
    length = BATCH_HEADER_SIZE + sum(map(len, frames))
    places = (partition_id, first.offset, first.timestamp, origin, length)
    checksums = b"".join(frame[:CHECKSUM_SIZE] for frame in frames)
    checksum = xxhash.xxh3_64_intdigest(BATCH_CHECKED.pack(*places, len(run)) + checksums)
    header = BATCH_HEADER.pack(*places, checksum, len(run), NO_RESERVED)
    return b"".join((header, *frames))


def _frame(message: Stored, offset_delta: int, origin: int) -> bytes:
    header = FRAME_HEADER.pack(
        0,
        message.id_bytes,
        offset_delta,
        message.origin_timestamp - origin,
        len(message.user_headers),
        len(message.payload),
        0,
    )
    return _with_checksum(b"".join((header, message.payload, message.user_headers)))


def _old(message: Stored) -> bytes:
    headers = bare_headers(message.user_headers)
    header = OLD_SHOWN_HEADER.pack(
        message.offset,
        AVAILABLE,
        message.timestamp,
        message.id_bytes,
        crc32(message.payload),
        len(headers),
    )
    return b"".join((header, headers, U32.pack(len(message.payload)), message.payload))


def _short(message: Stored) -> bytes:
    headers = bare_headers(message.user_headers)
    header = SHORT_HEADER.pack(
        0,
        message.id_bytes,
        message.offset,
        message.timestamp,
        message.origin_timestamp,
        len(headers),
        len(message.payload),
    )
    return _with_checksum(b"".join((header, message.payload, headers)))


def _with_checksum(message: bytes) -> bytes:
    """The message whose first field is the XXH3-64 of all that follows it."""
    rest = message[CHECKSUM_SIZE:]
    return U64.pack(xxhash.xxh3_64_intdigest(rest)) + rest
