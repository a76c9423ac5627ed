# cython: language_level=3, binding=True
"""The loops for encryption, compiled. Names and behaviour are those of plain_seals.py, and what is
always true of compiled loops stands in _messages.pxd.
"""

from cpython.buffer cimport PyBUF_SIMPLE, PyBUF_WRITABLE, PyBuffer_Release, PyObject_GetBuffer
from libc.stdint cimport UINT32_MAX, uint8_t, uint32_t, uint64_t
from libc.string cimport memcmp, memcpy, memmove

from borzoi.protocol._log cimport digest
from borzoi.protocol._messages cimport (
    CHECKSUM_SIZE,
    COMPILED_VERSION,
    HEADER_SIZE,
    LENGTHS_AT,
    OFFSET_AT,
    RESERVED_AT,
    load_u32,
    load_u64,
    store_u32,
    store_u64,
)

from borzoi.protocol import message
from borzoi.protocol.plain_seals import NOTHING, Split

LOOPS_VERSION = COMPILED_VERSION

cdef enum:
    BESIDE_SIZE = HEADER_SIZE - CHECKSUM_SIZE
    TAIL_SIZE = 28

cdef uint64_t MARK = message.ENCRYPTED_MARK


cdef class Views:
    """Buffers of Python objects, until `release`."""

    cdef Py_buffer views[3]
    cdef int count

    cdef uint8_t *take(self, source, bint writable, uint64_t *size) except NULL:
        PyObject_GetBuffer(
            source, &self.views[self.count], PyBUF_WRITABLE if writable else PyBUF_SIMPLE
        )
        self.count += 1
        size[0] = self.views[self.count - 1].len
        # An empty buffer may have no address; nothing is read or written there.
        return <uint8_t *>self.views[self.count - 1].buf or <uint8_t *>&self.count

    cdef void release(self) noexcept:
        while self.count:
            self.count -= 1
            PyBuffer_Release(&self.views[self.count])


def split_plain(batch, uint64_t at, bodies, beside):
    cdef Views views = Views()
    cdef uint64_t batch_size, room, beside_size, headers_length, body_size
    cdef uint64_t size = 0, count = 0, number
    cdef uint8_t *data
    cdef uint8_t *out
    cdef uint8_t *headers
    cdef uint8_t *header
    try:
        data = views.take(batch, False, &batch_size)
        out = views.take(bodies, True, &room)
        headers = views.take(beside, True, &beside_size)
        while count < beside_size // BESIDE_SIZE and at <= batch_size and batch_size - at >= HEADER_SIZE:
            headers_length = load_u32(data + at + LENGTHS_AT)
            body_size = headers_length + load_u32(data + at + LENGTHS_AT + 4)
            if body_size > batch_size - at - HEADER_SIZE or body_size > room - size:
                break
            if headers_length + TAIL_SIZE > UINT32_MAX:
                break
            header = headers + count * BESIDE_SIZE - CHECKSUM_SIZE
            memcpy(header + CHECKSUM_SIZE, data + at + CHECKSUM_SIZE, BESIDE_SIZE)
            store_u64(header + OFFSET_AT, load_u64(header + OFFSET_AT) | MARK)
            store_u32(header + LENGTHS_AT, <uint32_t>(headers_length + TAIL_SIZE))
            store_u64(header + RESERVED_AT, 0)
            memcpy(out + size, data + at + HEADER_SIZE, body_size)
            size += body_size
            count += 1
            at += HEADER_SIZE + body_size
        if count > 1:
            for number in range(count):
                store_u64(
                    headers + number * BESIDE_SIZE - CHECKSUM_SIZE + RESERVED_AT,
                    number | count << 32,
                )
        return Split(at, count, size)
    finally:
        views.release()


def join_sealed(stored, uint64_t at, beside, uint64_t message_count, bodies, bytes tail):
    cdef Views views = Views()
    cdef uint64_t room, beside_size, bodies_size, stored_size, taken = 0, number
    cdef uint8_t *out
    cdef uint8_t *headers
    cdef uint8_t *data
    cdef uint8_t *header
    if len(tail) != TAIL_SIZE:
        raise AssertionError("a tail of another size")
    try:
        out = views.take(stored, True, &room)
        headers = views.take(beside, False, &beside_size)
        data = views.take(bodies, False, &bodies_size)
        if message_count > beside_size // BESIDE_SIZE:
            raise AssertionError("fewer headers than messages")
        for number in range(message_count):
            header = headers + number * BESIDE_SIZE - CHECKSUM_SIZE
            stored_size = <uint64_t>load_u32(header + LENGTHS_AT) + load_u32(header + LENGTHS_AT + 4)
            if stored_size < TAIL_SIZE or stored_size - TAIL_SIZE > bodies_size - taken:
                raise AssertionError("bodies that do not fit their headers")
            if at > room or room - at < HEADER_SIZE or room - at - HEADER_SIZE < stored_size:
                raise AssertionError("no room for a message")
            memcpy(out + at + CHECKSUM_SIZE, header + CHECKSUM_SIZE, BESIDE_SIZE)
            at += HEADER_SIZE
            memcpy(out + at, data + taken, stored_size - TAIL_SIZE)
            taken += stored_size - TAIL_SIZE
            at += stored_size
            memcpy(out + at - TAIL_SIZE, <const char *>tail, TAIL_SIZE)
        return at
    finally:
        views.release()


