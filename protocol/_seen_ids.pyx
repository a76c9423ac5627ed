# cython: language_level=3, binding=True
"""The ids of a partition's last messages, compiled. Names and behaviour are those of
plain_seen_ids.py, and what is always true of compiled loops stands in _messages.pxd.
"""

from cpython.buffer cimport (
    PyBUF_SIMPLE,
    PyBUF_WRITABLE,
    PyBuffer_Release,
    PyObject_GetBuffer,
)
from cpython.bytearray cimport PyByteArray_AS_STRING, PyByteArray_FromStringAndSize, PyByteArray_Resize
from cpython.mem cimport PyMem_RawCalloc, PyMem_RawFree, PyMem_RawMalloc
from libc.stdint cimport UINT32_MAX, int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcmp, memcpy

from borzoi.protocol._log cimport end_of_message
from borzoi.protocol._messages cimport (
    COMPILED_VERSION,
    ENTRY_SIZE,
    ENTRY_TIMESTAMP_AT,
    HEADER_SIZE,
    ID_AT,
    ID_SIZE,
    OFFSET_AT,
    POSITION_AT,
    body_size,
    load_u32,
    load_u64,
    store_u64,
)

from borzoi.protocol import plain_seen_ids
from borzoi.protocol.errors import InvalidMessagesSize
from borzoi.protocol.plain_seen_ids import Survivors

LOOPS_VERSION = COMPILED_VERSION

cdef uint64_t ENTRIES_MAX = plain_seen_ids.ENTRIES_MAX
cdef uint64_t STAMPED_DUPLICATE = plain_seen_ids.STAMPED_DUPLICATE


cdef struct Seen:
    uint64_t low
    uint64_t high
    uint64_t timestamp


# A slot of the table: the place in the ring plus one, and above it some bits of the hash, which
# spare most looks at ids that are not the one wanted.
cdef enum:
    PLACE_MASK = 0xFF_FFFF
    CAPACITY_FIRST = 64


cdef extern from *:
    """
    #include <stdint.h>
    /* Both halves of a product, folded: one multiplication spreads 128 bits over 64. */
    static inline uint64_t folded(uint64_t first, uint64_t second) {
    #ifdef __SIZEOF_INT128__
        unsigned __int128 product = (unsigned __int128)first * second;
        return (uint64_t)product ^ (uint64_t)(product >> 64);
    #else
        uint64_t word = first ^ (first >> 32) ^ second * 0xC4CEB9FE1A85EC53u;
        word *= 0xFF51AFD7ED558CCDu;
        return word ^ (word >> 33);
    #endif
    }
    """
    uint64_t folded(uint64_t, uint64_t) noexcept nogil


