# cython: language_level=3, binding=True
"""The loops of clients, compiled. Names and behaviour are those of plain_client.py; what is always
true of compiled loops stands in _messages.pxd.
"""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytearray cimport PyByteArray_AS_STRING, PyByteArray_FromStringAndSize
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from libc.stdint cimport UINT32_MAX, uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy, memset

from borzoi.protocol._log cimport end_of_message
from borzoi.protocol._messages cimport (
    COMPILED_VERSION,
    ENTRY_SIZE,
    HEADER_SIZE,
    ID_AT,
    ID_SIZE,
    LENGTHS_AT,
    OFFSET_AT,
    ORIGIN_TIMESTAMP_AT,
    RESERVED_AT,
    TIMESTAMP_AT,
    end_within,
    load_u32,
    load_u64,
    store_entry,
    store_u32,
    store_u64,
)

from borzoi.protocol.errors import InvalidCommand, InvalidMessagesSize
from borzoi.protocol.message import Message

cdef extern from "Python.h":
    int PyObject_GenericSetAttr(object, object, object) except -1

LOOPS_VERSION = COMPILED_VERSION

cdef object new_message = Message.__new__


def sent_index(batch, uint64_t message_count):
    cdef Py_buffer view
    cdef bytearray entries
    cdef uint8_t *entry
    cdef uint64_t at = 0, end, number
    PyObject_GetBuffer(batch, &view, PyBUF_SIMPLE)
    try:
        if message_count > <uint64_t>view.len // HEADER_SIZE:
            raise InvalidMessagesSize(f"a message header runs over the end at {view.len}")
        entries = PyByteArray_FromStringAndSize(NULL, message_count * ENTRY_SIZE)
        entry = <uint8_t *>PyByteArray_AS_STRING(entries)
        for number in range(message_count):
            # Inline for each message; the function of the other module says what is wrong.
            end = end_within(<const uint8_t *>view.buf, view.len, at)
            at = end if end else end_of_message(<const uint8_t *>view.buf, view.len, at)
            if at > UINT32_MAX:
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
        if end > UINT32_MAX:
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
        if end > UINT32_MAX:
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
