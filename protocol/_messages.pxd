# Message headers and index entries for the compiled loops: where fields lie, and how to reach them.
#
# Always, in all compiled loops: nothing outside the buffers given is read or written. Lengths come
# from clients and from shared memory. So each is read once, into a local, and compared with what is
# left of the buffer before anything is done with it. Numbers of messages and positions are unsigned
# and 64 bits wide; lengths have 32, so sums of a few of them cannot overflow. Views must be
# contiguous, as all views on buffers, files and arenas here are.
#
# Messages begin at any address: fields are copied in and out with memcpy, which a compiler turns
# into single unaligned loads and stores. They are little-endian, so this is for machines that are
# (loops.py).
# Compiled into each module that uses it; there is nothing to import when they run.

from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy

# Of all compiled modules together: that of loops.py when they were built.
cdef enum:
    COMPILED_VERSION = 15

# A message header, as drawn in message.py.
cdef enum:
    CHECKSUM_SIZE = 8
    ID_AT = 8
    ID_SIZE = 16
    OFFSET_AT = 24
    TIMESTAMP_AT = 32
    ORIGIN_TIMESTAMP_AT = 40
    LENGTHS_AT = 48
    RESERVED_AT = 56
    HEADER_SIZE = 64

# An index entry, as drawn in batch.py.
cdef enum:
    POSITION_AT = 4
    ENTRY_TIMESTAMP_AT = 8
    ENTRY_SIZE = 16


cdef inline uint32_t load_u32(const uint8_t *at) noexcept nogil:
    cdef uint32_t number
    memcpy(&number, at, sizeof(number))
    return number


cdef inline uint64_t load_u64(const uint8_t *at) noexcept nogil:
    cdef uint64_t number
    memcpy(&number, at, sizeof(number))
    return number


cdef inline void store_u32(uint8_t *at, uint32_t number) noexcept nogil:
    memcpy(at, &number, sizeof(number))


cdef inline void store_u64(uint8_t *at, uint64_t number) noexcept nogil:
    memcpy(at, &number, sizeof(number))


cdef inline uint64_t body_size(const uint8_t *header) noexcept nogil:
    """Of payload and user headers together; the header must be there."""
    return <uint64_t>load_u32(header + LENGTHS_AT) + load_u32(header + LENGTHS_AT + 4)


cdef inline void store_entry(
    uint8_t *entry, uint32_t relative_offset, uint32_t position, uint64_t timestamp
) noexcept nogil:
    store_u32(entry, relative_offset)
    store_u32(entry + POSITION_AT, position)
    store_u64(entry + ENTRY_TIMESTAMP_AT, timestamp)


cdef inline uint64_t end_within(const uint8_t *data, uint64_t size, uint64_t at) noexcept nogil:
    """Where the message at `at`, not beyond `size`, ends; 0 when it runs over `size`."""
    cdef uint64_t message_size
    if size - at < HEADER_SIZE:
        return 0
    message_size = HEADER_SIZE + body_size(data + at)
    return at + message_size if message_size <= size - at else 0
