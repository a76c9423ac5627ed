# cython: language_level=3, binding=True
"""Takes the frames of a WebSocket off its bytes, compiled. Names and behaviour are those of
plain_websocket.py, and what is always true of compiled loops stands in _messages.pxd.
"""

from cpython.buffer cimport (
    PyBUF_SIMPLE,
    PyBUF_WRITABLE,
    PyBuffer_Release,
    PyObject_GetBuffer,
)
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy, memmove

from borzoi.protocol._messages cimport COMPILED_VERSION, load_u64, store_u64

LOOPS_VERSION = COMPILED_VERSION

cdef enum:
    CONTINUATION = 0
    BINARY = 2
    CLOSE = 8
    PING = 9
    FINAL = 0x80
    RESERVED = 0x70
    OPCODE = 0x0F
    MASKED = 0x80
    LENGTH = 0x7F
    LENGTH_16 = 126
    LENGTH_64 = 127
    CONTROL_SIZE_MAX = 125
    MASK_SIZE = 4
    PROTOCOL_ERROR = 1002
    TOO_BIG = 1009
    FROM_CLIENT = 1
    FROM_SERVER = 2
    HEAD_SIZE_MIN = 2
    HEAD_SIZE_MAX = 14
    # Continuation, text, binary, close, ping, pong, one bit for each.
    OPCODES = 0b111_0000_0111

cdef uint64_t LENGTH_MAX = (<uint64_t>1 << 63) - 1


cdef inline void xor_masked(
    uint8_t *to, const uint8_t *source, uint64_t size, const uint8_t *mask
) noexcept nogil:
    """Eight bytes at a time; `to` may be `source`, or lie before it."""
    cdef uint64_t at = 0, wide
    cdef uint32_t narrow
    memcpy(&narrow, mask, MASK_SIZE)
    wide = (<uint64_t>narrow << 32) | narrow
    while size - at >= 8:
        store_u64(to + at, load_u64(source + at) ^ wide)
        at += 8
    while at < size:
        to[at] = source[at] ^ mask[at & 3]
        at += 1


