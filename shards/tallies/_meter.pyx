# cython: language_level=3, binding=True
"""The times of requests of one door, compiled. Names and behaviour are those of plain_meter.py."""

from libc.stdint cimport uint8_t, uint64_t
from libc.string cimport memset
from posix.time cimport CLOCK_MONOTONIC, clock_gettime, timespec

from borzoi.shards.tallies import plain_meter

METER_VERSION = 1

cdef extern from *:
    int __builtin_clzll(unsigned long long) nogil

cdef enum:
    BITS = 64
    SUM_AT = 64
    BYTES_AT = 65
    CELLS = 66
    CODES_MAX = 64
    CODE_MAX = 1023

assert (BITS, CELLS) == (plain_meter.BITS, plain_meter.CELLS)
assert (CODES_MAX, CODE_MAX) == (plain_meter.CODES_MAX, plain_meter.CODE_MAX)


cdef inline uint64_t now_ns() noexcept:
    cdef timespec now
    clock_gettime(CLOCK_MONOTONIC, &now)
    return <uint64_t>now.tv_sec * 1000000000 + <uint64_t>now.tv_nsec


cdef inline int bit_length(uint64_t value) noexcept:
    return 64 - __builtin_clzll(value) if value else 0


cdef class DoorMeter:
    """The histograms of one door."""

    cdef uint64_t counts[CODES_MAX][CELLS]
    cdef uint8_t row_of[CODE_MAX + 1]
    cdef list codes
    cdef public uint64_t slow_ns
    cdef public uint64_t polled_messages
    cdef public uint64_t polled_bytes

    def __init__(self, codes, slow_ns):
        """`codes` are those that get a row; longer than `slow_ns` is slow."""
        known = sorted({plain_meter.UNKNOWN, *codes})
        if len(known) > CODES_MAX or known[-1] > CODE_MAX:
            raise ValueError(f"{len(known)} commands up to {known[-1]}")
        memset(&self.counts[0][0], 0, sizeof(self.counts))
        memset(&self.row_of[0], 0, sizeof(self.row_of))
        self.codes = known
        for number, code in enumerate(known):
            self.row_of[<int>code] = number
        self.slow_ns = slow_ns
        self.polled_messages = 0
        self.polled_bytes = 0

    def cells(self):
        """The cells of every command that was asked for, by its code."""
        found = {}
        for number, code in enumerate(self.codes):
            row = [self.counts[<int>number][cell] for cell in range(CELLS)]
            if any(row[:BITS]):
                found[code] = row
        return found


cdef class RequestTimer:
    """The request in work of one connection."""

    cdef DoorMeter door
    cdef uint64_t* row
    cdef uint64_t began
    cdef readonly uint64_t took_ns

    def __init__(self, DoorMeter door not None):
        self.door = door
        self.row = &door.counts[0][0]
        self.began = 0
        self.took_ns = 0

    def begin(self, uint64_t code, uint64_t size):
        """A request of so many bytes begins."""
        self.row = &self.door.counts[self.door.row_of[code] if code <= CODE_MAX else 0][0]
        self.row[BYTES_AT] += size
        self.began = now_ns()

    def end(self):
        """It has ended; whether it was slow. `took_ns` says how long it took."""
        cdef uint64_t took = now_ns() - self.began
        self.took_ns = took
        self.row[bit_length(took)] += 1
        self.row[SUM_AT] += took
        return took > self.door.slow_ns

    def polled(self, uint64_t messages, uint64_t size):
        """It is answered with messages."""
        self.door.polled_messages += messages
        self.door.polled_bytes += size
