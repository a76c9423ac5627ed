"""Finding out what a partition directory holds, and mending what a crash left.

Runs in the owner before anything else touches the partition. What may happen to which bytes:

    sealed segments          judged by their sizes; an index that does not fit is made anew.
                             Plain and compressed: the compression was not finished, the plain one
                             stays
    active, durable part     (before the recovery point) as sealed: damage there is rot, nothing
                             is cut, messages behind it stay readable
    active, rest             verified message by message, cut at the first that is not sound

An index is never changed in place: readers in other processes may have it mapped. The log is
cut only above what was ever published. No offset that was given out is given out again: where
messages are missing, the log goes on in a new segment behind the last offset known.
"""

import errno
import os
import struct
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final, NamedTuple

import xxhash

from borzoi.protocol.batch import INDEX_ENTRY_SIZE, MESSAGE_HEADER_SIZE, first_bad_message
from borzoi.storage.clean_stop import CleanPartition
from borzoi.storage.codecs import Codec
from borzoi.storage.compressed_log import CompressedLog, open_compressed
from borzoi.storage.encrypted import PartitionCipher
from borzoi.storage.files import TEMPORARY_SUFFIX, Files
from borzoi.storage.layout import (
    INDEX_SUFFIX,
    compressed_paths,
    index_path,
    is_temporary,
    log_path,
    segment_codecs,
    segment_first_offsets,
    segment_name,
    stored_log_path,
)
from borzoi.storage.published import Published
from borzoi.storage.recovery_point import RecoveryPoint, read_recovery_point
from borzoi.storage.scan import LogBytes, LogFile, Rebuilt, rebuild_index, scan_file
from borzoi.storage.segment import Compressed, IndexEntry, LogEnd, SealedSegment
from borzoi.storage.segment_form import read_form

IN_OUR_PLACE: Final = "a directory where files of ours are made: move it away before a start"
EMPTY: Final = LogEnd(0, 0, 0, 0, 0)
TIMESTAMP: Final = struct.Struct("<32xQ")  # in the header of a message


@dataclass(slots=True)
class Recovered:
    """What was found. `report` has a line for everything that was not as it should be."""

    end: LogEnd = EMPTY
    sealed: list[SealedSegment] = field(default_factory=list)
    has_directory: bool = False
    has_active_files: bool = False
    trusted_from: int = 0
    # Nobody knows whether these and the active segment are on the disk or only in the cache.
    unsynced: list[int] = field(default_factory=list)
    is_synced: bool = True
    scanned_bytes: int = 0
    cut_bytes: int = 0
    report: list[str] = field(default_factory=list)
    cipher: PartitionCipher | None = None


def recover(
    directory: str,
    birth: int,
    files: Files,
    clean: CleanPartition | None = None,
    board: Published | None = None,
    last_stop: CleanPartition | None = None,
    cipher: PartitionCipher | None = None,
) -> Recovered:
    """Mend and describe a directory that is known to belong to `birth`.

    `clean`: how the last run left it, if it stopped cleanly. `last_stop`: how the last run that
    stopped cleanly left it, whatever has happened since. `board`: what a worker that died
    in this same run had published. The machine went on, so those bytes are in the kernel's
    hands, are treated as durable here, and are not scanned again. `cipher`: for compressed
    segments that are encrypted and have lost their index.
    """
    recovered = Recovered(cipher=cipher)
    try:
        names = files.listdir(directory)
    except FileNotFoundError:
        return recovered
    recovered.has_directory = True
    point = later_point(read_recovery_point(directory, birth, files), birth, last_stop)
    if clean is not None and clean.birth != birth:
        clean = None
    if board is not None and board.birth != birth:
        board = None
    _remove_leftovers(directory, names, clean, files, recovered)
    codecs = segment_codecs(names)
    segments = list(codecs)
    if board is not None:
        segments = _finish_deletion(directory, segments, board.first_offset, files)
    for segment, following in pairwise(segments):
        codec = codecs[segment]
        if codec is Codec.NONE:
            recovered.end = _judge_sealed(directory, segment, following, files, recovered)
            recovered.sealed.append(recovered.end.sealed())
        else:
            _take_compressed(directory, segment, codec, following, files, recovered)
    recovered.unsynced = [first for first in segments[:-1] if not point or first >= point.segment]
    if segments and codecs[segments[-1]] is not Codec.NONE:
        _end_with_compressed(directory, segments[-1], codecs[segments[-1]], files, recovered)
    elif segments:
        active = _ActiveRecovery(directory, segments[-1], files, recovered)
        active.run(point, clean, board)
    _go_on_behind_missing(directory, point, clean, board, files, recovered)
    if recovered.is_synced:
        recovered.unsynced = []
    return recovered


