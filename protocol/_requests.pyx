# cython: language_level=3, binding=True
"""The loops over requests, compiled. Names and behaviour are those of plain_requests.py; what is
always true of compiled loops stands in _messages.pxd.
"""

from cpython.buffer cimport PyBUF_SIMPLE, PyBUF_WRITABLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_FromStringAndSize
from cpython.dict cimport PyDict_GetItemWithError
from cpython.object cimport PyObject
from cpython.unicode cimport PyUnicode_DecodeUTF8
from libc.stdint cimport UINT32_MAX, uint8_t, uint64_t

from borzoi.protocol._messages cimport (
    COMPILED_VERSION,
    ENTRY_SIZE,
    ENTRY_TIMESTAMP_AT,
    HEADER_SIZE,
    LENGTHS_AT,
    OFFSET_AT,
    POSITION_AT,
    load_u32,
    load_u64,
    store_u64,
)

from borzoi.protocol import message, send_target
from borzoi.protocol.errors import (
    CannotReadIndexPosition,
    InvalidCommand,
    InvalidIdentifier,
    InvalidMessagesCount,
    InvalidMessagesSize,
    InvalidOffset,
    MissingIndex,
    NonZeroOffset,
    NonZeroTimestamp,
    TooBigMessagePayload,
    TooBigUserHeaders,
)
from borzoi.protocol.identifiers import Balanced, MessagesKey, PartitionId

LOOPS_VERSION = COMPILED_VERSION

# Identifiers and partitionings, as in payload.py.
cdef enum:
    NUMERIC = 1
    STRING = 2
    NUMERIC_SIZE = 4
    BALANCED = 1
    PARTITION_ID = 2
    MESSAGES_KEY = 3

# As in plain_requests.py.
cdef enum:
    POLL_TAIL_SIZE = 14

cdef uint64_t METADATA_SIZE_MIN = send_target.METADATA_SIZE_MIN
cdef uint64_t METADATA_SIZE_MAX = send_target.METADATA_SIZE_MAX
cdef uint64_t PAYLOAD_SIZE_MAX = message.MESSAGE_PAYLOAD_SIZE_MAX
cdef uint64_t USER_HEADERS_SIZE_MAX = message.USER_HEADERS_SIZE_MAX

cdef object TO_ANY_PARTITION = Balanced()


def read_sent_batch(payload, uint64_t metadata_start, uint64_t metadata_end):
    cdef Py_buffer view
    cdef const uint8_t *data
    cdef uint64_t size, at, message_count, batch_start
    PyObject_GetBuffer(payload, &view, PyBUF_SIMPLE)
    try:
        data = <const uint8_t *>view.buf
        size = view.len
        if metadata_end > size:
            raise InvalidCommand("the metadata is cut short")
        at = metadata_start
        stream = identifier(data, &at, metadata_end)
        topic = identifier(data, &at, metadata_end)
        partitioning = read_partitioning(data, &at, metadata_end)
        if metadata_end - at < 4:
            raise InvalidCommand("the metadata has no message count")
        message_count = load_u32(data + at)
        batch_start = metadata_end + message_count * ENTRY_SIZE
        if batch_start > size:
            raise InvalidCommand("the index is cut short")
        if message_count == 0:
            raise InvalidMessagesCount
        check(data + metadata_end, data + batch_start, size - batch_start, message_count)
        return stream, topic, partitioning, message_count, batch_start
    finally:
        PyBuffer_Release(&view)


cdef object identifier(const uint8_t *data, uint64_t *at, uint64_t limit):
    """An identifier that ends before `limit`; `at`, never beyond `limit`, is moved behind it."""
    cdef uint64_t start = at[0] + 2
    cdef uint8_t kind, size
    if at[0] > limit or limit - at[0] < 2:
        raise InvalidIdentifier("an identifier is cut short")
    kind = data[at[0]]
    size = data[at[0] + 1]
    if limit - start < size:
        raise InvalidIdentifier("an identifier is cut short")
    at[0] = start + size
    if kind == NUMERIC and size == NUMERIC_SIZE:
        return load_u32(data + start)
    if kind == STRING and size > 0:
        return PyUnicode_DecodeUTF8(<const char *>data + start, size, "surrogateescape")
    raise InvalidIdentifier(f"an identifier of kind {kind} with {size} bytes")


