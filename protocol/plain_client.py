"""The loops of clients in plain Python, over messages as values: the twin of _client.pyx.

How twins are kept equal, and why they look as they do, stands in plain_requests.py.
"""

from collections.abc import Sequence
from itertools import accumulate

from borzoi.protocol.index_entry import INDEX_ENTRY
from borzoi.protocol.message import Message, decode_message, encode_message
from borzoi.protocol.plain_log import ID_SIZE, end_of_message


def sent_index(batch: memoryview, message_count: int) -> bytearray:
    """The index with which a request announces the first messages of a batch: only their ends."""
    entries = bytearray()
    at = 0
    for _ in range(message_count):
        at = end_of_message(batch, at)
        entries += INDEX_ENTRY.pack(0, at, 0)
    return entries


def encode_batch(messages: Sequence[Message]) -> bytes:
    """Index and messages as a request carries them; nothing is stamped."""
    encoded = [encode_message(message) for message in messages]
    ends = accumulate(map(len, encoded))
    index = b"".join([INDEX_ENTRY.pack(0, end, 0) for end in ends])
    return index + b"".join(encoded)


def encode_outgoing(
    messages: Sequence[bytes | Message], origin_timestamp: int, new_ids: bytes = b""
) -> bytes:
    """Index and messages as a client sends them: bytes are payloads, and nothing is stamped.

    Messages without an origin timestamp get this one. `new_ids` holds 16 bytes per message, for
    those without an id; where it is empty ids are left to the server.
    """
    assert not new_ids or len(new_ids) == len(messages) * ID_SIZE, "not one new id per message"
    cleaned = []
    for number, message in enumerate(messages):
        if isinstance(message, bytes):
            message = Message(message)
        new_id = new_ids[number * ID_SIZE : (number + 1) * ID_SIZE]
        cleaned.append(
            Message(
                message.payload,
                message.id or int.from_bytes(new_id, "little"),
                message.user_headers,
                message.origin_timestamp or origin_timestamp,
            )
        )
    return encode_batch(cleaned)


def decode_batch(view: memoryview, at: int = 0) -> list[Message]:
    """Every message from `at` to the end of the view."""
    messages = []
    while at < len(view):
        message = decode_message(view, at)
        messages.append(message)
        at += message.size_bytes
    return messages
