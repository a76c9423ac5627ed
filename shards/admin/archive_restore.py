"""From an archive to a data directory that a broker can start on: `borzoi archive restore`.

Only into an empty directory. The order is what makes a kill harmless: segments and offsets first,
the metadata last. A broker does not start on partitions without metadata, and says so.

    restoring/     the metadata of the archive, until everything else is there
    streams/...    the segments that were chosen, in the life that the metadata knows
    info.json, state.*

Streams and topics that were not chosen are deleted by metadata entries behind those of the archive,
the same entries that a delete command writes. Users stay as they were.
"""

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

from borzoi.protocol.commands.streams import DeleteStream
from borzoi.protocol.commands.topics import DeleteTopic
from borzoi.protocol.errors import BrokerError
from borzoi.protocol.identifiers import Identifier
from borzoi.shards.decisions.decide import MetadataSettings
from borzoi.shards.directory.lock import empty_data_directory, lock_data_directory
from borzoi.shards.metadata.state import ROOT_USER_ID, State
from borzoi.shards.metadata_log.writer import open_writer
from borzoi.shards.settings.schema import System
from borzoi.shards.upkeep.archived_state import load_state, metadata_files, open_key, tie_to_keys
from borzoi.storage.archive.catalogue import (
    archived_lives,
    archived_states,
    gaps,
    read_offsets,
    read_segment_manifest,
    read_state_manifest,
)
from borzoi.storage.archive.copying import ObjectDamaged, download
from borzoi.storage.archive.manifest import Life, ManifestDamaged, SegmentManifest, state_prefix
from borzoi.storage.archive.restoring import finish_partition, restore_offsets, restore_segment
from borzoi.storage.archive.store import ArchiveStore, ObjectMissing
from borzoi.storage.encrypted import Encryption
from borzoi.storage.encryption_key import KeyRefused
from borzoi.storage.files import Files
from borzoi.storage.layout import DataLayout

WORK_DIRECTORY: Final = "restoring"

Say = Callable[[str], None]


class CannotRestore(Exception):
    """Nothing was restored; the text says why."""


class Selection(NamedTuple):
    """What to bring back: everything, a stream, a topic or a partition. By id or name."""

    stream: Identifier | None = None
    topic: Identifier | None = None
    partition: int | None = None

    def lives(self, state: State) -> Iterator[Life]:
        """The partitions that are meant, as this state knows them. BrokerError: it does not."""
        streams = [state.stream(self.stream)] if self.stream is not None else state.streams.values()
        for stream in streams:
            topics = (
                [stream.topic(self.topic)] if self.topic is not None else stream.topics.values()
            )
            for topic in topics:
                numbers = range(topic.partitions_count)
                if self.partition is not None:
                    topic.partition(self.partition)
                    numbers = range(self.partition, self.partition + 1)
                for number in numbers:
                    yield Life(stream.id, topic.id, number, topic.partition(number).birth)


class Restored(NamedTuple):
    """What came back."""

    entry: int
    partitions: int
    segments: int
    size_bytes: int


def choose_state(entries: list[int], entry_max: int | None) -> int:
    """The newest state of the metadata, or the newest that is not behind an entry."""
    fitting = [entry for entry in entries if entry_max is None or entry <= entry_max]
    if not fitting:
        before = "" if entry_max is None else f" up to entry {entry_max}"
        raise CannotRestore(f"the archive holds no metadata{before}")
    return max(fitting)


def restore(
    store: ArchiveStore,
    layout: DataLayout,
    selection: Selection,
    entry_max: int | None,
    system: System,
    say: Say,
    *,
    skip_damaged: bool = False,
) -> Restored:
    """Fill an empty data directory. Durable when it returns; empty again if it raises."""
    files = Files()
    files.makedirs(layout.root)
    lock_fd = lock_data_directory(Path(layout.root))
    try:
        if os.listdir(layout.root):
            raise CannotRestore(f"{layout.root} is not empty: needs an empty directory")
    except BaseException:
        os.close(lock_fd)
        raise
    try:
        entries = [one.entry for one in archived_states(store)]
        entry = choose_state(entries, entry_max)
        work = os.path.join(layout.root, WORK_DIRECTORY)
        try:
            fetch_state(store, entry, work, files)
        except (ManifestDamaged, ObjectDamaged, ObjectMissing) as error:
            older = ", ".join(str(one) for one in entries if one < entry) or "there is none"
            raise CannotRestore(
                f"{error}; --entry takes an older state of the metadata: {older}"
            ) from error
        encryption = open_key(system, work, files)
        state = load_state(work, files, encryption).state
        try:
            lives = list(selection.lives(state))
        except BrokerError as error:
            raise CannotRestore(f"the metadata up to entry {entry}: {error}") from error
        restoring = _Restoring(store, layout, files, skip_damaged, say)
        for life in lives:
            restoring.restore(life)
        try:
            tie_to_keys(layout, work, encryption, files)
        except KeyRefused as error:
            raise CannotRestore(str(error)) from error
        if selection.stream is not None:
            chosen = {life[:2] for life in lives}
            _delete_others(work, chosen, system.segment.size, encryption, files)
        _put_metadata_in_place(layout, work, files)
        return Restored(entry, len(lives), restoring.segments, restoring.size_bytes)
    except BaseException:
        # It was empty, so all of it is ours, and half of it is of no use.
        empty_data_directory(Path(layout.root))
        raise
    finally:
        os.close(lock_fd)


