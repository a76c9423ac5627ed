"""Requests about the server itself: liveness, statistics, sessions, snapshots."""

from dataclasses import dataclass
from enum import IntEnum

from borzoi.protocol.errors import InvalidCommand
from borzoi.protocol.payload import U32, PayloadReader


class SnapshotCompression(IntEnum):
    STORED = 1
    DEFLATED = 2
    BZIP2 = 3
    ZSTD = 4
    LZMA = 5
    XZ = 6


class SnapshotType(IntEnum):
    FILESYSTEM_OVERVIEW = 1
    PROCESS_LIST = 2
    RESOURCE_USAGE = 3
    TEST = 4
    SERVER_LOGS = 5
    SERVER_CONFIG = 6
    ALL = 100


@dataclass(frozen=True, slots=True)
class Ping:
    """I am alive; the only request that counts as a heartbeat."""


def decode_ping(_payload: memoryview) -> Ping:
    return Ping()


def encode_ping(_command: Ping) -> bytes:
    return b""


@dataclass(frozen=True, slots=True)
class GetStats:
    """Numbers about the server process and what it holds."""


def decode_get_stats(_payload: memoryview) -> GetStats:
    return GetStats()


def encode_get_stats(_command: GetStats) -> bytes:
    return b""


@dataclass(frozen=True, slots=True)
class GetClusterMetadata:
    """Which nodes there are and who leads."""


def decode_get_cluster_metadata(_payload: memoryview) -> GetClusterMetadata:
    return GetClusterMetadata()


def encode_get_cluster_metadata(_command: GetClusterMetadata) -> bytes:
    return b""


@dataclass(frozen=True, slots=True)
class GetMe:
    """The session that asks."""


def decode_get_me(_payload: memoryview) -> GetMe:
    return GetMe()


def encode_get_me(_command: GetMe) -> bytes:
    return b""


@dataclass(frozen=True, slots=True)
class GetClient:
    """The session with this id."""

    client_id: int


def decode_get_client(payload: memoryview) -> GetClient:
    return GetClient(PayloadReader(payload).u32())


def encode_get_client(command: GetClient) -> bytes:
    return U32.pack(command.client_id)


@dataclass(frozen=True, slots=True)
class GetClients:
    """All sessions."""


def decode_get_clients(_payload: memoryview) -> GetClients:
    return GetClients()


def encode_get_clients(_command: GetClients) -> bytes:
    return b""


@dataclass(frozen=True, slots=True)
class GetSnapshot:
    """An archive that describes the server, for whoever has to find a fault in it."""

    compression: SnapshotCompression = SnapshotCompression.DEFLATED
    types: tuple[SnapshotType, ...] = (SnapshotType.ALL,)


def decode_get_snapshot(payload: memoryview) -> GetSnapshot:
    """compression u8 | count u8 | count types of one byte; nothing at all asks for the default."""
    if not payload:
        return GetSnapshot()
    reader = PayloadReader(payload)
    compression = reader.enumeration(SnapshotCompression)
    count = reader.u8()
    types = tuple(reader.enumeration(SnapshotType) for _ in range(count))
    if SnapshotType.ALL in types and len(types) > 1:
        raise InvalidCommand("a snapshot of everything has no other parts")
    return GetSnapshot(compression, types)


def encode_get_snapshot(command: GetSnapshot) -> bytes:
    return bytes((command.compression, len(command.types), *command.types))
