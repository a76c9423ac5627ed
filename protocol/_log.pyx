# cython: language_level=3, binding=True
"""The loops over the log, compiled. Names and behaviour are those of plain_log.py; what is always
true of compiled loops stands in _messages.pxd.

The GIL is kept: 8 MB are stamped in 1 ms, the largest message of 64 MB in 8 ms. A thread that gives
the GIL away may wait 5 ms to get it back from another one.
"""

import xxhash

from cpython.buffer cimport PyBUF_SIMPLE, PyBUF_WRITABLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytearray cimport (
    PyByteArray_AS_STRING,
    PyByteArray_FromStringAndSize,
    PyByteArray_Resize,
)
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from cpython.memoryview cimport PyMemoryView_FromMemory
from libc.stdint cimport UINT32_MAX, UINT64_MAX, uint8_t, uint32_t, uint64_t, uintptr_t
from libc.string cimport memcmp, memcpy

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
    POSITION_AT,
    RESERVED_AT,
    TIMESTAMP_AT,
    body_size,
    end_within,
    load_u32,
    load_u64,
    store_entry,
    store_u64,
)

from borzoi.protocol import message
from borzoi.protocol.errors import InvalidMessagesSize
from borzoi.protocol.plain_log import SEED_SIZE, Scan

cdef extern from "Python.h":
    enum:
        PyBUF_READ

LOOPS_VERSION = COMPILED_VERSION

cdef uint64_t PAYLOAD_SIZE_MAX = message.MESSAGE_PAYLOAD_SIZE_MAX
cdef uint64_t STORED_HEADERS_SIZE_MAX = message.STORED_HEADERS_SIZE_MAX
cdef uint64_t ENCRYPTED_MARK = message.ENCRYPTED_MARK

# Enough entries for a few hundred messages without growing.
cdef enum:
    ENTRIES_SIZE_FIRST = 4096

ctypedef uint64_t (*Hash)(const void *, size_t) noexcept nogil

cdef Hash hash_function = NULL


def use_hash(uintptr_t address):
    """Hash with the C function XXH3_64bits at this address; 0: with the xxhash package."""
    global hash_function
    hash_function = <Hash><void *>address


cdef uint64_t digest(const uint8_t *start, uint64_t size) except? 0:
    if hash_function is not NULL:
        return hash_function(start, size)
    return xxhash.xxh3_64_intdigest(PyMemoryView_FromMemory(<char *>start, size, PyBUF_READ))


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
    if relative_offset > <uint64_t>UINT32_MAX + 1 or relative_offset + message_count > <uint64_t>UINT32_MAX + 1:
        raise AssertionError("the segment has too many messages")
    if position > UINT32_MAX or size > UINT32_MAX - position:
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
        if not first_offset & ENCRYPTED_MARK:
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
        or (load_u64(header + RESERVED_AT) and not expected_offset & ENCRYPTED_MARK)
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
            if relative_offset > UINT32_MAX:
                break
            if position > UINT32_MAX or end > UINT32_MAX - position:
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


def message_start(batch, uint64_t number):
    cdef Py_buffer view
    cdef uint64_t before, end, at = 0
    PyObject_GetBuffer(batch, &view, PyBUF_SIMPLE)
    try:
        for before in range(number):
            end = end_within(<const uint8_t *>view.buf, view.len, at)
            at = end if end else end_of_message(<const uint8_t *>view.buf, view.len, at)
        return at
    finally:
        PyBuffer_Release(&view)


cdef uint64_t end_of_message(const uint8_t *data, uint64_t size, uint64_t at) except 0:
    """Where the message at `at`, not beyond `size`, ends; it ends within `size`."""
    cdef uint64_t end = end_within(data, size, at)
    if end == 0:
        what = "a message header" if size - at < HEADER_SIZE else "a message"
        raise InvalidMessagesSize(f"{what} runs over the end at {size}")
    return end


cdef class RandomIds:
    """See plain_log.py. The generator is xoshiro256**: its whole state comes from the seed."""

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
