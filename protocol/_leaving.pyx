# cython: language_level=3, binding=True
"""The loops over stored messages that leave in another layout, compiled. Names and behaviour are
those of plain_leaving.py; what is always true of compiled loops stands in _messages.pxd and
_edges.pxd.

A walk over the headers finds how many bytes are needed. The second one writes them: each message
is copied and then hashed, so that it is read from memory once. What is written to was never set
to anything before. The GIL is kept, as in _log.pyx.
"""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from cpython.mem cimport PyMem_Free, PyMem_Malloc
from libc.stdint cimport UINT32_MAX, UINT64_MAX, uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy, memset

from borzoi.protocol._edges cimport (
    AVAILABLE,
    BASE_OFFSET_AT,
    BASE_TIMESTAMP_AT,
    BATCH_CHECKSUM_AT,
    BATCH_COUNT_AT,
    BATCH_HEADER_SIZE,
    BATCH_LENGTH_AT,
    BATCH_ORIGIN_AT,
    CHECKED_SIZE,
    CONSENSUS,
    CRC_AT,
    FIELD_SIZE,
    FIELD_SIZE_MAX,
    FRAME_HEADER_SIZE,
    FRAME_LENGTHS_AT,
    FRAME_RESERVED_AT,
    KIND_MAX,
    KIND_STRING,
    OFFSET_DELTA_AT,
    OLD,
    OLD_SHOWN_HEADER_SIZE,
    PARTITION_AT,
    SHORT_HEADER_SIZE,
    SHOWN_HEADERS_LENGTH_AT,
    SHOWN_ID_AT,
    SHOWN_TIMESTAMP_AT,
    STATE_AT,
    TIMESTAMP_DELTA_AT,
    is_utf8,
    is_well_formed,
)
from borzoi.protocol._log cimport digest
from borzoi.protocol._messages cimport (
    CHECKSUM_SIZE,
    COMPILED_VERSION,
    HEADER_SIZE,
    ID_AT,
    ID_SIZE,
    LENGTHS_AT,
    OFFSET_AT,
    ORIGIN_TIMESTAMP_AT,
    TIMESTAMP_AT,
    load_u32,
    load_u64,
    store_u32,
    store_u64,
)

from borzoi.protocol import edge_layouts
from borzoi.protocol.bare_headers import key_text
from borzoi.protocol.errors import CannotReadMessage
from borzoi.protocol.headers import HeaderField, HeaderKind

LOOPS_VERSION = COMPILED_VERSION

cdef uint64_t RECORD_SIZE_MAX = edge_layouts.RECORD_SIZE_MAX
cdef uint64_t PIECE_SIZE_MAX = edge_layouts.PIECE_SIZE_MAX

cdef enum:
    # A header of a stored message is so much longer than that of a frame.
    FRAME_SHORTER = HEADER_SIZE - FRAME_HEADER_SIZE
    OLD_SHOWN_SIZE_MIN = OLD_SHOWN_HEADER_SIZE + 4
    RUNS_KEPT = 64
    # What is mapped lies in no cache yet. Headers are asked for so many messages ahead, bytes so many
    # ahead; of a longer message the processor fetches the rest on its own account.
    AHEAD = 16
    AHEAD_SIZE = 4096
    LINE_SIZE = 64

cdef extern from *:
    void prefetch "__builtin_prefetch"(const void *address) noexcept nogil


cdef struct Run:
    # Messages that become one batch record.
    uint64_t end
    uint64_t count
    uint64_t origin


cdef struct Part:
    # Messages of a view: where they end, their size in the other layout, that of the last of them.
    # Of batch records what the first ones are made of, so that it is looked for once.
    uint64_t end
    uint64_t size
    uint64_t last_size
    uint64_t runs_count
    Run runs[RUNS_KEPT]


def converted_size(int layout, views):
    cdef Py_buffer buffer
    cdef Part part
    cdef uint64_t total = 0, last_size = 0
    for view in views:
        PyObject_GetBuffer(view, &buffer, PyBUF_SIMPLE)
        try:
            if buffer.len:
                measure(layout, <const uint8_t *>buffer.buf, buffer.len, 0, UINT64_MAX, &part)
                total += part.size
                last_size = part.last_size
        finally:
            PyBuffer_Release(&buffer)
    return total + needs_end(layout, last_size)