def split_sealed(stored, uint64_t at, uint64_t first_offset, bodies, beside):
    cdef Views views = Views()
    cdef uint64_t stored_size, room, beside_size, size = 0, number = 0, count = 1
    cdef uint64_t headers_length, payload_length, body_size, reserved
    cdef uint8_t *data
    cdef uint8_t *out
    cdef uint8_t *headers
    cdef uint8_t *header
    cdef uint8_t *tail = NULL
    try:
        data = views.take(stored, False, &stored_size)
        out = views.take(bodies, True, &room)
        headers = views.take(beside, True, &beside_size)
        while number < count:
            if at > stored_size or stored_size - at < HEADER_SIZE:
                return NOTHING
            if number == beside_size // BESIDE_SIZE:
                return NOTHING
            # Copied first: what is judged is what is used, whatever becomes of the file.
            header = headers + number * BESIDE_SIZE - CHECKSUM_SIZE
            memcpy(header + CHECKSUM_SIZE, data + at + CHECKSUM_SIZE, BESIDE_SIZE)
            headers_length = load_u32(header + LENGTHS_AT)
            payload_length = load_u32(header + LENGTHS_AT + 4)
            reserved = load_u64(header + RESERVED_AT)
            at += HEADER_SIZE
            if headers_length < TAIL_SIZE or headers_length + payload_length > stored_size - at:
                return NOTHING
            body_size = headers_length + payload_length - TAIL_SIZE
            if number == 0:
                count = max(reserved >> 32, <uint64_t>1)
                tail = data + at + body_size
            if load_u64(header + OFFSET_AT) != (first_offset + number | MARK):
                return NOTHING
            if reserved != ((number | count << 32) if count > 1 else 0):
                return NOTHING
            if body_size > room - size or memcmp(data + at + body_size, tail, TAIL_SIZE):
                return NOTHING
            memcpy(out + size, data + at, body_size)
            size += body_size
            number += 1
            at += body_size + TAIL_SIZE
        return Split(at, count, size)
    finally:
        views.release()


def join_plain(beside, bodies, uint64_t first, uint64_t last, plain):
    cdef Views views = Views()
    cdef uint64_t beside_size, bodies_size, room, headers_length, body_size
    cdef uint64_t taken = 0, at = 0, number
    cdef uint8_t *headers
    cdef uint8_t *data
    cdef uint8_t *out
    cdef uint8_t *header
    try:
        headers = views.take(beside, False, &beside_size)
        data = views.take(bodies, False, &bodies_size)
        out = views.take(plain, True, &room)
        if last > beside_size // BESIDE_SIZE:
            raise AssertionError("fewer headers than messages")
        for number in range(last):
            header = headers + number * BESIDE_SIZE - CHECKSUM_SIZE
            headers_length = load_u32(header + LENGTHS_AT)
            body_size = headers_length + load_u32(header + LENGTHS_AT + 4)
            if headers_length < TAIL_SIZE:
                raise AssertionError("a header of no stored message")
            body_size -= TAIL_SIZE
            if body_size > bodies_size - taken:
                raise AssertionError("bodies that do not fit their headers")
            if number >= first:
                if room - at < HEADER_SIZE or room - at - HEADER_SIZE < body_size:
                    raise AssertionError("no room for a message")
                memcpy(out + at + CHECKSUM_SIZE, header + CHECKSUM_SIZE, BESIDE_SIZE)
                store_u64(out + at + OFFSET_AT, load_u64(header + OFFSET_AT) & ~MARK)
                store_u32(out + at + LENGTHS_AT, <uint32_t>(headers_length - TAIL_SIZE))
                store_u64(out + at + RESERVED_AT, 0)
                # The bodies may lie there already.
                memmove(out + at + HEADER_SIZE, data + taken, body_size)
                store_u64(
                    out + at,
                    digest(out + at + CHECKSUM_SIZE, HEADER_SIZE - CHECKSUM_SIZE + body_size),
                )
                at += HEADER_SIZE + body_size
            taken += body_size
        return at
    finally:
        views.release()
