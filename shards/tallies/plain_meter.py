"""The times of requests of one door, in plain Python: a histogram for each command.

Like the loops over messages this has a compiled twin, _meter.pyx, that behaves the same; whatever
is changed here is changed there, and METER_VERSION raised. The twin is there because both calls
run for every request: together they take 0.1 us there, and 0.3 us here.

    cells of a command | requests of [2^(i-1), 2^i) ns, for each i below BITS | sum in ns | bytes |

Always: a command that is not known counts as UNKNOWN, so strangers add no rows.
"""

from collections.abc import Iterable
from time import perf_counter_ns
from typing import Final

METER_VERSION: Final = 1
BITS: Final = 64
SUM_AT: Final = BITS
BYTES_AT: Final = BITS + 1
CELLS: Final = BITS + 2
UNKNOWN: Final = 0
"""Stands for every command without a row."""

CODES_MAX: Final = 64
CODE_MAX: Final = 1023


class DoorMeter:
    """The histograms of one door."""

    def __init__(self, codes: Iterable[int], slow_ns: int) -> None:
        """`codes` are those that get a row; longer than `slow_ns` is slow."""
        known = sorted({UNKNOWN, *codes})
        if len(known) > CODES_MAX or known[-1] > CODE_MAX:
            raise ValueError(f"{len(known)} commands up to {known[-1]}")
        self.rows = {code: [0] * CELLS for code in known}
        self.slow_ns = slow_ns
        self.polled_messages = 0
        self.polled_bytes = 0

    def cells(self) -> dict[int, list[int]]:
        """The cells of every command that was asked for, by its code."""
        return {code: list(row) for code, row in self.rows.items() if any(row[:BITS])}


class RequestTimer:
    """The request in work of one connection."""

    def __init__(self, door: DoorMeter) -> None:
        self._door = door
        self._row = door.rows[UNKNOWN]
        self._began = 0
        self.took_ns = 0

    def begin(self, code: int, size: int) -> None:
        """A request of so many bytes begins."""
        rows = self._door.rows
        self._row = row = rows.get(code) or rows[UNKNOWN]
        row[BYTES_AT] += size
        self._began = perf_counter_ns()

    def end(self) -> bool:
        """It has ended; whether it was slow. `took_ns` says how long it took."""
        self.took_ns = took = perf_counter_ns() - self._began
        row = self._row
        row[took.bit_length()] += 1
        row[SUM_AT] += took
        return took > self._door.slow_ns

    def polled(self, messages: int, size: int) -> None:
        """It is answered with messages."""
        self._door.polled_messages += messages
        self._door.polled_bytes += size
