"""The compiled loops of clients; explained where their plain twins are, in plain_client.py."""

from collections.abc import Sequence
from typing import Final

from borzoi.protocol.message import Message

LOOPS_VERSION: Final[int]

def sent_index(batch: memoryview, message_count: int) -> bytearray: ...
def encode_batch(messages: Sequence[Message]) -> bytes: ...
def encode_outgoing(
    messages: Sequence[bytes | Message], origin_timestamp: int, new_ids: bytes = b""
) -> bytes: ...
def decode_batch(view: memoryview, at: int = 0) -> list[Message]: ...
