# What the loops over the log lend to the other compiled modules.

from libc.stdint cimport uint8_t, uint64_t


cdef uint64_t digest(const uint8_t *start, uint64_t size) except? 0
cdef uint64_t end_of_message(const uint8_t *data, uint64_t size, uint64_t at) except 0