cdef class SeenIds:
    """See plain_seen_ids.py.

    A ring of ids in the order they came, and a table with linear probing that says where in the
    ring an id lies; at most half of it is taken. An entry that leaves the ring leaves the
    table by moving back those that had to give way to it, so nothing is ever marked as deleted.
    """

    cdef Seen *ring
    cdef uint32_t *table
    cdef uint64_t capacity, first, count, mask, entries_max, expiry_us, seed_low, seed_high

    def __cinit__(self, uint64_t entries_max, uint64_t expiry_us, uint64_t seed):
        if not 1 <= entries_max <= ENTRIES_MAX:
            raise ValueError(f"a window of {entries_max} ids: needs 1 to {ENTRIES_MAX}")
        self.entries_max = entries_max
        self.expiry_us = expiry_us
        self.seed_low = folded(seed, 0x9E3779B97F4A7C15)
        self.seed_high = folded(seed, 0xC4CEB9FE1A85EC53) | 1
        self.ring = NULL
        self.table = NULL
        self.capacity = self.first = self.count = self.mask = 0

    def __dealloc__(self):
        PyMem_RawFree(self.ring)
        PyMem_RawFree(self.table)

    def __len__(self):
        return self.count

    def __sizeof__(self):
        cdef uint64_t size = self.capacity * sizeof(Seen)
        if self.capacity:
            size += (self.mask + 1) * sizeof(uint32_t)
        return object.__sizeof__(self) + size

    def admit(self, batch, uint64_t message_count, uint64_t timestamp, random_bytes):
        cdef Py_buffer view
        PyObject_GetBuffer(batch, &view, PyBUF_WRITABLE)
        try:
            return self.admit_messages(
                <uint8_t *>view.buf, view.len, message_count, timestamp, random_bytes
            )
        finally:
            PyBuffer_Release(&view)

    cdef object admit_messages(
        self,
        uint8_t *batch,
        uint64_t size,
        uint64_t message_count,
        uint64_t timestamp,
        random_bytes,
    ):
        cdef uint64_t number, at = 0, end, low, high, hashed, kept = 0, kept_size = 0
        cdef uint64_t nameless_count = 0
        cdef bytes random
        cdef const uint8_t *new_id = NULL
        cdef uint8_t *header
        cdef uint32_t *end_at
        cdef uint32_t *start_at
        if message_count > size // HEADER_SIZE:
            raise InvalidMessagesSize(f"a message header runs over the end at {size}")
        if size > UINT32_MAX:
            raise AssertionError("the batch is too large")
        # Where each message ends, in memory that no other process can change; and, filled from
        # the front while that is read, where each that is kept begins.
        cdef bytearray ends = PyByteArray_FromStringAndSize(NULL, message_count * 4)
        end_at = <uint32_t *>PyByteArray_AS_STRING(ends)
        for number in range(message_count):
            if at > size or size - at < HEADER_SIZE:
                raise InvalidMessagesSize(f"a message header runs over the end at {size}")
            header = batch + at
            nameless_count += load_u64(header + ID_AT) == 0 and load_u64(header + ID_AT + 8) == 0
            at += HEADER_SIZE + body_size(header)
            end_at[number] = <uint32_t>at
        if at != size:
            raise InvalidMessagesSize(f"{at} bytes of messages in a batch of {size}")
        if nameless_count:
            random = random_bytes(nameless_count * ID_SIZE)
            if <uint64_t>len(random) != nameless_count * ID_SIZE:
                raise AssertionError("other than the number of random bytes asked for")
            new_id = random
        self.forget_before(timestamp)
        # The last thing that can fail: nothing was added to the window or changed in the batch.
        self.reserve(message_count)

        at = 0
        start_at = end_at
        for number in range(message_count):
            header = batch + at
            end = end_at[number]
            low = load_u64(header + ID_AT)
            high = load_u64(header + ID_AT + 8)
            if low == 0 and high == 0 and nameless_count:
                memcpy(header + ID_AT, new_id, ID_SIZE)
                # A random UUID: version 4 and variant.
                header[ID_AT + 6] = header[ID_AT + 6] & 0x0F | 0x40
                header[ID_AT + 8] = header[ID_AT + 8] & 0x3F | 0x80
                low = load_u64(header + ID_AT)
                high = load_u64(header + ID_AT + 8)
                new_id += ID_SIZE
                nameless_count -= 1
                hashed = self.hash(low, high)
            else:
                hashed = self.hash(low, high)
                if self.find(low, high, hashed) >= 0:
                    at = end
                    continue
            self.insert(low, high, hashed, timestamp)
            start_at[kept] = <uint32_t>at
            kept += 1
            kept_size += end - at
            at = end
        if kept == message_count:
            return None
        return self.survivors(batch, size, ends, kept, kept_size)

    cdef object survivors(
        self, const uint8_t *batch, uint64_t size, bytearray starts, uint64_t kept, uint64_t kept_size
    ):
        """Copies of the messages that begin there, back to back."""
        cdef bytearray copies = PyByteArray_FromStringAndSize(NULL, kept_size)
        cdef uint8_t *to = <uint8_t *>PyByteArray_AS_STRING(copies)
        cdef uint64_t number, start, message_size
        PyByteArray_Resize(starts, kept * 4)
        for number in range(kept):
            start = load_u32(<const uint8_t *>PyByteArray_AS_STRING(starts) + number * 4)
            message_size = HEADER_SIZE + body_size(batch + start)
            # The lengths lie in memory that another process could change.
            if message_size > size - start or message_size > kept_size:
                raise AssertionError("a message has changed while it was looked at")
            memcpy(to, batch + start, message_size)
            to += message_size
            kept_size -= message_size
        if kept_size:
            raise AssertionError("a message has changed while it was looked at")
        return Survivors(copies, kept, starts)

    def remember(self, log, uint64_t position, entries):
        cdef Py_buffer log_view, entries_view
        cdef uint64_t number, message_count, low, high, hashed, start = position, end
        cdef int64_t known
        cdef const uint8_t *entry
        cdef const uint8_t *header
        PyObject_GetBuffer(log, &log_view, PyBUF_SIMPLE)
        try:
            PyObject_GetBuffer(entries, &entries_view, PyBUF_SIMPLE)
            try:
                message_count = <uint64_t>entries_view.len // ENTRY_SIZE
                self.reserve(message_count)
                for number in range(message_count):
                    entry = <const uint8_t *>entries_view.buf + number * ENTRY_SIZE
                    end = load_u32(entry + POSITION_AT)
                    if (
                        start >= position
                        and <uint64_t>log_view.len >= HEADER_SIZE
                        and start - position <= <uint64_t>log_view.len - HEADER_SIZE
                    ):
                        header = <const uint8_t *>log_view.buf + (start - position)
                        low = load_u64(header + ID_AT)
                        high = load_u64(header + ID_AT + 8)
                    else:
                        low = high = 0
                    hashed = self.hash(low, high)
                    # A log from before deduplication may hold an id twice: the later counts.
                    known = self.find(low, high, hashed)
                    if known >= 0:
                        self.clear(known)
                    self.insert(low, high, hashed, load_u64(entry + ENTRY_TIMESTAMP_AT))
                    start = end
            finally:
                PyBuffer_Release(&entries_view)
        finally:
            PyBuffer_Release(&log_view)

    def back_to_first(self, batch):
        cdef Py_buffer view
        cdef uint64_t low, high, place
        cdef int64_t slot
        PyObject_GetBuffer(batch, &view, PyBUF_SIMPLE)
        try:
            if <uint64_t>view.len < HEADER_SIZE:
                return 0
            low = load_u64(<const uint8_t *>view.buf + ID_AT)
            high = load_u64(<const uint8_t *>view.buf + ID_AT + 8)
        finally:
            PyBuffer_Release(&view)
        slot = self.find(low, high, self.hash(low, high))
        if slot < 0:
            return 0
        place = (self.table[slot] & PLACE_MASK) - 1
        if place < self.first:
            place += self.capacity
        return self.count - (place - self.first)

    def forget_expired(self, uint64_t timestamp):
        self.forget_before(timestamp)
        if self.count * 4 < self.capacity:
            self.resize(self.count)

    # The ring.

    cdef void forget_before(self, uint64_t timestamp) noexcept:
        if self.expiry_us == 0 or timestamp < self.expiry_us:
            return
        timestamp -= self.expiry_us
        while self.count and self.ring[self.first].timestamp <= timestamp:
            self.drop_oldest()

    cdef int reserve(self, uint64_t more) except -1:
        """Make room for so many more, or for as many as the window may hold."""
        cdef uint64_t wanted = min(self.count + more, self.entries_max)
        if wanted > self.capacity:
            wanted = max(wanted, self.capacity * 2, <uint64_t>CAPACITY_FIRST)
            self.resize(min(wanted, self.entries_max))
        return 0

    cdef int resize(self, uint64_t capacity) except -1:
        """Move to a ring of this size; it holds all that there is."""
        cdef Seen *ring = NULL
        cdef Seen *one
        cdef uint32_t *table = NULL
        cdef uint64_t slots = CAPACITY_FIRST, number, hashed
        cdef int64_t known
        if capacity:
            while slots < capacity * 2:
                slots *= 2
            ring = <Seen *>PyMem_RawMalloc(capacity * sizeof(Seen))
            table = <uint32_t *>PyMem_RawCalloc(slots, sizeof(uint32_t))
            if ring is NULL or table is NULL:
                PyMem_RawFree(ring)
                PyMem_RawFree(table)
                raise MemoryError(f"no memory for a window of {capacity} ids")
            for number in range(self.count):
                ring[number] = self.ring[self.place_of(number)]
        PyMem_RawFree(self.ring)
        PyMem_RawFree(self.table)
        self.ring = ring
        self.table = table
        self.capacity = capacity
        self.mask = slots - 1
        self.first = 0
        for number in range(self.count):
            one = ring + number
            hashed = self.hash(one.low, one.high)
            known = self.find(one.low, one.high, hashed)
            if known >= 0:
                self.clear(known)
            self.point(hashed, number)
        return 0

    cdef inline uint64_t place_of(self, uint64_t number) noexcept:
        """Where the entry with this number, counted from the oldest, lies."""
        number += self.first
        return number - self.capacity if number >= self.capacity else number

    cdef void insert(
        self, uint64_t low, uint64_t high, uint64_t hashed, uint64_t timestamp
    ) noexcept:
        """Add an id that the table does not know."""
        cdef uint64_t place
        if self.count == self.capacity:
            self.drop_oldest()
        place = self.place_of(self.count)
        self.ring[place].low = low
        self.ring[place].high = high
        self.ring[place].timestamp = timestamp
        self.count += 1
        self.point(hashed, place)

    cdef void drop_oldest(self) noexcept:
        cdef Seen *oldest = self.ring + self.first
        cdef uint32_t place = <uint32_t>self.first + 1
        cdef uint64_t slot = self.hash(oldest.low, oldest.high) & self.mask
        self.first = self.place_of(1)
        self.count -= 1
        while (self.table[slot] & PLACE_MASK) != place:
            if self.table[slot] == 0:
                return  # taken out when its id came once more
            slot = (slot + 1) & self.mask
        self.clear(slot)

    # The table.

    cdef inline uint64_t hash(self, uint64_t low, uint64_t high) noexcept:
        # Ids are chosen by clients: without the seed they could choose ones that collide.
        # Twice: ids that differ in a few upper bits only would crowd together after one.
        return folded(folded(low ^ self.seed_low, high ^ self.seed_high), self.seed_high)

    cdef inline int64_t find(self, uint64_t low, uint64_t high, uint64_t hashed) noexcept:
        """The slot of an id, -1 if it is not there."""
        cdef uint64_t slot = hashed & self.mask
        cdef uint32_t bits = <uint32_t>(hashed >> 32) & ~<uint32_t>PLACE_MASK
        cdef uint32_t found
        cdef Seen *one
        if self.count == 0:
            return -1
        while True:
            found = self.table[slot]
            if found == 0:
                return -1
            if (found & ~<uint32_t>PLACE_MASK) == bits:
                one = self.ring + ((found & PLACE_MASK) - 1)
                if one.low == low and one.high == high:
                    return <int64_t>slot
            slot = (slot + 1) & self.mask

    cdef inline void point(self, uint64_t hashed, uint64_t place) noexcept:
        """Let the table say where an id lies that it does not know."""
        cdef uint64_t slot = hashed & self.mask
        while self.table[slot]:
            slot = (slot + 1) & self.mask
        self.table[slot] = <uint32_t>(hashed >> 32) & ~<uint32_t>PLACE_MASK | <uint32_t>(place + 1)

    cdef void clear(self, uint64_t free) noexcept:
        """Empty a slot, and let those behind it that it kept from their own slots move up."""
        cdef uint64_t slot = free, home
        cdef Seen *one
        while True:
            slot = (slot + 1) & self.mask
            if self.table[slot] == 0:
                break
            one = self.ring + ((self.table[slot] & PLACE_MASK) - 1)
            home = self.hash(one.low, one.high) & self.mask
            # Would it still be found from its home if it lay in the free slot?
            if ((slot - home) & self.mask) >= ((slot - free) & self.mask):
                self.table[free] = self.table[slot]
                free = slot
        self.table[free] = 0


