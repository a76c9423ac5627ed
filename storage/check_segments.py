"""The check of a partition's segments: every byte of them is read and compared with the indexes.

Every message is verified, and its index with it (check_indexes.py). A repair here cuts what follows
the last sound message of the active segment. It does so only if that lies behind the recovery point
and the last stop was not a clean one. Sound messages behind a damaged one are never cut, so that
they can be saved. The next start would cut them where nothing says that they were durable.

A segment has a form, which its suffix tells: FORMS says how to open each. Whatever form it has,
what is read here are the bytes of its messages. An encrypted one is verified as it is stored: that
needs no key, and finds all that time and crashes do.
"""

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from typing import Final, NamedTuple, TypeAlias

from borzoi.protocol.batch import INDEX_ENTRY_SIZE, MESSAGE_HEADER_SIZE
from borzoi.storage.check_indexes import check_index, is_index
from borzoi.storage.clean_stop import CleanPartition
from borzoi.storage.compressed_log import CompressedLog, open_compressed
from borzoi.storage.encrypted import PartitionCipher
from borzoi.storage.files import Files
from borzoi.storage.findings import Findings
from borzoi.storage.layout import (
    COMPRESSED,
    LOG_SUFFIX,
    index_path,
    log_suffix,
    segment_first_offsets,
)
from borzoi.storage.recovery import IN_OUR_PLACE
from borzoi.storage.recovery_point import RecoveryPoint
from borzoi.storage.repairs import cut_file, removed
from borzoi.storage.scan import LogBytes, LogFile, Rebuilt, rebuild_index
from borzoi.storage.segment import IndexEntry
from borzoi.storage.segment_form import SegmentForm, read_form

LogOpener: TypeAlias = Callable[
    [str, int, Files, PartitionCipher | None], AbstractContextManager[LogBytes]
]


@contextmanager
def open_plain(
    path: str, first_offset: int, files: Files, _cipher: PartitionCipher | None
) -> Iterator[LogBytes]:
    """Also if it is encrypted: that needs no key."""
    fd = files.open(path, os.O_RDONLY)
    try:
        yield LogFile(files, fd, first_offset, files.size(fd), read_form(files, fd))
    finally:
        files.close(fd)


FORMS: Final[Mapping[str, LogOpener]] = {
    LOG_SUFFIX: open_plain,
    **{log_suffix(codec): open_compressed for codec in COMPRESSED},
}
"""How the messages of a segment are read, by the suffix of its file; the first one there counts."""


class SegmentFile(NamedTuple):
    """A segment of the partition, and how its form is opened."""

    first_offset: int
    path: str
    open: LogOpener

    @property
    def index_path(self) -> str:
        """The file of its index."""
        return index_path(os.path.dirname(self.path), self.first_offset)


class CheckedEnd(NamedTuple):
    """Where the sound messages of a segment end."""

    next_offset: int
    last_timestamp: int


class Durable(NamedTuple):
    """What is known about the active segment beside its bytes."""

    point: RecoveryPoint | None  # if it lies in this segment
    clean: CleanPartition | None  # if it speaks of this segment
    may_cut: bool  # False: it is unknown how far it was durable


def segment_files(directory: str, names: list[str]) -> list[SegmentFile]:
    """The segments of a partition, in the order of their offsets."""
    found: dict[int, SegmentFile] = {}
    for suffix, opener in FORMS.items():
        for first_offset in segment_first_offsets(names, suffix):
            path = os.path.join(directory, f"{first_offset:020d}{suffix}")
            found.setdefault(first_offset, SegmentFile(first_offset, path, opener))
    return [found[first_offset] for first_offset in sorted(found)]


def check_sealed(
    segment: SegmentFile,
    following: int,
    timestamp_min: int,
    findings: Findings,
    files: Files,
    cipher: PartitionCipher | None = None,
) -> CheckedEnd:
    """A segment behind which another one begins at offset `following`."""
    expected = following - segment.first_offset
    with segment.open(segment.path, segment.first_offset, files, cipher) as log:
        if isinstance(log, CompressedLog) and not log.is_readable:
            return _check_without_key(segment, log, timestamp_min, findings, files)
        rebuilt = rebuild_index(log, expected, timestamp_min, fill=False)
        facts = log.index.facts if isinstance(log, CompressedLog) else None
        index_form = log.index_form
        size, form = log.size, log.form
        _tell_damaged_blocks(segment, log, findings)
    _tell_lost(segment, rebuilt.lost, findings)
    if rebuilt.end_position != size:
        findings.damaged(
            segment.path, f"{size - rebuilt.end_position} bytes at its end are not messages"
        )
    if rebuilt.message_count < expected:
        first = segment.first_offset + rebuilt.message_count
        findings.damaged(
            segment.path,
            f"LOST offsets {first} to {following - 1}, the next segment begins at {following}",
        )
    index = rebuilt._replace(entries=index_form.as_written(bytearray(rebuilt.entries)))
    check_index(
        segment.index_path,
        segment.first_offset,
        index,
        findings,
        files,
        may_be_longer=False,
        facts=facts,
    )
    return _count(segment, form, rebuilt, timestamp_min, findings)