def later_point(
    point: RecoveryPoint | None, birth: int, last_stop: CleanPartition | None
) -> RecoveryPoint | None:
    """How far a partition is durable, from both who know something about it."""
    if last_stop is None or last_stop.birth != birth:
        return point
    if point is not None and point.next_offset >= last_stop.next_offset:
        return point
    return RecoveryPoint(birth, last_stop.segment, last_stop.end_position, last_stop.next_offset)


def _remove_leftovers(
    directory: str,
    names: list[str],
    clean: CleanPartition | None,
    files: Files,
    recovered: Recovered,
) -> None:
    """Temporary files, what was not finished, and indexes of segments being made or deleted."""
    for name in names:
        if is_temporary(name):
            path = os.path.join(directory, name)
            try:
                files.unlink_if_there(path)
            except IsADirectoryError as error:
                raise IsADirectoryError(errno.EISDIR, IN_OUR_PLACE, path) from error
        elif name.endswith(TEMPORARY_SUFFIX):
            recovered.report.append(f"{name}: not one of ours, left alone")
    logs = segment_codecs(names)
    for segment, codec in logs.items():
        kept = stored_log_path(directory, segment, codec)
        for path in compressed_paths(directory, segment):
            if path != kept and os.path.basename(path) in names:
                # The plain log was to go next. It is whole, and the next try will be as good.
                files.unlink_if_there(path)
    for segment in segment_first_offsets(names, INDEX_SUFFIX):
        if segment not in logs:
            path = index_path(directory, segment)
            if clean is not None and (count := indexed_count(path, files)):
                recovered.report.append(f"{segment_name(segment)}: {lost_log(segment, count)}")
            files.unlink_if_there(path)
            recovered.report.append(f"{segment_name(segment)}: removed an index without a log")


def indexed_count(path: str, files: Files) -> int:
    """How many messages an index speaks of."""
    return files.status_of(path).size // INDEX_ENTRY_SIZE


def lost_log(segment: int, count: int) -> str:
    """Of an index without a log after a clean stop, when no deletion can have been under way."""
    return (
        f"LOST offsets {segment} to {segment + count - 1}: its log is gone, and the broker had"
        " stopped cleanly, so it was not being deleted"
    )


def _finish_deletion(
    directory: str, segments: list[int], first_offset: int, files: Files
) -> list[int]:
    """Remove what readers were told is gone; the owner died before it had done so."""
    gone = [segment for segment, following in pairwise(segments) if following <= first_offset]
    for segment in gone:
        # The log goes first: an index alone is known to be a leftover.
        for path in (log_path(directory, segment), *compressed_paths(directory, segment)):
            files.unlink_if_there(path)
        files.unlink_if_there(index_path(directory, segment))
    return segments[len(gone) :]


def _judge_sealed(
    directory: str, segment: int, following: int, files: Files, recovered: Recovered
) -> LogEnd:
    expected = following - segment
    fd = files.open(log_path(directory, segment), os.O_RDONLY)
    try:
        log = _log_file(files, fd, segment)
        judged = _from_index_ends(directory, log, expected, files)
        if judged is not None:
            return judged
        return _rebuild_sealed(directory, log, expected, files, recovered)
    finally:
        files.close(fd)


