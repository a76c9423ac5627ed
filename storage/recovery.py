"""Finding out what a partition directory holds, and mending what a crash left.

Runs in the owner before anything else touches the partition. What may happen to which bytes:

    sealed segments          judged by their sizes; an index that does not fit is rebuilt
                             (sealed_recovery.py). Plain and compressed: the compression was not
                             finished, the plain one stays
    active, durable part     (before the recovery point) as sealed: damage there is rot, nothing
                             is cut, messages behind it stay readable (active_recovery.py)
    active, rest             verified message by message, cut at the first that is not sound

An index is never changed in place: readers in other processes may have it mapped. The log is
cut only above what was ever published. No offset that was given out is given out again: where
messages are missing, the log goes on in a new segment behind the last offset known.
"""

import errno
import os
from itertools import pairwise
from typing import Final

from borzoi.protocol.batch import INDEX_ENTRY_SIZE
from borzoi.storage.active_recovery import ActiveRecovery
from borzoi.storage.clean_stop import CleanPartition
from borzoi.storage.codecs import Codec
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
from borzoi.storage.recovered import Recovered
from borzoi.storage.recovery_point import RecoveryPoint, read_recovery_point
from borzoi.storage.sealed_recovery import end_with_compressed, judge_sealed, take_compressed
from borzoi.storage.segment import LogEnd

IN_OUR_PLACE: Final = "a directory where files of ours are made: move it away before a start"


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
            recovered.end = judge_sealed(directory, segment, following, files, recovered)
            recovered.sealed.append(recovered.end.sealed())
        else:
            take_compressed(directory, segment, codec, following, files, recovered)
    recovered.unsynced = [first for first in segments[:-1] if not point or first >= point.segment]
    if segments and codecs[segments[-1]] is not Codec.NONE:
        end_with_compressed(directory, segments[-1], codecs[segments[-1]], files, recovered)
    elif segments:
        active = ActiveRecovery(directory, segments[-1], files, recovered)
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
    _remove_temporary(directory, names, files, recovered)
    _remove_unfinished_compressions(directory, names, files)
    _remove_lone_indexes(directory, names, clean, files, recovered)


def _remove_temporary(directory: str, names: list[str], files: Files, recovered: Recovered) -> None:
    for name in names:
        if is_temporary(name):
            path = os.path.join(directory, name)
            try:
                files.unlink_if_there(path)
            except IsADirectoryError as error:
                raise IsADirectoryError(errno.EISDIR, IN_OUR_PLACE, path) from error
        elif name.endswith(TEMPORARY_SUFFIX):
            recovered.report.append(f"{name}: not one of ours, left alone")


def _remove_unfinished_compressions(directory: str, names: list[str], files: Files) -> None:
    for segment, codec in segment_codecs(names).items():
        kept = stored_log_path(directory, segment, codec)
        for path in compressed_paths(directory, segment):
            if path != kept and os.path.basename(path) in names:
                # The plain log was to go next. It is whole, and the next try will be as good.
                files.unlink_if_there(path)


def _remove_lone_indexes(
    directory: str,
    names: list[str],
    clean: CleanPartition | None,
    files: Files,
    recovered: Recovered,
) -> None:
    logs = segment_codecs(names)
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
    """Remove what was published as gone; the owner died before it had done so."""
    gone = [segment for segment, following in pairwise(segments) if following <= first_offset]
    for segment in gone:
        # The log goes first: an index alone is known to be a leftover.
        for path in (log_path(directory, segment), *compressed_paths(directory, segment)):
            files.unlink_if_there(path)
        files.unlink_if_there(index_path(directory, segment))
    return segments[len(gone) :]


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
