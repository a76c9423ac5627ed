"""Archiving one sealed segment: all its files, whatever they are, then the manifest.

Sealed and synced segments never change, so a thread copies them while the owner goes on. Two things
may happen to the names meanwhile: retention deletes the segment, or the partition ends and another
life begins in its directory. Files that are open stay readable. As the birth is looked at after
they were opened, they belong to the life they are archived for.

Killed at any point, the next one begins the segment again: without its manifest nothing counts.
"""

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Final, NamedTuple

from borzoi.storage.archive.copying import GoOn, put_bytes, upload
from borzoi.storage.archive.manifest import Life, SegmentManifest, encode, segment_manifest_key
from borzoi.storage.archive.store import ArchiveStore
from borzoi.storage.birth import BirthDamaged, read_birth
from borzoi.storage.codecs import Codec
from borzoi.storage.files import TEMPORARY_SUFFIX, Files
from borzoi.storage.layout import LOG_SUFFIX, log_suffix, segment_codecs, segment_name
from borzoi.storage.segment import SealedSegment

OPEN_TRIES: Final = 3
"""A file may be replaced by another between the listing and the opening; not again and again."""


class SegmentGone(Exception):
    """It was deleted, or its partition ended: there is nothing to archive any more."""


class OpenFile(NamedTuple):
    """A file of a segment that is open for copying."""

    name: str
    fd: int


def archive_segment(
    store: ArchiveStore,
    life: Life,
    directory: str,
    segment: SealedSegment,
    files: Files,
    now_us: int,
    go_on: GoOn,
) -> SegmentManifest:
    """Copy a segment and note it as archived, when every byte of it was read back and compared."""
    with open_segment(directory, life.birth, segment.first_offset, files) as found:
        records = tuple(
            upload(store, f"{life.prefix}/{name}", files, fd, files.size(fd), go_on)
            for name, fd in found
        )
    manifest = SegmentManifest(
        birth=life.birth,
        first_offset=segment.first_offset,
        message_count=segment.message_count,
        size_bytes=segment.size_bytes,
        first_timestamp=segment.first_timestamp,
        last_timestamp=segment.last_timestamp,
        archived_at=now_us,
        files=records,
    )
    put_bytes(store, segment_manifest_key(life, segment.first_offset), encode(manifest))
    return manifest


@contextmanager
def open_segment(
    directory: str, birth: int, first_offset: int, files: Files
) -> Iterator[list[OpenFile]]:
    """The files of a segment of this life, open. SegmentGone if there is none."""
    for _ in range(OPEN_TRIES):
        with ExitStack() as stack:
            try:
                found = _open_all(directory, first_offset, files, stack)
            except FileNotFoundError:
                continue
            if not any(LOG_SUFFIX in one.name for one in found):
                # Deleted. Or it was listed between its two names, plain and compressed.
                continue
            try:
                if read_birth(directory, files) != birth:
                    break
            except BirthDamaged as error:
                raise OSError(str(error)) from error
            yield found
            return
    raise SegmentGone(f"{os.path.join(directory, segment_name(first_offset))} is not there")


def _open_all(directory: str, first_offset: int, files: Files, stack: ExitStack) -> list[OpenFile]:
    stem = segment_name(first_offset) + "."
    names = files.listdir(directory)
    # While it is being compressed there are two logs, of which one counts.
    log = stem[:-1] + log_suffix(segment_codecs(names).get(first_offset, Codec.NONE))
    found = []
    for name in sorted(names):
        if name.startswith(stem + LOG_SUFFIX[1:]) and name != log:
            continue
        if name.startswith(stem) and not name.endswith(TEMPORARY_SUFFIX):
            fd = files.open(os.path.join(directory, name), os.O_RDONLY)
            stack.callback(files.close, fd)
            found.append(OpenFile(name, fd))
    return found
