"""Requests built before anything is measured, and the few bytes of them that change.

A send frame as the clients send it, and what may be patched in place:

     0   length u32 | code u32
     8   metadata_length u32 | stream | topic
         partitioning        kind, length and, for a fixed partition, its id: `partition_at`
         messages_count u32
         index               16 bytes per message
         messages            the first one's origin_timestamp lies at `origin_at`

A poll frame has its offset (or timestamp) at `value_at`. With numeric ids it has 46 bytes.
"""

import random
import string
import struct
from dataclasses import dataclass
from typing import Final

from borzoi.bench.quantities import Range
from borzoi.protocol.codes import Code
from borzoi.protocol.commands import PollMessages
from borzoi.protocol.framing import REQUEST_HEADER, encode_request
from borzoi.protocol.generations import encode_command
from borzoi.protocol.identifiers import (
    Balanced,
    Consumer,
    ConsumerKind,
    Identifier,
    PartitionId,
    PollingStrategy,
    StrategyKind,
)
from borzoi.protocol.message import MESSAGE_HEADER_SIZE, Message, encode_message
from borzoi.protocol.send_messages import PreparedBatch, encode_prepared_messages, prepare_messages

U32: Final = struct.Struct("<I")
U64: Final = struct.Struct("<Q")

# Where things lie, counted from the ends that are fixed.
ORIGIN_IN_MESSAGE: Final = 40
COUNT_SIZE: Final = 4
POLL_TAIL: Final = 8 + 4 + 1  # value, count, auto-commit

VARIANTS: Final = 16  # different batches when sizes or counts are drawn from a range
ALPHABET: Final = (string.ascii_letters + string.digits).encode()
RANDOM_TEXT_SIZE: Final = 64 * 1024


@dataclass(frozen=True, slots=True)
class SendFrame:
    """One batch, ready for the socket. `partition_at` is None when the server chooses."""

    frame: bytearray
    message_count: int
    user_bytes: int
    total_bytes: int
    origin_at: int
    partition_at: int | None


@dataclass(frozen=True, slots=True)
class PollFrame:
    """One poll, ready for the socket."""

    frame: bytearray
    value_at: int


def build_send_frames(
    stream: Identifier,
    topic: Identifier,
    partition_id: int | None,
    message_size: Range,
    messages_per_batch: Range,
    seed: int,
) -> list[SendFrame]:
    """One frame when everything is fixed, otherwise some to take turns with."""
    chance = random.Random(seed)
    text = bytes(chance.choices(ALPHABET, k=RANDOM_TEXT_SIZE))
    varies = not (message_size.is_fixed and messages_per_batch.is_fixed)
    frames = []
    for _ in range(VARIANTS if varies else 1):
        count = chance.randint(messages_per_batch.first, messages_per_batch.last)
        sizes = [chance.randint(message_size.first, message_size.last) for _ in range(count)]
        frames.append(_send_frame(stream, topic, partition_id, text, sizes))
    return frames


def build_poll_frame(
    stream: Identifier,
    topic: Identifier,
    partition_id: int | None,
    *,
    consumer: Consumer,
    strategy: StrategyKind,
    count: int,
    auto_commit: bool,
) -> PollFrame:
    """Returns a poll request, with the place of the bytes that change."""
    command = PollMessages(
        consumer=consumer,
        stream=stream,
        topic=topic,
        partition_id=partition_id,
        strategy=PollingStrategy(strategy, 0),
        count=count,
        auto_commit=auto_commit,
    )
    frame = bytearray(encode_request(Code.POLL_MESSAGES, encode_command(command)))
    return PollFrame(frame, len(frame) - POLL_TAIL)


def single_consumer(number: int) -> Consumer:
    """Returns a single consumer of this number."""
    return Consumer(ConsumerKind.CONSUMER, number)


def group_member(group: Identifier) -> Consumer:
    """Returns the members of a group as a consumer."""
    return Consumer(ConsumerKind.GROUP, group)


def response_size_max(message_size: Range, messages_per_batch: Range) -> int:
    """The largest answer a poll of one batch can have."""
    return 24 + messages_per_batch.last * (message_size.last + MESSAGE_HEADER_SIZE)


def _send_frame(
    stream: Identifier, topic: Identifier, partition_id: int | None, text: bytes, sizes: list[int]
) -> SendFrame:
    batch = _prepared(text, sizes)
    partitioning = Balanced() if partition_id is None else PartitionId(partition_id)
    payload = encode_prepared_messages(stream, topic, partitioning, batch)
    frame = bytearray(encode_request(Code.SEND_MESSAGES, payload))
    user_bytes = sum(sizes)
    total_bytes = user_bytes + len(sizes) * MESSAGE_HEADER_SIZE
    (metadata_size,) = U32.unpack_from(frame, REQUEST_HEADER.size)
    metadata_end = REQUEST_HEADER.size + U32.size + metadata_size
    return SendFrame(
        frame=frame,
        message_count=len(sizes),
        user_bytes=user_bytes,
        total_bytes=total_bytes,
        origin_at=len(frame) - total_bytes + ORIGIN_IN_MESSAGE,
        partition_at=None if partition_id is None else metadata_end - COUNT_SIZE - U32.size,
    )


def _prepared(text: bytes, sizes: list[int]) -> PreparedBatch:
    if len(set(sizes)) == 1:
        # The usual case, a thousand equal messages, without a thousand encodings.
        one = encode_message(Message(_payload(text, 0, sizes[0])))
        index = b"".join(
            struct.pack("<IIQ", 0, len(one) * (number + 1), 0) for number in range(len(sizes))
        )
        return PreparedBatch(len(sizes), index + one * len(sizes))
    return prepare_messages(
        Message(_payload(text, number, size)) for number, size in enumerate(sizes)
    )


def _payload(text: bytes, number: int, size: int) -> bytes:
    start = number * 61 % len(text)
    repeated = text[start:] + text * (size // len(text) + 1)
    return repeated[:size]