def converted(int layout, views, uint64_t partition_id):
    cdef Py_buffer buffer
    cdef Part part
    cdef uint64_t room, written
    cdef bytes found
    cdef uint8_t *to
    if len(views) == 1:
        return piece_of(layout, views[0], 0, partition_id, True, UINT64_MAX)[0]
    part.runs_count = 0
    room = converted_size(layout, views)
    found = PyBytes_FromStringAndSize(NULL, room)
    to = <uint8_t *>PyBytes_AS_STRING(found)
    for view in views:
        PyObject_GetBuffer(view, &buffer, PyBUF_SIMPLE)
        try:
            written = write(
                layout, <const uint8_t *>buffer.buf, 0, buffer.len, partition_id, to, room, &part
            )
        finally:
            PyBuffer_Release(&buffer)
        to += written
        room -= written
    end(layout, to, room)
    return found


def whole_messages(view, uint64_t start):
    cdef Py_buffer buffer
    cdef const uint8_t *data
    cdef uint64_t at = start, size, room
    PyObject_GetBuffer(view, &buffer, PyBUF_SIMPLE)
    try:
        data = <const uint8_t *>buffer.buf
        size = buffer.len
        while at < size and size - at >= HEADER_SIZE:
            room = HEADER_SIZE + <uint64_t>load_u32(data + at + LENGTHS_AT)
            room += load_u32(data + at + LENGTHS_AT + 4)
            if room > size - at:
                break
            at += room
        return at
    finally:
        PyBuffer_Release(&buffer)


def converted_piece(int layout, view, uint64_t start, uint64_t partition_id, bint is_last):
    return piece_of(layout, view, start, partition_id, is_last, PIECE_SIZE_MAX)


cdef tuple piece_of(
    int layout, view, uint64_t start, uint64_t partition_id, bint is_last, uint64_t piece_max
):
    cdef Py_buffer buffer
    cdef Part part
    cdef bytes found
    cdef uint8_t *to
    cdef uint64_t room, written
    PyObject_GetBuffer(view, &buffer, PyBUF_SIMPLE)
    try:
        if start > <uint64_t>buffer.len:
            raise AssertionError(f"a piece at {start} of a view of {buffer.len} bytes")
        measure(layout, <const uint8_t *>buffer.buf, buffer.len, start, piece_max, &part)
        room = part.size
        if is_last and part.end == <uint64_t>buffer.len:
            room += needs_end(layout, part.last_size)
        found = PyBytes_FromStringAndSize(NULL, room)
        to = <uint8_t *>PyBytes_AS_STRING(found)
        written = write(
            layout, <const uint8_t *>buffer.buf, start, part.end, partition_id, to, room, &part
        )
        end(layout, to + written, room - written)
        return found, part.end
    finally:
        PyBuffer_Release(&buffer)


cdef inline uint64_t needs_end(int layout, uint64_t last_size) noexcept:
    """How many zero bytes follow a last message of that size."""
    return layout == OLD and last_size == OLD_SHOWN_SIZE_MIN


cdef int end(int layout, uint8_t *to, uint64_t room) except -1:
    if room == 1 and layout == OLD:
        to[0] = 0
    elif room:
        raise CannotReadMessage("the messages changed while they were read")
    return 0


cdef int measure(
    int layout, const uint8_t *data, uint64_t size, uint64_t start, uint64_t piece_max, Part *part
) except -1:
    """What of the messages from `start`, not beyond `size`, fits so many stored bytes."""
    cdef Run run
    cdef uint64_t headers_size, payload_size, next_at, shown
    part.end = start
    part.size = part.last_size = part.runs_count = 0
    while part.end < size:
        if layout == CONSENSUS:
            find_run(data, size, part.end, &run)
            next_at = run.end
            # The last one may turn out not to fit the piece: nothing is written of it then.
            if part.runs_count < RUNS_KEPT:
                part.runs[part.runs_count] = run
                part.runs_count += 1
            shown = record_size(part.end, &run)
        else:
            next_at = read_message(data, size, part.end, &headers_size, &payload_size)
            shown = OLD_SHOWN_SIZE_MIN if layout == OLD else SHORT_HEADER_SIZE
            shown += payload_size
            if headers_size:
                shown += bare(data + next_at - headers_size, headers_size, NULL, 0)
        if part.end != start and next_at - start > piece_max:
            break
        part.size += shown
        part.last_size = shown
        part.end = next_at
    return 0


