"""The check of the directory of one partition that no process has open: every file in it.

Files that are not ours are named and left alone, whatever they are.
"""

import os
from collections.abc import Callable
from functools import partial
from itertools import pairwise

from borzoi.protocol.identifiers import U32_MAX, ConsumerKind
from borzoi.storage.birth import BirthDamaged, birth_path, encoded_birth, mend_birth, read_birth
from borzoi.storage.check_indexes import check_lonely_indexes
from borzoi.storage.check_segments import (
    FORMS,
    Durable,
    SegmentFile,
    check_active,
    check_leftover,
    check_sealed,
    segment_files,
)
from borzoi.storage.clean_stop import CleanPartition
from borzoi.storage.encrypted import PartitionCipher
from borzoi.storage.files import Files
from borzoi.storage.findings import Findings
from borzoi.storage.layout import (
    BIRTH_FILE,
    INDEX_SUFFIX,
    OFFSET_DIRECTORIES,
    OFFSETS_DIRECTORY,
    RECOVERY_POINT_FILE,
    is_number,
    is_segment_name,
    is_temporary,
)
from borzoi.storage.offset_room import notes_path, read_notes
from borzoi.storage.offsets import OFFSET, offsets_digest
from borzoi.storage.recovery import later_point
from borzoi.storage.recovery_point import (
    RecoveryPoint,
    read_any_recovery_point,
    recovery_point_path,
)
from borzoi.storage.repairs import removed


def check_partition(
    directory: str,
    clean: CleanPartition | None,
    findings: Findings,
    files: Files,
    last_stop: CleanPartition | None = None,
    cipher_of_birth: Callable[[int], PartitionCipher | None] = lambda _birth: None,
) -> int | None:
    """Verify everything in a partition's directory; its birth, None if it cannot be known."""
    findings.counts.partitions += 1
    names = sorted(files.listdir(directory))
    birth = _check_birth(directory, clean or last_stop, findings, files)
    point, point_is_readable = _check_point(directory, birth, findings, files)
    if birth is not None:
        point = later_point(point, birth, last_stop)
    if clean is not None and clean.birth != birth:
        findings.note(directory, f"the clean stop speaks of birth {clean.birth}, not {birth}")
        clean = None
    segments = segment_files(directory, names)
    _check_names(directory, names, segments, findings, files)
    with_log = {segment.first_offset for segment in segments}
    check_lonely_indexes(directory, names, with_log, clean, findings, files)
    cipher = None if birth is None else cipher_of_birth(birth)
    next_offset = _check_log(segments, point, clean, point_is_readable, findings, files, cipher)
    known = max((source.next_offset for source in (point, clean) if source), default=0)
    if known > next_offset:
        findings.damaged(directory, f"LOST offsets {next_offset} to {known - 1}")
    _check_offsets(directory, max(next_offset, known), clean, findings, files)
    return birth


def _check_birth(
    directory: str, stop: CleanPartition | None, findings: Findings, files: Files
) -> int | None:
    path = birth_path(directory)
    try:
        birth = read_birth(directory, files)
    except BirthDamaged:
        findings.damaged(
            path, "does not match its checksum: the partition of these messages is unknown"
        )
        return None
    if birth is None and stop is not None:
        birth = stop.birth
        text = f"is lost; the last clean stop says {birth}"
        findings.mendable(path, text, partial(_mended_birth, directory, birth, files))
    elif birth is None:
        findings.note(
            path,
            "there is none: the directory was never finished. Nothing of it was acknowledged,"
            " unless from memory alone (durability buffered)",
        )
    elif files.read_all(path, OFFSET.size * 2) != encoded_birth(birth):
        findings.damaged(path, f"is lost or damaged; the recovery point says {birth}")
    else:
        findings.counts.births += 1
    return birth


def _mended_birth(directory: str, birth: int, files: Files) -> str:
    mend_birth(directory, birth, files)
    return "written again"


def _check_point(
    directory: str, birth: int | None, findings: Findings, files: Files
) -> tuple[RecoveryPoint | None, bool]:
    """The recovery point, and whether its absence is to be believed."""
    path = recovery_point_path(directory)
    if files.read_all(path, 1) is None:
        return None, True
    point = read_any_recovery_point(directory, files)
    if point is None:
        findings.damaged(path, "does not match its checksum, so it counts as none")
        return None, False
    if birth is not None and point.birth != birth:
        findings.damaged(path, f"speaks of birth {point.birth}, not {birth}, so it counts as none")
        return None, False
    findings.counts.recovery_points += 1
    return point, True


