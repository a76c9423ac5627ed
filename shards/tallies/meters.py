"""What the doors of one shard have carried since its worker started.

Counted while requests run, in memory that was there before: two calls for each request, and one
addition for each that fails. All else is done when the figures are asked for.
"""

from collections import Counter
from time import perf_counter_ns
from typing import Final, NamedTuple

import msgspec

from borzoi.protocol.codes import Code, LaterCode, code_name
from borzoi.protocol.loops import LOOPS
from borzoi.protocol.responses.clients import Transport
from borzoi.shards.tallies import plain_meter
from borzoi.shards.tallies.plain_meter import BITS, BYTES_AT, SUM_AT, UNKNOWN


def _is_compiled() -> bool:
    if LOOPS != "compiled":
        return False
    try:
        from borzoi.shards.tallies import _meter
    except ImportError:
        return False
    return _meter.METER_VERSION == plain_meter.METER_VERSION


if _is_compiled():
    from borzoi.shards.tallies._meter import DoorMeter, RequestTimer
else:
    from borzoi.shards.tallies.plain_meter import DoorMeter, RequestTimer

__all__ = [
    "BOUNDS_S",
    "DoorMeter",
    "Errors",
    "Meters",
    "RequestTimer",
    "RequestTimes",
    "Times",
    "times_of",
]

FIRST_BIT: Final = 14
LAST_BIT: Final = 34
BOUNDS_S: Final = tuple(2**bit / 1e9 for bit in range(FIRST_BIT, LAST_BIT + 1))
"""Upper bounds of a histogram: 16 us, and the double of it until 17 s. What took longer is counted
by the last one, which has none."""

SLOW_NS: Final = 1_000_000_000
WEB: Final = "http"
WEB_ROUTES_MAX: Final = 256
CODES: Final = tuple(int(code) for kind in (Code, LaterCode) for code in kind)


class Times(msgspec.Struct, frozen=True, array_like=True):
    """A histogram: what fell below each bound and not below the one before; then the rest."""

    counts: list[int]
    sum_s: float

    @property
    def count(self) -> int:
        """How many there are."""
        return sum(self.counts)


class RequestTimes(NamedTuple):
    """The requests of one command at one door."""

    door: str
    command: str
    times: Times
    bytes: int


class Errors(NamedTuple):
    """How often a door has answered a status."""

    door: str
    status: int
    times: int


def times_of(cells: list[int]) -> Times:
    """The histogram of a row of cells."""
    below = sum(cells[: FIRST_BIT + 1])
    above = sum(cells[LAST_BIT + 1 : BITS])
    return Times([below, *cells[FIRST_BIT + 1 : LAST_BIT + 1], above], cells[SUM_AT] / 1e9)


class Meters:
    """All doors of one shard."""

    def __init__(self, slow_ns: int = SLOW_NS) -> None:
        self._doors: dict[str, DoorMeter] = {}
        self._slow_ns = slow_ns
        self._web: dict[str, list[int]] = {}
        self.errors: Counter[tuple[str, int]] = Counter()
        """By door and status; statuses are those of the specification, so there are few."""

    def door(self, kind: Transport) -> DoorMeter:
        """Where the connections of a door count."""
        name = kind.name.lower()
        if name not in self._doors:
            self._doors[name] = DoorMeter(CODES, self._slow_ns)
        return self._doors[name]

    def web_request(self, route: str, began_ns: int, size: int, status: int) -> None:
        """An HTTP request has ended; `route` is its pattern, so there are as many as routes."""
        if route not in self._web and len(self._web) >= WEB_ROUTES_MAX:
            route = ""
        row = self._web.setdefault(route, [0] * plain_meter.CELLS)
        took = perf_counter_ns() - began_ns
        row[took.bit_length()] += 1
        row[SUM_AT] += took
        row[BYTES_AT] += size
        if status >= 400:  # noqa: PLR2004 - what HTTP calls an error begins there
            self.errors[WEB, status] += 1

    def times(self) -> list[RequestTimes]:
        """The histograms of everything that was asked for."""
        found = [
            RequestTimes(door, _command(code), times_of(cells), cells[BYTES_AT])
            for door, meter in self._doors.items()
            for code, cells in meter.cells().items()
        ]
        for route, cells in self._web.items():
            found.append(RequestTimes(WEB, route or "other", times_of(cells), cells[BYTES_AT]))
        return found

    def polled(self) -> dict[str, tuple[int, int]]:
        """Messages and bytes of them that left, by door."""
        return {
            door: (meter.polled_messages, meter.polled_bytes)
            for door, meter in self._doors.items()
            if meter.polled_messages
        }

    def failed(self) -> list[Errors]:
        """How often each status was answered that is no success."""
        return [Errors(*key, times) for key, times in sorted(self.errors.items())]


def _command(code: int) -> str:
    return "unknown" if code == UNKNOWN else code_name(code).lower()
