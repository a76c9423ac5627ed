"""The birth file of a partition directory: which life of the partition its files belong to.

     0   birth u64      index of the metadata entry that created or last purged the partition
     8   checksum u64   XXH3-64 of the bytes above

Ids are reused and a purge starts at offset 0 again, so the path alone does not say whose messages
lie there. The owner writes it before the first segment and never changes it. The directory of an
older life leaves by one rename before the next one is made. So a reader that opens a segment and
*then* finds the expected birth has a segment of that life. A directory of an older birth is thrown
away: one flipped bit must not make it look older.
"""

import os
import struct
from typing import Final

import xxhash

from borzoi.storage.files import Files
from borzoi.storage.layout import BIRTH_FILE
from borzoi.storage.recovery_point import read_any_recovery_point

BIRTH: Final = struct.Struct("<Q")
SIZE: Final = 2 * BIRTH.size


class BirthDamaged(Exception):
    """The directory holds data of an unknown life. It must be neither served nor removed."""


def birth_path(directory: str) -> str:
    """Returns the path of the birth file."""
    return os.path.join(directory, BIRTH_FILE)


def read_birth(directory: str, files: Files) -> int | None:
    """The birth of what lies in this directory, None when it never got one.

    None means that the making of the directory was not finished, so nothing in it was ever
    acknowledged as durable. A recovery point, which is written after the first sync, would be there
    otherwise.
    """
    data = files.read_all(birth_path(directory), SIZE) or b""
    if len(data) == SIZE and data == encoded_birth(birth := BIRTH.unpack_from(data)[0]):
        return int(birth)
    # The number has a second home.
    point = read_any_recovery_point(directory, files)
    if point is not None:
        return point.birth
    # Too short or all zeros: the power went before a sync, so the bytes never arrived.
    if len(data) != SIZE or data == bytes(SIZE):
        return None
    # Only decay explains this, as the file is replaced as a whole.
    raise BirthDamaged(f"{birth_path(directory)} does not match its checksum")


def write_birth(directory: str, birth: int, files: Files) -> None:
    """Name the life that begins. Durable after a sync of the file and of the directory."""
    files.replace(birth_path(directory), encoded_birth(birth), durable=False)


def mend_birth(directory: str, birth: int, files: Files) -> None:
    """Put back what was lost, of a life that is known to have been durable. Durable."""
    files.write_atomically(birth_path(directory), encoded_birth(birth))


def encoded_birth(birth: int) -> bytes:
    """What the file of this birth holds."""
    data = BIRTH.pack(birth)
    return data + BIRTH.pack(xxhash.xxh3_64_intdigest(data))
