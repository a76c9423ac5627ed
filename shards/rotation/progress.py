"""How far an exchange of keys has come, by what lies on the disk; of a running broker, too."""

from collections.abc import Sequence
from typing import NamedTuple

from borzoi.shards.metadata_log.snapshot import SnapshotDamaged
from borzoi.shards.rotation.metadata_keys import used_by_metadata
from borzoi.storage.encrypted import Encryption
from borzoi.storage.encryption_key import EncryptionKey
from borzoi.storage.files import Files
from borzoi.storage.layout import DataLayout
from borzoi.storage.used_keys import NO_KEY, Used, used_by_segments
from borzoi.storage.wal import WalDamaged


class Need(NamedTuple):
    """What needs one of the keys. `metadata` is None where the log is just being written."""

    key_id: bytes  # empty: of what lies there in clear
    is_current: bool
    segments: Used
    metadata: int | None


def needs(
    layout: DataLayout, files: Files, keys: Sequence[EncryptionKey], current: EncryptionKey
) -> list[Need]:
    """Each of these keys, the current one first, and what is in clear. OSError."""
    segments = used_by_segments(layout, files)
    encryption = Encryption(current, encrypts=False, old=[key for key in keys if key != current])
    try:
        metadata = used_by_metadata(layout, files, encryption)
    except (WalDamaged, SnapshotDamaged):
        metadata = None
    found = [
        Need(
            key.id,
            key == current,
            segments.get(key.id, Used()),
            None if metadata is None else metadata[key.id],
        )
        for key in encryption.keys
    ]
    return [*found, Need(NO_KEY, False, segments.get(NO_KEY, Used()), 0)]


def still_needed(
    layout: DataLayout, files: Files, needed: Sequence[EncryptionKey], encryption: Encryption
) -> list[EncryptionKey]:
    """Those of the keys that something on the disk needs, and the one of now.

    OSError, WalDamaged or SnapshotDamaged: nothing is known.
    """
    used = {*used_by_segments(layout, files), *used_by_metadata(layout, files, encryption)}
    return [key for key in needed if key == encryption.key or key.id in used]
