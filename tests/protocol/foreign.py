"""Messages as clients of other generations write and read them: captured bytes, and builders."""

import struct
from collections.abc import Iterable, Sequence
from typing import Final

import xxhash

from borzoi.protocol.message import Message, encode_messages
from borzoi.protocol.plain_log import stamp_batch

# A send of two messages with the consensus framing, and the poll that shows them afterwards.
SENT_METADATA: Final = bytes.fromhex("1a00000002066f726465727302066576656e7473020401000000")
SENT_FRAMES: Final = bytes.fromhex(
    "8e5ca59edbbdbfb90100000000000000000000000000000000000000000000000000000005000000000000000000"
    "000068656c6c6fd8915fc442c1e2370200000000000000000000000000000001000000130000000f000000060000"
    "000000000000000000776f726c642102010000006b0b0400000007000000"
)
SENT_BATCH: Final = (
    bytes(24)
    + bytes.fromhex("db64a4b35c6006007a010000000000007a548264fcbd6c4702000000")
    + bytes(204)
    + SENT_FRAMES
)
SENT_PAYLOAD: Final = SENT_METADATA + struct.pack("<I", 2) + SENT_BATCH
SENT_ORIGIN: Final = 0x0006605CB3A464DB
SENT_MESSAGES: Final = [
    Message(b"hello", 1, b"", SENT_ORIGIN),
    Message(b"world!", 2, bytes.fromhex("02010000006b0b0400000007000000"), SENT_ORIGIN + 19),
]
POLLED_RECORD: Final = (
    bytes.fromhex(
        "0100000000000000000000000000000000401e18240a0600db64a4b35c6006007a01000000000000c5c6e258"
        "2b20c56402000000"
    )
    + bytes(204)
    + SENT_FRAMES
)

# The same of an old client: without its target, and without the sixteen bytes before a poll.
OLD_SENT: Final = bytes.fromhex(
    "0000000000000000000000000000000000000000020000006d30"
    "0000000000000000000000000000000000000000020000006d31"
)
OLD_SENT_WITH_HEADERS: Final = bytes.fromhex(
    "2a00000000000000000000000000000011000000030000006b6579020500000076616c7565020000006869"
)
OLD_POLLED: Final = bytes.fromhex(
    "00000000000000000100401e18240a060007000000000000000000000000000000b93753b700000000020000006d30"
    "01000000000000000100401e18240a0600080000000000000000000000000000002f0754c000000000020000006d31"
)
BARE_HEADERS: Final = bytes.fromhex("030000006b6579020500000076616c7565")
KEYED_HEADERS: Final = b"\2" + BARE_HEADERS


def stamped(messages: Sequence[Message], first_offset: int, timestamp: int) -> bytearray:
    batch = bytearray(encode_messages(messages))
    stamp_batch(
        memoryview(batch),
        len(messages),
        first_offset,
        timestamp,
        bytes,
        segment_first_offset=first_offset,
        position=0,
    )
    return batch


def consensus_batch(
    messages: Iterable[Message],
    *,
    count: int | None = None,
    length: int = 0,
    reserved: bytes = bytes(204),
    frame_reserved: int = 0,
    ids: Sequence[int] = (),
    deltas: Sequence[int] = (),
    origin: int | None = None,
    timestamp_delta: int | None = None,
    frame_checksum: int = 0,
    batch_checksum: int = 0,
    payload_length: int | None = None,
    behind: bytes = b"",
) -> bytes:
    """A batch as a client makes it, with faults that its checksums do not tell.

    Numbers that belong to a checksum or a length are added to what is right.
    """
    batch = list(messages)
    if origin is None:
        origin = min((message.origin_timestamp for message in batch), default=0)
    frames = []
    for number, message in enumerate(batch):
        rest = struct.pack(
            "<16sIIIIQ",
            (ids[number] if ids else message.id).to_bytes(16, "little"),
            deltas[number] if deltas else number,
            message.origin_timestamp - origin if timestamp_delta is None else timestamp_delta,
            len(message.user_headers),
            len(message.payload) if payload_length is None else payload_length,
            frame_reserved,
        )
        rest += message.payload + message.user_headers
        frames.append(struct.pack("<Q", xxhash.xxh3_64_intdigest(rest) ^ frame_checksum) + rest)
    count = len(batch) if count is None else count
    length += 256 + len(b"".join(frames)) + len(behind)
    covered = struct.pack("<QQQQQI", 0, 0, 0, origin, length, count)
    checksum = xxhash.xxh3_64_intdigest(covered + b"".join(frame[:8] for frame in frames))
    checksum ^= batch_checksum
    header = struct.pack("<QQQQQQI", 0, 0, 0, origin, length, checksum, count) + reserved
    return b"".join((header, *frames, behind))


def old_batch(messages: Iterable[Message]) -> bytes:
    """What follows the target of a send; user headers have bare keys."""
    parts = []
    for message in messages:
        parts.append(message.id.to_bytes(16, "little"))
        parts.append(struct.pack("<I", len(message.user_headers)) + message.user_headers)
        parts.append(struct.pack("<I", len(message.payload)) + message.payload)
    return b"".join(parts)


def short_batch(messages: Iterable[Message]) -> tuple[memoryview, memoryview]:
    """Index and messages of a send with headers of 56 bytes; user headers have bare keys."""
    indexes, batch = bytearray(), bytearray()
    for message in messages:
        batch += struct.pack(
            "<Q16sQQQII",
            message.checksum,
            message.id.to_bytes(16, "little"),
            message.offset,
            message.timestamp,
            message.origin_timestamp,
            len(message.user_headers),
            len(message.payload),
        )
        batch += message.payload + message.user_headers
        indexes += struct.pack("<IIQ", 0, len(batch), 0)
    return memoryview(bytes(indexes)), memoryview(bytes(batch))


def bare_pair(key: bytes, kind: int, value: bytes) -> bytes:
    return struct.pack("<I", len(key)) + key + struct.pack("<BI", kind, len(value)) + value
