"""Messages in JSON: of a send to a batch, of a read to pieces of text. Pure.

Here is work per message in Python, which JSON does not go without: base64, names, braces. Clients
with many small messages are better served by `application/octet-stream` (octets.py) or by TCP.
"""

import binascii
import re
from base64 import b64decode
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final

import msgspec

from borzoi.protocol.errors import (
    BrokerError,
    InvalidCommand,
    InvalidKeyValueLength,
    InvalidMessagePayloadLength,
    TooBigMessagePayload,
    TooBigUserHeaders,
)
from borzoi.protocol.headers import (
    HeaderField,
    HeaderKind,
    decode_user_headers,
    encode_user_headers,
)
from borzoi.protocol.identifiers import (
    NAME_SIZE_MAX,
    U64_MAX,
    Balanced,
    MessagesKey,
    PartitionId,
    Partitioning,
)
from borzoi.protocol.message import (
    MESSAGE_HEADER,
    MESSAGE_HEADER_SIZE,
    MESSAGE_PAYLOAD_SIZE_MAX,
    USER_HEADERS_SIZE_MAX,
)
from borzoi.protocol.payload import U32
from borzoi.shards.web_forms.bodies import (
    FieldBody,
    HeaderBody,
    MessageBody,
    PartitioningBody,
    SendBody,
)
from borzoi.shards.web_forms.failures import plain
from borzoi.shards.web_forms.limits import PIECE_SIZE
from borzoi.shards.web_messages.stored_bytes import StoredBytes

SEND: Final = msgspec.json.Decoder(SendBody)
ID_SIZE: Final = 16
DECIMAL: Final = re.compile(r"[0-9]{1,39}")
HEXADECIMAL: Final = re.compile(
    r"[0-9a-fA-F]{32}|[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"
)
U128_MAX: Final = (1 << 128) - 1
ENCODED_SIZE: Final = PIECE_SIZE // 4 * 3
"""Bytes that are a piece as base64; three of them are four characters."""

KINDS: Final = {kind.name.lower(): kind for kind in HeaderKind}
KIND_NAMES: Final = {kind: name for name, kind in KINDS.items()}


def partitioning_of(body: PartitioningBody) -> Partitioning:
    """How the partition of a batch is chosen."""
    if body.kind == "balanced":
        return Balanced()
    if body.kind == "messages_key":
        if not 1 <= len(body.value) <= NAME_SIZE_MAX:
            raise InvalidKeyValueLength(
                f"a key of {len(body.value)} bytes where 1 to {NAME_SIZE_MAX} fit"
            )
        return MessagesKey(body.value)
    if len(body.value) != U32.size:
        raise InvalidCommand(
            f"a partition id of {len(body.value)} bytes where {U32.size} are needed"
        )
    return PartitionId(U32.unpack(body.value)[0])


def batch_of(messages: Sequence[MessageBody], now_us: int, first: int = 0) -> bytearray:
    """The messages back to back as they are stored, nothing stamped.

    `first` is the number of the first of them in the whole batch.
    """
    parts: list[bytes] = []
    for number, message in enumerate(messages, first):
        payload = message.payload
        headers = _headers_of(message) if message.user_headers else b""
        check_sizes(number, len(payload), len(headers))
        parts += (
            MESSAGE_HEADER.pack(0, _id_of(message.id), 0, 0, now_us, len(headers), len(payload), 0),
            payload,
            headers,
        )
    return bytearray(b"".join(parts))


def check_sizes(number: int, payload_size: int, headers_size: int) -> None:
    """Raise what a message of a batch is refused for."""
    if payload_size == 0:
        raise InvalidMessagePayloadLength(f"message {number} has an empty payload")
    if payload_size > MESSAGE_PAYLOAD_SIZE_MAX:
        raise TooBigMessagePayload(f"message {number} has {payload_size} bytes of payload")
    if headers_size > USER_HEADERS_SIZE_MAX:
        raise TooBigUserHeaders(f"message {number} has {headers_size} bytes of user headers")


