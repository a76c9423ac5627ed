"""How long the kernel has run processes, and how long they stood ready without a CPU.

Nanoseconds of the scheduler for every thread (/proc/<pid>/task/*/schedstat). Beside other tests the
time of the clock says how busy the machine is; the time that a process ran says what it did. One
that spins is always running or ready to, however little of a CPU it gets.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple


class Scheduled(NamedTuple):
    """Seconds since they began, all threads of some processes together."""

    ran_s: float
    ready_s: float
    """Waiting for a CPU, with work to do."""


def scheduled(pids: Iterable[int]) -> Scheduled:
    """Of processes that live."""
    ran = ready = 0
    for pid in pids:
        for thread in Path(f"/proc/{pid}/task").iterdir():
            try:
                counters = (thread / "schedstat").read_text().split()
            except (FileNotFoundError, ProcessLookupError):
                continue  # A thread that has ended since it was listed.
            ran += int(counters[0])
            ready += int(counters[1])
    return Scheduled(ran / 1e9, ready / 1e9)
