"""Requests about messages, except SEND_MESSAGES, which has a file of its own.

FLUSH_UNSAVED_BUFFER writes what a partition still holds in memory.
"""

from dataclasses import dataclass

from borzoi.protocol.commands.request import Request
from borzoi.protocol.identifiers import Consumer, Identifier, PollingStrategy
from borzoi.protocol.kinds import id32, partition, u32


@dataclass(frozen=True, slots=True)
class PollMessages(Request):
    """Read messages; with auto_commit the last one returned is committed at once."""

    consumer: Consumer
    stream: Identifier
    topic: Identifier
    partition_id: partition
    strategy: PollingStrategy
    count: u32
    auto_commit: bool


@dataclass(frozen=True, slots=True)
class FlushUnsavedBuffer(Request):
    """Write the journal of a partition, and fsync it if asked."""

    stream: Identifier
    topic: Identifier
    partition_id: id32
    fsync: bool
