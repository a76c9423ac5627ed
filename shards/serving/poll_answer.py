"""The bytes before the messages of a poll's answer."""

import struct
from typing import Final

from borzoi.protocol.frame import RESPONSE_HEADER
from borzoi.protocol.responses.polled import POLLED_HEADER
from borzoi.storage.reader import Slices

# Status, length of the payload, partition, current offset, message count.
ANSWER: Final = struct.Struct(RESPONSE_HEADER.format + POLLED_HEADER.format.lstrip("<"))


def poll_answer(
    partition_id: int, current_offset: int, slices: Slices | None
) -> tuple[list[bytes | memoryview], int]:
    """A whole answer, with messages or with none, and its size."""
    if slices is None:
        head = ANSWER.pack(0, POLLED_HEADER.size, partition_id, current_offset, 0)
        return [head], ANSWER.size
    size = POLLED_HEADER.size + slices.size
    head = ANSWER.pack(0, size, partition_id, current_offset, slices.message_count)
    return [head, *slices.views], RESPONSE_HEADER.size + size
