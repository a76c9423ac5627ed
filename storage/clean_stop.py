"""The record of a clean stop: how long every file was when the broker let go of it.

One file per shard, because each worker knows only its own partitions. The next run may have
another number of shards, so a start takes all of them together.

     0   magic        8 bytes
     8   row count    u64
    16   rows         7 u64 each: key, birth, segment, end position, next offset,
                      index length, digest of the consumer offsets
     .   checksum     u64, XXH3-64 of all bytes before

Written as a worker's last act, when everything it names is durable. Renamed, durably, before
anything is changed again: a crash later must not find it and skip the scan. Under its other name,
`last-stop`, it still says what was durable then: a scan begins there, and not at the beginning
of every active segment.
"""

import os
import struct
from collections.abc import Mapping
from typing import Final, NamedTuple

import xxhash

from borzoi.storage.files import Files
from borzoi.storage.layout import CLEAN_STOP_PREFIX, LAST_STOP_PREFIX, DataLayout, is_number

MAGIC: Final = b"BZSTOP\x00\x01"
COUNT: Final = struct.Struct("<Q")
ROW: Final = struct.Struct("<7Q")
CHECKSUM: Final = struct.Struct("<Q")
HEAD_SIZE: Final = len(MAGIC) + COUNT.size
ROWS_MAX: Final = 16_000_000
FILE_SIZE_MAX: Final = HEAD_SIZE + ROWS_MAX * ROW.size + CHECKSUM.size


class CleanPartition(NamedTuple):
    """How a partition was left."""

    birth: int
    segment: int  # first offset of the active one
    end_position: int
    next_offset: int
    index_length: int
    offsets_digest: int

    def is_before(self, other: "CleanPartition") -> bool:
        """Returns whether the other record is of a later life, or of more messages."""
        return (self.birth, self.next_offset) < (other.birth, other.next_offset)


class CleanStop:
    """What the last run left, by the caller's key for a partition (its packed namespace)."""

    def __init__(self, partitions: Mapping[int, CleanPartition]) -> None:
        self.partitions = dict(partitions)

    def get(self, key: int) -> CleanPartition | None:
        """Returns how a partition was left; None if the record does not say."""
        return self.partitions.get(key)

    def write(self, layout: DataLayout, files: Files, shard: int) -> None:
        """Durable when it returns. Nothing below the data directory may change after it."""
        files.write_atomically(layout.clean_stop_file(shard), self.encode())

    @classmethod
    def take(cls, layout: DataLayout, files: Files) -> "CleanStop | None":
        """Read the records and put them away for good; None when there is none to be trusted.

        A damaged record says nothing about its partitions, which are then scanned; the others
        still count.
        """
        records = cls.read_all(layout, files, CLEAN_STOP_PREFIX)
        if not records:
            return None
        partitions: dict[int, CleanPartition] = {}
        for path, record in records.items():
            if record is None:
                files.unlink(path)
            else:
                partitions.update(record.partitions)
                files.rename(path, _put_away(path))
        files.fsync_directory(layout.root)
        return cls(partitions) if partitions else None

    @classmethod
    def last(cls, layout: DataLayout, files: Files) -> "CleanStop":
        """How far every partition was durable when a run began, from records put away."""
        partitions: dict[int, CleanPartition] = {}
        for record in cls.read_all(layout, files, LAST_STOP_PREFIX).values():
            for key, row in record.partitions.items() if record is not None else ():
                # A run with fewer shards leaves the records of the others as they were.
                if key not in partitions or partitions[key].is_before(row):
                    partitions[key] = row
        return cls(partitions)

    @classmethod
    def read_all(
        cls, layout: DataLayout, files: Files, prefix: str
    ) -> "dict[str, CleanStop | None]":
        """The records of all shards by their paths; None for one that is damaged."""
        names = sorted(name for name in files.listdir(layout.root) if is_record(name, prefix))
        paths = [os.path.join(layout.root, name) for name in names]
        return {path: cls.decode(files.read_all(path, FILE_SIZE_MAX) or b"") for path in paths}

    def encode(self) -> bytes:
        """Returns the bytes of the record, with their checksum."""
        rows = [ROW.pack(key, *partition) for key, partition in self.partitions.items()]
        data = b"".join((MAGIC, COUNT.pack(len(rows)), *rows))
        return data + CHECKSUM.pack(xxhash.xxh3_64_intdigest(data))

    @classmethod
    def decode(cls, data: bytes) -> "CleanStop | None":
        """The record in these bytes, None when they are not exactly what encode() made."""
        end = len(data) - CHECKSUM.size
        if end < HEAD_SIZE or data[: len(MAGIC)] != MAGIC:
            return None
        if CHECKSUM.unpack_from(data, end)[0] != xxhash.xxh3_64_intdigest(data[:end]):
            return None
        rows = data[HEAD_SIZE:end]
        if len(rows) != COUNT.unpack_from(data, len(MAGIC))[0] * ROW.size:
            return None
        return cls({row[0]: CleanPartition(*row[1:]) for row in ROW.iter_unpack(rows)})


def is_record(name: str, prefix: str) -> bool:
    """Whether a file of the data directory is such a record."""
    return name.startswith(prefix) and is_number(name.removeprefix(prefix))


def _put_away(path: str) -> str:
    directory, name = os.path.split(path)
    return os.path.join(directory, LAST_STOP_PREFIX + name.removeprefix(CLEAN_STOP_PREFIX))
