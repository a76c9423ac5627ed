# cython: language_level=3, binding=True
"""The loops over messages, compiled. Names and behaviour are those of plain_loops.py.

Always: nothing outside the buffers given is read or written. Lengths come from clients and from
shared memory, so each is read once, into a local, and compared with what is left of the buffer
before anything is done with it. Numbers of messages and positions are unsigned and 64 bits wide;
lengths have 32, so sums of a few of them cannot overflow.

Messages are little-endian (_messages.pxd reaches into them); on other machines this module refuses
to be imported and the plain loops run.

The GIL is kept: 8 MB are stamped in 1 ms, the largest message of 64 MB in 8 ms, and whoever gives
the GIL away may have to wait 5 ms to get it back from another thread.

Views must be contiguous, as all views on buffers, files and arenas here are.
"""

import sys

import xxhash

from cpython.buffer cimport (
    PyBUF_SIMPLE,
    PyBUF_WRITABLE,
    PyBuffer_Release,
    PyObject_GetBuffer,
)
from cpython.bytearray cimport PyByteArray_AS_STRING, PyByteArray_FromStringAndSize, PyByteArray_Resize
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from cpython.dict cimport PyDict_GetItemWithError
from cpython.memoryview cimport PyMemoryView_FromMemory
from cpython.unicode cimport PyUnicode_DecodeUTF8
from cpython.object cimport PyObject
from libc.stdint cimport UINT64_MAX, int64_t, uint8_t, uint32_t, uint64_t, uintptr_t
from libc.string cimport memcmp, memcpy, memset

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
    RESERVED_AT,
    TIMESTAMP_AT,
    body_size,
    load_u32,
    load_u64,
    store_u32,
    store_u64,
)

from borzoi.protocol import message as message_limits
from borzoi.protocol import send_target
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
from borzoi.protocol.message import Message
from borzoi.protocol.plain_loops import SEED_SIZE, Scan

if sys.byteorder != "little":
    raise ImportError("the compiled loops are for little-endian machines")

cdef extern from "Python.h":
    enum:
        PyBUF_READ
    int PyObject_GenericSetAttr(object, object, object) except -1

LOOPS_VERSION = COMPILED_VERSION

# Identifiers and partitionings, as in payload.py.
cdef enum:
    NUMERIC = 1
    STRING = 2
    NUMERIC_SIZE = 4
    BALANCED = 1
    PARTITION_ID = 2
    MESSAGES_KEY = 3

# Requests, as in send_target.py and plain_loops.py.
cdef enum:
    POLL_TAIL_SIZE = 14

cdef uint64_t U32_MAX = 0xFFFF_FFFF
cdef uint64_t METADATA_SIZE_MIN = send_target.METADATA_SIZE_MIN
cdef uint64_t METADATA_SIZE_MAX = send_target.METADATA_SIZE_MAX
cdef uint64_t PAYLOAD_SIZE_MAX = message_limits.MESSAGE_PAYLOAD_SIZE_MAX
cdef uint64_t USER_HEADERS_SIZE_MAX = message_limits.USER_HEADERS_SIZE_MAX
cdef uint64_t STORED_HEADERS_SIZE_MAX = message_limits.STORED_HEADERS_SIZE_MAX

# Enough entries for a few hundred messages without growing.
cdef enum:
    ENTRIES_SIZE_FIRST = 4096

cdef object new_message = Message.__new__
cdef object TO_ANY_PARTITION = Balanced()

ctypedef uint64_t (*Hash)(const void *, size_t) noexcept nogil

cdef Hash hash_function = NULL


def use_hash(uintptr_t address):
    """Hash with the C function XXH3_64bits at this address; 0: with the xxhash package."""
    global hash_function
    hash_function = <Hash><void *>address


cdef inline uint64_t digest(const uint8_t *start, uint64_t size) except? 0:
    if hash_function is not NULL:
        return hash_function(start, size)
    return xxhash.xxh3_64_intdigest(PyMemoryView_FromMemory(<char *>start, size, PyBUF_READ))


