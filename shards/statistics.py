"""What GET_STATS tells: counts from the metadata and the board, the rest from the kernel.

The broker is several processes; every figure is the sum over the supervisor and its workers.
"""

import os
import platform
import time
from pathlib import Path
from typing import Final

import psutil

from borzoi.protocol.responses.stats import Stats, semver_number
from borzoi.shards.clients import Clients
from borzoi.shards.describe import Describer
from borzoi.shards.metadata_service import MetadataService

SERVED_VERSION: Final = "0.8.0"
SERVED_SEMVER: Final = semver_number(0, 8, 0)


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
        processes = self._broker_processes(supervisor)
        memory = psutil.virtual_memory()
        disk = psutil.disk_usage(str(self._data))
        uname = os.uname()
        started_at = min(one.create_time() for one in processes)
        traffic = [one.io_counters() for one in processes]
        return Stats(
            process_id=supervisor,
            cpu_usage=sum(one.cpu_percent() for one in processes),
            total_cpu_usage=psutil.cpu_percent(),
            memory_usage=sum(one.memory_info().rss for one in processes),
            total_memory=memory.total,
            available_memory=memory.available,
            run_time=int((time.time() - started_at) * 1_000_000),
            start_time=int(started_at * 1_000_000),
            read_bytes=sum(one.read_bytes for one in traffic),
            written_bytes=sum(one.write_bytes for one in traffic),
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
            threads_count=sum(one.num_threads() for one in processes),
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