def polled_pieces(
    partition_id: int, current_offset: int, count: int, views: Sequence[memoryview]
) -> Iterator[bytes]:
    """The answer to a poll, in pieces of about PIECE_SIZE."""
    head = f'{{"partition_id":{partition_id},"current_offset":{current_offset},"count":{count}'
    yield f'{head},"messages":['.encode()
    yield from pieces(views, lambda number: "," if number else "")
    yield b"]}"


def pieces(
    views: Sequence[memoryview], before: Callable[[int], str], behind: str = ""
) -> Iterator[bytes]:
    """Messages as JSON in pieces of about PIECE_SIZE, whatever the size of a message is.

    Each stands between what `before` says for its number in this answer, and `behind`.
    """
    parts: list[str] = []
    size = number = 0
    walk = StoredBytes(views)
    while not walk.is_over():
        parts.append(before(number))
        for text in _message(walk):
            parts.append(text)
            size += len(text)
            if size >= PIECE_SIZE:
                yield "".join(parts).encode()
                parts.clear()
                size = 0
        parts.append(behind)
        number += 1
    yield "".join(parts).encode()


def _message(walk: StoredBytes) -> Iterable[str]:
    """The stored message that comes next, as JSON."""
    checksum, id_bytes, offset, timestamp, origin, headers_size, payload_size, reserved = (
        MESSAGE_HEADER.unpack(walk.take(MESSAGE_HEADER_SIZE))
    )
    number = int.from_bytes(id_bytes, "little")
    head = (
        f'{{"header":{{"checksum":{checksum},"id":{number},"offset":{offset},'
        f'"timestamp":{timestamp},"origin_timestamp":{origin},'
        f'"user_headers_length":{headers_size},"payload_length":{payload_size},'
        f'"reserved":{reserved}}},"payload":"'
    )
    if payload_size > ENCODED_SIZE:
        return _large(head, walk, payload_size, headers_size)
    payload = _base64(walk.take(payload_size))
    return (f'{head}{payload}","user_headers":{_headers(walk, headers_size)}}}',)


def _large(head: str, walk: StoredBytes, payload_size: int, headers_size: int) -> Iterator[str]:
    """A large message is encoded as it is taken: it may have 64 MB, and many readers at a time."""
    yield head
    for at in range(0, payload_size, ENCODED_SIZE):
        yield _base64(walk.take(min(ENCODED_SIZE, payload_size - at)))
    yield f'","user_headers":{_headers(walk, headers_size)}}}'


def _headers(walk: StoredBytes, size: int) -> str:
    return _headers_json(walk.take(size)) if size else "[]"


def _base64(data: memoryview) -> str:
    return binascii.b2a_base64(data, newline=False).decode("ascii")


def _id_of(given: int | str) -> bytes:
    if isinstance(given, int):
        if given > U64_MAX:
            raise plain(
                422, f"id is {given}: a JSON number has at most 64 bits, larger ids are text"
            )
        return given.to_bytes(ID_SIZE, "little")
    if DECIMAL.fullmatch(given):
        number = int(given)
        if number <= U128_MAX:
            return number.to_bytes(ID_SIZE, "little")
    elif HEXADECIMAL.fullmatch(given):
        return int(given.replace("-", ""), 16).to_bytes(ID_SIZE, "little")
    raise plain(422, f"id is {given[:64]!r}: needs a number, 32 hex digits or a UUID")


def _headers_of(message: MessageBody) -> bytes:
    given = message.user_headers
    if isinstance(given, str):
        try:
            return b64decode(given, validate=True)
        except binascii.Error:
            raise plain(422, "user_headers is text, but no base64") from None
    return encode_user_headers({_field(one.key): _field(one.value) for one in given or ()})


def _field(body: FieldBody) -> HeaderField:
    return HeaderField(KINDS[body.kind], body.value)


def _headers_json(block: memoryview) -> str:
    """The pairs, or base64 if the bytes are none."""
    try:
        found = decode_user_headers(block)
    except BrokerError:
        return f'"{_base64(block)}"'
    pairs = [
        HeaderBody(
            FieldBody(KIND_NAMES[key.kind], key.data),  # type: ignore[arg-type]  # of the Literal
            FieldBody(KIND_NAMES[value.kind], value.data),  # type: ignore[arg-type]  # as above
        )
        for key, value in found.items()
    ]
    return msgspec.json.encode(pairs).decode()
