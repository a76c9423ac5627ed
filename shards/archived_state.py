"""The metadata in the archive: copied while it is written, and read back for a restore.

A copy is made by a thread of shard 0. The log only grows while the broker runs, and is whole up to
the end on the board; the snapshots are replaced by rename. Opened in this order they fit each
other: first the snapshots, then the end is read, so neither knows more than the log that is
copied up to there, and the log begins behind the older snapshot at the latest.
"""

import os
from collections.abc import Callable
from contextlib import ExitStack
from typing import Final

from borzoi.shards.config.schema import System
from borzoi.shards.encryption import configured_key
from borzoi.shards.metadata.follower import MetadataCopy, open_copy
from borzoi.shards.metadata.snapshot import previous_path
from borzoi.storage.archive.catalogue import archived_states, superfluous
from borzoi.storage.archive.copying import GoOn, put_bytes, upload
from borzoi.storage.archive.manifest import (
    StateManifest,
    encode,
    state_manifest_key,
    state_prefix,
)
from borzoi.storage.archive.store import ArchiveStore
from borzoi.storage.encrypted import Encryption
from borzoi.storage.encryption_key import compare_check, has_check
from borzoi.storage.files import Files
from borzoi.storage.layout import DataLayout
from borzoi.storage.wal import LogEnd, WalDamaged, log_start, read_entries

PublishedEnd = Callable[[], LogEnd]

NO_ENTRY: Final = 0


def archive_state(
    store: ArchiveStore,
    layout: DataLayout,
    files: Files,
    published_end: PublishedEnd,
    now_us: int,
    go_on: GoOn,
) -> int:
    """Archive the metadata as it is now, unless it is there; the last entry that is in it."""
    states = archived_states(store)
    with ExitStack() as stack:
        found = []
        for path in metadata_files(layout):
            try:
                fd = files.open(path, os.O_RDONLY)
            except FileNotFoundError:
                continue
            stack.callback(files.close, fd)
            found.append((path, fd))
        end = published_end()
        if end.index == NO_ENTRY or any(state.entry == end.index for state in states):
            return end.index
        records = tuple(
            upload(
                store,
                f"{state_prefix(end.index)}/{os.path.basename(path)}",
                files,
                fd,
                end.position if path == layout.state_log else files.size(fd),
                go_on,
            )
            for path, fd in found
        )
    manifest = StateManifest(entry=end.index, archived_at=now_us, files=records)
    put_bytes(store, state_manifest_key(end.index), encode(manifest))
    _forget_old(store)
    return end.index


def metadata_files(layout: DataLayout) -> list[str]:
    """All that makes up the metadata, where it is there; the log last."""
    return [
        layout.info_file,
        layout.encryption_check_file,
        previous_path(layout.state_snapshot),
        layout.state_snapshot,
        layout.state_log,
    ]


def open_key(system: System, directory: str, files: Files) -> Encryption | None:
    """The configured key for the metadata files in this directory. KeyRefused if it is another.

    What is added to them is encrypted if they are.
    """
    layout = DataLayout(directory)
    key = configured_key(system.encryption)
    compare_check(layout, files, key)
    return None if key is None else Encryption(key, encrypts=has_check(layout, files))


def load_state(directory: str, files: Files, encryption: Encryption | None) -> MetadataCopy:
    """What the metadata files in this directory come to. WalDamaged if they are not sound."""
    layout = DataLayout(directory)
    copy = open_copy(layout.state_log, layout.state_snapshot, files, encryption)
    try:
        if copy.snapshot_problem is not None:
            raise WalDamaged(copy.snapshot_problem)
        end = _last_entry(layout.state_log, copy.end, files)
        copy.catch_up(end.index, end.position)
    finally:
        copy.close()
    return copy


def _last_entry(log_path: str, after: LogEnd, files: Files) -> LogEnd:
    fd = files.open(log_path, os.O_RDONLY)
    try:
        end = after if after.index else log_start(files, log_path)
        for entry, position in read_entries(files, fd, end, files.size(fd), name=log_path):
            end = LogEnd(entry.index, position)
        return end
    finally:
        files.close(fd)


def _forget_old(store: ArchiveStore) -> None:
    """Remove states that newer ones stand for; the manifest first, so that no half one counts."""
    for entry in superfluous(archived_states(store)):
        store.delete(state_manifest_key(entry))
        for stored in list(store.list(state_prefix(entry))):
            store.delete(stored.key)
