"""A message of Liftbridge as it is stored, and back. Pure.

It lies in its topic as any message does: the value is the payload, everything else is user headers.

    lb.key          the key, raw                       lb.subject   the subject it came on
    lb.correlation  the correlation id                 lb.reply     the reply subject
    lb.empty        true: the value is empty; the payload, which cannot be, is one zero byte
    lb.x.0, 1, ...  a protobuf Message in pieces of 255 bytes: whatever does not fit a user header,
                    which has 1 to 255 bytes in its name and in its value
    (any other)     a header of the publisher, raw

A message that an Iggy client has written has none of the `lb.` ones. Its user headers are headers,
by the bytes of their values, and its subject is that of its partition.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

from borzoi.liftbridge.schema import Message
from borzoi.protocol.errors import BrokerError
from borzoi.protocol.headers import (
    FIELD,
    HEADER_FIELD_SIZE_MAX,
    HeaderField,
    HeaderKind,
    decode_pairs,
    header_scalar,
)
from borzoi.protocol.message import (
    MESSAGE_HEADER,
    MESSAGE_HEADER_SIZE,
    USER_HEADERS_SIZE_MAX,
)

RESERVED: Final = "lb."
KEY: Final = b"lb.key"
SUBJECT: Final = b"lb.subject"
REPLY: Final = b"lb.reply"
CORRELATION: Final = b"lb.correlation"
EMPTY: Final = b"lb.empty"
CHUNK: Final = b"lb.x."
EMPTY_PAYLOAD: Final = b"\0"
NO_ID: Final = bytes(16)

# In delivered messages, always; they win over headers of the publisher with their names.
SUBJECT_HEADER: Final = "subject"
REPLY_HEADER: Final = "reply"


FIELDS: Final = {
    KEY: ("key", False),
    SUBJECT: ("subject", True),
    REPLY: ("reply", True),
    CORRELATION: ("correlation_id", True),
}
"""Fields of a Delivered by their user headers, and whether they are text."""


class TooLarge(Exception):
    """The key and the headers do not fit into the user headers of a message."""


class Received(NamedTuple):
    """A message as its publisher sent it."""

    value: bytes
    key: bytes = b""
    headers: Mapping[str, bytes] = {}
    subject: str = ""
    reply: str = ""
    correlation_id: str = ""


class Delivered(NamedTuple):
    """A stored message as its readers get it; the time in nanoseconds."""

    offset: int
    timestamp: int
    value: bytes
    key: bytes
    headers: Mapping[str, bytes]
    subject: str
    reply: str
    correlation_id: str


def pair(name: bytes, value: bytes, kind: HeaderKind = HeaderKind.RAW) -> bytes:
    """One user header."""
    return b"".join(
        (
            FIELD.pack(HeaderKind.STRING, len(name)),
            name,
            FIELD.pack(kind, len(value)),
            value,
        )
    )


def subject_pair(subject: str) -> bytes:
    """The user header of a subject, b"" if it does not fit one."""
    data = subject.encode()
    return pair(SUBJECT, data, HeaderKind.STRING) if _fits(data) else b""


def stored_message(message: Received, now_us: int) -> bytes:
    """The bytes of a message in a batch, nothing stamped. TooLarge if it has too many headers."""
    headers = user_headers(message)
    value = message.value or EMPTY_PAYLOAD
    head = MESSAGE_HEADER.pack(0, NO_ID, 0, 0, now_us, len(headers), len(value), 0)
    return b"".join((head, value, headers))


def user_headers(message: Received) -> bytes:
    """The block of user headers that holds all of a message but its value."""
    parts: list[bytes] = []
    rest = None
    for name, data, field in (
        (KEY, message.key, "key"),
        (SUBJECT, message.subject.encode(), "subject"),
        (REPLY, message.reply.encode(), "replySubject"),
        (CORRELATION, message.correlation_id.encode(), "correlationId"),
    ):
        if _fits(data):
            kind = HeaderKind.RAW if name is KEY else HeaderKind.STRING
            parts.append(pair(name, data, kind))
        elif data:
            rest = rest or Message()
            setattr(rest, field, data if name is KEY else data.decode())
    for header, value in message.headers.items():
        encoded = header.encode()
        if _fits(encoded) and _fits(value) and not header.startswith(RESERVED):
            parts.append(pair(encoded, value))
        else:
            rest = rest or Message()
            rest.headers[header] = value
    if not message.value:
        parts.append(pair(EMPTY, b"\1", HeaderKind.BOOL))
    if rest is not None:
        parts += _chunks(rest.SerializeToString())
    block = b"".join(parts)
    if len(block) > USER_HEADERS_SIZE_MAX:
        raise TooLarge(
            f"key and headers take {len(block)} bytes, {USER_HEADERS_SIZE_MAX} are allowed"
        )
    return block


def delivered(view: memoryview, at: int, subject: str) -> tuple[Delivered, int]:
    """The stored message that begins at `at`, and where the next one does.

    `subject` is that of the partition, for messages that have none of their own.
    """
    _, _, offset, timestamp, _, headers_size, payload_size, _ = MESSAGE_HEADER.unpack_from(view, at)
    start = at + MESSAGE_HEADER_SIZE
    middle = start + payload_size
    end = middle + headers_size
    message = Delivered(
        offset, timestamp * 1000, bytes(view[start:middle]), b"", {}, subject, "", ""
    )
    if headers_size:
        message = _with_headers(message, view[middle:end])
    headers = {
        **message.headers,
        SUBJECT_HEADER: message.subject.encode(),
        REPLY_HEADER: message.reply.encode(),
    }
    return message._replace(headers=headers), end


def _with_headers(message: Delivered, block: memoryview) -> Delivered:
    """The message with what its user headers say. A block that is none says nothing."""
    try:
        pairs = list(decode_pairs(block))
    except BrokerError:
        return message
    headers: dict[str, bytes] = {}
    chunks: dict[int, bytes] = {}
    for (name_kind, name), (value_kind, value) in pairs:
        if name_kind != HeaderKind.STRING:
            headers[str(header_scalar(HeaderField(name_kind, name)))] = value
        elif name in FIELDS:
            field, is_text = FIELDS[name]
            given: Any = value.decode("utf-8", "replace") if is_text else value
            message = message._replace(**{field: given})
        elif name == EMPTY and value_kind == HeaderKind.BOOL:
            message = message._replace(value=b"")
        elif name.startswith(CHUNK) and name[len(CHUNK) :].isdigit():
            chunks[int(name[len(CHUNK) :])] = value
        else:
            headers[name.decode("utf-8", "replace")] = value
    message = message._replace(headers=headers)
    return _with_rest(message, chunks) if chunks else message


def _with_rest(message: Delivered, chunks: Mapping[int, bytes]) -> Delivered:
    rest = Message()
    try:
        rest.ParseFromString(b"".join(chunks[number] for number in sorted(chunks)))
    except Exception:
        return message
    return message._replace(
        key=rest.key or message.key,
        subject=rest.subject or message.subject,
        reply=rest.replySubject or message.reply,
        correlation_id=rest.correlationId or message.correlation_id,
        headers={**message.headers, **rest.headers},
    )


def _chunks(data: bytes) -> Iterable[bytes]:
    for number, start in enumerate(range(0, len(data), HEADER_FIELD_SIZE_MAX)):
        piece = data[start : start + HEADER_FIELD_SIZE_MAX]
        yield pair(CHUNK + str(number).encode(), piece)


def _fits(data: bytes) -> bool:
    return 1 <= len(data) <= HEADER_FIELD_SIZE_MAX
