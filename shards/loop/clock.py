"""The time of day as the broker counts it: the calendar at its start, and even seconds since.

Messages and tokens expire by it and metadata is dated by it. A machine clock that is set
makes nothing expire early or late; a sleeping machine is no reason to stop counting, hence
CLOCK_BOOTTIME. The supervisor notes the start, so all workers count alike, also one that is
restarted after the clock was set.
"""

import time

import msgspec


class BrokerStart(msgspec.Struct, frozen=True):
    """When the supervisor began: by the calendar, and by the clock that is never set."""

    wall_us: int
    boot_ns: int


def broker_start() -> BrokerStart:
    """The moment of the call, on both clocks."""
    return BrokerStart(time.time_ns() // 1000, time.clock_gettime_ns(time.CLOCK_BOOTTIME))


class BrokerClock:
    """Microseconds since 1970 that never jump."""

    def __init__(self, start: BrokerStart) -> None:
        self._start = start

    @property
    def start_us(self) -> int:
        """When the broker was started."""
        return self._start.wall_us

    def now_us(self) -> int:
        """The time of day."""
        return self._start.wall_us + self.run_time_us()

    def run_time_us(self) -> int:
        """How long the broker has been running."""
        return (time.clock_gettime_ns(time.CLOCK_BOOTTIME) - self._start.boot_ns) // 1000