def copy_stamps(batch, survivors, starts):
    cdef Py_buffer to, source, starts_view
    cdef const uint8_t *header
    cdef uint64_t number, at = 0, start, end
    PyObject_GetBuffer(batch, &to, PyBUF_WRITABLE)
    try:
        PyObject_GetBuffer(survivors, &source, PyBUF_SIMPLE)
        try:
            PyObject_GetBuffer(starts, &starts_view, PyBUF_SIMPLE)
            try:
                for number in range(<uint64_t>starts_view.len // 4):
                    end = end_of_message(<const uint8_t *>source.buf, source.len, at)
                    start = load_u32(<const uint8_t *>starts_view.buf + number * 4)
                    if <uint64_t>to.len < HEADER_SIZE or start > <uint64_t>to.len - HEADER_SIZE:
                        raise AssertionError("a survivor began behind the end of its batch")
                    header = <const uint8_t *>source.buf + at
                    if number == 0 and start:
                        # The first message was a duplicate, but it is where one looks.
                        memcpy(<uint8_t *>to.buf + OFFSET_AT, header + OFFSET_AT, 8)
                        store_u64(<uint8_t *>to.buf, STAMPED_DUPLICATE)
                    memcpy(<uint8_t *>to.buf + start, header, HEADER_SIZE)
                    at = end
            finally:
                PyBuffer_Release(&starts_view)
        finally:
            PyBuffer_Release(&source)
    finally:
        PyBuffer_Release(&to)


def without_stored(batch, uint64_t message_count, stored):
    cdef Py_buffer ours, theirs
    cdef const uint8_t *header
    cdef bytearray rest
    cdef uint8_t *to
    cdef uint64_t number, at = 0, end, stored_at = 0, stored_size, count = 0
    PyObject_GetBuffer(batch, &ours, PyBUF_SIMPLE)
    try:
        PyObject_GetBuffer(stored, &theirs, PyBUF_SIMPLE)
        try:
            rest = PyByteArray_FromStringAndSize(NULL, ours.len)
            to = <uint8_t *>PyByteArray_AS_STRING(rest)
            for number in range(message_count):
                end = end_of_message(<const uint8_t *>ours.buf, ours.len, at)
                header = <const uint8_t *>ours.buf + at
                if (
                    <uint64_t>theirs.len - stored_at >= end - at
                    and memcmp(header, <const uint8_t *>theirs.buf + stored_at, HEADER_SIZE) == 0
                ):
                    stored_at += end - at
                    # What comes before a stored message and is not stored was a duplicate.
                    to = <uint8_t *>PyByteArray_AS_STRING(rest)
                    count = 0
                else:
                    memcpy(to, header, end - at)
                    to += end - at
                    count += 1
                at = end
            if at != <uint64_t>ours.len:
                raise InvalidMessagesSize(f"{at} bytes of messages in a batch of {ours.len}")
            PyByteArray_Resize(rest, to - <uint8_t *>PyByteArray_AS_STRING(rest))
            return rest, count
        finally:
            PyBuffer_Release(&theirs)
    finally:
        PyBuffer_Release(&ours)
