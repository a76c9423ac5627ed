"""Requests about the server itself: liveness, statistics, sessions, snapshots."""

from dataclasses import dataclass
from enum import IntEnum
from typing import Annotated, Final, TypeAlias

from borzoi.protocol.commands.request import Request
from borzoi.protocol.errors import InvalidCommand
from borzoi.protocol.kinds import Kind, enumeration, u32
from borzoi.protocol.payload import PayloadReader


class SnapshotCompression(IntEnum):
    """How the archive of a snapshot is packed."""

    STORED = 1
    DEFLATED = 2
    BZIP2 = 3
    ZSTD = 4
    LZMA = 5
    XZ = 6


class SnapshotType(IntEnum):
    """The parts of a snapshot; ALL stands alone."""

    FILESYSTEM_OVERVIEW = 1
    PROCESS_LIST = 2
    RESOURCE_USAGE = 3
    TEST = 4
    SERVER_LOGS = 5
    SERVER_CONFIG = 6
    ALL = 100


SNAPSHOT_TYPE: Final = enumeration(SnapshotType)


def read_types(reader: PayloadReader) -> tuple[SnapshotType, ...]:
    """The parts asked for: count u8, then one byte each."""
    types = tuple([SNAPSHOT_TYPE.read(reader) for _ in range(reader.u8())])
    if SnapshotType.ALL in types and len(types) > 1:
        raise InvalidCommand("a snapshot of everything has no other parts")
    return types


def pack_types(types: tuple[SnapshotType, ...]) -> bytes:
    """What read_types() reads."""
    return bytes((len(types), *types))


snapshot_types: TypeAlias = Annotated[
    tuple[SnapshotType, ...], Kind(read_types, pack_types, size_min=1)
]


class Ping(Request):
    """I am alive; the only request that counts as a heartbeat."""

    __slots__ = ()


class GetStats(Request):
    """Numbers about the server process and what it holds."""

    __slots__ = ()


class GetClusterMetadata(Request):
    """Which nodes there are and who leads."""

    __slots__ = ()


class OptionScope(IntEnum):
    """What options are about."""

    TOPIC = 1
    STREAM = 2
    USER = 3


@dataclass(frozen=True, slots=True)
class DescribeOptions(Request):
    """Which options there are, and what they are when they are not given."""

    scope: OptionScope


class GetMe(Request):
    """The session that asks."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class GetClient(Request):
    """The session with this id."""

    client_id: u32


class GetClients(Request):
    """All sessions."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class GetSnapshot(Request):
    """An archive that describes the server, to find a fault in it.

    A payload without any bytes asks for the default.
    """

    compression: SnapshotCompression = SnapshotCompression.DEFLATED
    types: snapshot_types = (SnapshotType.ALL,)
