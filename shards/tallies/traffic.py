"""The figures of one shard about its work, as values that cross between shards."""

import os
import resource
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from borzoi.shards.tallies.meters import Errors, RequestTimes, Times

PROCESS_IO: Final = Path("/proc/self/io")


class Written(NamedTuple):
    """What went into the logs."""

    messages: int = 0
    size_bytes: int = 0
    writes: int = 0


class Kernel(NamedTuple):
    """What the kernel has counted for this process."""

    read_bytes: int = 0
    written_bytes: int = 0
    major_faults: int = 0
    minor_faults: int = 0
    waits: int = 0
    preemptions: int = 0


class CompressionBacklog(NamedTuple):
    """Segments that wait to be compressed, and how long the first of them has."""

    segments: int = 0
    waited_s: float = 0.0
    left_plain: int = 0


class KeyExchange(NamedTuple):
    """Segments that need an older encryption key, those done since the start, those that stay."""

    waiting: int = 0
    reencrypted: int = 0
    staying: int = 0


NO_TIMES: Final = Times([], 0.0)


class Traffic(msgspec.Struct, frozen=True, array_like=True, kw_only=True):
    """Counts are since the worker started, beside those of now."""

    requests: list[RequestTimes] = []
    errors: list[Errors] = []
    polled: dict[str, tuple[int, int]] = {}
    written: Written = Written()
    syncs: Times = NO_TIMES
    loop_lag: Times = NO_TIMES
    backlog: CompressionBacklog = CompressionBacklog()
    key_exchange: KeyExchange = KeyExchange()
    pool_bytes: int = 0
    pool_free_bytes: int = 0
    kernel: Kernel = Kernel()
    descriptors_max: int = 0
    consumer_names: dict[int, str] = {}


def kernel_figures() -> Kernel:
    """What the kernel has counted until now. Bytes of the disk are missing where it hides them."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    found = _disk_bytes()
    return Kernel(
        found.get("read_bytes", 0),
        found.get("write_bytes", 0),
        usage.ru_majflt,
        usage.ru_minflt,
        usage.ru_nvcsw,
        usage.ru_nivcsw,
    )


def _disk_bytes() -> dict[str, int]:
    if not os.access(PROCESS_IO, os.R_OK):
        return {}
    rows = (line.split(":") for line in PROCESS_IO.read_text().splitlines())
    return {name: int(value) for name, value in rows}
