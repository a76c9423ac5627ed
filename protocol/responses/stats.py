"""The answer to GET_STATS."""

from dataclasses import dataclass
from typing import Annotated, NamedTuple

from borzoi.protocol.kinds import counted, f32, id32, text32, u32, u64


class CacheMetric(NamedTuple):
    """How often reads of a partition found their bytes in memory."""

    stream_id: id32
    topic_id: id32
    partition_id: id32
    hits: u64
    misses: u64
    hit_ratio: f32


@dataclass(frozen=True, slots=True)
class Stats:
    """CPU in percent, sizes in bytes, run_time and start_time in microseconds.

    A `server_semver` of 0 is unknown. On the wire the cache metrics stand before threads_count.
    """

    process_id: u32
    cpu_usage: f32
    total_cpu_usage: f32
    memory_usage: u64
    total_memory: u64
    available_memory: u64
    run_time: u64
    start_time: u64
    read_bytes: u64
    written_bytes: u64
    messages_size_bytes: u64
    streams_count: u32
    topics_count: u32
    partitions_count: u32
    segments_count: u32
    messages_count: u64
    clients_count: u32
    consumer_groups_count: u32
    hostname: text32
    os_name: text32
    os_version: text32
    kernel_version: text32
    server_version: text32
    server_semver: u32
    threads_count: u32
    free_disk_space: u64
    total_disk_space: u64
    cache_metrics: Annotated[tuple[CacheMetric, ...], counted(CacheMetric)] = ()


def semver_number(major: int, minor: int, patch: int) -> int:
    """A version as one number that orders like the version: 0.8.1 is 8001."""
    return major * 1_000_000 + minor * 1_000 + patch