cdef inline void store_entry(
    uint8_t *entry, uint32_t relative_offset, uint32_t position, uint64_t timestamp
) noexcept nogil:
    store_u32(entry, relative_offset)
    store_u32(entry + POSITION_AT, position)
    store_u64(entry + ENTRY_TIMESTAMP_AT, timestamp)


# A request.


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
                message_count > U32_MAX
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


# The log.


def stamp_batch(
    batch,
    uint64_t message_count,
    uint64_t first_offset,
    uint64_t timestamp,
    random_bytes,
    uint64_t segment_first_offset,
    uint64_t position,
):
    cdef Py_buffer view
    PyObject_GetBuffer(batch, &view, PyBUF_WRITABLE)
    try:
        return stamp(
            <uint8_t *>view.buf,
            view.len,
            message_count,
            first_offset,
            timestamp,
            random_bytes,
            segment_first_offset,
            position,
        )
    finally:
        PyBuffer_Release(&view)


cdef bytearray stamp(
    uint8_t *batch,
    uint64_t size,
    uint64_t message_count,
    uint64_t first_offset,
    uint64_t timestamp,
    random_bytes,
    uint64_t segment_first_offset,
    uint64_t position,
):
    cdef uint64_t number, at = 0, end, nameless_count = 0, relative_offset
    cdef bint is_nameless
    cdef uint8_t *header
    cdef uint8_t *entry
    cdef bytes random
    cdef const uint8_t *new_id = NULL
    if message_count > size // HEADER_SIZE:
        raise InvalidMessagesSize(f"a message header runs over the end at {size}")
    cdef bytearray entries = PyByteArray_FromStringAndSize(NULL, message_count * ENTRY_SIZE)
    # First a look at all messages. What is found is kept in the entries, where no other process
    # can change it: the end of each message, and in place of its time whether it has no id.
    entry = <uint8_t *>PyByteArray_AS_STRING(entries)
    for number in range(message_count):
        if at > size or size - at < HEADER_SIZE:
            raise InvalidMessagesSize(f"a message header runs over the end at {size}")
        header = batch + at
        at += HEADER_SIZE + body_size(header)
        is_nameless = load_u64(header + ID_AT) == 0 and load_u64(header + ID_AT + 8) == 0
        nameless_count += is_nameless
        store_entry(entry, 0, <uint32_t>at, is_nameless)
        entry += ENTRY_SIZE
    if at != size:
        raise InvalidMessagesSize(f"{at} bytes of messages in a batch of {size}")
    # Not assert statements: those can be switched off, and then the ends would not fit.
    if first_offset < segment_first_offset:
        raise AssertionError("the batch begins before its segment")
    relative_offset = first_offset - segment_first_offset
    if relative_offset > U32_MAX + 1 or relative_offset + message_count > U32_MAX + 1:
        raise AssertionError("the segment has too many messages")
    if position > U32_MAX or size > U32_MAX - position:
        raise AssertionError("the segment is too large")
    if nameless_count:
        random = random_bytes(nameless_count * ID_SIZE)
        if <uint64_t>len(random) != nameless_count * ID_SIZE:
            raise AssertionError("other than the number of random bytes asked for")
        new_id = random

    at = 0
    entry = <uint8_t *>PyByteArray_AS_STRING(entries)
    for number in range(message_count):
        header = batch + at
        end = load_u32(entry + POSITION_AT)
        if load_u64(entry + ENTRY_TIMESTAMP_AT):
            memcpy(header + ID_AT, new_id, ID_SIZE)
            # A random UUID: version 4 and variant.
            header[ID_AT + 6] = header[ID_AT + 6] & 0x0F | 0x40
            header[ID_AT + 8] = header[ID_AT + 8] & 0x3F | 0x80
            new_id += ID_SIZE
        store_u64(header + OFFSET_AT, first_offset + number)
        store_u64(header + TIMESTAMP_AT, timestamp)
        store_u64(header + RESERVED_AT, 0)
        store_u64(header, digest(header + CHECKSUM_SIZE, end - at - CHECKSUM_SIZE))
        store_entry(
            entry, <uint32_t>(relative_offset + number), <uint32_t>(position + end), timestamp
        )
        entry += ENTRY_SIZE
        at = end
    return entries


