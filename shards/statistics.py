"""What GET_STATS tells: counts from the metadata and the board, the rest from the kernel.

The broker is several processes; every figure is the sum over the supervisor and its workers.
"""

import os
import platform
import time
from pathlib import Path
from typing import Final, NamedTuple

import psutil

from borzoi.protocol.responses.stats import Stats, semver_number
from borzoi.shards.clients import Clients
from borzoi.shards.describe import Describer
from borzoi.shards.metadata_service import MetadataService

SERVED_VERSION: Final = "0.8.0"
SERVED_SEMVER: Final = semver_number(0, 8, 0)


class Usage(NamedTuple):
    """What one process of the broker takes."""

    started_at: float
    cpu_percent: float
    resident_bytes: int
    read_bytes: int
    written_bytes: int
    threads_count: int


class Statistics:
    """Collects the figures when asked; keeps nothing but the CPU times of the last question."""

    def __init__(
        self, metadata: MetadataService, describer: Describer, clients: Clients, data: Path
    ) -> None:
        self._metadata = metadata
        self._describer = describer
        self._clients = clients
        self._data = data
        self._processes: dict[int, psutil.Process] = {}

    async def collect(self) -> Stats:
        """The figures of this moment."""
        clients_count = await self._clients.count()
        state = self._metadata.refresh()
        totals = self._describer.totals(state)
        topics = [topic for stream in state.streams.values() for topic in stream.topics.values()]
        supervisor = os.getppid()
        usage = [one for one in map(used_by, self._broker_processes(supervisor)) if one]
        memory = psutil.virtual_memory()
        disk = psutil.disk_usage(str(self._data))
        uname = os.uname()
        started_at = min(one.started_at for one in usage)
        return Stats(
            process_id=supervisor,
            cpu_usage=sum(one.cpu_percent for one in usage),
            total_cpu_usage=psutil.cpu_percent(),
            memory_usage=sum(one.resident_bytes for one in usage),
            total_memory=memory.total,
            available_memory=memory.available,
            run_time=int((time.time() - started_at) * 1_000_000),
            start_time=int(started_at * 1_000_000),
            read_bytes=sum(one.read_bytes for one in usage),
            written_bytes=sum(one.written_bytes for one in usage),
            messages_size_bytes=totals.size_bytes,
            streams_count=len(state.streams),
            topics_count=len(topics),
            partitions_count=sum(topic.partitions_count for topic in topics),
            segments_count=totals.segments_count,
            messages_count=totals.messages_count,
            clients_count=clients_count,
            consumer_groups_count=sum(len(topic.groups) for topic in topics),
            hostname=uname.nodename or "unknown_hostname",
            os_name=uname.sysname or "unknown_os_name",
            os_version=platform.platform(aliased=True) or "unknown_os_version",
            kernel_version=uname.release or "unknown_kernel_version",
            server_version=SERVED_VERSION,
            server_semver=SERVED_SEMVER,
            threads_count=sum(one.threads_count for one in usage),
            free_disk_space=disk.free,
            total_disk_space=disk.total,
        )

    def _broker_processes(self, supervisor: int) -> list[psutil.Process]:
        """The living processes of the broker, the same objects each time (CPU needs the past)."""
        found: dict[int, psutil.Process] = {}
        for process in [psutil.Process(supervisor), *psutil.Process(supervisor).children()]:
            found[process.pid] = self._processes.get(process.pid, process)
        self._processes = found
        return list(found.values())


def used_by(process: psutil.Process) -> Usage | None:
    """None for a worker that has died since it was listed."""
    try:
        traffic = process.io_counters()
        return Usage(
            process.create_time(),
            process.cpu_percent(),
            process.memory_info().rss,
            traffic.read_bytes,
            traffic.write_bytes,
            process.num_threads(),
        )
    except (psutil.Error, OSError):
        return None