cdef uint64_t write(
    int layout,
    const uint8_t *data,
    uint64_t start,
    uint64_t limit,
    uint64_t partition_id,
    uint8_t *to,
    uint64_t room,
    const Part *part,
) except? 1:
    """Write the messages between these two places; returns how many bytes of `room` they took.

    `part` is what measure() has said of these same messages, or has no runs.
    """
    cdef Run run
    cdef uint64_t at = start, left = room, written, number = 0
    while at < limit:
        if layout == CONSENSUS:
            if number < part.runs_count:
                run = part.runs[number]
                number += 1
            else:
                find_run(data, limit, at, &run)
            written = record_size(at, &run)
            if written > left:
                raise CannotReadMessage("the messages changed while they were read")
            write_record(data, at, &run, partition_id, to)
            at = run.end
        else:
            at = write_message(layout, data, limit, at, to, left, &written)
        to += written
        left -= written
    return room - left


cdef uint64_t read_message(
    const uint8_t *data, uint64_t size, uint64_t at, uint64_t *headers_size, uint64_t *payload_size
) except 0:
    """Where the message at `at`, not beyond `size`, ends, and the sizes of its parts."""
    cdef uint64_t room = size - at
    if room < HEADER_SIZE:
        raise CannotReadMessage(f"a header at {at} leaves its view of {size} bytes")
    headers_size[0] = load_u32(data + at + LENGTHS_AT)
    payload_size[0] = load_u32(data + at + LENGTHS_AT + 4)
    if headers_size[0] + payload_size[0] > room - HEADER_SIZE:
        raise CannotReadMessage(f"a message at {at} leaves its view of {size} bytes")
    return at + HEADER_SIZE + headers_size[0] + payload_size[0]


# Batch records.


cdef inline uint64_t record_size(uint64_t start, const Run *run) noexcept:
    return BATCH_HEADER_SIZE + (run.end - start) - run.count * FRAME_SHORTER


cdef int find_run(const uint8_t *data, uint64_t size, uint64_t start, Run *run) except -1:
    """The messages from `start`, before `size`, that become one record."""
    cdef const uint8_t *header = data + start
    cdef uint64_t offset, timestamp, origin, smallest, largest, next_end, headers_size, payload_size
    run.end = read_message(data, size, start, &headers_size, &payload_size)
    run.count = 1
    offset = load_u64(header + OFFSET_AT)
    timestamp = load_u64(header + TIMESTAMP_AT)
    smallest = largest = load_u64(header + ORIGIN_TIMESTAMP_AT)
    while run.end < size:
        header = data + run.end
        next_end = read_message(data, size, run.end, &headers_size, &payload_size)
        if (
            load_u64(header + TIMESTAMP_AT) != timestamp
            or offset == UINT64_MAX
            or load_u64(header + OFFSET_AT) != offset + 1
            or BATCH_HEADER_SIZE + (next_end - start) - (run.count + 1) * FRAME_SHORTER
            > RECORD_SIZE_MAX
        ):
            break
        origin = load_u64(header + ORIGIN_TIMESTAMP_AT)
        if max(largest, origin) - min(smallest, origin) > UINT32_MAX:
            break
        smallest = min(smallest, origin)
        largest = max(largest, origin)
        if AHEAD * (next_end - run.end) < size - next_end:
            prefetch(data + next_end + AHEAD * (next_end - run.end))
        offset += 1
        run.count += 1
        run.end = next_end
    run.origin = smallest
    return 0


cdef int write_record(
    const uint8_t *data, uint64_t start, const Run *run, uint64_t partition_id, uint8_t *to
) except -1:
    """`to` has room for record_size()."""
    cdef uint64_t checked_size = CHECKED_SIZE + run.count * CHECKSUM_SIZE
    cdef const uint8_t *first = data + start
    cdef uint8_t *checked = <uint8_t *>PyMem_Malloc(checked_size)
    if checked is NULL:
        raise MemoryError
    try:
        memset(to, 0, BATCH_HEADER_SIZE)
        store_u64(to + PARTITION_AT, partition_id)
        store_u64(to + BASE_OFFSET_AT, load_u64(first + OFFSET_AT))
        store_u64(to + BASE_TIMESTAMP_AT, load_u64(first + TIMESTAMP_AT))
        store_u64(to + BATCH_ORIGIN_AT, run.origin)
        store_u64(to + BATCH_LENGTH_AT, record_size(start, run))
        store_u32(to + BATCH_COUNT_AT, <uint32_t>run.count)
        memcpy(checked, to, BATCH_CHECKSUM_AT)
        memcpy(checked + BATCH_CHECKSUM_AT, to + BATCH_COUNT_AT, 4)
        write_frames(data, start, run, to + BATCH_HEADER_SIZE, checked + CHECKED_SIZE)
        store_u64(to + BATCH_CHECKSUM_AT, digest(checked, checked_size))
    finally:
        PyMem_Free(checked)
    return 0


