"""What there is in an archive: lives of partitions with their segments, and states of metadata.

Read from a listing and from the manifests, so it works without the broker that wrote it, and with
a broker that goes on writing. For threads and for the command line.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import Final, NamedTuple

from borzoi.storage.archive.copying import ObjectDamaged, get_bytes
from borzoi.storage.archive.manifest import (
    IDENTITY_KEY,
    MANIFEST_SIZE_MAX,
    OFFSETS,
    OFFSETS_SIZE_MAX,
    STATE,
    STREAMS,
    Identity,
    Life,
    Manifest,
    ManifestDamaged,
    OffsetsManifest,
    PartitionOffsets,
    SegmentManifest,
    StateManifest,
    decode,
    is_file_of,
    segment_key,
    segment_manifest_key,
    state_entry,
    state_manifest_key,
)
from borzoi.storage.archive.store import ArchiveStore, ObjectMissing

STATES_KEPT: Final = 24
"""So many of the newest states of the metadata stay, and the newest one of each day before."""

DAY_S: Final = 86_400


class ArchivedLife(NamedTuple):
    """The segments of one life of a partition that count."""

    life: Life
    segments: tuple[int, ...]  # first offsets, ascending
    size_bytes: int  # of their objects


class ArchivedState(NamedTuple):
    """A state of the metadata in the archive: its last entry, and when it was stored."""

    entry: int
    modified_s: float


def read_identity(store: ArchiveStore) -> Identity | None:
    """Returns the identity of the broker that the archive belongs to; None if it is new."""
    try:
        return _read(store, IDENTITY_KEY, Identity)
    except ObjectMissing:
        return None


def archived_segments(store: ArchiveStore, life: Life, wanted: Callable[[int], bool]) -> set[int]:
    """Returns the first offsets of the wanted segments of a life that are in the archive.

    Only those with a sound manifest, and with objects as large as it says: the caller may be about
    to delete the segment itself.
    """
    sizes = {one.key: one.size for one in store.list(life.prefix)}
    archived = set()
    for key in filter(None, map(segment_key, sizes)):
        if not key.is_manifest or not wanted(key.first_offset):
            continue
        try:
            manifest = read_segment_manifest(store, life, key.first_offset)
        except ManifestDamaged:
            continue
        if all(sizes.get(f"{life.prefix}/{one.name}") == one.size for one in manifest.files):
            archived.add(key.first_offset)
    return archived


def archived_lives(store: ArchiveStore) -> list[ArchivedLife]:
    """Every life in the archive, by its ids and birth, each as whole as it is archived.

    An archive may grow while it is listed, and a listing may then show a segment without one that
    was archived shortly before it. But what a first listing shows was there, with all before it,
    when a second one began: so far the second can be believed.
    """
    ends = {life: max(segments) for life, segments in _listed(store).items()}
    found = []
    for life, sizes in sorted(_listed(store).items()):
        segments = tuple(first for first in sorted(sizes) if first <= ends.get(life, -1))
        if segments:
            found.append(ArchivedLife(life, segments, sum(sizes[first] for first in segments)))
    return found


def _listed(store: ArchiveStore) -> dict[Life, dict[int, int]]:
    """Of each life the first offsets of its segments with a manifest, and their sizes."""
    sizes: dict[Life, dict[int, int]] = defaultdict(lambda: defaultdict(int))
    counting: dict[Life, list[int]] = defaultdict(list)
    for stored in store.list(STREAMS):
        key = segment_key(stored.key)
        if key is None:
            continue
        sizes[key.life][key.first_offset] += stored.size
        if key.is_manifest:
            counting[key.life].append(key.first_offset)
    return {
        life: {first: sizes[life][first] for first in segments}
        for life, segments in counting.items()
    }


def archived_states(store: ArchiveStore) -> list[ArchivedState]:
    """Every state of the metadata in the archive, the oldest first."""
    found = ((state_entry(one.key), one.modified_s) for one in store.list(STATE))
    return sorted(ArchivedState(entry, at) for entry, at in found if entry is not None)


def superfluous(states: Sequence[ArchivedState]) -> list[int]:
    """Of these states, oldest first, those that need not be kept."""
    old = states[:-STATES_KEPT]
    newest_of_day = {int(state.modified_s // DAY_S): state.entry for state in old}
    return [state.entry for state in old if state.entry not in newest_of_day.values()]


def read_segment_manifest(store: ArchiveStore, life: Life, first_offset: int) -> SegmentManifest:
    """The manifest of a segment. ManifestDamaged also if it is that of another one."""
    key = segment_manifest_key(life, first_offset)
    manifest = _read(store, key, SegmentManifest)
    if (manifest.birth, manifest.first_offset) != (life.birth, first_offset):
        raise ManifestDamaged(f"{key} is the manifest of another segment")
    for record in manifest.files:
        if not is_file_of(first_offset, record.name):
            raise ManifestDamaged(f"{key} names the file {record.name!r}")
    return manifest


def read_state_manifest(store: ArchiveStore, entry: int) -> StateManifest:
    """Returns the manifest of a state; raises ManifestDamaged if it names foreign files."""
    key = state_manifest_key(entry)
    manifest = _read(store, key, StateManifest)
    if manifest.entry != entry:
        raise ManifestDamaged(f"{key} is the manifest of another state")
    for record in manifest.files:
        if not record.name or "/" in record.name or record.name in (".", ".."):
            raise ManifestDamaged(f"{key} names the file {record.name!r}")
    return manifest


def offset_keys(store: ArchiveStore) -> list[str]:
    """Returns the keys of all objects with committed offsets, in order."""
    return sorted(one.key for one in store.list(OFFSETS))


def read_offsets(
    store: ArchiveStore, damaged: Callable[[ManifestDamaged], None] | None = None
) -> dict[Life, PartitionOffsets]:
    """Returns the committed offsets of all consumers, as far as the archive knows.

    Each shard writes what it owns. After a start with another number of shards some objects are
    of the time before: only those of the newest number count. Damaged ones are left out and passed
    to `damaged`; without that callback ManifestDamaged is raised.
    """
    found = []
    for key in offset_keys(store):
        try:
            found.append(_read(store, key, OffsetsManifest))
        except ObjectMissing:
            continue  # of the time before, and removed since the listing
        except ManifestDamaged as error:
            if damaged is None:
                raise
            damaged(error)
    if not found:
        return {}
    shard_count = max(found, key=lambda one: one.archived_at).shard_count
    return {
        Life(row.stream_id, row.topic_id, row.partition_id, row.birth): row
        for one in found
        if one.shard_count == shard_count
        for row in one.partitions
    }


def gaps(manifests: Sequence[SegmentManifest]) -> Iterator[tuple[int, int]]:
    """Offsets that are missing between segments: the first and the one behind the last."""
    for before, after in pairwise(manifests):
        if before.end_offset < after.first_offset:
            yield before.end_offset, after.first_offset


def _read(store: ArchiveStore, key: str, kind: type[Manifest]) -> Manifest:
    size_max = OFFSETS_SIZE_MAX if kind is OffsetsManifest else MANIFEST_SIZE_MAX
    try:
        return decode(get_bytes(store, key, size_max), kind)
    except (ManifestDamaged, ObjectDamaged) as error:
        raise ManifestDamaged(f"{key}: {error}") from error
