"""The answer to a send, for clients whose generation reads one."""

from dataclasses import dataclass

from borzoi.protocol.kinds import id32, u64


@dataclass(frozen=True, slots=True)
class SentBatch:
    """Where a batch lies now: its partition, and the offset of its first message."""

    stream_id: id32
    topic_id: id32
    partition_id: id32
    base_offset: u64
