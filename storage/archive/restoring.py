"""Bringing a life of a partition back into a directory that is not there yet.

The files come first, each compared with its manifest. Then comes the birth. Then comes an empty
segment behind the last one, so that recovery takes every restored segment for what it is, a sealed
one. Nothing here is seen by a broker: the caller puts the metadata in its place last.
"""

import os
from collections.abc import Sequence

from borzoi.protocol.identifiers import ConsumerKind
from borzoi.storage.archive.copying import ObjectDamaged, download
from borzoi.storage.archive.manifest import Life, SegmentManifest
from borzoi.storage.archive.store import ArchiveStore, ObjectMissing
from borzoi.storage.birth import write_birth
from borzoi.storage.files import TEMPORARY_SUFFIX, Files
from borzoi.storage.layout import OFFSET_DIRECTORIES, index_path, log_path
from borzoi.storage.offsets import OFFSET


def restore_segment(
    store: ArchiveStore, life: Life, manifest: SegmentManifest, directory: str, files: Files
) -> None:
    """Download a segment. If one of its files is damaged, none of them is left."""
    files.makedirs(directory)
    paths = [os.path.join(directory, record.name) for record in manifest.files]
    try:
        for record, path in zip(manifest.files, paths, strict=True):
            download(store, f"{life.prefix}/{record.name}", record, path, files)
    except (ObjectDamaged, ObjectMissing):
        for path in paths:
            files.unlink_if_there(path)
            files.unlink_if_there(path + TEMPORARY_SUFFIX)
        raise


def finish_partition(life: Life, end_offset: int, directory: str, files: Files) -> None:
    """Writes the birth of a restored partition and begins its next segment.

    Called when all segments are there. Durable, except for the names of the directories above.
    """
    files.makedirs(directory)
    # As the first append would: a sync of the partition counts on all of them.
    for name in OFFSET_DIRECTORIES.values():
        files.makedirs(os.path.join(directory, name))
    write_birth(directory, life.birth, files)
    for path in (index_path(directory, end_offset), log_path(directory, end_offset)):
        files.replace(path, b"", durable=True)
    files.fsync_directory(directory)


def restore_offsets(
    committed: Sequence[tuple[int, int, int]], next_offset: int, directory: str, files: Files
) -> int:
    """Write what consumers have read, at most what there is; how many. Not durable yet."""
    if next_offset == 0:
        return 0
    for kind, consumer, offset in committed:
        kind_directory = os.path.join(directory, OFFSET_DIRECTORIES[ConsumerKind(kind)])
        files.makedirs(kind_directory)
        path = os.path.join(kind_directory, str(consumer))
        files.replace(path, OFFSET.pack(min(offset, next_offset - 1)), durable=True)
    return len(committed)
