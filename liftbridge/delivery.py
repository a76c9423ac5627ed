"""Stored messages as framed Messages of the API, without objects of protobuf.

The bytes of `Message` field by field, as the classes of schema.py would write them; stored.py says
what the user headers mean. Most messages were published by a client of Liftbridge without headers
of its own: all but their offset, value, time, key and correlation id is the same for a partition,
and made once.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from borzoi.liftbridge.acks import text_field, varint
from borzoi.liftbridge.bridge import Route
from borzoi.liftbridge.calls import PREFIX
from borzoi.liftbridge.stored import (
    CORRELATION,
    KEY,
    REPLY_HEADER,
    SUBJECT_HEADER,
    Delivered,
    delivered,
)
from borzoi.protocol.edges import uncut
from borzoi.protocol.headers import FIELD, HeaderKind
from borzoi.protocol.message import MESSAGE_HEADER, MESSAGE_HEADER_SIZE, OFFSET_AT
from borzoi.protocol.payload import U64

OFFSET_TAG: Final = b"\x08"
KEY_TAG: Final = b"\x12"
VALUE_TAG: Final = b"\x1a"
TIMESTAMP_TAG: Final = b"\x20"
STREAM_TAG: Final = 0x2A
PARTITION_TAG: Final = b"\x30"
SUBJECT_TAG: Final = 0x3A
REPLY_TAG: Final = 0x42
HEADER_TAG: Final = b"\x4a"
CORRELATION_TAG: Final = 0x5A

KEY_HEAD: Final = FIELD.pack(HeaderKind.STRING, len(KEY)) + KEY + bytes((HeaderKind.RAW,))
CORRELATION_HEAD: Final = (
    FIELD.pack(HeaderKind.STRING, len(CORRELATION)) + CORRELATION + bytes((HeaderKind.STRING,))
)
"""User headers up to the size of their value."""

SIZE: Final = 4
"""Bytes of the size of a value, which is below 256 for a user header: the first one says it."""


class Deliverer:
    """Makes the messages of one partition: what all of them have in common is made once."""

    __slots__ = ("_block", "_subject", "_tail", "_time", "_time_us", "_with_place")

    def __init__(self, route: Route) -> None:
        partition = PARTITION_TAG + varint(route.partition) if route.partition else b""
        self._subject = route.subject
        # Messages that came together have the same time.
        self._time_us, self._time = 0, TIMESTAMP_TAG + varint(0)
        self._block = route.subject_header
        self._with_place = text_field(STREAM_TAG, route.view.name) + partition
        headers = {SUBJECT_HEADER: route.subject.encode(), REPLY_HEADER: b""}
        self._tail = (
            self._with_place + text_field(SUBJECT_TAG, route.subject) + _header_fields(headers)
        )

    def framed(self, view: memoryview, at: int) -> tuple[bytes, int]:
        """The stored message that begins at `at`, framed, and where the next one does."""
        _, _, offset, time_us, _, headers_size, payload_size, _ = MESSAGE_HEADER.unpack_from(
            view, at
        )
        start = at + MESSAGE_HEADER_SIZE
        middle = start + payload_size
        end = middle + headers_size
        found = self._key_and_correlation(bytes(view[middle:end]))
        if found is None:
            data = self.any_message(delivered(view, at, self._subject)[0])
            return PREFIX.pack(0, len(data)) + data, end
        key, correlation = found
        head = OFFSET_TAG + varint(offset) if offset else b""
        value_head = b"%b%b%b" % (key, VALUE_TAG, varint(payload_size))
        if time_us != self._time_us:
            self._time_us, self._time = time_us, TIMESTAMP_TAG + varint(time_us * 1000)
        time, tail = self._time, self._tail
        size = len(head) + len(value_head) + payload_size + len(time) + len(tail) + len(correlation)
        parts = (
            PREFIX.pack(0, size), head, value_head, view[start:middle], time, tail, correlation,
        )  # fmt: skip
        return b"".join(parts), end

    def any_message(self, message: Delivered) -> bytes:
        """One Message, whatever it has."""
        parts: list[bytes] = []
        if message.offset:
            parts += (OFFSET_TAG, varint(message.offset))
        if message.key:
            parts += (KEY_TAG, varint(len(message.key)), message.key)
        if message.value:
            parts += (VALUE_TAG, varint(len(message.value)), message.value)
        parts += (TIMESTAMP_TAG, varint(message.timestamp), self._with_place)
        parts.append(text_field(SUBJECT_TAG, message.subject))
        parts.append(text_field(REPLY_TAG, message.reply))
        parts.append(_header_fields(message.headers))
        parts.append(text_field(CORRELATION_TAG, message.correlation_id))
        return b"".join(parts)

    def _key_and_correlation(self, block: bytes) -> tuple[bytes, bytes] | None:
        """The fields of both, if the user headers of a message have no more than the subject."""
        own = self._block
        if not own or not block.startswith(own):
            return None
        at, key, correlation = len(own), b"", b""
        if block.startswith(KEY_HEAD, at):
            start = at + len(KEY_HEAD) + SIZE
            if start > len(block):
                return None
            at = start + block[start - SIZE]
            key = KEY_TAG + varint(at - start) + block[start:at]
        if block.startswith(CORRELATION_HEAD, at):
            start = at + len(CORRELATION_HEAD) + SIZE
            if start > len(block):
                return None
            at = start + block[start - SIZE]
            text = block[start:at]
            # What is no text is replaced, which is for the long way.
            if not text.isascii():
                return None
            correlation = bytes((CORRELATION_TAG,)) + varint(at - start) + text
        return (key, correlation) if at == len(block) else None


class Pieces:
    """The messages of a run, piece by piece."""

    __slots__ = ("_at", "_deliverer", "_view", "_views", "offset")

    def __init__(self, views: Sequence[memoryview], deliverer: Deliverer, first: int) -> None:
        self._views = (view for view in uncut(views) if view)
        self._deliverer = deliverer
        self._view = next(self._views, None)
        self._at = 0
        self.offset = first
        """Behind the last message that was taken."""

    @property
    def has_more(self) -> bool:
        """Whether there is another message."""
        return self._view is not None

    def take(self, size_max: int) -> bytes:
        """So many bytes of whole messages at most, or one message."""
        parts: list[bytes] = []
        size = 0
        framed = self._deliverer.framed
        while self._view is not None:
            data, end = framed(self._view, self._at)
            if parts and size + len(data) > size_max:
                break
            parts.append(data)
            size += len(data)
            self._pass(end)
            if size >= size_max:
                break
        return b"".join(parts)

    def _pass(self, end: int) -> None:
        assert self._view is not None
        self.offset = int(U64.unpack_from(self._view, self._at + OFFSET_AT)[0]) + 1
        self._at = end
        if end >= len(self._view):
            self._view, self._at = next(self._views, None), 0


def framed_messages(views: Sequence[memoryview], route: Route, size_max: int) -> Iterator[bytes]:
    """Messages ready to be sent, in pieces of at most `size_max` or one message."""
    pieces = Pieces(views, Deliverer(route), 0)
    while pieces.has_more:
        yield pieces.take(size_max)


def _header_fields(headers: Mapping[str, bytes]) -> bytes:
    parts: list[bytes] = []
    for name, value in headers.items():
        entry = text_field(0x0A, name) + (b"\x12" + varint(len(value)) + value if value else b"")
        parts += (HEADER_TAG, varint(len(entry)), entry)
    return b"".join(parts)
