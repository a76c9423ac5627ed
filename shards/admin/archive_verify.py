"""Whether an archive is what its manifests say, byte by byte: `borzoi archive verify`.

Reads every object. Needs no key and no broker: what is encrypted or compressed is compared as it
lies there. A broker may go on archiving: what it adds or removes meanwhile is no damage.
"""

from collections.abc import Callable, Iterator
from typing import NamedTuple

from borzoi.storage.archive.catalogue import (
    ArchivedLife,
    archived_lives,
    archived_states,
    gaps,
    read_offsets,
    read_segment_manifest,
    read_state_manifest,
)
from borzoi.storage.archive.copying import ObjectDamaged, check_object
from borzoi.storage.archive.manifest import (
    FileRecord,
    Life,
    ManifestDamaged,
    SegmentManifest,
    state_prefix,
)
from borzoi.storage.archive.store import ArchiveStore, ObjectMissing

Report = Callable[[str], None]


class Verified(NamedTuple):
    """What was looked at, and how much of it is not as it should be."""

    segments: int
    states: int
    size_bytes: int
    damaged: int


def verify(store: ArchiveStore, chosen: Callable[[Life], bool], report: Report) -> Verified:
    """Returns the counts of what was compared with its manifest; `report` gets each damage."""
    segments = states = size_bytes = damaged = 0
    for life, records in _segments(store, chosen, report):
        segments += 1
        damaged += 0 if records and _is_sound(store, life.prefix, records, report) else 1
        size_bytes += sum(record.size for record in records)
    for state in archived_states(store):
        problems: list[str] = []
        size = _verify_state(store, state.entry, problems.append)
        if problems and all(one.entry != state.entry for one in archived_states(store)):
            continue  # removed meanwhile, the manifest first: newer ones stand for it
        for problem in problems:
            report(problem)
        states += 1
        damaged += bool(problems)
        size_bytes += size
    problems = []
    read_offsets(store, lambda error: problems.append(f"DAMAGED: {error}"))
    for problem in problems:
        report(problem)
    return Verified(segments, states, size_bytes, damaged + len(problems))


def _verify_state(store: ArchiveStore, entry: int, report: Report) -> int:
    """Look at the files of a state of the metadata; how large they are."""
    try:
        records = read_state_manifest(store, entry).files
    except (ManifestDamaged, ObjectMissing) as error:
        report(f"DAMAGED: {error}")
        return 0
    _is_sound(store, state_prefix(entry), records, report)
    return sum(record.size for record in records)


def _segments(
    store: ArchiveStore, chosen: Callable[[Life], bool], report: Report
) -> Iterator[tuple[Life, tuple[FileRecord, ...]]]:
    """Each segment with its files, none if its manifest is damaged."""
    for archived in archived_lives(store):
        if chosen(archived.life):
            yield from _segments_of(store, archived, report)


def _segments_of(
    store: ArchiveStore, archived: ArchivedLife, report: Report
) -> Iterator[tuple[Life, tuple[FileRecord, ...]]]:
    life = archived.life
    manifests: list[SegmentManifest] = []
    for first_offset in archived.segments:
        try:
            manifest = read_segment_manifest(store, life, first_offset)
        except (ManifestDamaged, ObjectMissing) as error:
            report(f"DAMAGED: {error}")
            yield life, ()
            continue
        manifests.append(manifest)
        yield life, manifest.files
    for first, end in gaps(manifests):
        report(f"{life.prefix}: offsets {first} to {end - 1} are not in the archive")


def _is_sound(
    store: ArchiveStore, prefix: str, records: tuple[FileRecord, ...], report: Report
) -> bool:
    sound = True
    for record in records:
        try:
            check_object(store, f"{prefix}/{record.name}", record)
        except (ObjectDamaged, ObjectMissing) as error:
            report(f"DAMAGED: {error}")
            sound = False
    return sound
