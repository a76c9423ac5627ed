# cython: language_level=3, binding=True
"""The headers of the consensus framing, compiled. Names and behaviour are those of plain_heads.py;
what is always true of compiled loops stands in _messages.pxd.
"""

from cpython.buffer cimport PyBUF_WRITABLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdint cimport UINT32_MAX, int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcmp, memcpy, memset

from borzoi.protocol._log cimport digest
from borzoi.protocol._messages cimport (
    COMPILED_VERSION,
    load_u32,
    load_u64,
    store_u32,
    store_u64,
)

from borzoi.protocol.consensus import operations

LOOPS_VERSION = COMPILED_VERSION

# As in consensus/layout.py.
cdef enum:
    HEAD_SIZE = 256
    SIZE_AT = 48
    KIND_AT = 60
    CLIENT_AT = 128
    STAMP_AT = 144
    NUMBER_AT = 168
    OPERATION_AT = 176
    SESSION_AT = 184
    CODE_AT = 196
    CLASSIC_HEADER_AT = 248
    REQUEST = 5
    CLIENT_SIZE = 16
    STAMP_SIZE = 16
    CODE_SIZE = 4

# Of a reply.
cdef enum:
    ECHOED_STAMP_AT = 128
    ECHOED_CLIENT_AT = 160
    OP_AT = 176
    COMMIT_AT = 184
    ECHOED_NUMBER_AT = 200
    ECHOED_OPERATION_AT = 208
    STATUS_AT = 216
    REPLY = 8

cdef enum:
    OPERATIONS = 256
    LOGINS_MAX = 8

cdef uint8_t REGISTER = operations.REGISTER
cdef uint8_t QUERY = operations.QUERY
cdef int64_t NO_CODE = operations.NO_CODE
cdef int64_t CODE_OF[OPERATIONS]
cdef bint IS_STAMPED[OPERATIONS]
cdef uint32_t LOGINS[LOGINS_MAX]
cdef int LOGINS_COUNT = len(operations.LOGINS_IN_QUERIES)


cdef int fill_tables() except -1:
    cdef int number
    if LOGINS_COUNT > LOGINS_MAX:
        raise AssertionError("more logins than there is room for")
    for number in range(OPERATIONS):
        CODE_OF[number] = operations.CODE_OF[number]
        IS_STAMPED[number] = number in operations.STAMPED
    for number, code in enumerate(operations.LOGINS_IN_QUERIES):
        LOGINS[number] = code
    return 0


fill_tables()


def read_request(view, uint64_t start, uint64_t end, uint64_t session, bytes bound_client not None):
    cdef Py_buffer buffer
    cdef uint8_t *head
    cdef uint64_t size, number
    cdef uint32_t code
    cdef uint8_t operation
    if end < start or end - start < HEAD_SIZE:
        return None
    PyObject_GetBuffer(view, &buffer, PyBUF_WRITABLE)
    try:
        if end > <uint64_t>buffer.len:
            raise AssertionError(f"a request up to {end} in a view of {buffer.len} bytes")
        head = <uint8_t *>buffer.buf + start
        size = end - start
        if load_u32(head + SIZE_AT) != size or head[KIND_AT] != REQUEST:
            return None
        operation = head[OPERATION_AT]
        if operation == QUERY:
            code = load_u32(head + CODE_AT)
            if is_login(code):
                return None
        else:
            if CODE_OF[operation] == NO_CODE:
                return None
            code = <uint32_t>CODE_OF[operation]
        if session and operation != REGISTER and not (
            load_u64(head + SESSION_AT) == session
            and PyBytes_GET_SIZE(bound_client) == CLIENT_SIZE
            and memcmp(head + CLIENT_AT, PyBytes_AS_STRING(bound_client), CLIENT_SIZE) == 0
        ):
            return None
        if IS_STAMPED[operation] and not is_stamp(head + STAMP_AT, head + HEAD_SIZE, size - HEAD_SIZE):
            return None
        store_u32(head + CLASSIC_HEADER_AT, <uint32_t>(size - HEAD_SIZE + CODE_SIZE))
        store_u32(head + CLASSIC_HEADER_AT + 4, code)
        return (
            code,
            PyBytes_FromStringAndSize(<const char *>head + CLIENT_AT, CLIENT_SIZE),
            PyBytes_FromStringAndSize(<const char *>head + STAMP_AT, STAMP_SIZE),
            load_u64(head + NUMBER_AT),
            operation,
        )
    finally:
        PyBuffer_Release(&buffer)


cdef inline bint is_login(uint32_t code) noexcept:
    cdef int number
    for number in range(LOGINS_COUNT):
        if LOGINS[number] == code:
            return True
    return False


cdef bint is_stamp(const uint8_t *found, const uint8_t *payload, uint64_t size) except -1:
    """Whether these 16 bytes are the hash of the payload, or none at all."""
    if load_u64(found + 8):
        return False
    # A stamp of zeros is none, and the hash of nothing that is known.
    return load_u64(found) == 0 or load_u64(found) == digest(payload, size)


def reply_with(
    uint64_t size,
    bytes checksum not None,
    bytes client not None,
    uint64_t count,
    uint64_t number,
    uint8_t operation,
    uint32_t status,
    bytes beginning not None,
):
    cdef uint64_t beginning_size = PyBytes_GET_SIZE(beginning)
    cdef bytes found
    cdef uint8_t *head
    if size > UINT32_MAX - HEAD_SIZE:
        raise OverflowError(f"a reply of {size} bytes")
    if PyBytes_GET_SIZE(checksum) != STAMP_SIZE or PyBytes_GET_SIZE(client) != CLIENT_SIZE:
        raise AssertionError("a stamp and a client id have 16 bytes each")
    found = PyBytes_FromStringAndSize(NULL, HEAD_SIZE + beginning_size)
    head = <uint8_t *>PyBytes_AS_STRING(found)
    memset(head, 0, HEAD_SIZE)
    store_u32(head + SIZE_AT, <uint32_t>(HEAD_SIZE + size))
    head[KIND_AT] = REPLY
    memcpy(head + ECHOED_STAMP_AT, PyBytes_AS_STRING(checksum), STAMP_SIZE)
    memcpy(head + ECHOED_CLIENT_AT, PyBytes_AS_STRING(client), CLIENT_SIZE)
    store_u64(head + OP_AT, count)
    store_u64(head + COMMIT_AT, count)
    store_u64(head + ECHOED_NUMBER_AT, number)
    head[ECHOED_OPERATION_AT] = operation
    store_u32(head + STATUS_AT, status)
    memcpy(head + HEAD_SIZE, PyBytes_AS_STRING(beginning), beginning_size)
    return found
