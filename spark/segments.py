"""A range of offsets as runs of raw messages, from sealed segments of a broker on this host.

The executor trusts only what it sees itself. A file is read if a later one stands beside it in the
partition's directory, so that nothing is appended to it any more. It must have an index for all of
its messages, and every message its checksum and its offset. The first row that is read of the
directory must be the very row that the broker answers with. Then it is this broker's, and this life
of the partition: a purge makes another directory, and this one is held open. The broker is asked
for all the rest. That is the active segment, what is compressed or encrypted, what retention
deletes before it is open, and what is damaged. A file that is open stays readable when it is
deleted.

Always: the runs of a range are what the broker would have sent, in the same order.
"""

import logging
import os
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import pairwise
from typing import Final, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from borzoi.protocol.batch import INDEX_ENTRY_SIZE, first_bad_message, sent_index
from borzoi.protocol.message import MESSAGE_HEADER_SIZE
from borzoi.spark.failures import SegmentsUnusable
from borzoi.spark.options import SegmentFiles
from borzoi.spark.polling import RUN_SIZE, Polling, Run, row_of, runs_of
from borzoi.spark.positions import Range

LOG: Final = logging.getLogger(__name__)
STREAMS: Final = "streams"
SEGMENT: Final = re.compile(r"(\d{20})\.(?:log|index)")
WORDS_PER_ENTRY: Final = INDEX_ENTRY_SIZE // 4
END_AT: Final = 1  # of the 4-byte words of an index entry
ROWS_AT_ONCE: Final = 16_384  # whose index entries are held in memory

Positions: TypeAlias = npt.NDArray[np.int64]


class Piece(NamedTuple):
    """Offsets from `begin` up to `end`: of the file that begins with `segment`, or the broker's."""

    begin: int
    end: int
    segment: int | None


class NotReadable(Exception):
    """A file that the broker has to read for us; the text says why."""


class OtherRows(Exception):
    """A sound file with other rows than the broker's."""


def partition_directory(files: SegmentFiles, stream_id: int, topic_id: int, partition: int) -> str:
    """Returns the directory of a partition in the broker's data directory."""
    return os.path.join(
        *(files.data_dir, STREAMS, str(stream_id)),
        *("topics", str(topic_id), "partitions", str(partition)),
    )


def runs_with_segments(
    polling: Polling, wanted: Range, files: SegmentFiles, directory: str
) -> Iterator[Run]:
    """Every message of the range, by whichever way it can be had."""
    at = wanted.begin
    is_proved = False
    with _held(files, directory) as (held, names):
        for piece in pieces_of(names, wanted.begin, wanted.end):
            if piece.segment is not None:
                try:
                    row = None if is_proved else _row(polling, wanted._replace(begin=piece.begin))
                    for run in file_runs(held, piece, row):
                        is_proved = True
                        yield run
                        at = run.first_offset + run.message_count
                except NotReadable as why:
                    LOG.warning("%s: %s; the broker is asked", directory, why)
                except OtherRows as why:
                    _refuse(files, f"{directory} is not of this broker: {why}", why)
            if at < piece.end:
                yield from runs_of(polling, wanted._replace(begin=at, end=piece.end))
            at = piece.end


def pieces_of(names: Iterable[str], begin: int, end: int) -> list[Piece]:
    """Which offsets lie in plain sealed files with an index, of a directory with these names."""
    present = set(names)
    # Whatever begins with the digits of a segment is one, also in a form that is not known here.
    firsts = sorted({int(found[1]) for name in present if (found := SEGMENT.match(name))})
    pieces: list[Piece] = []
    at = begin
    for first, following in pairwise(firsts):
        low, high = max(at, first), min(end, following)
        if low >= high or not {f"{first:020}.log", f"{first:020}.index"} <= present:
            continue
        if at < low:
            pieces.append(Piece(at, low, None))
        pieces.append(Piece(low, high, first))
        at = high
    if at < end:
        pieces.append(Piece(at, end, None))
    return pieces


