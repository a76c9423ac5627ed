# cython: language_level=3, binding=True
"""The loops over messages that arrive in another layout, compiled. Names and behaviour are those
of plain_arriving.py; what is always true of compiled loops stands in _messages.pxd and _edges.pxd.

A frame is hashed and then copied, so that it is read from memory once.
"""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytearray cimport PyByteArray_AS_STRING, PyByteArray_FromStringAndSize
from cpython.bytes cimport PyBytes_FromStringAndSize
from cpython.dict cimport PyDict_GetItemWithError
from cpython.mem cimport PyMem_Free, PyMem_Malloc
from cpython.memoryview cimport PyMemoryView_FromObject
from cpython.object cimport PyObject
from libc.stdint cimport UINT32_MAX, UINT64_MAX, uint8_t, uint64_t
from libc.string cimport memcpy, memset

from borzoi.protocol._edges cimport (
    BATCH_CHECKSUM_AT,
    BATCH_COUNT_AT,
    BATCH_HEADER_SIZE,
    BATCH_LENGTH_AT,
    BATCH_ORIGIN_AT,
    BATCH_RESERVED_AT,
    CHECKED_SIZE,
    FIELD_SIZE,
    FIELD_SIZE_MAX,
    FRAME_HEADER_SIZE,
    FRAME_LENGTHS_AT,
    FRAME_RESERVED_AT,
    KIND_MAX,
    KIND_STRING,
    OFFSET_DELTA_AT,
    OLD_HEADERS_LENGTH_AT,
    OLD_SENT_HEADER_SIZE,
    SHORT_HEADER_SIZE,
    TIMESTAMP_DELTA_AT,
    is_utf8,
    is_well_formed,
)
from borzoi.protocol._log cimport digest
from borzoi.protocol._messages cimport (
    CHECKSUM_SIZE,
    COMPILED_VERSION,
    ENTRY_SIZE,
    ENTRY_TIMESTAMP_AT,
    HEADER_SIZE,
    ID_AT,
    ID_SIZE,
    LENGTHS_AT,
    OFFSET_AT,
    ORIGIN_TIMESTAMP_AT,
    POSITION_AT,
    load_u32,
    load_u64,
    store_u32,
    store_u64,
)

from borzoi.protocol import message, send_target
from borzoi.protocol.errors import (
    CannotReadIndexPosition,
    InvalidBatchChecksum,
    InvalidCommand,
    InvalidHeaderKey,
    InvalidHeaderValue,
    InvalidMessageChecksum,
    InvalidMessagesCount,
    InvalidMessagesSize,
    InvalidMessageTimestampDelta,
    InvalidOffset,
    MissingIndex,
    NonZeroOffset,
    NonZeroTimestamp,
    TooBigMessagePayload,
    TooBigUserHeaders,
)

LOOPS_VERSION = COMPILED_VERSION

cdef uint64_t METADATA_SIZE_MIN = send_target.METADATA_SIZE_MIN
cdef uint64_t METADATA_SIZE_MAX = send_target.METADATA_SIZE_MAX
cdef uint64_t PAYLOAD_SIZE_MAX = message.MESSAGE_PAYLOAD_SIZE_MAX
cdef uint64_t USER_HEADERS_SIZE_MAX = message.USER_HEADERS_SIZE_MAX


cdef struct Parts:
    # Where the parts of a message lie in what arrived.
    const uint8_t *id
    uint64_t origin_timestamp
    const uint8_t *payload
    uint64_t payload_size
    const uint8_t *headers
    uint64_t headers_size


def find_consensus_send(payload, dict routes not None):
    cdef Py_buffer view
    cdef const uint8_t *data
    cdef uint64_t size, metadata_size, batch_start, message_count
    cdef PyObject *route
    PyObject_GetBuffer(payload, &view, PyBUF_SIMPLE)
    try:
        data = <const uint8_t *>view.buf
        size = view.len
        if size <= METADATA_SIZE_MIN:
            return None
        metadata_size = load_u32(data)
        batch_start = metadata_size + 4
        if metadata_size > METADATA_SIZE_MAX or batch_start > size:
            return None
        key = PyBytes_FromStringAndSize(<const char *>data, metadata_size)
        route = PyDict_GetItemWithError(routes, key)
        if route is NULL:
            return None
        message_count = load_u32(data + metadata_size)
        batch = from_consensus(data + batch_start, size - batch_start, message_count)
        return <object>route, message_count, PyMemoryView_FromObject(batch)
    finally:
        PyBuffer_Release(&view)