def _take_compressed(
    directory: str, segment: int, codec: Codec, following: int, files: Files, recovered: Recovered
) -> None:
    """A sealed segment that was compressed."""
    expected = following - segment
    path = stored_log_path(directory, segment, codec)
    with open_compressed(path, segment, files, recovered.cipher) as log:
        compressed = Compressed(codec, log.stored_bytes)
        form = log.index_form
        end = _from_index_ends(directory, log, expected, files)
        if end is None:
            end = _rebuild_sealed(directory, log, expected, files, recovered)
        recovered.report += [f"{segment_name(segment)}: DAMAGED {text}" for text in log.damage]
    recovered.end = end
    recovered.sealed.append(end.sealed()._replace(compressed=compressed, form=form))


def _end_with_compressed(
    directory: str, segment: int, codec: Codec, files: Files, recovered: Recovered
) -> None:
    """The segment that followed has lost its name, and with it what was in it."""
    with open_compressed(stored_log_path(directory, segment, codec), segment, files) as log:
        facts = log.index.facts
    if facts is not None:
        count = facts.message_count
    else:
        index = files.read_whole(index_path(directory, segment))
        count = len(index or b"") // INDEX_ENTRY_SIZE
    _take_compressed(directory, segment, codec, segment + count, files, recovered)
    recovered.unsynced.append(segment)
    recovered.is_synced = False
    recovered.end = recovered.end.rolled()
    recovered.trusted_from = recovered.end.next_offset


def _rebuild_sealed(
    directory: str, log: LogBytes, expected: int, files: Files, recovered: Recovered
) -> LogEnd:
    segment, following = log.segment, log.segment + expected
    rebuilt = rebuild_index(log, expected, recovered.end.last_timestamp, fill=False)
    entries = log.index_form.as_written(bytearray(rebuilt.entries))
    _replace_index(directory, segment, entries, files)
    _report_rebuilt(segment, rebuilt, recovered)
    if rebuilt.end_position != log.size:
        recovered.report.append(
            f"{segment_name(segment)}: {log.size - rebuilt.end_position} bytes at its end are "
            f"not messages, they are left alone"
        )
    if rebuilt.message_count < expected:
        recovered.report.append(
            f"{segment_name(segment)}: LOST offsets {segment + rebuilt.message_count} to "
            f"{following - 1}, the next segment begins at {following}"
        )
    return _describe(log, rebuilt.entries, rebuilt.end_position, recovered.end)


def _log_file(files: Files, fd: int, segment: int) -> LogFile:
    return LogFile(files, fd, segment, files.size(fd), read_form(files, fd))


def _from_index_ends(directory: str, log: LogBytes, expected: int, files: Files) -> LogEnd | None:
    """The end of the segment as its index tells it, None when the sizes do not fit each other."""
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
    facts = log.index.facts if isinstance(log, CompressedLog) else None
    if facts is not None:
        # Its block index has a checksum: no block need be read.
        if last.timestamp != facts.last_timestamp:
            return None
    elif not _has_time(log, start, last):
        return None
    end_offset = log.segment + expected
    return LogEnd(log.segment, log.size, end_offset, last.timestamp, first.timestamp, log.form)


def _has_time(log: LogBytes, start: int, entry: IndexEntry) -> bool:
    """Whether the message that begins at `start` has the time that its index entry says.

    By the last entry of a segment its messages expire and the next ones get their times. Where
    the two differ, the message decides, if it is sound.
    """
    if start >= entry.position:
        return False
    header = log.read(start, MESSAGE_HEADER_SIZE)
    if len(header) == MESSAGE_HEADER_SIZE and TIMESTAMP.unpack_from(header)[0] == entry.timestamp:
        return True
    message = log.read(start, entry.position - start)
    offset = log.segment + entry.relative_offset | log.form.mark
    return first_bad_message(message, 1, offset) is not None


