"""Checking the data directory of a stopped broker: what `borzoi check` does.

Under the lock that keeps a broker out. Nothing is changed unless a repair is asked for, and then
nothing that verifies; files that are not ours are named and left alone.
"""

import os
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from borzoi.router.placement import pack_namespace
from borzoi.shards.admin.check_metadata import CheckedMetadata, check_metadata
from borzoi.shards.directory.lock import lock_data_directory
from borzoi.shards.directory.used_layout import layout_of
from borzoi.shards.identity.root_account import ROOT_PASSWORD_FILE
from borzoi.shards.metadata_log.snapshot import previous_path
from borzoi.shards.settings.errors import ConfigError
from borzoi.storage.check_partition import check_partition
from borzoi.storage.check_segments import check_leftover
from borzoi.storage.clean_stop import CleanPartition, CleanStop, is_record
from borzoi.storage.encrypted import Encryption, cipher_of
from borzoi.storage.encryption_key import (
    EncryptionKey,
    KeyRefused,
    compare_check,
    is_check_damaged,
)
from borzoi.storage.files import TEMPORARY_SUFFIX, Files
from borzoi.storage.findings import Findings
from borzoi.storage.info import UnknownDataFormat, read_info
from borzoi.storage.layout import (
    CLEAN_STOP_PREFIX,
    LAST_STOP_PREFIX,
    DataLayout,
    PartitionDirectory,
)
from borzoi.storage.repairs import removed


def check_data(
    root: Path, files: Files, *, repair: bool = False, keys: Sequence[EncryptionKey] = ()
) -> Findings:
    """Verify everything below `root`. ConfigError if it is no data directory, or in use.

    Also if the keys are not those of the directory.
    """
    layout = layout_of(root)
    if not os.path.exists(layout.state_log):
        raise ConfigError(f"{root}: there is no metadata log of a broker in it")
    lock_fd = lock_data_directory(root)
    try:
        findings = Findings(repair)
        try:
            read_info(layout, files)
        except UnknownDataFormat as error:
            raise ConfigError(str(error)) from error
        _check_names(layout, findings, files)
        encryption = _encryption(layout, findings, files, keys)
        metadata = check_metadata(layout, findings, files, encryption)
        _check_clean_stops(layout, LAST_STOP_PREFIX, findings, files)
        clean = _check_clean_stops(layout, CLEAN_STOP_PREFIX, findings, files)
        last_stop = CleanStop.last(layout, files)
        for found in layout.partition_directories(files):
            _check_directory(layout, found, metadata, clean, last_stop, findings, files, encryption)
        for namespace, partition in clean.items():
            if partition.next_offset:
                findings.damaged(
                    layout.root,
                    f"the clean stop speaks of a partition {namespace:#x} with"
                    f" {partition.next_offset} offsets, which has no directory",
                )
        return findings
    finally:
        os.close(lock_fd)


def _encryption(
    layout: DataLayout, findings: Findings, files: Files, keys: Sequence[EncryptionKey]
) -> Encryption | None:
    if is_check_damaged(layout, files):
        findings.damaged(layout.encryption_check_file, "does not match its checksum")
    elif keys:
        try:
            compare_check(layout, files, keys)
        except KeyRefused as error:
            raise ConfigError(str(error)) from error
    return Encryption(keys[0], encrypts=False, old=keys[1:]) if keys else None


def _check_names(layout: DataLayout, findings: Findings, files: Files) -> None:
    ours = {
        *(layout.streams, layout.state_log, layout.state_snapshot, layout.info_file),
        *(layout.encryption_check_file, layout.archive_id, layout.revoked_tokens),
        *(layout.jwt_key, layout.jwt_rsa_key),
        *(layout.runtime, layout.logs, layout.backup, layout.trash),
        *(previous_path(layout.state_snapshot), os.path.join(layout.root, ROOT_PASSWORD_FILE)),
    }
    for name in sorted(files.listdir(layout.root)):
        path = os.path.join(layout.root, name)
        if path in ours or _is_record(name):
            continue
        whole = path.removesuffix(TEMPORARY_SUFFIX)
        if whole in ours or _is_record(os.path.basename(whole)):
            check_leftover(path, findings, files)
        else:
            findings.note(path, "unknown, left alone")
    if os.path.isdir(layout.trash) and (retired := files.listdir(layout.trash)):
        findings.note(layout.trash, f"{len(retired)} deleted things, which the next start removes")


def _is_record(name: str) -> bool:
    return is_record(name, CLEAN_STOP_PREFIX) or is_record(name, LAST_STOP_PREFIX)


def _check_clean_stops(
    layout: DataLayout, prefix: str, findings: Findings, files: Files
) -> dict[int, CleanPartition]:
    partitions: dict[int, CleanPartition] = {}
    for path, record in CleanStop.read_all(layout, files, prefix).items():
        if record is None:
            findings.mendable(
                path,
                "does not match its checksum: the next start scans instead",
                partial(removed, path, files),
            )
        else:
            findings.counts.clean_stop_records += 1
            partitions.update(record.partitions)
    return partitions


def _check_directory(
    layout: DataLayout,
    found: PartitionDirectory,
    metadata: CheckedMetadata | None,
    clean: dict[int, CleanPartition],
    last_stop: CleanStop,
    findings: Findings,
    files: Files,
    encryption: Encryption | None,
) -> None:
    try:
        namespace = pack_namespace(found.stream_id, found.topic_id, found.partition_id)
    except ValueError as error:
        findings.note(found.path, f"unknown, left alone: {error}")
        return
    birth = check_partition(
        found.path,
        clean.pop(namespace, None),
        findings,
        files,
        last_stop.get(namespace),
        lambda birth: cipher_of(encryption, namespace, birth),
    )
    if metadata is None or birth is None:
        return
    topic = metadata.state.find_topic(found.stream_id, found.topic_id)
    place = None if topic is None else topic.find_partition(found.partition_id)
    if birth > metadata.last_index:
        findings.damaged(
            found.path,
            f"was made by metadata entry {birth}, but {layout.state_log} ends with entry"
            f" {metadata.last_index}: the broker will not start",
        )
    elif place is None or place.birth != birth:
        findings.note(found.path, "belongs to a deleted partition: the next start removes it")