def file_runs(
    directory: str,
    piece: Piece,
    first_row: bytes | None,
    *,
    rows_at_once: int = ROWS_AT_ONCE,
    run_size: int = RUN_SIZE,
) -> Iterator[Run]:
    """The messages of a piece, each verified.

    `first_row` is what the broker has there; None if the directory is known to be the broker's.
    """
    path = os.path.join(directory, f"{piece.segment:020}")
    try:
        with (
            open(f"{path}.log", "rb", buffering=0) as log,
            open(f"{path}.index", "rb", buffering=0) as index,
        ):
            if first_row is not None:
                _compare(log.fileno(), index.fileno(), piece, first_row)
            for begin in range(piece.begin, piece.end, rows_at_once):
                window = piece._replace(begin=begin, end=min(piece.end, begin + rows_at_once))
                yield from _window(log.fileno(), index.fileno(), window, run_size)
    except OSError as error:
        raise NotReadable(f"{error}") from error


def _row(polling: Polling, wanted: Range) -> bytes:
    row = row_of(polling, wanted)
    if row is None:
        raise NotReadable(f"the broker has no row {wanted.begin}")
    return row


@contextmanager
def _held(files: SegmentFiles, directory: str) -> Iterator[tuple[str, list[str]]]:
    """The partition's directory, under a name that stays its own, and the names in it.

    None if it is not there, as with one that is all in memory.
    """
    try:
        os.listdir(os.path.join(files.data_dir, STREAMS))
    except OSError as error:
        _refuse(files, f"dataDir is no data directory that can be read here: {error}", error)
        yield directory, []
        return
    try:
        fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    except OSError as error:
        LOG.info("%s cannot be read: %s; the broker is asked", directory, error)
        yield directory, []
        return
    try:
        yield f"/proc/self/fd/{fd}", os.listdir(fd)
    finally:
        os.close(fd)


def _refuse(files: SegmentFiles, why: str, cause: Exception) -> None:
    if files.required:
        raise SegmentsUnusable(f"{why}. With transport=auto the broker is asked instead") from cause
    LOG.warning("%s: %s; the broker is asked", SegmentsUnusable.code, why)


def _compare(log: int, index: int, piece: Piece, first_row: bytes) -> None:
    bounds = _bounds(log, index, piece._replace(end=piece.begin + 1))
    row = _read(log, int(bounds[0]), int(bounds[1] - bounds[0]))
    if row == first_row:
        return
    if first_bad_message(row, 1, piece.begin) is not None:
        raise NotReadable(f"segment {piece.segment} is damaged, encrypted or in an unknown form")
    raise OtherRows(f"segment {piece.segment} has another row {piece.begin}")


def _window(log: int, index: int, piece: Piece, run_size: int) -> Iterator[Run]:
    bounds = _bounds(log, index, piece)
    row_count = piece.end - piece.begin
    first = 0
    while first < row_count:
        # As many rows as fit, but at least one.
        fits = int(np.searchsorted(bounds, bounds[first] + run_size, "right")) - 1
        last = min(max(fits, first + 1), row_count)
        messages = _read(log, int(bounds[first]), int(bounds[last] - bounds[first]))
        bad = first_bad_message(messages, last - first, piece.begin + first)
        if bad is not None:
            raise NotReadable(f"message {bad} of segment {piece.segment} is damaged or encrypted")
        entries = sent_index(messages, last - first)
        yield Run(messages, entries, last - first, piece.begin + first)
        first = last


def _bounds(log: int, index: int, piece: Piece) -> Positions:
    """Where each message of the piece begins, and where the last one ends."""
    assert piece.segment is not None
    number = piece.begin - piece.segment
    skipped = min(number, 1)  # the entry before says where the first message begins
    count = piece.end - piece.begin + skipped
    data = os.pread(index, count * INDEX_ENTRY_SIZE, (number - skipped) * INDEX_ENTRY_SIZE)
    if len(data) != count * INDEX_ENTRY_SIZE:
        raise NotReadable(f"the index of segment {piece.segment} is not complete")
    ends = np.frombuffer(data, "<u4").reshape(-1, WORDS_PER_ENTRY)[:, END_AT].astype(np.int64)
    bounds = ends if skipped else np.concatenate((np.zeros(1, np.int64), ends))
    is_ascending = bool((np.diff(bounds) >= MESSAGE_HEADER_SIZE).all())
    if not is_ascending or int(bounds[-1]) > os.fstat(log).st_size:
        raise NotReadable(f"the index of segment {piece.segment} does not fit its messages")
    return bounds


def _read(log: int, position: int, size: int) -> memoryview:
    view = np.empty(size, np.uint8).data
    left = view
    while left:
        count = os.preadv(log, [left], position)
        if count == 0:
            raise NotReadable("the file ends before its last message")
        left = left[count:]
        position += count
    return view
