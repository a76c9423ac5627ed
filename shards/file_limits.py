"""Sharing the descriptors that the system grants a process: files of the log, and connections."""

import logging
import resource
from typing import Final

import msgspec

from borzoi.shards.config.schema import Limits

LOG: Final = logging.getLogger(__name__)

OPEN_FILES_MIN: Final = 8
OPEN_FILES_MAX: Final = 8192


def open_files_bound() -> int:
    """How many files of partitions may be open at once; they can be opened again later."""
    return max(OPEN_FILES_MIN, min(OPEN_FILES_MAX, _granted() // 4))


def affordable(limits: Limits) -> Limits:
    """Half of the descriptors are for connections: without the others nothing can be served."""
    granted = _granted()
    if limits.connections_max <= granted // 2:
        return limits
    LOG.warning(
        "at most %d connections instead of limits.connections_max = %d: a process may open only %d"
        " files here",
        granted // 2,
        limits.connections_max,
        granted,
    )
    return msgspec.structs.replace(limits, connections_max=granted // 2)


def _granted() -> int:
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return soft
