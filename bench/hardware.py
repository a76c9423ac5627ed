"""What machine a figure was measured on."""

import os
import platform
from dataclasses import dataclass
from pathlib import Path

import psutil

MIB = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Hardware:
    """The machine, in the fields of iggy-bench's report."""

    identifier: str
    cpu_name: str
    cpu_cores: int
    total_memory_mb: int
    os_name: str
    os_version: str


def this_machine(identifier: str = "") -> Hardware:
    """Returns what this machine says about itself."""
    return Hardware(
        identifier=identifier or platform.node() or "unknown",
        cpu_name=_cpu_name(),
        cpu_cores=os.cpu_count() or 1,
        total_memory_mb=psutil.virtual_memory().total // MIB,
        os_name=platform.system(),
        os_version=platform.release(),
    )


def _cpu_name() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        name, _, value = line.partition(":")
        if name.strip() == "model name":
            return value.strip()
    return platform.processor() or platform.machine()