class _ActiveRecovery:
    """The last segment of a partition, from its files to the end of the log."""

    def __init__(self, directory: str, segment: int, files: Files, recovered: Recovered) -> None:
        self._directory = directory
        self._segment = segment
        self._files = files
        self._recovered = recovered
        self._name = segment_name(segment)

    def run(
        self,
        point: RecoveryPoint | None,
        clean: CleanPartition | None,
        board: Published | None,
    ) -> None:
        recovered = self._recovered
        fd = self._files.open(log_path(self._directory, self._segment), os.O_RDWR)
        try:
            log = _log_file(self._files, fd, self._segment)
            recovered.has_active_files = True
            if clean is not None:
                if self._accept_clean(log, clean):
                    return
                recovered.report.append(f"{self._name}: not as the clean stop left it, scanning")
            recovered.is_synced = False
            self._scan(log, self._durable(log, point, board), board)
        finally:
            self._files.close(fd)

    def _accept_clean(self, log: LogFile, clean: CleanPartition) -> bool:
        count = clean.next_offset - self._segment
        if (
            clean.segment != self._segment
            or clean.end_position != log.size
            or clean.index_length != count * INDEX_ENTRY_SIZE
        ):
            return False
        found = _from_index_ends(self._directory, log, count, self._files)
        if found is None:
            return False
        before = self._recovered.end.last_timestamp
        self._recovered.end = found._replace(last_timestamp=max(before, found.last_timestamp))
        self._recovered.trusted_from = clean.next_offset
        return True

    def _durable(
        self, log: LogFile, point: RecoveryPoint | None, board: Published | None
    ) -> RecoveryPoint:
        """Up to where nothing may be cut."""
        durable = RecoveryPoint(0, self._segment, 0, self._segment)
        if point is not None and point.segment == self._segment:
            durable = point
        if (
            board is not None
            and board.active_segment == self._segment
            and board.end_position > durable.position
        ):
            durable = RecoveryPoint(
                board.birth, self._segment, board.end_position, board.next_offset
            )
        if durable.next_offset == self._segment:
            # It may have been noted when the empty segment was to be of another form.
            durable = durable._replace(position=log.form.start)
        if durable.position > log.size:
            self._recovered.report.append(
                f"{self._name}: has {log.size} bytes, but {durable.position} were durable"
            )
        return durable

    def _scan(self, log: LogFile, durable: RecoveryPoint, board: Published | None) -> None:
        recovered = self._recovered
        before = recovered.end
        index = self._files.read_whole(index_path(self._directory, self._segment))
        count = durable.next_offset - self._segment
        entries = bytearray((index or b"")[: count * INDEX_ENTRY_SIZE])
        recovered.trusted_from = durable.next_offset
        if durable.position > log.size:
            rebuilt = rebuild_index(log, count, before.last_timestamp, fill=False)
            _report_rebuilt(self._segment, rebuilt, recovered)
            entries, end = rebuilt.entries, rebuilt.end_position
        else:
            if is_sound_index(entries, count, durable.position, log.form.start):
                if board is not None and board.next_offset == durable.next_offset:
                    recovered.trusted_from = board.trusted_from
            else:
                below = log._replace(size=durable.position)
                rebuilt = rebuild_index(below, count, before.last_timestamp, fill=True)
                _report_rebuilt(self._segment, rebuilt, recovered)
                entries = rebuilt.entries
            end = self._scan_tail(log, entries, durable, before.last_timestamp)
        if index is None or entries != index:
            _replace_index(self._directory, self._segment, entries, self._files)
            recovered.report.append(f"{self._name}: index written anew")
        recovered.end = _describe(log, entries, end, before)

    def _scan_tail(
        self, log: LogFile, entries: bytearray, durable: RecoveryPoint, timestamp_min: int
    ) -> int:
        """Verify what follows the durable part, cut what is torn, return where the log ends."""
        count = durable.next_offset - self._segment
        if count:
            timestamp_min = max(timestamp_min, IndexEntry.at(entries, count - 1).timestamp)
        found = scan_file(log, durable.position, durable.next_offset, timestamp_min)
        entries += found.index_entries
        end = durable.position + found.valid_size
        self._recovered.scanned_bytes = log.size - durable.position
        if end < log.size:
            self._files.ftruncate(log.fd, end)
            self._recovered.cut_bytes = log.size - end
            self._recovered.report.append(
                f"{self._name}: cut {log.size - end} bytes behind offset "
                f"{durable.next_offset + found.message_count - 1}, they are not sound messages"
            )
        return end


