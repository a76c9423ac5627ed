"""The answer to GET_STATS.

108 bytes of numbers, drawn at NUMBERS
hostname, os_name, os_version, kernel_version, server_version    5 x str32
server_semver u32                                                0 = unknown
cache_metrics_count u32, then 32 bytes each, drawn at CACHE_METRIC
threads_count u32 | free_disk_space u64 | total_disk_space u64
"""

import struct
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from borzoi.protocol.payload import U32, PayloadReader, pack_str32

# process_id u32 | cpu_usage f32 | total_cpu_usage f32 | memory_usage u64 | total_memory u64
# | available_memory u64 | run_time u64 | start_time u64 | read_bytes u64 | written_bytes u64
# | messages_size_bytes u64 | streams_count u32 | topics_count u32 | partitions_count u32
# | segments_count u32 | messages_count u64 | clients_count u32 | consumer_groups_count u32
NUMBERS: Final = struct.Struct("<I2f8Q4IQ2I")

# stream_id u32 | topic_id u32 | partition_id u32 | hits u64 | misses u64 | hit_ratio f32
CACHE_METRIC: Final = struct.Struct("<IIIQQf")

TEXTS_COUNT: Final = 5
DISK: Final = struct.Struct("<IQQ")  # threads_count, free_disk_space, total_disk_space


class CacheMetric(NamedTuple):
    stream_id: int
    topic_id: int
    partition_id: int
    hits: int
    misses: int
    hit_ratio: float


@dataclass(frozen=True, slots=True)
class Stats:
    """CPU in percent, sizes in bytes, run_time and start_time in microseconds."""

    process_id: int
    cpu_usage: float
    total_cpu_usage: float
    memory_usage: int
    total_memory: int
    available_memory: int
    run_time: int
    start_time: int
    read_bytes: int
    written_bytes: int
    messages_size_bytes: int
    streams_count: int
    topics_count: int
    partitions_count: int
    segments_count: int
    messages_count: int
    clients_count: int
    consumer_groups_count: int
    hostname: str
    os_name: str
    os_version: str
    kernel_version: str
    server_version: str
    server_semver: int
    threads_count: int
    free_disk_space: int
    total_disk_space: int
    cache_metrics: tuple[CacheMetric, ...] = ()


def semver_number(major: int, minor: int, patch: int) -> int:
    return major * 1_000_000 + minor * 1_000 + patch


def encode_stats(stats: Stats) -> bytes:
    numbers = NUMBERS.pack(
        stats.process_id,
        stats.cpu_usage,
        stats.total_cpu_usage,
        stats.memory_usage,
        stats.total_memory,
        stats.available_memory,
        stats.run_time,
        stats.start_time,
        stats.read_bytes,
        stats.written_bytes,
        stats.messages_size_bytes,
        stats.streams_count,
        stats.topics_count,
        stats.partitions_count,
        stats.segments_count,
        stats.messages_count,
        stats.clients_count,
        stats.consumer_groups_count,
    )
    return b"".join(
        (
            numbers,
            pack_str32(stats.hostname),
            pack_str32(stats.os_name),
            pack_str32(stats.os_version),
            pack_str32(stats.kernel_version),
            pack_str32(stats.server_version),
            U32.pack(stats.server_semver),
            U32.pack(len(stats.cache_metrics)),
            *(CACHE_METRIC.pack(*metric) for metric in stats.cache_metrics),
            DISK.pack(stats.threads_count, stats.free_disk_space, stats.total_disk_space),
        )
    )


def decode_stats(payload: memoryview) -> Stats:
    reader = PayloadReader(payload)
    fields: tuple[Any, ...] = NUMBERS.unpack(reader.take(NUMBERS.size))
    fields += tuple(reader.str32() for _ in range(TEXTS_COUNT))
    fields += (reader.u32(),)
    metrics_count = reader.u32()
    metrics = CACHE_METRIC.iter_unpack(reader.take(metrics_count * CACHE_METRIC.size))
    cache_metrics = tuple(CacheMetric(*metric) for metric in metrics)
    # Stats declares its fields in the order of the wire, except that the metrics come last.
    fields += (*reader.unpack(DISK), cache_metrics)
    return Stats(*fields)
