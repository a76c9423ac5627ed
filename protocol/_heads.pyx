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
    NOT_WHOLE = -1

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
    SECTION_SIZE = 4
    POLLED_SIZE = 16

cdef enum:
    OPERATIONS = 256
    LOGINS_MAX = 8

cdef uint8_t REGISTER = operations.REGISTER
cdef uint8_t QUERY = operations.QUERY
cdef int64_t NO_CODE = operations.NO_CODE
cdef int64_t CODE_OF[OPERATIONS]
cdef bint IS_STAMPED[OPERATIONS]
cdef bint HAS_SECTION[OPERATIONS]
cdef uint32_t LOGINS[LOGINS_MAX]
cdef int LOGINS_COUNT = len(operations.LOGINS_IN_QUERIES)


cdef int fill_tables() except -1:
    cdef int number
    if LOGINS_COUNT > LOGINS_MAX:
        raise AssertionError("more logins than there is room for")
    for number in range(OPERATIONS):
        CODE_OF[number] = operations.CODE_OF[number]
        IS_STAMPED[number] = number in operations.STAMPED
        HAS_SECTION[number] = operations.HAS_SECTION[number]
    for number, code in enumerate(operations.LOGINS_IN_QUERIES):
        LOGINS[number] = code
    return 0


fill_tables()


cdef class Head:
    """The request that was cut last, and the session that requests have to be of."""

    cdef uint8_t own_client[CLIENT_SIZE]
    cdef uint8_t own_checksum[STAMP_SIZE]
    cdef uint8_t session_client[CLIENT_SIZE]
    cdef public uint64_t request
    cdef public uint8_t operation
    cdef public uint64_t bound_session
    cdef public int64_t count

    def __cinit__(self):
        # All other fields are zero by then.
        self.operation = QUERY

    @property
    def client(self):
        return id_of(self.own_client)

    @client.setter
    def client(self, bytes id not None):
        keep_id(self.own_client, id)

    @property
    def checksum(self):
        return id_of(self.own_checksum)

    @checksum.setter
    def checksum(self, bytes id not None):
        keep_id(self.own_checksum, id)

    @property
    def bound_client(self):
        return id_of(self.session_client)

    @bound_client.setter
    def bound_client(self, bytes id not None):
        keep_id(self.session_client, id)

    def number(self):
        if self.operation == QUERY or self.operation == REGISTER:
            return 0
        return self.request

    def whole(self, view, uint64_t start, uint64_t end):
        cdef Py_buffer buffer
        if end < start or end - start < HEAD_SIZE:
            return NOT_WHOLE
        PyObject_GetBuffer(view, &buffer, PyBUF_WRITABLE)
        try:
            if end > <uint64_t>buffer.len:
                raise AssertionError(f"a request up to {end} in a view of {buffer.len} bytes")
            return self.read(<uint8_t *>buffer.buf + start, end - start)
        finally:
            PyBuffer_Release(&buffer)

    cdef int64_t read(self, uint8_t *head, uint64_t size) except -2:
        cdef uint32_t code
        cdef uint8_t operation
        if load_u32(head + SIZE_AT) != size or head[KIND_AT] != REQUEST:
            return NOT_WHOLE
        operation = head[OPERATION_AT]
        if operation == QUERY:
            code = load_u32(head + CODE_AT)
            if is_login(code):
                return NOT_WHOLE
        else:
            if CODE_OF[operation] == NO_CODE:
                return NOT_WHOLE
            code = <uint32_t>CODE_OF[operation]
        if self.bound_session and operation != REGISTER and not (
            load_u64(head + SESSION_AT) == self.bound_session
            and memcmp(head + CLIENT_AT, self.session_client, CLIENT_SIZE) == 0
        ):
            return NOT_WHOLE
        if IS_STAMPED[operation] and not is_stamp(
            head + STAMP_AT, head + HEAD_SIZE, size - HEAD_SIZE
        ):
            return NOT_WHOLE
        store_u32(head + CLASSIC_HEADER_AT, <uint32_t>(size - HEAD_SIZE + CODE_SIZE))
        store_u32(head + CLASSIC_HEADER_AT + 4, code)
        memcpy(self.own_client, head + CLIENT_AT, CLIENT_SIZE)
        memcpy(self.own_checksum, head + STAMP_AT, STAMP_SIZE)
        self.request = load_u64(head + NUMBER_AT)
        self.operation = operation
        return code

    def answer(self, bytes payload not None):
        cdef uint64_t size = PyBytes_GET_SIZE(payload)
        cdef uint64_t section = SECTION_SIZE if HAS_SECTION[self.operation] else 0
        cdef bytes found = self.begun(section + size, section + size, 0)
        cdef uint8_t *body = <uint8_t *>PyBytes_AS_STRING(found) + HEAD_SIZE
        memset(body, 0, section)
        memcpy(body + section, PyBytes_AS_STRING(payload), size)
        return found

    def polled(
        self, uint32_t partition_id, uint64_t current_offset, uint32_t count, uint64_t size
    ):
        cdef bytes found = self.begun(POLLED_SIZE + size, POLLED_SIZE, 0)
        cdef uint8_t *body = <uint8_t *>PyBytes_AS_STRING(found) + HEAD_SIZE
        store_u32(body, partition_id)
        store_u64(body + 4, current_offset)
        store_u32(body + 12, count)
        return found

    def reply(self, uint64_t size, uint32_t status=0, bytes beginning not None=b""):
        cdef uint64_t beginning_size = PyBytes_GET_SIZE(beginning)
        cdef bytes found = self.begun(size, beginning_size, status)
        memcpy(
            PyBytes_AS_STRING(found) + HEAD_SIZE, PyBytes_AS_STRING(beginning), beginning_size
        )
        return found

    cdef bytes begun(self, uint64_t size, uint64_t room, uint32_t status):
        """The header of a reply with `size` bytes behind it, and room for the first of these."""
        cdef bytes found
        cdef uint8_t *head
        if size > UINT32_MAX - HEAD_SIZE:
            raise OverflowError(f"a reply of {size} bytes")
        found = PyBytes_FromStringAndSize(NULL, HEAD_SIZE + room)
        head = <uint8_t *>PyBytes_AS_STRING(found)
        self.count += 1
        memset(head, 0, HEAD_SIZE)
        store_u32(head + SIZE_AT, <uint32_t>(HEAD_SIZE + size))
        head[KIND_AT] = REPLY
        memcpy(head + ECHOED_STAMP_AT, self.own_checksum, STAMP_SIZE)
        memcpy(head + ECHOED_CLIENT_AT, self.own_client, CLIENT_SIZE)
        store_u64(head + OP_AT, self.count)
        store_u64(head + COMMIT_AT, self.count)
        store_u64(head + ECHOED_NUMBER_AT, self.request)
        head[ECHOED_OPERATION_AT] = self.operation
        store_u32(head + STATUS_AT, status)
        return found


cdef bytes id_of(const uint8_t *id):
    return PyBytes_FromStringAndSize(<const char *>id, CLIENT_SIZE)


cdef int keep_id(uint8_t *to, bytes id) except -1:
    if PyBytes_GET_SIZE(id) != CLIENT_SIZE:
        raise AssertionError(f"a stamp and a client id have {CLIENT_SIZE} bytes, not {len(id)}")
    memcpy(to, PyBytes_AS_STRING(id), CLIENT_SIZE)
    return 0


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