def stored_from_consensus(body, uint64_t message_count):
    cdef Py_buffer view
    PyObject_GetBuffer(body, &view, PyBUF_SIMPLE)
    try:
        return from_consensus(<const uint8_t *>view.buf, view.len, message_count)
    finally:
        PyBuffer_Release(&view)


cdef bytearray from_consensus(const uint8_t *body, uint64_t size, uint64_t message_count):
    cdef uint64_t origin = 0, frames_size
    check_batch_header(body, size, message_count, &origin)
    frames_size = size - BATCH_HEADER_SIZE
    # All that frames can need: a stored header is 16 bytes longer than that of a frame.
    cdef bytearray stored = PyByteArray_FromStringAndSize(
        NULL, frames_size + message_count * (HEADER_SIZE - FRAME_HEADER_SIZE)
    )
    cdef uint8_t *checked = <uint8_t *>PyMem_Malloc(CHECKED_SIZE + message_count * CHECKSUM_SIZE)
    if checked is NULL:
        raise MemoryError
    try:
        memcpy(checked, body, BATCH_CHECKSUM_AT)
        memcpy(checked + BATCH_CHECKSUM_AT, body + BATCH_COUNT_AT, 4)
        copy_frames(
            body + BATCH_HEADER_SIZE,
            frames_size,
            message_count,
            origin,
            <uint8_t *>PyByteArray_AS_STRING(stored),
            checked + CHECKED_SIZE,
        )
        if digest(checked, CHECKED_SIZE + message_count * CHECKSUM_SIZE) != load_u64(
            body + BATCH_CHECKSUM_AT
        ):
            raise InvalidBatchChecksum("the batch does not match its checksum")
    finally:
        PyMem_Free(checked)
    return stored


cdef int check_batch_header(
    const uint8_t *body, uint64_t size, uint64_t message_count, uint64_t *origin
) except -1:
    """A count that passes leaves room for a header in each of so many frames."""
    cdef uint64_t count, length, at
    cdef uint8_t reserved = 0
    if size < BATCH_HEADER_SIZE:
        raise InvalidCommand(f"a batch header of {size} bytes, {BATCH_HEADER_SIZE} are needed")
    count = load_u32(body + BATCH_COUNT_AT)
    length = load_u64(body + BATCH_LENGTH_AT)
    if count != message_count or count == 0:
        raise InvalidMessagesCount(f"{count} messages in the batch, {message_count} in the request")
    if length != size:
        raise InvalidMessagesSize(f"a batch of {length} bytes in room for {size}")
    for at in range(BATCH_RESERVED_AT, BATCH_HEADER_SIZE):
        reserved |= body[at]
    if reserved:
        raise InvalidCommand("the reserved bytes of the batch header are not 0")
    if count > (size - BATCH_HEADER_SIZE) // FRAME_HEADER_SIZE:
        raise InvalidMessagesSize(f"{count} messages in a batch of {length} bytes")
    origin[0] = load_u64(body + BATCH_ORIGIN_AT)
    return 0