def fetch_state(store: ArchiveStore, entry: int, directory: str, files: Files) -> None:
    """Download the metadata of the archive into a directory of its own."""
    files.makedirs(directory)
    for record in read_state_manifest(store, entry).files:
        path = os.path.join(directory, record.name)
        download(store, f"{state_prefix(entry)}/{record.name}", record, path, files)
    files.fsync_directory(directory)


class _Restoring:
    """The segments and offsets of one restore."""

    def __init__(
        self, store: ArchiveStore, layout: DataLayout, files: Files, skip_damaged: bool, say: Say
    ) -> None:
        self._store = store
        self._layout = layout
        self._files = files
        self._skip_damaged = skip_damaged
        self._say = say
        self._archived = {one.life: one.segments for one in archived_lives(store)}
        self._offsets = read_offsets(store, self._damaged)
        self.segments = 0
        self.size_bytes = 0

    def restore(self, life: Life) -> None:
        """Bring a partition back, as far as it is archived."""
        name = f"stream {life.stream_id}, topic {life.topic_id}, partition {life.partition_id}"
        directory = self._layout.partition(*life[:3])
        firsts = self._archived.get(life, ())
        found = [self._restore_segment(life, first, directory) for first in firsts]
        manifests = [manifest for manifest in found if manifest is not None]
        if not manifests:
            self._say(f"{name}: nothing of it is archived, it begins empty")
            return
        end_offset = manifests[-1].end_offset
        finish_partition(life, end_offset, directory, self._files)
        row = self._offsets.get(life)
        committed = row.committed if row is not None else ()
        consumers = restore_offsets(committed, end_offset, directory, self._files)
        _sync_above(directory, self._layout.root, self._files)
        size = sum(record.size for manifest in manifests for record in manifest.files)
        self._say(
            f"{name}: offsets {manifests[0].first_offset} to {end_offset - 1} in {len(manifests)}"
            f" segments, {size} bytes, offsets of {consumers} consumers and groups"
        )
        for first, end in gaps(manifests):
            self._say(f"{name}: offsets {first} to {end - 1} are not in the archive")
        self.segments += len(manifests)
        self.size_bytes += size

    def _restore_segment(
        self, life: Life, first_offset: int, directory: str
    ) -> SegmentManifest | None:
        try:
            manifest = read_segment_manifest(self._store, life, first_offset)
            restore_segment(self._store, life, manifest, directory, self._files)
        except (ManifestDamaged, ObjectDamaged, ObjectMissing) as error:
            self._damaged(error)
            return None
        return manifest

    def _damaged(self, error: Exception) -> None:
        """Raises CannotRestore; with --skip-damaged prints the damage and goes on."""
        if not self._skip_damaged:
            raise CannotRestore(f"{error}; --skip-damaged restores everything else") from error
        self._say(f"DAMAGED, left out: {error}")


def _delete_others(
    work: str,
    chosen: set[tuple[int, int]],
    segment_size: int,
    encryption: Encryption | None,
    files: Files,
) -> None:
    """Take the streams and topics that were not chosen out of the metadata."""
    layout = DataLayout(work)
    writer = open_writer(
        layout.state_log,
        layout.state_snapshot,
        files,
        MetadataSettings(segment_size),
        encryption=encryption,
    )
    try:
        commands: list[DeleteStream | DeleteTopic] = []
        for stream in writer.state.streams.values():
            if not any(stream.id == one[0] for one in chosen):
                commands.append(DeleteStream(stream.id))
                continue
            commands += [
                DeleteTopic(stream.id, topic)
                for topic in stream.topics
                if (stream.id, topic) not in chosen
            ]
        for command in commands:
            now_us = time.time_ns() // 1000
            writer.append(writer.prepare(command, user_id=ROOT_USER_ID, timestamp=now_us))
            writer.applied()
        writer.sync()
    finally:
        writer.close()


def _put_metadata_in_place(layout: DataLayout, work: str, files: Files) -> None:
    """The log last: without it no broker takes the directory for what it is going to be."""
    for old, new in zip(metadata_files(DataLayout(work)), metadata_files(layout), strict=True):
        if os.path.exists(old):
            files.rename(old, new)
            files.fsync_directory(layout.root)
    files.rmtree(work)
    files.fsync_directory(layout.root)


def _sync_above(directory: str, root: str, files: Files) -> None:
    at = directory
    while len(at) > len(root):
        at = os.path.dirname(at)
        files.fsync_directory(at)
