"""The time of day as this worker counts it: the wall clock at its start, and even seconds since.

Somebody who sets the machine's clock neither ends the life of a token early nor prolongs it. A
sleeping machine is no reason to stop counting, hence CLOCK_BOOTTIME.
"""

import time


class SteadyClock:
    """Microseconds since 1970 that never jump."""

    def __init__(self) -> None:
        self._offset_ns = time.time_ns() - time.clock_gettime_ns(time.CLOCK_BOOTTIME)

    def now_us(self) -> int:
        """The time of day."""
        return (self._offset_ns + time.clock_gettime_ns(time.CLOCK_BOOTTIME)) // 1000