def is_sound_index(
    entries: bytes | bytearray, message_count: int, end_position: int, start: int = 0
) -> bool:
    """Could this be the index of so many messages that end there? Catches pages never written."""
    if len(entries) != message_count * INDEX_ENTRY_SIZE:
        return False
    if message_count == 0:
        return end_position == start
    columns = memoryview(entries).cast("I")
    positions = columns[1::4].tolist()
    return (
        positions[-1] == end_position
        and columns[0::4].tolist() == list(range(message_count))
        and sorted(positions) == positions
    )


class CheckedIndex(NamedTuple):
    """What the index of a segment should be, None if it is just that; and what was found."""

    entries: bytearray | None
    report: list[str]


def check_index(
    directory: str,
    segment: int,
    message_count_max: int,
    files: Files,
    codec: Codec,
    cipher: PartitionCipher | None = None,
) -> CheckedIndex:
    """Compare the index of a sealed segment with its log. For a thread: reads all of it."""
    found = files.read_whole(index_path(directory, segment))
    path = stored_log_path(directory, segment, codec)
    if codec is Codec.NONE:
        fd = files.open(path, os.O_RDONLY)
        try:
            log = _log_file(files, fd, segment)
            rebuilt = rebuild_index(log, message_count_max, 0, fill=False)
        finally:
            files.close(fd)
    else:
        with open_compressed(path, segment, files, cipher) as packed:
            rebuilt = rebuild_index(packed, message_count_max, 0, fill=False)
            facts = packed.index.facts
            rebuilt = rebuilt._replace(entries=packed.index_form.as_written(rebuilt.entries))
        if facts is not None and xxhash.xxh3_64_intdigest(found or b"") == facts.index_checksum:
            # Right, also where damaged blocks hide the messages that it speaks of.
            rebuilt = rebuilt._replace(entries=bytearray(found or b""))
    lost = [_lost_text(segment, first, end) for first, end in rebuilt.lost]
    if found == bytes(rebuilt.entries):
        return CheckedIndex(None, lost)
    return CheckedIndex(rebuilt.entries, [f"{segment_name(segment)}: index written anew", *lost])


def _go_on_behind_missing(
    directory: str,
    point: RecoveryPoint | None,
    clean: CleanPartition | None,
    board: Published | None,
    files: Files,
    recovered: Recovered,
) -> None:
    """Never give out an offset again that is known to have been given out."""
    known = max(source.next_offset for source in (point, clean, board, recovered.end) if source)
    end = recovered.end
    if end.next_offset >= known:
        return
    recovered.report.append(f"LOST offsets {end.next_offset} to {known - 1}, going on at {known}")
    if recovered.has_active_files:
        if end.message_count:
            recovered.sealed.append(end.sealed())
            recovered.unsynced.append(end.segment)
        else:
            files.unlink_if_there(log_path(directory, end.segment))
            files.unlink_if_there(index_path(directory, end.segment))
    recovered.has_active_files = False
    recovered.is_synced = False
    recovered.end = LogEnd(known, 0, known, end.last_timestamp, 0)
    recovered.trusted_from = known


def _describe(log: LogBytes, entries: bytes | bytearray, position: int, before: LogEnd) -> LogEnd:
    count = len(entries) // INDEX_ENTRY_SIZE
    first = IndexEntry.at(entries, 0).timestamp if count else 0
    last = IndexEntry.at(entries, count - 1).timestamp if count else before.last_timestamp
    return LogEnd(log.segment, position, log.segment + count, last, first, log.form)


def _replace_index(directory: str, segment: int, entries: bytes | bytearray, files: Files) -> None:
    files.replace(index_path(directory, segment), entries, durable=False)


def _report_rebuilt(segment: int, rebuilt: Rebuilt, recovered: Recovered) -> None:
    recovered.report.append(f"{segment_name(segment)}: index made anew from the log")
    for first, end in rebuilt.lost:
        recovered.report.append(_lost_text(segment, first, end))


def _lost_text(segment: int, first: int, end: int) -> str:
    return f"{segment_name(segment)}: DAMAGED messages at offsets {first} to {end - 1}"
