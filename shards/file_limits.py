"""Sharing the descriptors that the system grants a process: files of the log, and connections."""

import logging
import resource
from typing import Final

import msgspec

from borzoi.shards.config.schema import Limits

LOG: Final = logging.getLogger(__name__)

OPEN_FILES_MIN: Final = 8
OPEN_FILES_MAX: Final = 8192
# What a worker needs for itself: its memory, its loop and channels, the metadata, its own log.
OWN_FILES: Final = 40


def open_files_bound() -> int:
    """How many files of partitions may be open at once; they can be opened again later."""
    return max(OPEN_FILES_MIN, min(OPEN_FILES_MAX, _left_of(_granted()) // 4))


def affordable(limits: Limits) -> Limits:
    """Half of the descriptors are for connections: without the others nothing can be served."""
    granted = _granted()
    affordable_max = _left_of(granted) // 2
    if limits.connections_max <= affordable_max:
        return limits
    LOG.warning(
        "at most %d connections instead of limits.connections_max = %d: a process may open only %d"
        " files here",
        affordable_max,
        limits.connections_max,
        granted,
    )
    return msgspec.structs.replace(limits, connections_max=affordable_max)


def _left_of(granted: int) -> int:
    """For connections and files. Never nothing: with very few, both have to try."""
    return max(granted - OWN_FILES, granted // 4)


def _granted() -> int:
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return soft