cdef int copy_frames(
    const uint8_t *frame,
    uint64_t room,
    uint64_t message_count,
    uint64_t origin,
    uint8_t *stored,
    uint8_t *checksums,
) except -1:
    """`stored` has 16 bytes more for each frame than the `room` of all frames together."""
    cdef uint64_t number, headers_size, payload_size, frame_size, timestamp_delta, checksum
    cdef uint64_t offset_delta
    for number in range(message_count):
        if room < FRAME_HEADER_SIZE:
            raise InvalidMessagesSize(f"the header of message {number} is cut short")
        headers_size = load_u32(frame + FRAME_LENGTHS_AT)
        payload_size = load_u32(frame + FRAME_LENGTHS_AT + 4)
        frame_size = FRAME_HEADER_SIZE + headers_size + payload_size
        if frame_size > room:
            raise InvalidMessagesSize(f"message {number} is cut short")
        check_limits(number, headers_size, payload_size)
        if load_u64(frame + FRAME_RESERVED_AT) or (
            load_u64(frame + ID_AT) == 0 and load_u64(frame + ID_AT + 8) == 0
        ):
            raise InvalidCommand(f"message {number} has no id, or a reserved field that is not 0")
        offset_delta = load_u32(frame + OFFSET_DELTA_AT)
        if offset_delta != number:
            raise InvalidOffset(f"message {number} has offset delta {offset_delta}")
        timestamp_delta = load_u32(frame + TIMESTAMP_DELTA_AT)
        if timestamp_delta > UINT64_MAX - origin:
            raise InvalidMessageTimestampDelta(f"message {number} was made after all time")
        checksum = load_u64(frame)
        if digest(frame + CHECKSUM_SIZE, frame_size - CHECKSUM_SIZE) != checksum:
            raise InvalidMessageChecksum(f"message {number} does not match its checksum")
        store_u64(checksums, checksum)
        checksums += CHECKSUM_SIZE
        store_header(stored, frame + ID_AT, origin + timestamp_delta, headers_size, payload_size)
        memcpy(stored + HEADER_SIZE, frame + FRAME_HEADER_SIZE, frame_size - FRAME_HEADER_SIZE)
        stored += frame_size + (HEADER_SIZE - FRAME_HEADER_SIZE)
        frame += frame_size
        room -= frame_size
    if room:
        raise InvalidMessagesSize(f"{room} bytes behind the last message of a batch")
    return 0


def stored_from_old(messages, uint64_t origin_timestamp=0):
    cdef Py_buffer view
    cdef const uint8_t *data
    cdef uint64_t size, at = 0, count = 0, total = 0
    cdef Parts parts
    parts.origin_timestamp = origin_timestamp
    PyObject_GetBuffer(messages, &view, PyBUF_SIMPLE)
    try:
        data = <const uint8_t *>view.buf
        size = view.len
        while at < size:
            at = read_old(data, size, at, count, &parts)
            total += HEADER_SIZE + parts.payload_size
            total += keyed(parts.headers, parts.headers_size, NULL, 0)
            count += 1
        if count == 0:
            raise InvalidMessagesCount
        return count, old_stored(data, size, origin_timestamp, total)
    finally:
        PyBuffer_Release(&view)


cdef bytearray old_stored(
    const uint8_t *data, uint64_t size, uint64_t origin_timestamp, uint64_t total
):
    cdef bytearray stored = PyByteArray_FromStringAndSize(NULL, total)
    cdef uint8_t *to = <uint8_t *>PyByteArray_AS_STRING(stored)
    cdef uint64_t at = 0, count = 0, written, room = total
    cdef Parts parts
    parts.origin_timestamp = origin_timestamp
    while at < size:
        at = read_old(data, size, at, count, &parts)
        written = store_message(&parts, to, room)
        to += written
        room -= written
        count += 1
    if room:
        raise AssertionError("the messages changed while they were read")
    return stored


cdef uint64_t read_old(
    const uint8_t *data, uint64_t size, uint64_t at, uint64_t number, Parts *parts
) except 0:
    """Find the parts of the message at `at`, not beyond `size`; returns where it ends."""
    cdef uint64_t room = size - at
    parts.id = data + at
    if room < OLD_SENT_HEADER_SIZE:
        raise InvalidCommand(f"the header of message {number} is cut short")
    parts.headers_size = load_u32(parts.id + OLD_HEADERS_LENGTH_AT)
    parts.headers = parts.id + OLD_SENT_HEADER_SIZE
    room -= OLD_SENT_HEADER_SIZE
    if room < parts.headers_size + 4:
        raise InvalidCommand(f"the user headers of message {number} are cut short")
    parts.payload_size = load_u32(parts.headers + parts.headers_size)
    parts.payload = parts.headers + parts.headers_size + 4
    room -= parts.headers_size + 4
    if room < parts.payload_size or parts.payload_size == 0:
        raise InvalidCommand(f"message {number} has no payload, or is cut short")
    check_limits(number, parts.headers_size, parts.payload_size)
    return size - (room - parts.payload_size)


