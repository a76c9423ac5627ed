"""Checking the metadata of a stopped broker: every entry of its log, and both snapshots.

Every entry is verified, also those that a snapshot covers. The newest snapshot has to be what the
one before and the entries between them come to. Where they are encrypted and there is no key, it
ends with the checksums.
"""

import os
from typing import Final, NamedTuple

from borzoi.shards.metadata.state import State
from borzoi.shards.metadata_log.follower import MetadataCopy, open_copy
from borzoi.shards.metadata_log.sealing import KeyMissing
from borzoi.shards.metadata_log.snapshot import (
    Snapshot,
    SnapshotDamaged,
    SnapshotEncrypted,
    previous_path,
    read_snapshot,
)
from borzoi.storage.encrypted import Encryption
from borzoi.storage.encryption_key import has_check
from borzoi.storage.files import Files
from borzoi.storage.findings import Findings
from borzoi.storage.layout import DataLayout
from borzoi.storage.repairs import cut_file
from borzoi.storage.wal import START, EntryPlace, WalDamaged, log_start
from borzoi.storage.wal_writer import find_end

WITHOUT_KEY: Final = "encrypted, and no key was given: its checksums are right, no more is known"


class CheckedMetadata(NamedTuple):
    """What the broker would begin with, and the last entry of its log."""

    state: State
    last_index: int


def check_metadata(
    layout: DataLayout, findings: Findings, files: Files, encryption: Encryption | None = None
) -> CheckedMetadata | None:
    """Returns what log and snapshots come to; None if the broker could not start with them.

    Also None if they are encrypted and no key was given.
    """
    newest = _check_snapshot(layout.state_snapshot, findings, files, encryption)
    previous = _check_snapshot(previous_path(layout.state_snapshot), findings, files, encryption)
    log = layout.state_log
    start = log_start(files, log)
    try:
        end, torn = find_end(files, log, start)
    except WalDamaged as error:
        findings.damaged(log, str(error))
        return None
    known = max((one.end.index for one in (newest, previous) if one), default=0)
    if known > end.index:
        findings.damaged(log, f"ends with entry {end.index}, but a snapshot knows entry {known}")
        return None
    findings.counts.metadata_entries += end.index - start.index
    if torn is not None:
        findings.mendable(
            log,
            f"{torn.size} bytes behind entry {end.index} are not an entry ({torn.reason}): a torn"
            " write",
            lambda: cut_file(log, torn.position, files),
        )
    try:
        if newest is not None:
            _compare(layout, newest, previous, start, findings, files, encryption)
        copy = open_copy(log, layout.state_snapshot, files, encryption)
        _advance(copy, end)
    except KeyMissing:
        findings.note(log, WITHOUT_KEY)
        return None
    except WalDamaged as error:
        if encryption is None and has_check(layout, files):
            findings.note(log, WITHOUT_KEY)
            return None
        findings.damaged(log, str(error))
        return None
    return CheckedMetadata(copy.state, end.index)


def _check_snapshot(
    path: str, findings: Findings, files: Files, encryption: Encryption | None
) -> Snapshot | None:
    try:
        snapshot = read_snapshot(files, path, encryption)
    except SnapshotEncrypted:
        findings.note(path, WITHOUT_KEY)
        return None
    except SnapshotDamaged as error:
        findings.damaged(path, f"is not used: {error}")
        return None
    if snapshot is not None:
        findings.counts.metadata_snapshots += 1
    return snapshot


def _compare(
    layout: DataLayout,
    newest: Snapshot,
    previous: Snapshot | None,
    start: EntryPlace,
    findings: Findings,
    files: Files,
    encryption: Encryption | None,
) -> None:
    """Whether the newest snapshot is what the log says, where the log goes back far enough."""
    log = layout.state_log
    if previous is None and start != START:
        return
    fd = files.open(log, os.O_RDONLY)
    state, end = State(), START
    try:
        newest_end = newest.end_in(files, fd, name=log)
        if previous is not None:
            state, end = previous.state, previous.end_in(files, fd, name=log)
    finally:
        files.close(fd)
    copy = MetadataCopy(files, log, state, end, None, encryption)
    _advance(copy, newest_end)
    if copy.state != newest.state:
        findings.damaged(
            os.fspath(layout.state_snapshot),
            f"is not what the log comes to at entry {newest.end.index}",
        )


def _advance(copy: MetadataCopy, end: EntryPlace) -> None:
    try:
        copy.catch_up(end.index, end.position)
    finally:
        copy.close()
