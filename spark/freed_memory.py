"""Memory that a task frees stays with its process, for the next run of messages.

A task makes and frees a few buffers of a MiB or two for every run. By default the C library gives
such memory back to the system and gets it again page by page. That costs as much as turning the
messages into columns. The bounds below keep it, up to KEPT_MAX per Python worker.
"""

import ctypes
from functools import cache
from typing import Final

M_TRIM_THRESHOLD: Final = -1
M_MMAP_THRESHOLD: Final = -3
KEPT_MAX: Final = 64 * 1024 * 1024
MAPPED_MIN: Final = 32 * 1024 * 1024  # larger ones are mapped and unmapped all the same


@cache
def keep_freed_memory() -> bool:
    """Once per process; False where the C library has no such switch."""
    try:
        set_option = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError):
        return False
    return bool(set_option(M_MMAP_THRESHOLD, MAPPED_MIN) and set_option(M_TRIM_THRESHOLD, KEPT_MAX))
