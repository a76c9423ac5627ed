"""The whole state in one small file, so that starting needs only the entries behind it.

    0   magic          8 bytes, the last two are the format's version
    8   index          u64   the last entry the state has applied
    16  position       u64   where the next entry starts in the log
    24  first          u64   the index of the first entry of that log
    32  state_length   u64
    40  state          MessagePack, encrypted if the magic says so
     .  sha256         32    over everything before it

Written by shard 0 alone (temporary file, fsync, rename), read by every worker that starts. The
one before it is kept as `.previous`, and the log is shortened behind that one at most: so if the
newest is missing or damaged, the one before and the log still have everything, and the start is
only slower. A loaded state equals the dumped one in everything, free ids and slots too.

Snapshots that begin otherwise (of versions before the log was ever shortened) are not read: the
log next to them is complete. From this version on, older ones have to stay readable.
"""

import hashlib
import os
import struct
from typing import Final, NamedTuple

import msgspec

from borzoi.messagepack import NotPacked, unpack
from borzoi.shards.metadata.state import State
from borzoi.storage.encrypted import Encryption
from borzoi.storage.encrypted_values import (
    CannotOpenValue,
    OpenedValue,
    open_value,
    seal_value,
)
from borzoi.storage.encryption_key import EncryptionKey
from borzoi.storage.files import Files, Path
from borzoi.storage.wal import EntryPlace, place_behind, start_of

# 01 kept what was granted for a stream or topic after its removal. The log holds it all, so such a
# snapshot is not read.
MAGIC: Final = b"BZSTAT03"
ENCRYPTED_MAGIC: Final = b"BZSTAE03"
PURPOSE: Final = b"metadata snapshot"
HEADER: Final = struct.Struct("<8sQQQQ")
INDEX: Final = struct.Struct("<Q")
CHECKSUM_SIZE: Final = 32
PREVIOUS_SUFFIX: Final = ".previous"
# More than this is no snapshot of ours. A topic takes some 200 bytes, a user some 400.
SNAPSHOT_SIZE_MAX: Final = 1 << 30


class Snapshot(NamedTuple):
    """A state, how far into the log it goes, and with which entry that log began."""

    state: State
    end: EntryPlace
    first: int = 1

    def end_in(self, files: Files, fd: int, *, name: Path) -> EntryPlace:
        """The place behind this state in an open log. WalDamaged if it is not there."""
        start = start_of(files, fd)
        if start.index + 1 == self.first:
            return self.end
        # The log was shortened since, or its replacement was interrupted.
        return place_behind(files, fd, self.end.index, name=name)


class SnapshotDamaged(Exception):
    """These bytes are no snapshot that can be used. Read the log from its start instead."""


class SnapshotEncrypted(SnapshotDamaged):
    """The snapshot is whole, but only its key could tell more."""


def previous_path(path: Path) -> str:
    """Where the snapshot before the newest one is kept."""
    return os.fspath(path) + PREVIOUS_SUFFIX


def dump(
    state: State, end: EntryPlace, first: int = 1, encryption: Encryption | None = None
) -> bytes:
    """The bytes of a snapshot of a state that has applied the log up to `end`."""
    # The bytes that messagepack.pack makes, in a fifth of its time: the loop of shard 0 waits.
    body = msgspec.msgpack.encode(state)
    magic = MAGIC
    if encryption is not None and encryption.encrypts:
        magic = ENCRYPTED_MAGIC
        body = seal_value(encryption.key, PURPOSE, body, INDEX.pack(end.index))
    content = HEADER.pack(magic, end.index, end.position, first, len(body)) + body
    return content + hashlib.sha256(content).digest()


def checked_index(data: bytes) -> int:
    """The entry that the snapshot in these bytes ends with, once its checksum has been compared."""
    if len(data) < HEADER.size + CHECKSUM_SIZE:
        raise SnapshotDamaged(f"{len(data)} bytes are too few for a snapshot")
    magic, index, _, _, length = HEADER.unpack_from(data)
    if magic not in (MAGIC, ENCRYPTED_MAGIC):
        raise SnapshotDamaged(f"it starts with {magic!r}, not with {MAGIC!r}")
    if len(data) != HEADER.size + length + CHECKSUM_SIZE:
        raise SnapshotDamaged(f"{len(data)} bytes, but it announces a state of {length}")
    content = memoryview(data)[: HEADER.size + length]
    if hashlib.sha256(content).digest() != data[HEADER.size + length :]:
        raise SnapshotDamaged("the SHA-256 does not match")
    found: int = index
    return found


def load(data: bytes, encryption: Encryption | None = None) -> Snapshot:
    """The snapshot in these bytes."""
    index = checked_index(data)
    magic, _, position, first, length = HEADER.unpack_from(data)
    body = data[HEADER.size : HEADER.size + length]
    if magic == ENCRYPTED_MAGIC:
        body = _opened(body, index, encryption).value
    try:
        state = unpack(body, State)
    except NotPacked as error:
        raise SnapshotDamaged(f"the state inside cannot be read: {error}") from error
    return Snapshot(state, EntryPlace(index, position), first)


def _opened(body: bytes, index: int, encryption: Encryption | None) -> OpenedValue:
    if encryption is None:
        raise SnapshotEncrypted("it is encrypted, and no key is configured")
    try:
        return open_value(encryption.keys, PURPOSE, body, INDEX.pack(index))
    except CannotOpenValue as error:
        raise SnapshotDamaged(str(error)) from error


def read_snapshot(
    files: Files, path: Path, encryption: Encryption | None = None
) -> Snapshot | None:
    """The snapshot in this file, None if there is no such file."""
    data = _read_whole(files, path)
    return None if data is None else load(data, encryption)


def key_of_snapshot(files: Files, path: Path, encryption: Encryption) -> EncryptionKey | None:
    """The key that opens the snapshot in this file, None if it is in clear or not there."""
    data = _read_whole(files, path)
    if data is None or data[: len(MAGIC)] == MAGIC:
        return None
    index = checked_index(data)
    return _opened(data[HEADER.size : -CHECKSUM_SIZE], index, encryption).key


def read_index(files: Files, path: Path) -> int | None:
    """The entry that the snapshot in this file ends with, None if there is no such file.

    Its checksum is compared, the state inside is not looked at.
    """
    data = _read_whole(files, path)
    return None if data is None else checked_index(data)


def index_in(files: Files, fd: int) -> int:
    """The entry that an open snapshot says it ends with; nothing is compared."""
    header = files.pread(fd, HEADER.size, 0)
    if len(header) < HEADER.size:
        raise SnapshotDamaged(f"{len(header)} bytes are too few for a snapshot")
    index: int = HEADER.unpack(header)[1]
    return index


def _read_whole(files: Files, path: Path) -> bytes | None:
    try:
        fd = files.open(path, os.O_RDONLY)
    except FileNotFoundError:
        return None
    try:
        size = files.size(fd)
        if size > SNAPSHOT_SIZE_MAX:
            raise SnapshotDamaged(f"{size} bytes are too many for a snapshot")
        return files.pread(fd, size, 0)
    finally:
        files.close(fd)
