"""What the workers of a broker cost, as the machine counts it.

RssAnon + RssShmem: heaps and touched pages of the arenas. Mapped log files (RssFile) are the
kernel's cache and not counted. A page of an arena that two workers have touched counts twice.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Thread
from typing import Final

from tests.broker import BrokerProcess

MIB: Final = 1024 * 1024
SAMPLE_INTERVAL_S: Final = 0.02
JOIN_TIMEOUT_S: Final = 60.0


def counted_memory(broker: BrokerProcess) -> int:
    """Bytes of all workers together."""
    return sum(memory_of(pid) for pid in broker.workers().values())


def memory_of(pid: int) -> int:
    counted = 0
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(("RssAnon:", "RssShmem:")):
            counted += int(line.split()[1]) * 1024
    return counted


@contextmanager
def memory_peak(broker: BrokerProcess) -> Iterator[Callable[[], int]]:
    """Samples the workers' memory meanwhile; the peak so far is what the yielded call says."""
    pids = list(broker.workers().values())
    peak = 0
    ended = Event()

    def sample() -> None:
        nonlocal peak
        while True:
            peak = max(peak, sum(memory_of(pid) for pid in pids))
            if ended.wait(SAMPLE_INTERVAL_S):
                return

    sampler = Thread(target=sample)
    sampler.start()
    try:
        yield lambda: peak
    finally:
        ended.set()
        sampler.join(JOIN_TIMEOUT_S)
