"""The metadata in the archive: copied while it is written, and read back for a restore.

A copy is made by a thread of shard 0. The log is whole up to the end on the board, and is replaced
by a shorter one now and then. The snapshots are replaced as well. All are opened, then the end is
read. If the open log is the one on the board, it goes as far as any snapshot. If it begins behind
the older one at the latest, they fit each other. Otherwise all are opened again.
"""

import os
import time
from collections.abc import Callable
from contextlib import ExitStack
from typing import Final

from borzoi.shards.directory.key import configured_keys, encryption_of
from borzoi.shards.metadata_log.follower import MetadataCopy, open_copy
from borzoi.shards.metadata_log.snapshot import SnapshotDamaged, index_in, previous_path
from borzoi.shards.settings.schema import System
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
from borzoi.storage.encryption_key import KeyRefused, compare_check, write_check
from borzoi.storage.files import Files
from borzoi.storage.layout import DataLayout
from borzoi.storage.used_keys import NO_KEY, used_by_segments
from borzoi.storage.wal import (
    EntryPlace,
    PublishedLog,
    WalDamaged,
    log_start,
    read_entries,
    start_of,
)

PublishedEnd = Callable[[], PublishedLog]

NO_ENTRY: Final = 0
OPEN_TRIES_MAX: Final = 100
OPEN_INTERVAL_S: Final = 0.05


def archive_state(
    store: ArchiveStore,
    layout: DataLayout,
    files: Files,
    published_end: PublishedEnd,
    now_us: int,
    go_on: GoOn,
    *,
    tries_max: int = OPEN_TRIES_MAX,
) -> int:
    """Archive the metadata as it is now, unless it is there; the last entry that is in it."""
    states = archived_states(store)
    with ExitStack() as stack:
        found, end = _open_all(layout, files, published_end, stack, tries_max)
        if end.last_index == NO_ENTRY or any(state.entry == end.last_index for state in states):
            return end.last_index
        records = tuple(
            upload(
                store,
                f"{state_prefix(end.last_index)}/{os.path.basename(path)}",
                files,
                fd,
                end.position if path == layout.state_log else files.size(fd),
                go_on,
            )
            for path, fd in found.items()
        )
    manifest = StateManifest(entry=end.last_index, archived_at=now_us, files=records)
    put_bytes(store, state_manifest_key(end.last_index), encode(manifest))
    _forget_old(store)
    return end.last_index


def _open_all(
    layout: DataLayout, files: Files, published_end: PublishedEnd, stack: ExitStack, tries_max: int
) -> tuple[dict[str, int], PublishedLog]:
    """Descriptors of all metadata files that fit each other, and where the log ends."""
    for _ in range(tries_max):
        with ExitStack() as opened:
            found = {}
            for path in metadata_files(layout):
                try:
                    fd = files.open(path, os.O_RDONLY)
                except FileNotFoundError:
                    continue
                opened.callback(files.close, fd)
                found[path] = fd
            end = published_end()
            if end.last_index == NO_ENTRY or _fit(layout, files, found, end):
                stack.enter_context(opened.pop_all())
                return found, end
        time.sleep(OPEN_INTERVAL_S)
    raise OSError(f"{layout.state_log} was replaced whenever it was to be archived")


def _fit(layout: DataLayout, files: Files, found: dict[str, int], end: PublishedLog) -> bool:
    log = found.get(layout.state_log)
    if log is None or start_of(files, log).index + 1 != end.first:
        return False
    snapshots = (layout.state_snapshot, previous_path(layout.state_snapshot))
    try:
        ends = [index_in(files, found[path]) for path in snapshots if path in found]
    except SnapshotDamaged:
        # It is archived as it is: it does not say which entry the log must begin behind.
        return True
    return all(end.first - 1 <= index <= end.last_index for index in ends)


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
    keys = configured_keys(system.encryption)
    needed = compare_check(layout, files, keys)
    return encryption_of(keys, needed, encrypts=bool(needed)) if keys else None


def tie_to_keys(layout: DataLayout, work: str, encryption: Encryption | None, files: Files) -> None:
    """Have the directory ask for the keys of what came back: segments may be older than the state.

    An archive keeps what was encrypted with a key that was exchanged since. KeyRefused without it.
    """
    used = [key_id for key_id in used_by_segments(layout, files) if key_id != NO_KEY]
    keys = [] if encryption is None else list(encryption.keys)
    known = {key.id for key in keys}
    if missing := [key_id.hex() for key_id in used if key_id not in known]:
        raise KeyRefused(
            f"the archive holds segments that were encrypted with the key {', '.join(missing)},"
            " which is not configured: put it back, as a further line in the file of"
            " system.encryption.key_file or into system.encryption.old_keys"
        )
    needed = compare_check(DataLayout(work), files, keys)
    more = [key for key in keys if key.id in used and key not in needed]
    if more:
        write_check(DataLayout(work), files, [*needed, *more])


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


def _last_entry(log_path: str, after: EntryPlace, files: Files) -> EntryPlace:
    fd = files.open(log_path, os.O_RDONLY)
    try:
        end = after if after.index else log_start(files, log_path)
        for entry, position in read_entries(files, fd, end, files.size(fd), name=log_path):
            end = EntryPlace(entry.index, position)
        return end
    finally:
        files.close(fd)


def _forget_old(store: ArchiveStore) -> None:
    """Remove states that newer ones stand for; the manifest first, so that no half one counts."""
    for entry in superfluous(archived_states(store)):
        store.delete(state_manifest_key(entry))
        for stored in list(store.list(state_prefix(entry))):
            store.delete(stored.key)
