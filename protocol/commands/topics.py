"""Requests about topics, their partitions and the segments of a partition.

Compression stands before message expiry here and behind it in the answers; that is the wire.
Expiry is in microseconds, size in bytes; 0 asks for the server's default, u64 max means never
and unlimited. Clients of the generation that has options give these three as options, which win
over the fields (shards/decisions/topic_options.py).
"""

from dataclasses import dataclass
from typing import Annotated, Final, TypeAlias

from borzoi.protocol.commands.request import Request
from borzoi.protocol.errors import InvalidCommand
from borzoi.protocol.identifiers import Identifier
from borzoi.protocol.kinds import Number, chosen_id, id32, name8, no_options, u8, u32, u64

COMPRESSION_MIN: Final = 1  # none; 2 gzip
COMPRESSION_MAX: Final = 4  # 3 lz4, 4 zstd: known to borzoi, not to the official clients


def known_compression(code: int) -> int:
    """The code; whether the server wants it is the handler's business."""
    if not COMPRESSION_MIN <= code <= COMPRESSION_MAX:
        raise InvalidCommand(f"compression code {code}")
    return code


compression: TypeAlias = Annotated[int, Number("B", known_compression, may_fail=True)]

KEPT: Final = -1
"""In an update: the setting stays as it is. Of a generation where settings are options, which may
be left out."""


@dataclass(frozen=True, slots=True)
class GetTopic(Request):
    """One topic with its partitions."""

    stream: Identifier
    topic: Identifier


@dataclass(frozen=True, slots=True)
class GetTopics(Request):
    """All topics of a stream."""

    stream: Identifier


@dataclass(frozen=True, slots=True)
class CreateTopic(Request):
    """A new topic; the server chooses its id, unless the client of an older generation has."""

    stream: Identifier
    partitions_count: u32
    compression_algorithm: compression
    message_expiry: u64
    max_topic_size: u64
    replication_factor: u8
    name: name8
    options: no_options = b""
    wanted_id: chosen_id = None


@dataclass(frozen=True, slots=True)
class DeleteTopic(Request):
    """A topic with everything in it."""

    stream: Identifier
    topic: Identifier


@dataclass(frozen=True, slots=True)
class UpdateTopic(Request):
    """New settings and name for a topic."""

    stream: Identifier
    topic: Identifier
    compression_algorithm: compression
    message_expiry: u64
    max_topic_size: u64
    replication_factor: u8
    name: name8
    options: no_options = b""


@dataclass(frozen=True, slots=True)
class PurgeTopic(Request):
    """Forget all messages of a topic, keep its partitions."""

    stream: Identifier
    topic: Identifier


@dataclass(frozen=True, slots=True)
class CreatePartitions(Request):
    """More partitions behind the existing ones."""

    stream: Identifier
    topic: Identifier
    partitions_count: u32


@dataclass(frozen=True, slots=True)
class DeletePartitions(Request):
    """Fewer partitions, the highest ids first."""

    stream: Identifier
    topic: Identifier
    partitions_count: u32


@dataclass(frozen=True, slots=True)
class DeleteSegments(Request):
    """Forget the oldest closed segments of a partition."""

    stream: Identifier
    topic: Identifier
    partition_id: id32
    segments_count: u32