cdef uint64_t end_of_sound_message(
    const uint8_t *data, uint64_t size, uint64_t at, uint64_t expected_offset
) except? 0:
    """Where the sound message at `at`, not beyond `size`, ends; 0 when there is none."""
    cdef const uint8_t *header = data + at
    cdef uint64_t user_headers_length, payload_length, message_size
    if size - at < HEADER_SIZE:
        return 0
    user_headers_length = load_u32(header + LENGTHS_AT)
    payload_length = load_u32(header + LENGTHS_AT + 4)
    if (
        load_u64(header + OFFSET_AT) != expected_offset
        or load_u64(header + RESERVED_AT)
        or payload_length > PAYLOAD_SIZE_MAX
        or user_headers_length > STORED_HEADERS_SIZE_MAX
    ):
        return 0
    message_size = HEADER_SIZE + user_headers_length + payload_length
    if message_size > size - at:
        return 0
    if digest(header + CHECKSUM_SIZE, message_size - CHECKSUM_SIZE) != load_u64(header):
        return 0
    return at + message_size


def scan_log(
    view,
    uint64_t first_offset,
    *,
    uint64_t segment_first_offset,
    uint64_t position,
    uint64_t timestamp_min=0,
):
    cdef Py_buffer buffer
    cdef const uint8_t *data
    cdef uint64_t size, at = 0, end, count = 0, relative_offset, timestamp = timestamp_min
    cdef uint64_t room = ENTRIES_SIZE_FIRST // ENTRY_SIZE
    cdef bytearray entries
    # Wraps when the walk begins before its segment; the loop looks before it uses it.
    relative_offset = first_offset - segment_first_offset
    PyObject_GetBuffer(view, &buffer, PyBUF_SIMPLE)
    try:
        data = <const uint8_t *>buffer.buf
        size = buffer.len
        room = min(room, size // HEADER_SIZE)
        entries = PyByteArray_FromStringAndSize(NULL, room * ENTRY_SIZE)
        while True:
            end = end_of_sound_message(data, size, at, first_offset + count)
            if end == 0:
                break
            if first_offset < segment_first_offset:
                raise AssertionError("the walk begins before its segment")
            if relative_offset > U32_MAX:
                break
            if position > U32_MAX or end > U32_MAX - position:
                break
            if count == room:
                room *= 2
                PyByteArray_Resize(entries, room * ENTRY_SIZE)
            timestamp = max(timestamp, load_u64(data + at + TIMESTAMP_AT))
            store_entry(
                <uint8_t *>PyByteArray_AS_STRING(entries) + count * ENTRY_SIZE,
                <uint32_t>relative_offset,
                <uint32_t>(position + end),
                timestamp,
            )
            relative_offset += 1
            count += 1
            at = end
            if first_offset + (count - 1) == UINT64_MAX:
                break  # no offset follows this one
        PyByteArray_Resize(entries, count * ENTRY_SIZE)
        return Scan(entries, at, count, timestamp)
    finally:
        PyBuffer_Release(&buffer)


def first_bad_message(view, uint64_t message_count, uint64_t first_offset):
    cdef Py_buffer buffer
    cdef uint64_t number, at = 0
    PyObject_GetBuffer(view, &buffer, PyBUF_SIMPLE)
    try:
        for number in range(message_count):
            if number <= UINT64_MAX - first_offset:
                at = end_of_sound_message(
                    <const uint8_t *>buffer.buf, buffer.len, at, first_offset + number
                )
            else:
                at = 0  # an offset no message can have
            if at == 0:
                return <object>first_offset + number
        if at == <uint64_t>buffer.len:
            return None
        return <object>first_offset + message_count
    finally:
        PyBuffer_Release(&buffer)


def matching_messages(batch_stamped, stored):
    cdef Py_buffer ours, theirs
    cdef const uint8_t *ours_at
    cdef const uint8_t *theirs_at
    cdef uint64_t limit, at = 0, count = 0
    PyObject_GetBuffer(batch_stamped, &ours, PyBUF_SIMPLE)
    try:
        PyObject_GetBuffer(stored, &theirs, PyBUF_SIMPLE)
        try:
            limit = min(<uint64_t>ours.len, <uint64_t>theirs.len)
            while limit - at >= HEADER_SIZE:
                ours_at = <const uint8_t *>ours.buf + at
                theirs_at = <const uint8_t *>theirs.buf + at
                if memcmp(ours_at, theirs_at, HEADER_SIZE):
                    break
                at += HEADER_SIZE + body_size(theirs_at)
                if at > limit:
                    break
                count += 1
            return count
        finally:
            PyBuffer_Release(&theirs)
    finally:
        PyBuffer_Release(&ours)


def first_at_or_after(entries, uint64_t message_count, uint64_t timestamp):
    cdef Py_buffer view
    cdef const uint8_t *data
    cdef uint64_t low = 0, high = message_count, middle
    PyObject_GetBuffer(entries, &view, PyBUF_SIMPLE)
    try:
        if message_count > <uint64_t>view.len // ENTRY_SIZE:
            raise AssertionError("fewer entries than messages")
        data = <const uint8_t *>view.buf
        while low < high:
            middle = (low + high) // 2
            if load_u64(data + middle * ENTRY_SIZE + ENTRY_TIMESTAMP_AT) < timestamp:
                low = middle + 1
            else:
                high = middle
        return low
    finally:
        PyBuffer_Release(&view)


# Walks over messages that are only counted or handed out.


cdef uint64_t end_of_message(const uint8_t *data, uint64_t size, uint64_t at) except 0:
    """Where the message at `at`, not beyond `size`, ends; it ends within `size`."""
    cdef uint64_t message_size
    if size - at < HEADER_SIZE:
        raise InvalidMessagesSize(f"a message header runs over the end at {size}")
    message_size = HEADER_SIZE + body_size(data + at)
    if message_size > size - at:
        raise InvalidMessagesSize(f"a message runs over the end at {size}")
    return at + message_size


def message_start(batch, uint64_t number):
    cdef Py_buffer view
    cdef uint64_t before, at = 0
    PyObject_GetBuffer(batch, &view, PyBUF_SIMPLE)
    try:
        for before in range(number):
            at = end_of_message(<const uint8_t *>view.buf, view.len, at)
        return at
    finally:
        PyBuffer_Release(&view)


def sent_index(batch, uint64_t message_count):
    cdef Py_buffer view
    cdef bytearray entries
    cdef uint8_t *entry
    cdef uint64_t at = 0, number
    PyObject_GetBuffer(batch, &view, PyBUF_SIMPLE)
    try:
        if message_count > <uint64_t>view.len // HEADER_SIZE:
            raise InvalidMessagesSize(f"a message header runs over the end at {view.len}")
        entries = PyByteArray_FromStringAndSize(NULL, message_count * ENTRY_SIZE)
        entry = <uint8_t *>PyByteArray_AS_STRING(entries)
        for number in range(message_count):
            at = end_of_message(<const uint8_t *>view.buf, view.len, at)
            if at > U32_MAX:
                raise AssertionError("the batch is too large")
            store_entry(entry, 0, <uint32_t>at, 0)
            entry += ENTRY_SIZE
        return entries
    finally:
        PyBuffer_Release(&view)


def encode_batch(messages):
    cdef bytearray index = PyByteArray_FromStringAndSize(NULL, len(messages) * ENTRY_SIZE)
    cdef list parts = [index]
    cdef uint64_t number = 0, count = len(messages), end = 0
    cdef bytes payload, user_headers, id
    cdef uint8_t header[HEADER_SIZE]
    for message in messages:
        if number == count:
            raise AssertionError("the sequence of messages has grown")
        payload = as_bytes(message.payload)
        user_headers = as_bytes(message.user_headers)
        id = message.id.to_bytes(ID_SIZE, "little")
        end += HEADER_SIZE + len(payload) + len(user_headers)
        if end > U32_MAX:
            raise AssertionError("the batch is too large")
        store_u64(header, message.checksum)
        memcpy(header + ID_AT, <const char *>id, ID_SIZE)
        store_u64(header + OFFSET_AT, message.offset)
        store_u64(header + TIMESTAMP_AT, message.timestamp)
        store_u64(header + ORIGIN_TIMESTAMP_AT, message.origin_timestamp)
        store_u32(header + LENGTHS_AT, <uint32_t>len(user_headers))
        store_u32(header + LENGTHS_AT + 4, <uint32_t>len(payload))
        store_u64(header + RESERVED_AT, 0)
        parts.append(PyBytes_FromStringAndSize(<const char *>header, HEADER_SIZE))
        parts.append(payload)
        parts.append(user_headers)
        store_entry(
            <uint8_t *>PyByteArray_AS_STRING(index) + number * ENTRY_SIZE, 0, <uint32_t>end, 0
        )
        number += 1
    if number != count:
        raise AssertionError("the sequence of messages has shrunk")
    return b"".join(parts)


def encode_outgoing(messages, uint64_t origin_timestamp, bytes new_ids=b""):
    cdef list items = list(messages), parts = []
    cdef uint64_t count = len(items), number, origin, index_size = count * ENTRY_SIZE, end = 0
    cdef uint64_t payload_size, headers_size
    cdef bytes payload, user_headers, id, encoded
    cdef uint8_t *entry
    cdef uint8_t *at
    if new_ids and <uint64_t>len(new_ids) != count * ID_SIZE:
        raise AssertionError("not one new id per message")
    # The sizes first, so that everything is written once, to where it stays. What is read from a
    # Message is kept: it need not be the same when it is asked again.
    for item in items:
        if type(item) is bytes:
            end += HEADER_SIZE + len(<bytes>item)
        else:
            payload = as_bytes(item.payload)
            user_headers = as_bytes(item.user_headers)
            id = item.id.to_bytes(ID_SIZE, "little")
            origin = item.origin_timestamp
            parts.append((payload, user_headers, id, origin))
            end += HEADER_SIZE + len(payload) + len(user_headers)
        if end > U32_MAX:
            raise AssertionError("the batch is too large")
    encoded = PyBytes_FromStringAndSize(NULL, <Py_ssize_t>(index_size + end))
    entry = <uint8_t *>PyBytes_AS_STRING(encoded)
    at = entry + index_size
    end = 0
    parts.reverse()
    for number in range(count):
        item = items[number]
        memset(at, 0, HEADER_SIZE)
        origin = 0
        headers_size = 0
        if type(item) is bytes:
            payload = item
        else:
            payload, user_headers, id, kept_origin = parts.pop()
            origin = kept_origin
            headers_size = len(user_headers)
            memcpy(at + ID_AT, <const char *>id, ID_SIZE)
        if new_ids and not load_u64(at + ID_AT) and not load_u64(at + ID_AT + 8):
            memcpy(at + ID_AT, <const char *>new_ids + number * ID_SIZE, ID_SIZE)
        payload_size = len(payload)
        store_u64(at + ORIGIN_TIMESTAMP_AT, origin if origin else origin_timestamp)
        store_u32(at + LENGTHS_AT, <uint32_t>headers_size)
        store_u32(at + LENGTHS_AT + 4, <uint32_t>payload_size)
        at += HEADER_SIZE
        memcpy(at, <const char *>payload, payload_size)
        at += payload_size
        if headers_size:
            memcpy(at, <const char *>user_headers, headers_size)
            at += headers_size
        end += HEADER_SIZE + payload_size + headers_size
        store_entry(entry, 0, <uint32_t>end, 0)
        entry += ENTRY_SIZE
    return encoded


cdef bytes as_bytes(part):
    return part if type(part) is bytes else b"".join((part,))


cdef inline int set_u64(message, str name, const uint8_t *at) except -1:
    return PyObject_GenericSetAttr(message, name, load_u64(at))


def decode_batch(view, uint64_t at=0):
    cdef Py_buffer buffer
    cdef const uint8_t *header
    cdef uint64_t size, payload_length, user_headers_length, id_low, id_high
    cdef list messages = []
    PyObject_GetBuffer(view, &buffer, PyBUF_SIMPLE)
    try:
        size = buffer.len
        while at < size:
            if size - at < HEADER_SIZE:
                raise InvalidCommand("a message header is cut short")
            header = <const uint8_t *>buffer.buf + at
            user_headers_length = load_u32(header + LENGTHS_AT)
            payload_length = load_u32(header + LENGTHS_AT + 4)
            at += HEADER_SIZE
            if payload_length + user_headers_length > size - at:
                raise InvalidCommand("a message is cut short")
            at += payload_length + user_headers_length
            id_low = load_u64(header + ID_AT)
            id_high = load_u64(header + ID_AT + 8)
            id = id_low
            if id_high:
                id |= <object>id_high << 64
            # What the __init__ of a frozen dataclass does, without the way through Python: half
            # the time of the whole loop.
            message = new_message(Message)
            PyObject_GenericSetAttr(
                message,
                "payload",
                PyBytes_FromStringAndSize(<const char *>header + HEADER_SIZE, payload_length),
            )
            PyObject_GenericSetAttr(message, "id", id)
            PyObject_GenericSetAttr(
                message,
                "user_headers",
                PyBytes_FromStringAndSize(
                    <const char *>header + HEADER_SIZE + payload_length, user_headers_length
                ),
            )
            set_u64(message, "origin_timestamp", header + ORIGIN_TIMESTAMP_AT)
            set_u64(message, "offset", header + OFFSET_AT)
            set_u64(message, "timestamp", header + TIMESTAMP_AT)
            set_u64(message, "checksum", header)
            messages.append(message)
        return messages
    finally:
        PyBuffer_Release(&buffer)


cdef class RandomIds:
    """See plain_loops.py. The generator is xoshiro256**: its whole state comes from the seed."""

    cdef uint64_t s0, s1, s2, s3

    def __init__(self, bytes seed):
        if len(seed) != SEED_SIZE or not any(seed):
            raise ValueError(f"a seed has {SEED_SIZE} bytes that are not all zero")
        cdef const uint8_t *at = seed
        self.s0 = load_u64(at)
        self.s1 = load_u64(at + 8)
        self.s2 = load_u64(at + 16)
        self.s3 = load_u64(at + 24)

    def __call__(self, uint64_t size):
        cdef bytes found = PyBytes_FromStringAndSize(NULL, <Py_ssize_t>size)
        cdef uint8_t *at = <uint8_t *>PyBytes_AS_STRING(found)
        cdef uint64_t left = size, word
        while left:
            word = self.next()
            if left < 8:
                memcpy(at, &word, left)
                break
            store_u64(at, word)
            at += 8
            left -= 8
        return found

    cdef inline uint64_t next(self) noexcept:
        cdef uint64_t scrambled = self.s1 * 5
        cdef uint64_t shifted = self.s1 << 17
        scrambled = ((scrambled << 7) | (scrambled >> 57)) * 9
        self.s2 ^= self.s0
        self.s3 ^= self.s1
        self.s1 ^= self.s2
        self.s0 ^= self.s3
        self.s2 ^= shifted
        self.s3 = (self.s3 << 45) | (self.s3 >> 19)
        return scrambled
