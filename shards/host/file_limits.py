"""Sharing the descriptors that the system grants a process: files of the log, and connections."""

import logging
import resource
from typing import Final, NamedTuple

import msgspec

from borzoi.shards.settings.schema import Limits

LOG: Final = logging.getLogger(__name__)

OPEN_FILES_MIN: Final = 8
OPEN_FILES_MAX: Final = 8192
# What a worker needs for itself: its memory, its loop and channels, the metadata, its own log.
OWN_FILES: Final = 40


class Shares(NamedTuple):
    """How many descriptors may be used for what."""

    open_files: int  # of partitions, kept at hand; they can be opened again later
    connections: int


def share(granted: int) -> Shares:
    """Returns how the granted descriptors are divided.

    A quarter is for files of partitions, an eighth for threads that sync, archive and delete, and
    the rest for connections.
    """
    # Never nothing: with very few, both have to try.
    left = max(granted - OWN_FILES, granted // 4)
    open_files = max(OPEN_FILES_MIN, min(OPEN_FILES_MAX, left // 4))
    return Shares(open_files, max(1, left - open_files - left // 8))


def raise_file_limit() -> None:
    """Let this process open as many files as the system allows."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def open_files_bound() -> int:
    """How many files of partitions may be open at once."""
    return share(_granted()).open_files


def affordable(limits: Limits) -> Limits:
    """The limits, with no more connections than there are descriptors for."""
    granted = _granted()
    connections_max = share(granted).connections
    if limits.connections_max <= connections_max:
        return limits
    LOG.warning(
        "at most %d connections instead of limits.connections_max = %d: a process may open only %d"
        " files here",
        connections_max,
        limits.connections_max,
        granted,
    )
    return msgspec.structs.replace(limits, connections_max=connections_max)


def _granted() -> int:
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return soft
