"""Which keys the metadata needs, and how shard 0 has it need the newest one only.

Entries and snapshots do not say with which key they were encrypted: it is the one that opens them.
"""

import asyncio
import logging
import os
from collections import Counter
from concurrent.futures import Executor
from typing import Final

from borzoi.shards.changes.writing import MetadataWriting
from borzoi.shards.metadata_log.sealing import key_of_entry
from borzoi.shards.metadata_log.snapshot import SnapshotDamaged, key_of_snapshot, previous_path
from borzoi.storage.encrypted import Encryption
from borzoi.storage.files import Files
from borzoi.storage.layout import DataLayout
from borzoi.storage.wal import WalDamaged, log_start, read_entries

LOG: Final = logging.getLogger(__name__)


def used_by_metadata(layout: DataLayout, files: Files, encryption: Encryption) -> Counter[bytes]:
    """By the id of the key: how many entries and snapshots need it.

    OSError, WalDamaged or SnapshotDamaged: nothing is known. The end of a log that is being written
    may look damaged.
    """
    found: Counter[bytes] = Counter()
    for path in (previous_path(layout.state_snapshot), layout.state_snapshot):
        key = key_of_snapshot(files, path, encryption)
        if key is not None:
            found[key.id] += 1
    try:
        fd = files.open(layout.state_log, os.O_RDONLY)
    except FileNotFoundError:
        return found
    try:
        start = log_start(files, layout.state_log)
        for entry, _ in read_entries(files, fd, start, files.size(fd), name=layout.state_log):
            key = key_of_entry(entry, encryption)
            if key is not None:
                found[key.id] += 1
    finally:
        files.close(fd)
    return found


class MetadataKeys:
    """On shard 0: leaves nothing in the metadata that needs an older key."""

    def __init__(
        self,
        writing: MetadataWriting,
        layout: DataLayout,
        files: Files,
        encryption: Encryption,
        disk: Executor,
    ) -> None:
        self._writing = writing
        self._layout = layout
        self._files = files
        self._encryption = encryption
        self._disk = disk

    async def renew(self) -> bool:
        """Whether the metadata needs the newest key only, after what could be done for it."""
        if await self._is_new():
            return True
        await self._writing.encrypt_again()
        return await self._is_new()

    async def _is_new(self) -> bool:
        loop = asyncio.get_running_loop()
        try:
            found = await loop.run_in_executor(
                self._disk, used_by_metadata, self._layout, self._files, self._encryption
            )
        except (OSError, WalDamaged, SnapshotDamaged) as error:
            LOG.warning("which keys the metadata needs is looked at again: %s", error)
            return False
        return found.keys() <= {self._encryption.key.id}
