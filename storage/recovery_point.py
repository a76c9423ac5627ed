"""The recovery point of a partition: everything before it has been synced to the disk.

     0   birth u64
     8   segment u64        first offset of the segment it lies in
    16   position u64       in that segment's .log
    24   next_offset u64    of the message that begins there
    32   checksum u64       XXH3-64 of the bytes above

After a crash only what lies behind it can be torn. A message before it that does not verify was
good once: that is rot, and cutting there would throw away what follows. Written by the owner
after a sync; a file that is damaged or of another birth counts as none.
"""

import os
import struct
from typing import Final, NamedTuple

import xxhash

from borzoi.storage.files import Files
from borzoi.storage.layout import RECOVERY_POINT_FILE

FIELDS: Final = struct.Struct("<QQQQ")
CHECKSUM: Final = struct.Struct("<Q")
SIZE: Final = FIELDS.size + CHECKSUM.size


class RecoveryPoint(NamedTuple):
    """The end of what has been synced, in one life of the partition."""

    birth: int
    segment: int
    position: int
    next_offset: int


def recovery_point_path(directory: str) -> str:
    """Returns the path of the recovery point."""
    return os.path.join(directory, RECOVERY_POINT_FILE)


def write_recovery_point(directory: str, point: RecoveryPoint, files: Files) -> None:
    """Replaces the recovery point; the new one is durable when this returns."""
    fields = FIELDS.pack(*point)
    checksum = CHECKSUM.pack(xxhash.xxh3_64_intdigest(fields))
    files.write_atomically(recovery_point_path(directory), fields + checksum)


def read_recovery_point(directory: str, birth: int, files: Files) -> RecoveryPoint | None:
    """The recovery point of this life of the partition, if there is one."""
    point = read_any_recovery_point(directory, files)
    return point if point is not None and point.birth == birth else None


def read_any_recovery_point(directory: str, files: Files) -> RecoveryPoint | None:
    """Returns the recovery point of any life; None if it is missing or damaged."""
    data = files.read_all(recovery_point_path(directory), SIZE)
    if data is None or len(data) != SIZE:
        return None
    fields = data[: FIELDS.size]
    if CHECKSUM.unpack_from(data, FIELDS.size)[0] != xxhash.xxh3_64_intdigest(fields):
        return None
    return RecoveryPoint(*FIELDS.unpack(fields))