def _check_names(
    directory: str, names: list[str], segments: list[SegmentFile], findings: Findings, files: Files
) -> None:
    ours = {BIRTH_FILE, RECOVERY_POINT_FILE, OFFSETS_DIRECTORY}
    ours.update(os.path.basename(segment.path) for segment in segments)
    for name in names:
        path = os.path.join(directory, name)
        if name in ours or is_segment_name(name.removesuffix(INDEX_SUFFIX)):
            continue
        if any(is_segment_name(name.removesuffix(suffix)) for suffix in FORMS):
            text = "a compression that was not finished; the plain segment beside it counts"
            findings.mendable(path, text, partial(removed, path, files))
        elif is_temporary(name):
            check_leftover(path, findings, files)
        else:
            findings.note(path, "unknown, left alone")


def _check_log(
    segments: list[SegmentFile],
    point: RecoveryPoint | None,
    clean: CleanPartition | None,
    may_cut: bool,
    findings: Findings,
    files: Files,
    cipher: PartitionCipher | None,
) -> int:
    """Every segment; the offset behind the last message."""
    next_offset = timestamp = 0
    for segment, following in pairwise(segments):
        try:
            first = following.first_offset
            end = check_sealed(segment, first, timestamp, findings, files, cipher)
        except OSError as error:
            findings.damaged(segment.path, f"cannot be read: {error}")
            continue
        next_offset, timestamp = end.next_offset, end.last_timestamp
    if not segments:
        return 0
    active = segments[-1]
    first = active.first_offset
    durable = Durable(
        point if point and point.segment == first else None,
        clean if clean and clean.segment == first else None,
        may_cut,
    )
    if clean is not None and clean.segment != first:
        findings.damaged(
            active.path, f"is the last segment, but the clean stop left {clean.segment}"
        )
    try:
        end = check_active(active, durable, timestamp, findings, files, cipher)
        next_offset = end.next_offset
    except OSError as error:
        findings.damaged(active.path, f"cannot be read: {error}")
    return next_offset


def _check_offsets(
    directory: str,
    next_offset: int,
    clean: CleanPartition | None,
    findings: Findings,
    files: Files,
) -> None:
    values: dict[tuple[ConsumerKind, int], int] = {}
    above = os.path.join(directory, OFFSETS_DIRECTORY)
    for path in (above, *(os.path.join(directory, name) for name in OFFSET_DIRECTORIES.values())):
        if os.path.lexists(path) and not os.path.isdir(path):
            findings.damaged(path, "is no directory: the partition will not be served")
    for kind, name in OFFSET_DIRECTORIES.items():
        for path in _in_directory(os.path.join(directory, name), files):
            number = os.path.basename(path)
            if not is_number(number) or int(number) > U32_MAX:
                findings.note(path, "unknown, left alone")
                continue
            data = files.read_all(path, OFFSET.size) or b""
            if len(data) != OFFSET.size:
                findings.damaged(path, f"an offset has {OFFSET.size} bytes, so it counts as none")
                continue
            values[kind, int(number)] = value = OFFSET.unpack(data)[0]
            findings.counts.offset_files += 1
            if value >= next_offset:
                findings.note(
                    path, f"offset {value} is beyond the end: the next start brings it back"
                )
    _check_notes(notes_path(directory), clean, findings, files)
    if clean is not None and offsets_digest(values) != clean.offsets_digest:
        findings.damaged(
            os.path.join(directory, OFFSETS_DIRECTORY),
            "the offsets are not those that the clean stop left; the next start takes them as they"
            " are",
        )


def _check_notes(
    notes: str, clean: CleanPartition | None, findings: Findings, files: Files
) -> None:
    if os.path.isdir(notes):
        findings.damaged(notes, "is no file: no new consumer gets an offset")
    else:
        _, damaged = read_notes(files.read_whole(notes) or b"")
        if damaged:
            # They are not synced: only a clean stop says that they were whole.
            tell = findings.note if clean is None else findings.damaged
            tell(notes, f"{damaged} notes on who made an offset are no use; the user is unknown")


def _in_directory(directory: str, files: Files) -> list[str]:
    try:
        names = files.listdir(directory)
    except (FileNotFoundError, NotADirectoryError):
        return []
    return [os.path.join(directory, name) for name in sorted(names)]