def stored_from_short(indexes, messages, uint64_t message_count):
    cdef Py_buffer index_view, message_view
    cdef uint64_t total
    PyObject_GetBuffer(indexes, &index_view, PyBUF_SIMPLE)
    try:
        PyObject_GetBuffer(messages, &message_view, PyBUF_SIMPLE)
        try:
            # Not an assert statement: those can be switched off.
            if (
                message_count > UINT32_MAX
                or <uint64_t>index_view.len != message_count * ENTRY_SIZE
            ):
                raise AssertionError("one index entry for each message")
            total = check_short(
                <const uint8_t *>index_view.buf,
                <const uint8_t *>message_view.buf,
                message_view.len,
                message_count,
            )
            return short_stored(<const uint8_t *>message_view.buf, message_view.len, total)
        finally:
            PyBuffer_Release(&message_view)
    finally:
        PyBuffer_Release(&index_view)


cdef uint64_t check_short(
    const uint8_t *entry, const uint8_t *messages, uint64_t size, uint64_t message_count
) except? 1:
    """`entry` is the first of so many. Returns how many bytes the stored messages have."""
    cdef uint64_t number, position, end, room, offset, message_size, index_offset, timestamp
    cdef uint64_t headers_size, payload_size
    cdef uint64_t start = 0, total = 0, header_offset = 0, stored_size = 0
    for number in range(message_count):
        index_offset = load_u32(entry)
        position = load_u32(entry + POSITION_AT)
        timestamp = load_u64(entry + ENTRY_TIMESTAMP_AT)
        entry += ENTRY_SIZE
        if index_offset:
            raise NonZeroOffset(f"index entry {number} has offset {index_offset}")
        if timestamp:
            raise NonZeroTimestamp(f"index entry {number} has timestamp {timestamp}")
        # The last message owns all that is left, whatever its entry says.
        end = size if number == message_count - 1 else position
        if end > size or end < start or end - start < SHORT_HEADER_SIZE:
            raise MissingIndex(f"message {number} has no room between {start} and {end}")
        room = end - start
        offset = load_u64(messages + start + OFFSET_AT)
        headers_size = load_u32(messages + start + LENGTHS_AT)
        payload_size = load_u32(messages + start + LENGTHS_AT + 4)
        message_size = SHORT_HEADER_SIZE + headers_size + payload_size
        if message_size > room:
            raise MissingIndex(f"message {number} has {message_size} bytes in room for {room}")
        check_limits(number, headers_size, payload_size)
        if offset < header_offset:
            raise InvalidOffset(f"offset {offset} of message {number} follows {header_offset}")
        if position < start:
            raise CannotReadIndexPosition(f"position {position} follows {start}")
        stored_size += HEADER_SIZE + payload_size + keyed(
            messages + start + SHORT_HEADER_SIZE + payload_size, headers_size, NULL, 0
        )
        header_offset = offset
        total += message_size
        start = position
    if total != size:
        raise InvalidMessagesSize(f"{total} bytes of messages in a batch of {size}")
    return stored_size


cdef bytearray short_stored(const uint8_t *data, uint64_t size, uint64_t total):
    """The messages lie back to back: none of them leaves bytes of its room, or the sum of their
    sizes would not have been that of all rooms."""
    cdef bytearray stored = PyByteArray_FromStringAndSize(NULL, total)
    cdef uint8_t *to = <uint8_t *>PyByteArray_AS_STRING(stored)
    cdef uint64_t left = size, room = total, written
    cdef Parts parts
    while left >= SHORT_HEADER_SIZE:
        parts.id = data + ID_AT
        parts.origin_timestamp = load_u64(data + ORIGIN_TIMESTAMP_AT)
        parts.headers_size = load_u32(data + LENGTHS_AT)
        parts.payload_size = load_u32(data + LENGTHS_AT + 4)
        left -= SHORT_HEADER_SIZE
        if parts.headers_size + parts.payload_size > left:
            break
        parts.payload = data + SHORT_HEADER_SIZE
        parts.headers = parts.payload + parts.payload_size
        data = parts.headers + parts.headers_size
        left -= parts.headers_size + parts.payload_size
        written = store_message(&parts, to, room)
        to += written
        room -= written
    if left or room:
        raise AssertionError("the messages changed while they were read")
    return stored


