"""What the lane `meta` comes to: the metadata log of the cluster. Pure.

Its entries are those of `state.messages`, byte for byte, one in each slot. Its checkpoint is a
snapshot and the last entry before it, which together are a metadata log that was shortened:

     0  length of the snapshot   u64
     8  snapshot                 the bytes of state.snapshot
     .  entry                    the bytes of one entry

Both have their SHA-256 inside. The snapshot stays opaque here.
"""

import struct
from typing import Final

from borzoi.cluster.keys import Checkpoint
from borzoi.cluster.slots import DataSlot, EntryKind
from borzoi.storage.archive.manifest import ManifestDamaged
from borzoi.storage.wal import InvalidEntry, decode_entry

LENGTH: Final = struct.Struct("<Q")


class MetaReplay:
    """The entries of the lane `meta`, as the machine's Replay."""

    def __init__(self) -> None:
        self.snapshot: bytes
        self.base: bytes
        """The last entry that is in the snapshot."""
        self.first: int
        """The index of the first entry behind the snapshot."""
        self.entries: list[bytes]
        self.begin(None, b"")

    @property
    def last_index(self) -> int:
        """The index of the last entry, 0 if there is none."""
        return self.first - 1 + len(self.entries)

    def begin(self, checkpoint: Checkpoint | None, body: bytes) -> frozenset[Checkpoint]:
        """Start from a checkpoint, or from nothing. ManifestDamaged if it cannot be used."""
        self.snapshot, self.base, self.first, self.entries = b"", b"", 1, []
        if checkpoint is not None:
            self.snapshot, self.base = read_checkpoint(body)
            self.first = _index_of(self.base) + 1
        return frozenset()

    def apply(self, data: DataSlot) -> bool:
        """Take a group of entries, or nothing if it does not follow."""
        bodies = [bytes(one.body) for one in data.entries if one.kind is EntryKind.METADATA]
        try:
            indexes = [_index_of(body) for body in bodies]
        except ManifestDamaged:
            return False
        if indexes != [self.last_index + 1 + number for number in range(len(bodies))]:
            return False
        self.entries += bodies
        return True


def write_checkpoint(snapshot: bytes, last_entry: bytes) -> bytes:
    """The bytes of a checkpoint."""
    return LENGTH.pack(len(snapshot)) + snapshot + last_entry


def read_checkpoint(body: bytes) -> tuple[bytes, bytes]:
    """The snapshot and the last entry in these bytes. ManifestDamaged if they are cut."""
    if len(body) < LENGTH.size:
        raise ManifestDamaged(f"{len(body)} bytes are too few for a checkpoint")
    (length,) = LENGTH.unpack_from(body)
    end = LENGTH.size + length
    return body[LENGTH.size : end], body[end:]


def _index_of(entry: bytes) -> int:
    try:
        found, end = decode_entry(memoryview(entry), 0, len(entry))
    except InvalidEntry as error:
        raise ManifestDamaged(f"the entry inside: {error}") from error
    if end != len(entry):
        raise ManifestDamaged(f"{len(entry) - end} bytes too many")
    return found.index
