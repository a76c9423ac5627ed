"""The figures of one shard for metrics, as values and as the bytes that cross between shards.

Lists are cut to a bound, and say how much of them was left out. Figures that every shard can see
(sizes of topics, numbers of messages) are not here: they are read from the board.

Always: encoding and decoding take no time that grows with the number of consumers, of which there
may be many thousands. Their rows stay bytes until they are written out.
"""

from collections.abc import Iterable, Iterator
from itertools import islice
from struct import Struct
from typing import Final, Generic, NamedTuple, TypeVar

import msgspec

from borzoi.shards.loop.slow_requests import SlowFigures
from borzoi.shards.tallies.traffic import Traffic
from borzoi.shares import ShareFigures
from borzoi.storage.ratio import Ratio
from borzoi.storage.write_faults import FaultCount

T = TypeVar("T")


class Cut(msgspec.Struct, Generic[T], frozen=True, array_like=True):
    """The first of many rows."""

    rows: list[T]
    left_out: int = 0


class Lag(NamedTuple):
    """How many messages a consumer or group has not consumed of a partition."""

    namespace: int
    kind: int
    consumer: int
    messages: int


LAG: Final = Struct("<QBQQ")


class Lags(msgspec.Struct, frozen=True, array_like=True):
    """The first of many lags, packed one by one as LAG."""

    packed: bytes = b""
    left_out: int = 0

    @property
    def rows(self) -> Iterator[Lag]:
        """The lags, unpacked one by one."""
        return map(Lag._make, LAG.iter_unpack(self.packed))


class BlockerFigures(NamedTuple):
    """How often a consumer or group kept a partition from losing what was due."""

    namespace: int
    kind: int
    consumer: int
    times: int


class BlockedSince(NamedTuple):
    """Since when a consumer or group keeps a partition from losing what is due."""

    namespace: int
    kind: int
    consumer: int
    since_us: int


class CompressedTopic(NamedTuple):
    """What a codec has done to segments of a topic that are there now."""

    stream_id: int
    topic_id: int
    codec: str
    segments: int
    plain_bytes: int
    stored_bytes: int


class ArchiveFigures(NamedTuple):
    """Since the start, and how many segments wait."""

    segments: int
    size_bytes: int
    failures: int
    waiting: int


class Resident(NamedTuple):
    """Memory of a process that is not swapped out, in bytes; `file` is the kernel's cache."""

    anonymous: int
    file: int
    shared: int


class NatsFigures(NamedTuple):
    """What came from NATS servers, and what became of it; the last four were not stored."""

    connected: bool
    subscriptions: int
    pending_bytes: int
    disconnects: int
    received_messages: int
    stored_messages: int
    enveloped_messages: int
    malformed_envelopes: int
    acks: int
    unsent_acks: int
    overflowed: int
    refused: int
    failed: int
    unreadable: int


class ShardFigures(msgspec.Struct, frozen=True, array_like=True, kw_only=True):
    """Everything. Counts are since the worker started, beside those of now."""

    connections: int
    clients: int
    cpu_seconds: float
    resident: Resident
    mapped_bytes: int
    http_requests: int
    http_refused: int
    deleted_segments: int
    deleted_bytes: int
    deleted_unread_segments: int
    blocked: Cut[BlockerFigures]
    blocked_since: Cut[BlockedSince]
    archive: ArchiveFigures | None
    codecs: dict[str, Ratio]
    compressed: Cut[CompressedTopic]
    read_only: Cut[int]
    refused_partitions: int
    faults: list[FaultCount]
    metadata_is_read_only: bool
    duplicates: int
    lags: Lags
    shared: dict[str, ShareFigures]
    nats: NatsFigures | None = None
    slow: SlowFigures | None = None
    traffic: Traffic = Traffic()


def cut(rows: Iterable[T], total: int, rows_max: int) -> Cut[T]:
    """At most so many of `total` rows."""
    kept = list(islice(rows, rows_max))
    return Cut(kept, total - len(kept))


def encode(figures: ShardFigures) -> bytes:
    """Returns the figures as MessagePack, to cross between shards."""
    return msgspec.msgpack.encode(figures)


def decode(data: bytes) -> ShardFigures:
    """Returns the figures of encode()."""
    return msgspec.msgpack.decode(data, type=ShardFigures)
