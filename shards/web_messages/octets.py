"""Messages as bytes, in and out: as they are stored, without base64 and without work per message.

A body of `application/octet-stream` is whole messages back to back: each 64 bytes of header, its
payload, its user headers (docs/HTTP.md draws them). `count` says how many; the compiled loops of
the wire check them where they lie. What a poll returns so can be sent so.

`application/x-ndjson` is one message per line, as the objects of a JSON send are.
"""

import binascii
from base64 import b64decode
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import msgspec

from borzoi.protocol.batch import MESSAGE_HEADER_SIZE, check_sent_batch, sent_index
from borzoi.protocol.errors import InvalidKeyValueLength, InvalidMessagesCount, InvalidMessagesSize
from borzoi.protocol.identifiers import (
    NAME_SIZE_MAX,
    Balanced,
    MessagesKey,
    PartitionId,
    Partitioning,
)
from borzoi.quantities import KIB
from borzoi.shards.web_forms.bodies import MessageBody, SendQuery
from borzoi.shards.web_forms.failures import plain
from borzoi.shards.web_messages.message_json import pieces

OCTETS: Final = "application/octet-stream"
LINES: Final = "application/x-ndjson"
LINE: Final = msgspec.json.Decoder(MessageBody)

FIRST_SIZE: Final = 4 * KIB
SLICE_SIZE: Final = 1024 * KIB
"""A slice is handed to the kernel as it lies in the file, so it may be large."""


def partitioning_of(query: SendQuery) -> Partitioning:
    """Which partition the query of a send names: by id, by a key in base64, or none."""
    if query.partition_id is not None and query.key is not None:
        raise plain(400, "partition_id and key: needs one of them at most")
    if query.partition_id is not None:
        return PartitionId(query.partition_id)
    if query.key is None:
        return Balanced()
    try:
        key = b64decode(query.key, validate=True)
    except (binascii.Error, ValueError):
        raise plain(400, "key is no base64") from None
    if not 1 <= len(key) <= NAME_SIZE_MAX:
        raise InvalidKeyValueLength(f"a key of {len(key)} bytes where 1 to {NAME_SIZE_MAX} fit")
    return MessagesKey(key)


def batch_of(data: bytes, count: int | None) -> tuple[bytearray, int]:
    """A body of stored messages, checked; and how many they are."""
    if count is None:
        raise plain(400, "count is missing: needs the number of messages in the body")
    # A message has at least its header: a count that cannot be true makes no index.
    if not 1 <= count <= len(data) // MESSAGE_HEADER_SIZE:
        raise InvalidMessagesCount(f"{count} messages in {len(data)} bytes")
    batch = bytearray(data)
    view = memoryview(batch)
    try:
        index = sent_index(view, count)
    except (ValueError, IndexError) as error:
        raise InvalidMessagesSize(f"{count} messages do not fit the body: {error}") from None
    check_sent_batch(memoryview(index), view, count)
    return batch, count


def messages_of(data: bytes) -> list[MessageBody]:
    """A body of lines. 422 if one does not fit, 400 if it is no JSON."""
    try:
        return LINE.decode_lines(data)
    except msgspec.ValidationError as error:
        raise plain(422, f"a line does not fit: {error}") from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise plain(400, f"a line is no JSON: {error}") from None


def lines_of(views: Sequence[memoryview]) -> Iterator[bytes]:
    """Messages as lines of JSON, in pieces of about PIECE_SIZE."""
    return pieces(views, lambda _number: "", "\n")


def pieces_of(views: Iterable[memoryview]) -> Iterator[memoryview]:
    """Messages as they are stored, in slices, none of them copied here.

    The first one is small: the library copies it, to send it with the head.
    """
    size = FIRST_SIZE
    for view in views:
        start = 0
        while start < len(view):
            yield view[start : start + size]
            start += size
            size = SLICE_SIZE