cdef int write_frames(
    const uint8_t *data, uint64_t start, const Run *run, uint8_t *to, uint8_t *checksums
) except -1:
    """Messages that do not fit the run are found before anything is written for them.

    Each has to leave room for the headers of those behind it: a frame is shorter than its message.
    """
    cdef uint64_t number, end, body_size, headers_size, payload_size, at = start, checksum
    cdef uint64_t ahead, next_end
    cdef uint64_t limit = run.end - run.count * HEADER_SIZE
    cdef const uint8_t *header
    for number in range(run.count):
        header = data + at
        limit += HEADER_SIZE
        end = read_message(data, limit, at, &headers_size, &payload_size)
        body_size = headers_size + payload_size
        # While this one is copied and hashed, as many bytes further on come.
        ahead = at + AHEAD_SIZE
        next_end = min(ahead + min(end - at, AHEAD_SIZE), run.end)
        while ahead < next_end:
            prefetch(data + ahead)
            ahead += LINE_SIZE
        memcpy(to + ID_AT, header + ID_AT, ID_SIZE)
        store_u32(to + OFFSET_DELTA_AT, <uint32_t>number)
        store_u32(
            to + TIMESTAMP_DELTA_AT,
            <uint32_t>(load_u64(header + ORIGIN_TIMESTAMP_AT) - run.origin),
        )
        store_u32(to + FRAME_LENGTHS_AT, <uint32_t>headers_size)
        store_u32(to + FRAME_LENGTHS_AT + 4, <uint32_t>payload_size)
        store_u64(to + FRAME_RESERVED_AT, 0)
        memcpy(to + FRAME_HEADER_SIZE, header + HEADER_SIZE, body_size)
        checksum = digest(to + CHECKSUM_SIZE, FRAME_HEADER_SIZE - CHECKSUM_SIZE + body_size)
        store_u64(to, checksum)
        store_u64(checksums, checksum)
        checksums += CHECKSUM_SIZE
        to += FRAME_HEADER_SIZE + body_size
        at = end
    if at != run.end:
        raise CannotReadMessage("the messages changed while they were read")
    return 0


# Messages for older clients.


cdef uint64_t write_message(
    int layout,
    const uint8_t *data,
    uint64_t limit,
    uint64_t at,
    uint8_t *to,
    uint64_t room,
    uint64_t *written,
) except 0:
    """Write the message at `at`; returns where it ends."""
    cdef uint64_t headers_size, payload_size, shown_size, bare_size = 0
    cdef const uint8_t *header = data + at
    cdef const uint8_t *payload = header + HEADER_SIZE
    cdef uint64_t message_end = read_message(data, limit, at, &headers_size, &payload_size)
    shown_size = OLD_SHOWN_SIZE_MIN if layout == OLD else SHORT_HEADER_SIZE
    shown_size += payload_size
    if room < shown_size:
        raise CannotReadMessage("the messages changed while they were read")
    # Measured first: nothing may be written of a block with a bad pair.
    if headers_size:
        bare_size = bare(payload + payload_size, headers_size, NULL, 0)
    if bare_size and bare_size != bare(
        payload + payload_size,
        headers_size,
        to + (OLD_SHOWN_HEADER_SIZE if layout == OLD else SHORT_HEADER_SIZE + payload_size),
        room - shown_size,
    ):
        raise CannotReadMessage("the user headers changed while they were read")
    if layout == OLD:
        write_old(header, payload_size, bare_size, to)
    else:
        write_short(header, payload_size, bare_size, to)
    written[0] = shown_size + bare_size
    return message_end


cdef void write_old(
    const uint8_t *header, uint64_t payload_size, uint64_t bare_size, uint8_t *to
) noexcept:
    """All but the user headers."""
    cdef uint8_t *behind = to + OLD_SHOWN_HEADER_SIZE + bare_size
    memcpy(to, header + OFFSET_AT, 8)
    to[STATE_AT] = AVAILABLE
    memcpy(to + SHOWN_TIMESTAMP_AT, header + TIMESTAMP_AT, 8)
    memcpy(to + SHOWN_ID_AT, header + ID_AT, ID_SIZE)
    store_u32(to + SHOWN_HEADERS_LENGTH_AT, <uint32_t>bare_size)
    store_u32(behind, <uint32_t>payload_size)
    memcpy(behind + 4, header + HEADER_SIZE, payload_size)
    store_u32(to + CRC_AT, crc32(behind + 4, payload_size))


