"""Frames of the consensus framing that are almost right: captured ones, changed by a number.

Payloads are changed as in mutation.py, and fields of the header beside them. Checksums would tell
of most changes at once, so most of them are made right again: what lies behind the check is tried,
too.
"""

import random
import struct
from collections.abc import Sequence
from typing import Final, NamedTuple

import xxhash

from borzoi.protocol.consensus.heads import stamp
from borzoi.protocol.consensus.layout import NOT_STAMPED
from borzoi.protocol.consensus.operations import CODES, QUERY, SEND, STAMPED
from borzoi.protocol.edge_layouts import (
    BATCH_CHECKED,
    BATCH_HEADER,
    BATCH_HEADER_SIZE,
    FRAME_HEADER,
    FRAME_HEADER_SIZE,
)
from tests.hostile.mutation import CHANGES, CHANGES_MAX, CORPUS, EXTREMES
from tests.protocol.consensus.frames import exchanges

HEADER_SIZE: Final = 256
SIZE_AT: Final = 48
CHECKSUM_AT: Final = 144
OPERATION_AT: Final = 176
SESSION_AT: Final = 184
CODE_AT: Final = 196
CLIENT: Final = slice(128, 144)
FIELDS: Final = ((0, 4), (SIZE_AT, 4), (60, 1), (128, 8), (CHECKSUM_AT, 8), (168, 8), (176, 1),
                 (SESSION_AT, 8), (192, 4), (CODE_AT, 4), (200, 8), (248, 8))  # fmt: skip
"""Places and widths of what a request says, and of some bytes that it does not use."""

RIGHT_AGAIN: Final = 0.8
"""So often a checksum or a length is made right after a change."""


class Request(NamedTuple):
    """A request apart from its checksum and its length, which follow."""

    header: bytes
    payload: bytes

    @property
    def frame(self) -> bytes:
        header = bytearray(self.header)
        struct.pack_into("<I", header, SIZE_AT, HEADER_SIZE + len(self.payload))
        if header[OPERATION_AT] in STAMPED:
            header[CHECKSUM_AT : CHECKSUM_AT + 16] = stamp(self.payload)
        return bytes(header) + self.payload


def request_of(operation: int, code: int, payload: bytes, *, session: int = 0) -> Request:
    """A request of no client in particular."""
    header = bytearray(HEADER_SIZE)
    header[60] = 5
    header[CLIENT] = bytes(range(1, 17))
    struct.pack_into("<Q", header, 168, 1)
    header[OPERATION_AT] = operation
    struct.pack_into("<Q", header, SESSION_AT, session)
    struct.pack_into("<I", header, CODE_AT, code if operation == QUERY else 0)
    return Request(bytes(header), payload)


def requests() -> list[Request]:
    """The captured ones, and a classic payload for every operation and code beside them."""
    captured = [
        Request(one.request[:HEADER_SIZE], one.request[HEADER_SIZE:])
        for one in exchanges()
        if one.request
    ]
    operations = {int(code): operation for operation, code in CODES.items()}
    made = [
        request_of(operations.get(code, QUERY), code, payload)
        for code, payload in CORPUS
        if operations.get(code) != SEND
    ]
    # Captured ones are fewer and worth more.
    return [*captured * 4, *made]


REQUESTS: Final[Sequence[Request]] = requests()


def consensus_mutant(number: int) -> bytes:
    """The frame that belongs to a number."""
    chance = random.Random(number)
    header, payload = chance.choice(REQUESTS)
    changed = bytearray(payload)
    if chance.random() < 0.8:
        for _ in range(chance.randint(1, CHANGES_MAX)):
            chance.choice(CHANGES)(chance, changed)
    if header[OPERATION_AT] == SEND and chance.random() < RIGHT_AGAIN:
        make_batch_right(changed)
    frame = bytearray(Request(header, bytes(changed)).frame)
    if chance.random() < 1 - RIGHT_AGAIN:
        frame[CHECKSUM_AT : CHECKSUM_AT + 16] = chance.choice((NOT_STAMPED, chance.randbytes(16)))
    if chance.random() < 0.3:
        change_header(chance, frame)
    return bytes(frame)


def change_header(chance: random.Random, frame: bytearray) -> None:
    """One field: an extreme number, or one that is off by a little."""
    at, width = chance.choice(FIELDS)
    old = int.from_bytes(frame[at : at + width], "little")
    new = chance.choice((*EXTREMES, old - 1, old + 1, chance.getrandbits(64), HEADER_SIZE - 1))
    frame[at : at + width] = (new & ((1 << 8 * width) - 1)).to_bytes(width, "little")


def make_batch_right(payload: bytearray) -> None:
    """The checksums and the length of the batch in a send, as far as there is a batch."""
    if len(payload) < 4:
        return
    start = 4 + struct.unpack_from("<I", payload)[0]
    at = start + BATCH_HEADER_SIZE
    checksums = bytearray()
    while at + FRAME_HEADER_SIZE <= len(payload):
        *_, headers_size, payload_size, _ = FRAME_HEADER.unpack_from(payload, at)
        end = min(at + FRAME_HEADER_SIZE + headers_size + payload_size, len(payload))
        struct.pack_into("<Q", payload, at, xxhash.xxh3_64_intdigest(payload[at + 8 : end]))
        checksums += payload[at : at + 8]
        at = end
    if start + BATCH_HEADER_SIZE <= len(payload):
        *before, _, _, count, reserved = BATCH_HEADER.unpack_from(payload, start)
        length = len(payload) - start
        covered = BATCH_CHECKED.pack(*before, length, count)
        checksum = xxhash.xxh3_64_intdigest(covered + checksums)
        BATCH_HEADER.pack_into(payload, start, *before, length, checksum, count, reserved)