cdef class Unframer:
    cdef uint8_t head[HEAD_SIZE_MAX]
    cdef uint8_t mask[MASK_SIZE]
    cdef uint8_t control[CONTROL_SIZE_MAX]
    cdef int takes, opcode, message, head_size, control_size
    cdef bint final, is_masked
    cdef uint64_t frame_size_max, message_size_max, message_size, left
    cdef readonly int failure
    cdef readonly object closing
    cdef public object ping

    def __init__(self, int takes, uint64_t frame_size_max, uint64_t message_size_max):
        self.takes = takes
        self.frame_size_max = frame_size_max
        self.message_size_max = message_size_max
        self.opcode = self.message = -1
        self.head_size = self.control_size = 0
        self.final = self.is_masked = False
        self.message_size = self.left = 0
        self.failure = 0
        self.closing = None
        self.ping = None

    @property
    def is_between(self):
        return self.opcode < 0 and self.head_size == 0

    def take(self, buffer, uint64_t size):
        cdef Py_buffer view
        cdef uint64_t kept
        PyObject_GetBuffer(buffer, &view, PyBUF_SIMPLE | PyBUF_WRITABLE)
        try:
            if size > <uint64_t>view.len:
                raise IndexError(f"{size} bytes in a buffer of {view.len}")
            kept = self._take(<uint8_t *>view.buf, size)
        finally:
            PyBuffer_Release(&view)
        return kept

    cdef uint64_t _take(self, uint8_t *data, uint64_t size) except? 0xFFFF_FFFF_FFFF_FFFF:
        cdef uint64_t at = 0, kept = 0, present
        while at < size and self.failure == 0 and self.closing is None:
            if self.opcode < 0:
                self.head[self.head_size] = data[at]
                self.head_size += 1
                at += 1
                self._read_head()
                continue
            present = min(self.left, size - at)
            if self.opcode >= CLOSE:
                self._unmask(self.control + self.control_size, data + at, present)
                self.control_size += <int>present
            elif self.message == BINARY:
                self._unmask(data + kept, data + at, present)
                kept += present
            at += present
            self.left -= present
            if self.left == 0:
                self._end_frame()
        return kept

    cdef int _read_head(self) except -1:
        cdef int length = self.head[1] & LENGTH, length_size, mask_at, number
        cdef uint64_t size
        if self.head_size < HEAD_SIZE_MIN:
            return 0
        if self.head_size == HEAD_SIZE_MIN and not self._is_allowed(length):
            self.failure = PROTOCOL_ERROR
            return 0
        length_size = 2 if length == LENGTH_16 else 8 if length == LENGTH_64 else 0
        mask_at = HEAD_SIZE_MIN + length_size
        if self.head_size < mask_at:
            return 0
        size = <uint64_t>length
        if length_size:
            size = 0
            for number in range(2, mask_at):
                size = (size << 8) | self.head[number]
            if size > LENGTH_MAX or size < <uint64_t>(LENGTH_16 if length_size == 2 else 1 << 16):
                self.failure = PROTOCOL_ERROR
                return 0
        self.is_masked = (self.head[1] & MASKED) != 0
        if self.head_size < mask_at + MASK_SIZE * self.is_masked:
            return 0
        memcpy(self.mask, self.head + mask_at, MASK_SIZE * self.is_masked)
        return self._begin_frame(self.head[0], size)

    cdef bint _is_allowed(self, int length) noexcept:
        cdef int first = self.head[0], second = self.head[1]
        cdef int opcode = first & OPCODE
        if first & RESERVED or not (OPCODES >> opcode) & 1:
            return False
        if not self.takes & (FROM_CLIENT if second & MASKED else FROM_SERVER):
            return False
        if opcode >= CLOSE:
            return (first & FINAL) != 0 and length <= CONTROL_SIZE_MAX
        return (opcode == CONTINUATION) == (self.message >= 0)

    cdef int _begin_frame(self, int first, uint64_t size) except -1:
        cdef int opcode = first & OPCODE
        if opcode < CLOSE:
            if opcode != CONTINUATION:
                self.message = opcode
                self.message_size = 0
            # Both are at most 2^63 - 1: the sum does not overflow.
            self.message_size += size
            if size > self.frame_size_max or self.message_size > self.message_size_max:
                self.failure = TOO_BIG
                return 0
        self.head_size = 0
        self.opcode = opcode
        self.final = (first & FINAL) != 0
        self.left = size
        if size == 0:
            self._end_frame()
        return 0

    cdef int _end_frame(self) except -1:
        cdef int opcode = self.opcode
        self.opcode = -1
        if opcode < CLOSE:
            if self.final:
                self.message = -1
            return 0
        carried = PyBytes_FromStringAndSize(<char *>self.control, self.control_size)
        self.control_size = 0
        if opcode == PING:
            self.ping = carried
        elif opcode == CLOSE:
            self.closing = carried
        return 0

    cdef void _unmask(self, uint8_t *to, const uint8_t *source, uint64_t size) noexcept nogil:
        """Unmasks and moves; the mask is turned, so that it begins where the next bytes do."""
        cdef uint8_t turned[MASK_SIZE]
        cdef int number
        if not self.is_masked:
            memmove(to, source, size)
            return
        xor_masked(to, source, size, self.mask)
        for number in range(MASK_SIZE):
            turned[number] = self.mask[(size + number) & 3]
        memcpy(self.mask, turned, MASK_SIZE)


def masked(payload, bytes mask):
    cdef Py_buffer view
    cdef bytes under
    if len(mask) != MASK_SIZE:
        raise ValueError(f"a mask of {len(mask)} bytes: needs {MASK_SIZE}")
    PyObject_GetBuffer(payload, &view, PyBUF_SIMPLE)
    try:
        under = PyBytes_FromStringAndSize(NULL, view.len)
        xor_masked(
            <uint8_t *>PyBytes_AS_STRING(under),
            <const uint8_t *>view.buf,
            view.len,
            <const uint8_t *>PyBytes_AS_STRING(mask),
        )
    finally:
        PyBuffer_Release(&view)
    return under
