"""SEND_MESSAGES of the consensus generation: the classic beginning, then one batch of its own form.

    metadata_length u32 | stream | topic | partitioning | messages_count u32 (send_target.py)
    batch header | message frames (edge_layouts.py)

A batch is checked and rebuilt as it is stored, in memory of its own.
"""

from borzoi.protocol.edges import stored_from_consensus
from borzoi.protocol.errors import InvalidCommand
from borzoi.protocol.payload import U32
from borzoi.protocol.send_messages import SendMessages
from borzoi.protocol.send_target import METADATA_SIZE_MAX, METADATA_SIZE_MIN, read_target


def decode_send_messages(payload: memoryview) -> SendMessages:
    """A send with its batch as it is stored."""
    if len(payload) < U32.size:
        raise InvalidCommand("the payload is cut short")
    (metadata_size,) = U32.unpack_from(payload)
    start = U32.size + metadata_size
    if not METADATA_SIZE_MIN <= metadata_size <= METADATA_SIZE_MAX or start > len(payload):
        raise InvalidCommand(f"{metadata_size} bytes of metadata in {len(payload)} bytes")
    count_at = start - U32.size
    stream, topic, partitioning, end = read_target(payload, U32.size, count_at)
    if end != count_at:
        raise InvalidCommand(f"{count_at - end} bytes behind the partitioning")
    (count,) = U32.unpack_from(payload, count_at)
    batch = stored_from_consensus(payload[start:], count)
    return SendMessages(stream, topic, partitioning, count, memoryview(batch), None)
