"""What the C library does with memory that Python frees: it keeps some for the next answer.

Answers that are copies (decrypted, decompressed, converted for another generation) are a megabyte
or so, made and freed with each poll. By itself glibc gives such memory back to the kernel at once,
and the next one is made of pages that have to be faulted in and cleared: 170 to 450 us for 1.1 MB
where memory that was kept takes 50.

Always: a setting that the C library does not know changes nothing.
"""

import ctypes
from typing import Final

M_TRIM_THRESHOLD: Final = -1
M_MMAP_THRESHOLD: Final = -3

KEPT_SIZE_MAX: Final = 16 * 1024 * 1024
"""So much free memory a process keeps at the end of its heap."""

PIECE_SIZE_MAX: Final = 4 * 1024 * 1024
"""Anything larger is mapped by itself, and unmapped when it is freed."""


def keep_freed_memory() -> bool:
    """Settle both for this process; False if its C library has no such settings."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:
        return False
    mapped = mallopt(M_MMAP_THRESHOLD, PIECE_SIZE_MAX)
    trimmed = mallopt(M_TRIM_THRESHOLD, KEPT_SIZE_MAX)
    return bool(mapped and trimmed)
