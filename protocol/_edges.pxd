# Layouts of other client generations for the compiled loops at that edge: where fields lie, as
# drawn in edge_layouts.py, and what holds for the fields of user headers.
#
# What stands in _messages.pxd about bounds holds here as well. Loops that measure first and write
# afterwards read lengths twice: the second time they are held against the room that was measured.
# Compiled into each module that uses it; there is nothing to import when they run.

from cpython.unicode cimport PyUnicode_DecodeUTF8
from libc.stdint cimport uint8_t, uint32_t, uint64_t

cdef enum:
    CONSENSUS = 1
    OLD = 2
    SHORT = 3

# A batch header. Its checksum covers what lies before it, then the count.
cdef enum:
    PARTITION_AT = 0
    BASE_OFFSET_AT = 8
    BASE_TIMESTAMP_AT = 16
    BATCH_ORIGIN_AT = 24
    BATCH_LENGTH_AT = 32
    BATCH_CHECKSUM_AT = 40
    BATCH_COUNT_AT = 48
    BATCH_RESERVED_AT = 52
    BATCH_HEADER_SIZE = 256
    CHECKED_SIZE = 44

# A frame; its checksum and its id lie where those of a stored message lie.
cdef enum:
    OFFSET_DELTA_AT = 24
    TIMESTAMP_DELTA_AT = 28
    FRAME_LENGTHS_AT = 32
    FRAME_RESERVED_AT = 40
    FRAME_HEADER_SIZE = 48

# What an old client sends, up to the user headers.
cdef enum:
    OLD_HEADERS_LENGTH_AT = 16
    OLD_SENT_HEADER_SIZE = 20

# What it is shown, up to the user headers.
cdef enum:
    STATE_AT = 8
    SHOWN_TIMESTAMP_AT = 9
    SHOWN_ID_AT = 17
    CRC_AT = 33
    SHOWN_HEADERS_LENGTH_AT = 37
    OLD_SHOWN_HEADER_SIZE = 41
    AVAILABLE = 1

# A header without its reserved field.
cdef enum:
    SHORT_HEADER_SIZE = 56

# User headers, as in headers.py: `kind u8 | length u32`, then a key or a value.
cdef enum:
    KIND_RAW = 1
    KIND_STRING = 2
    KIND_MAX = 15
    FIELD_SIZE = 5
    FIELD_SIZE_MAX = 255


cdef inline bint is_well_formed(uint8_t kind, uint64_t size) noexcept nogil:
    """Whether a kind, one of 1 to KIND_MAX, allows so many bytes."""
    if kind <= KIND_STRING:
        return 1 <= size <= FIELD_SIZE_MAX
    if kind == 3 or kind == 4 or kind == 9:
        return size == 1
    if kind == 5 or kind == 10:
        return size == 2
    if kind == 6 or kind == 11 or kind == 14:
        return size == 4
    if kind == 7 or kind == 12 or kind == 15:
        return size == 8
    return size == 16


cdef inline int is_utf8(const uint8_t *data, uint64_t size) except -1:
    cdef uint64_t at
    for at in range(size):
        if data[at] >= 0x80:
            break
    else:
        return True
    try:
        PyUnicode_DecodeUTF8(<const char *>data, <Py_ssize_t>size, NULL)
    except UnicodeDecodeError:
        return False
    return True
