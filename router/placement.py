"""Which shard owns a partition.

A partition is named by one number, its namespace, and the namespace alone decides the shard. Every
worker computes the same answer, and there is no table. Owns nothing; pure functions.

    bit 63        44 43        32 31        20 19              0
       +------------+------------+------------+----------------+
       |     zero   |   stream   |   topic    |   partition    |
       +------------+------------+------------+----------------+
             20           12           12             20

Always: unpack_namespace(pack_namespace(s, t, p)) == (s, t, p). The result of shard_of depends on
nothing but its two arguments, so placement only changes when the number of shards does.
"""

import struct
from typing import Final, NamedTuple

import mmh3

STREAMS_MAX: Final = 4096
TOPICS_MAX: Final = 4096
PARTITIONS_MAX: Final = 1_000_000

STREAM_SHIFT: Final = 32
TOPIC_SHIFT: Final = 20
STREAM_MASK: Final = 0xFFF
TOPIC_MASK: Final = 0xFFF
PARTITION_MASK: Final = 0xFFFFF

_HASHED: Final = struct.Struct("<Q")


class Namespace(NamedTuple):
    """The three ids that a packed namespace stands for."""

    stream: int
    topic: int
    partition: int


def pack_namespace(stream: int, topic: int, partition: int) -> int:
    """Returns the u64 that names a partition.

    Ids beyond the limits raise ValueError; a masked id would silently name another partition.
    """
    if not 0 <= stream < STREAMS_MAX:
        raise ValueError(f"stream id {stream} is not below {STREAMS_MAX}")
    if not 0 <= topic < TOPICS_MAX:
        raise ValueError(f"topic id {topic} is not below {TOPICS_MAX}")
    if not 0 <= partition < PARTITIONS_MAX:
        raise ValueError(f"partition id {partition} is not below {PARTITIONS_MAX}")
    return stream << STREAM_SHIFT | topic << TOPIC_SHIFT | partition


def unpack_namespace(namespace: int) -> Namespace:
    """The ids inside a namespace; bits that belong to no field are ignored."""
    return Namespace(
        namespace >> STREAM_SHIFT & STREAM_MASK,
        namespace >> TOPIC_SHIFT & TOPIC_MASK,
        namespace & PARTITION_MASK,
    )


def shard_of(namespace: int, shard_count: int) -> int:
    """The shard that owns the partition, of `shard_count`.

    The upper half of the hash is used because that is what the servers we are compatible with do.
    Which half it is makes no difference to how even the spread is.
    """
    if shard_count < 1:
        raise ValueError(f"there is no placement over {shard_count} shards")
    hashed: int = mmh3.hash(_HASHED.pack(namespace), 0, signed=False)
    return (hashed >> 16) % shard_count