def check_active(
    segment: SegmentFile,
    durable: Durable,
    timestamp_min: int,
    findings: Findings,
    files: Files,
    cipher: PartitionCipher | None = None,
) -> CheckedEnd:
    """The last segment, whose end a crash may have torn."""
    with segment.open(segment.path, segment.first_offset, files, cipher) as log:
        if isinstance(log, CompressedLog):
            # What followed it has lost its name.
            index = files.read_whole(segment.index_path)
            count = len(index or b"") // INDEX_ENTRY_SIZE
            if log.index.facts is not None:
                count = log.index.facts.message_count
            return check_sealed(
                segment, log.segment + count, timestamp_min, findings, files, cipher
            )
        count_max = log.size // MESSAGE_HEADER_SIZE
        rebuilt = rebuild_index(log, count_max, timestamp_min, fill=False)
        size, form = log.size, log.form
    rebuilt = _without_unsound_end(rebuilt, segment.first_offset, form.start)
    _tell_lost(segment, rebuilt.lost, findings)
    if rebuilt.lost and durable.clean is None:
        _warn_of_cut(segment, durable, rebuilt, findings)
    is_cut = True
    if rebuilt.end_position < size:
        is_cut = _tell_torn(segment, durable, rebuilt, size, findings, files)
    check_index(
        segment.index_path,
        segment.first_offset,
        rebuilt,
        findings,
        files,
        may_be_longer=not is_cut,
    )
    return _count(segment, form, rebuilt, timestamp_min, findings)


def check_leftover(path: str, findings: Findings, files: Files) -> None:
    """What has the name of a file of ours that was being made."""
    if os.path.isdir(path) and not os.path.islink(path):
        # A directory is never ours, and a start does not touch it either.
        findings.damaged(path, IN_OUR_PLACE)
    else:
        findings.mendable(path, "left over from a crash", partial(removed, path, files))


def _without_unsound_end(rebuilt: Rebuilt, first_offset: int, start: int) -> Rebuilt:
    """A message at the very end that only has the right length is a torn one."""
    if not rebuilt.lost or rebuilt.lost[-1][1] != first_offset + rebuilt.message_count:
        return rebuilt
    count = rebuilt.lost[-1][0] - first_offset
    end = IndexEntry.at(rebuilt.entries, count - 1).position if count else start
    return Rebuilt(rebuilt.entries[: count * INDEX_ENTRY_SIZE], rebuilt.lost[:-1], end)


def _warn_of_cut(
    segment: SegmentFile, durable: Durable, rebuilt: Rebuilt, findings: Findings
) -> None:
    durable_offset = durable.point.next_offset if durable.point else segment.first_offset
    above = [first for first, _ in rebuilt.lost if first >= durable_offset]
    if above:
        findings.damaged(
            segment.path,
            f"sound messages follow the damaged one at offset {above[0]}, which lies behind the"
            " recovery point: the next start will cut the log there, so copy the file first",
        )


def _tell_torn(
    segment: SegmentFile,
    durable: Durable,
    rebuilt: Rebuilt,
    size: int,
    findings: Findings,
    files: Files,
) -> bool:
    """Tell of bytes behind the last sound message; whether they are gone now."""
    end = rebuilt.end_position
    last = segment.first_offset + rebuilt.message_count - 1
    text = f"{size - end} bytes behind offset {last} are not a sound message"
    if durable.clean is not None:
        findings.damaged(segment.path, f"{text}, and the clean stop left none there")
    elif _were_durable(segment, durable.point, end):
        assert durable.point is not None
        findings.damaged(segment.path, f"{text}, and {durable.point.position} bytes were durable")
    elif not durable.may_cut:
        findings.damaged(segment.path, f"{text}; without a recovery point they are left alone")
    else:
        findings.mendable(
            segment.path, f"{text}: a torn write", lambda: cut_file(segment.path, end, files)
        )
        return bool(findings.found[-1].mended)
    return False


def _were_durable(segment: SegmentFile, point: RecoveryPoint | None, end: int) -> bool:
    # That of an empty segment says nothing: it may have been of another form then.
    return point is not None and point.next_offset > segment.first_offset and end < point.position


def _check_without_key(
    segment: SegmentFile, log: CompressedLog, timestamp_min: int, findings: Findings, files: Files
) -> CheckedEnd:
    """A segment that is compressed and encrypted: by checksums alone. Nothing can be mended."""
    log.check_blocks()
    _tell_damaged_blocks(segment, log, findings)
    path = segment.index_path
    found = files.read_whole(path)
    facts = log.index.facts
    counts = findings.counts
    counts.segments += 1
    if facts is None:
        count = len(found or b"") // INDEX_ENTRY_SIZE
        return CheckedEnd(segment.first_offset + count, timestamp_min)
    if is_index(found, facts):
        counts.index_entries += facts.message_count
    else:
        findings.damaged(path, "is not the index of its segment; with the key it can be rebuilt")
    if not log.damage:
        counts.messages += facts.message_count
        counts.message_bytes += log.size
    return CheckedEnd(segment.first_offset + facts.message_count, facts.last_timestamp)


def _tell_damaged_blocks(segment: SegmentFile, log: LogBytes, findings: Findings) -> None:
    if isinstance(log, CompressedLog):
        for text in log.damage:
            findings.damaged(segment.path, f"DAMAGED {text}")


def _tell_lost(segment: SegmentFile, lost: list[tuple[int, int]], findings: Findings) -> None:
    for first, end in lost:
        findings.damaged(segment.path, f"DAMAGED messages at offsets {first} to {end - 1}")


def _count(
    segment: SegmentFile,
    form: SegmentForm,
    rebuilt: Rebuilt,
    timestamp_min: int,
    findings: Findings,
) -> CheckedEnd:
    counts = findings.counts
    counts.segments += 1
    counts.messages += rebuilt.message_count - sum(end - first for first, end in rebuilt.lost)
    count = rebuilt.message_count
    counts.message_bytes += form.message_bytes(rebuilt.end_position, count)
    last = IndexEntry.at(rebuilt.entries, count - 1).timestamp if count else timestamp_min
    return CheckedEnd(segment.first_offset + count, last)