cdef int write_short(
    const uint8_t *header, uint64_t payload_size, uint64_t bare_size, uint8_t *to
) except -1:
    """All but the user headers, which must be there already: the checksum covers them."""
    memcpy(to + CHECKSUM_SIZE, header + CHECKSUM_SIZE, LENGTHS_AT - CHECKSUM_SIZE)
    store_u32(to + LENGTHS_AT, <uint32_t>bare_size)
    store_u32(to + LENGTHS_AT + 4, <uint32_t>payload_size)
    memcpy(to + SHORT_HEADER_SIZE, header + HEADER_SIZE, payload_size)
    store_u64(
        to,
        digest(to + CHECKSUM_SIZE, SHORT_HEADER_SIZE - CHECKSUM_SIZE + payload_size + bare_size),
    )
    return 0


cdef uint64_t bare(const uint8_t *block, uint64_t size, uint8_t *to, uint64_t room) except? 1:
    """Write a block with bare keys; returns its size, 0 when it does not read as user headers.

    `to` NULL: only measure.
    """
    cdef uint64_t at = 0, written = 0, key_size, value_size, pair_size
    cdef const uint8_t *key
    cdef const uint8_t *value
    cdef bytes text
    while at < size:
        key_size = field_size(block, size, at)
        if key_size == 0:
            return 0
        key = block + at + FIELD_SIZE
        at += FIELD_SIZE + key_size
        value_size = field_size(block, size, at)
        if value_size == 0:
            return 0
        value = block + at  # its kind and its length leave as they are
        at += FIELD_SIZE + value_size
        if key[-FIELD_SIZE] != KIND_STRING or not is_utf8(key, key_size):
            text = text_of(key[-FIELD_SIZE], key, key_size)
            key = text
            key_size = len(text)
        pair_size = 4 + key_size + FIELD_SIZE + value_size
        if to is not NULL:
            if room - written < pair_size:
                raise CannotReadMessage("the user headers changed while they were read")
            store_u32(to + written, <uint32_t>key_size)
            memcpy(to + written + 4, key, key_size)
            memcpy(to + written + 4 + key_size, value, FIELD_SIZE + value_size)
        written += pair_size
    return written


cdef inline uint64_t field_size(const uint8_t *block, uint64_t size, uint64_t at) noexcept:
    """Of the key or value at `at`, not beyond `size`; 0 when there is none, or a malformed one."""
    cdef uint64_t found
    if size - at < FIELD_SIZE or block[at] < 1 or block[at] > KIND_MAX:
        return 0
    found = load_u32(block + at + 1)
    if found > size - at - FIELD_SIZE or not is_well_formed(block[at], found):
        return 0
    return found


cdef bytes text_of(uint8_t kind, const uint8_t *key, uint64_t size):
    data = PyBytes_FromStringAndSize(<const char *>key, size)
    return key_text(HeaderField(HeaderKind(kind), data))


# CRC-32 as zlib has it, sixteen bytes at a time: TABLES[n] goes over n more zero bytes.

cdef uint32_t TABLES[16][256]


cdef void fill_tables() noexcept:
    cdef uint32_t number, remainder, step, table
    for number in range(256):
        remainder = number
        for step in range(8):
            remainder = (remainder >> 1) ^ (0xEDB88320 if remainder & 1 else 0)
        TABLES[0][number] = remainder
    for table in range(1, 16):
        for number in range(256):
            remainder = TABLES[table - 1][number]
            TABLES[table][number] = (remainder >> 8) ^ TABLES[0][remainder & 0xFF]


fill_tables()


cdef inline uint32_t over_eight(int first, uint64_t word) noexcept nogil:
    """What eight bytes add that have so many more behind them."""
    return (
        TABLES[first + 7][word & 0xFF]
        ^ TABLES[first + 6][(word >> 8) & 0xFF]
        ^ TABLES[first + 5][(word >> 16) & 0xFF]
        ^ TABLES[first + 4][(word >> 24) & 0xFF]
        ^ TABLES[first + 3][(word >> 32) & 0xFF]
        ^ TABLES[first + 2][(word >> 40) & 0xFF]
        ^ TABLES[first + 1][(word >> 48) & 0xFF]
        ^ TABLES[first][word >> 56]
    )


cdef uint32_t crc32(const uint8_t *data, uint64_t size) noexcept nogil:
    cdef uint32_t crc = 0xFFFFFFFF
    while size >= 16:
        crc = over_eight(8, load_u64(data) ^ crc) ^ over_eight(0, load_u64(data + 8))
        data += 16
        size -= 16
    while size:
        crc = (crc >> 8) ^ TABLES[0][(crc ^ data[0]) & 0xFF]
        data += 1
        size -= 1
    return ~crc
