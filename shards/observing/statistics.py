"""The answer to GET_STATS: figures of the whole broker, the same from every shard.

Counts come from the metadata and the board, clients from all shards, and the rest from the kernel.
"""

import asyncio
import os
import platform
from collections.abc import Mapping
from concurrent.futures import Executor
from typing import Final, NamedTuple

from borzoi.protocol.responses.stats import Stats, semver_number
from borzoi.shards.changes.service import MetadataService
from borzoi.shards.identity.clients import Clients
from borzoi.shards.loop.clock import BrokerClock
from borzoi.shards.observing.read_hits import Caches
from borzoi.shards.observing.usage import Usage, UsageMeter
from borzoi.shards.reading.describe import Describer

SERVED_VERSION: Final = "0.8.0"
SERVED_SEMVER: Final = semver_number(0, 8, 0)


class Host(NamedTuple):
    """The machine by its names."""

    hostname: str
    os_name: str
    os_version: str
    kernel_version: str


class Statistics:
    """Collects the figures when asked."""

    def __init__(
        self,
        metadata: MetadataService,
        describer: Describer,
        clients: Clients,
        caches: Caches,
        clock: BrokerClock,
        supervisor_pid: int,
        meter: UsageMeter,
        measuring: Executor,
    ) -> None:
        """`measuring` has one thread: the meter is not for two at a time."""
        self._metadata = metadata
        self._describer = describer
        self._clients = clients
        self._caches = caches
        self._clock = clock
        self._supervisor_pid = supervisor_pid
        self._meter = meter
        self._measuring = measuring
        self._host = host()

    async def collect(self) -> Stats:
        """The figures of this moment."""
        usage: Usage = await asyncio.get_running_loop().run_in_executor(
            self._measuring, self._meter.measure
        )
        clients_count = await self._clients.count()
        cache_metrics = await self._caches.metrics()
        # From here on nothing waits: the counts belong together.
        state = self._metadata.refresh()
        totals = self._describer.totals(state)
        topics = [topic for stream in state.streams.values() for topic in stream.topics.values()]
        return Stats(
            process_id=self._supervisor_pid,
            cpu_usage=usage.cpu_percent,
            total_cpu_usage=usage.machine_cpu_percent,
            memory_usage=usage.memory_bytes,
            total_memory=usage.total_memory,
            available_memory=usage.available_memory,
            run_time=self._clock.run_time_us(),
            start_time=self._clock.start_us,
            read_bytes=usage.read_bytes,
            written_bytes=usage.written_bytes,
            messages_size_bytes=totals.size_bytes,
            streams_count=len(state.streams),
            topics_count=len(topics),
            partitions_count=sum(topic.partitions_count for topic in topics),
            segments_count=totals.segments_count,
            messages_count=totals.messages_count,
            clients_count=clients_count,
            consumer_groups_count=sum(len(topic.groups) for topic in topics),
            hostname=self._host.hostname,
            os_name=self._host.os_name,
            os_version=self._host.os_version,
            kernel_version=self._host.kernel_version,
            server_version=SERVED_VERSION,
            server_semver=SERVED_SEMVER,
            threads_count=usage.threads_count,
            free_disk_space=usage.free_disk_space,
            total_disk_space=usage.total_disk_space,
            cache_metrics=cache_metrics,
        )


def host() -> Host:
    """Names that do not change while we run."""
    uname = os.uname()
    try:
        release = platform.freedesktop_os_release()
    except OSError:
        release = {}
    return Host(
        uname.nodename or "unknown_hostname",
        release.get("NAME") or uname.sysname or "unknown_os_name",
        _os_version(uname.sysname, release),
        uname.release or "unknown_kernel_version",
    )


def _os_version(system: str, release: Mapping[str, str]) -> str:
    """Returns the name in Iggy's form: `Linux (Debian GNU/Linux 12)`."""
    name = " ".join(release[key] for key in ("NAME", "VERSION_ID") if release.get(key))
    return f"{system} ({name})" if system and name else name or system or "unknown_os_version"
