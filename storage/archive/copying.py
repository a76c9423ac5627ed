"""Files to objects and back, with a checksum over what went and over what arrived.

An object counts only after it was read back and had the SHA-256 of what was read from the file. So
neither a broken cable nor a store that stores something else goes unnoticed. One piece is in memory
at a time, or a few where a store sends several at once. For threads.
"""

import hashlib
import os
from collections.abc import Callable, Iterator
from contextlib import closing

from borzoi.storage.archive.manifest import FileRecord
from borzoi.storage.archive.store import PIECE_SIZE, ArchiveStore, ObjectMissing, StoreFailed
from borzoi.storage.files import TEMPORARY_SUFFIX, Files

GoOn = Callable[[], bool]
"""Called between two pieces; False ends the copying with CopyingStopped."""


class CopyingStopped(Exception):
    """The broker stops; what was begun is begun again by the next one."""


class ObjectDamaged(Exception):
    """An object is not what its manifest says."""


def always() -> bool:
    """Never ends the copying."""
    return True


def upload(
    store: ArchiveStore, key: str, files: Files, fd: int, size: int, go_on: GoOn
) -> FileRecord:
    """Archive the first `size` bytes of an open file, and make sure that they arrived."""
    digest = hashlib.sha256()

    def pieces() -> Iterator[bytes]:
        position = 0
        while position < size:
            if not go_on():
                raise CopyingStopped
            piece = files.pread(fd, min(PIECE_SIZE, size - position), position)
            if not piece:
                raise OSError(f"the file for {key} ends after {position} of {size} bytes")
            digest.update(piece)
            position += len(piece)
            yield piece

    store.put(key, pieces(), size)
    record = FileRecord(key.rpartition("/")[2], size, digest.hexdigest())
    try:
        check_object(store, key, record, go_on)
    except (ObjectDamaged, ObjectMissing) as error:
        # Trying again is all that can be done, as with any other failure of the store.
        raise StoreFailed(f"what was uploaded is not what is there: {error}") from error
    return record


def put_bytes(store: ArchiveStore, key: str, data: bytes) -> None:
    """Store a small object, and make sure that it arrived."""
    store.put(key, [data], len(data))
    if b"".join(store.read(key)) != data:
        raise StoreFailed(f"{key}: what was uploaded is not what is there")


def get_bytes(store: ArchiveStore, key: str, size_max: int) -> bytes:
    """A small object as a whole."""
    pieces = []
    size = 0
    for piece in store.read(key):
        size += len(piece)
        if size > size_max:
            raise ObjectDamaged(f"{key} has more than {size_max} bytes")
        pieces.append(piece)
    return b"".join(pieces)


def check_object(store: ArchiveStore, key: str, record: FileRecord, go_on: GoOn = always) -> None:
    """Read an object and compare it with its record. ObjectDamaged, ObjectMissing."""
    for _ in _checked(store, key, record, go_on):
        pass


def download(
    store: ArchiveStore, key: str, record: FileRecord, path: str, files: Files, go_on: GoOn = always
) -> None:
    """Writes an object of the archive to a file.

    The file gets its name when all of it is right and on the disk; the name is not durable yet.
    """
    temporary = path + TEMPORARY_SUFFIX
    fd = files.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    try:
        position = 0
        for piece in _checked(store, key, record, go_on):
            position += files.write_all(fd, [piece], position)
        files.fsync(fd)
    finally:
        files.close(fd)
    files.rename(temporary, path)


def _checked(store: ArchiveStore, key: str, record: FileRecord, go_on: GoOn) -> Iterator[bytes]:
    """The pieces of an object; the last one is followed by an error if they are not right."""
    digest = hashlib.sha256()
    size = 0
    with closing(store.read(key)) as pieces:
        for piece in pieces:
            if not go_on():
                raise CopyingStopped
            digest.update(piece)
            size += len(piece)
            if size > record.size:
                break
            yield piece
    if size != record.size:
        more = "more than " if size > record.size else ""
        raise ObjectDamaged(f"{key} has {more}{min(size, record.size)} bytes, not {record.size}")
    if digest.hexdigest() != record.sha256:
        raise ObjectDamaged(f"{key}: its SHA-256 does not match")