cdef int check_limits(uint64_t number, uint64_t headers_size, uint64_t payload_size) except -1:
    if payload_size > PAYLOAD_SIZE_MAX:
        raise TooBigMessagePayload(f"message {number} has {payload_size} bytes of payload")
    if headers_size > USER_HEADERS_SIZE_MAX:
        raise TooBigUserHeaders(f"message {number} has {headers_size} bytes of headers")
    return 0


cdef uint64_t store_message(const Parts *parts, uint8_t *to, uint64_t room) except 0:
    """Write a message whose user headers have bare keys; returns its size."""
    cdef uint64_t headers_size, body_size = HEADER_SIZE + parts.payload_size
    if room < body_size:
        raise AssertionError("the messages changed while they were read")
    headers_size = keyed(parts.headers, parts.headers_size, to + body_size, room - body_size)
    store_header(to, parts.id, parts.origin_timestamp, headers_size, parts.payload_size)
    memcpy(to + HEADER_SIZE, parts.payload, parts.payload_size)
    return body_size + headers_size


cdef inline void store_header(
    uint8_t *to, const uint8_t *id, uint64_t origin, uint64_t headers_size, uint64_t payload_size
) noexcept:
    memset(to, 0, HEADER_SIZE)
    memcpy(to + ID_AT, id, ID_SIZE)
    store_u64(to + ORIGIN_TIMESTAMP_AT, origin)
    store_u32(to + LENGTHS_AT, <unsigned int>headers_size)
    store_u32(to + LENGTHS_AT + 4, <unsigned int>payload_size)


cdef uint64_t keyed(
    const uint8_t *block, uint64_t size, uint8_t *to, uint64_t room
) except? 1:
    """Put the kind before each key of a block; returns the new size. `to` NULL: only measure."""
    cdef uint64_t at = 0, end, written = 0
    while at < size:
        end = end_of_pair(block, size, at)
        if to is not NULL:
            if room - written < end - at + 1:
                raise AssertionError("the user headers changed while they were read")
            to[written] = KIND_STRING
            memcpy(to + written + 1, block + at, end - at)
        written += end - at + 1
        at = end
    if written > USER_HEADERS_SIZE_MAX:
        raise TooBigUserHeaders(f"{written} bytes of headers once their keys have kinds")
    return written


cdef uint64_t end_of_pair(const uint8_t *block, uint64_t size, uint64_t at) except 0:
    """Where the pair at `at`, not beyond `size`, ends."""
    cdef uint64_t key_size, value_size, room = size - at
    cdef uint8_t kind
    cdef const uint8_t *key = block + at + 4
    if room < 4:
        raise InvalidCommand("a header key is cut short")
    key_size = load_u32(block + at)
    room -= 4
    if key_size < 1 or key_size > FIELD_SIZE_MAX:
        raise InvalidHeaderKey(f"a header key of {key_size} bytes")
    if room < key_size + FIELD_SIZE:
        raise InvalidCommand("a header is cut short")
    room -= key_size + FIELD_SIZE
    if not is_utf8(key, key_size):
        raise InvalidHeaderKey("a header key that is not UTF-8")
    kind = key[key_size]
    value_size = load_u32(key + key_size + 1)
    if value_size > room:
        raise InvalidCommand("a header value is cut short")
    if kind < 1 or kind > KIND_MAX:
        raise InvalidCommand(f"a header value of kind {kind}")
    if not is_well_formed(kind, value_size):
        raise InvalidHeaderValue(f"a value of kind {kind} with {value_size} bytes")
    return size - (room - value_size)