cdef object read_partitioning(const uint8_t *data, uint64_t *at, uint64_t limit):
    cdef uint64_t start = at[0] + 2
    cdef uint8_t kind, size
    if limit - at[0] < 2:
        raise InvalidCommand("the partitioning is cut short")
    kind = data[at[0]]
    size = data[at[0] + 1]
    if limit - start < size:
        raise InvalidCommand("the partitioning is cut short")
    at[0] = start + size
    if kind == PARTITION_ID and size == NUMERIC_SIZE:
        return PartitionId(load_u32(data + start))
    if kind == BALANCED and size == 0:
        return TO_ANY_PARTITION
    if kind == MESSAGES_KEY:
        return MessagesKey(PyBytes_FromStringAndSize(<const char *>data + start, size))
    raise InvalidCommand(f"a partitioning of kind {kind} with {size} bytes")


def check_sent_batch(indexes, messages, uint64_t message_count):
    cdef Py_buffer index_view, message_view
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
            check(
                <const uint8_t *>index_view.buf,
                <const uint8_t *>message_view.buf,
                message_view.len,
                message_count,
            )
        finally:
            PyBuffer_Release(&message_view)
    finally:
        PyBuffer_Release(&index_view)


def find_send(payload, dict routes not None):
    cdef Py_buffer view
    cdef uint8_t *data
    cdef uint64_t size, metadata_size, index_start, message_count, batch_start
    cdef PyObject *route
    PyObject_GetBuffer(payload, &view, PyBUF_WRITABLE)
    try:
        data = <uint8_t *>view.buf
        size = view.len
        if size <= METADATA_SIZE_MIN:
            return None
        metadata_size = load_u32(data)
        index_start = metadata_size + 4
        if metadata_size > METADATA_SIZE_MAX or index_start > size:
            return None
        key = PyBytes_FromStringAndSize(<const char *>data, metadata_size)
        route = PyDict_GetItemWithError(routes, key)
        if route is NULL:
            return None
        message_count = load_u32(data + metadata_size)
        batch_start = index_start + message_count * ENTRY_SIZE
        if message_count == 0 or batch_start >= size:
            return None
        check(data + index_start, data + batch_start, size - batch_start, message_count)
        store_u64(data + batch_start, 0)
        return <object>route, message_count, batch_start
    finally:
        PyBuffer_Release(&view)


def find_poll(payload, dict routes not None):
    cdef Py_buffer view
    cdef const uint8_t *tail
    cdef PyObject *route
    PyObject_GetBuffer(payload, &view, PyBUF_SIMPLE)
    try:
        if view.len <= POLL_TAIL_SIZE:
            return None
        tail = <const uint8_t *>view.buf + view.len - POLL_TAIL_SIZE
        key = PyBytes_FromStringAndSize(<const char *>view.buf, view.len - POLL_TAIL_SIZE)
        route = PyDict_GetItemWithError(routes, key)
        if route is NULL:
            return None
        # Strategy, its value, count, auto-commit.
        return <object>route, tail[0], load_u64(tail + 1), load_u32(tail + 9), tail[13]
    finally:
        PyBuffer_Release(&view)


cdef int check(
    const uint8_t *entry, const uint8_t *messages, uint64_t size, uint64_t message_count
) except -1:
    """`entry` is the first of so many."""
    cdef uint64_t number, position, end, room, offset, message_size, index_offset, timestamp
    cdef uint64_t user_headers_length, payload_length
    cdef uint64_t start = 0, total = 0, header_offset = 0
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
        if end > size or end < start or end - start < HEADER_SIZE:
            raise MissingIndex(f"message {number} has no room between {start} and {end}")
        room = end - start
        offset = load_u64(messages + start + OFFSET_AT)
        user_headers_length = load_u32(messages + start + LENGTHS_AT)
        payload_length = load_u32(messages + start + LENGTHS_AT + 4)
        message_size = HEADER_SIZE + user_headers_length + payload_length
        if message_size > room:
            raise MissingIndex(f"message {number} has {message_size} bytes in room for {room}")
        if payload_length > PAYLOAD_SIZE_MAX:
            raise TooBigMessagePayload(f"message {number} has {payload_length} bytes of payload")
        if user_headers_length > USER_HEADERS_SIZE_MAX:
            raise TooBigUserHeaders(f"message {number} has {user_headers_length} bytes of headers")
        if offset < header_offset:
            raise InvalidOffset(f"offset {offset} of message {number} follows {header_offset}")
        if position < start:
            raise CannotReadIndexPosition(f"position {position} follows {start}")
        header_offset = offset
        total += message_size
        start = position
    if total != size:
        raise InvalidMessagesSize(f"{total} bytes of messages in a batch of {size}")
    return 0
