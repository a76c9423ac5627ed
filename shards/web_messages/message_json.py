"""Messages in JSON: of a send to a batch, of a read to pieces of text. Pure.

Here is work per message in Python, which JSON does not go without: base64, names, braces. Clients
with many small messages are better served by `application/octet-stream` (octets.py) or by TCP.
"""

import binascii
import re
from base64 import b64decode
from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

from borzoi.protocol.edges import uncut
from borzoi.protocol.errors import (
    BrokerError,
    InvalidCommand,
    InvalidKeyValueLength,
    InvalidMessagePayloadLength,
    InvalidMessagesCount,
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

SEND: Final = msgspec.json.Decoder(SendBody)
ID_SIZE: Final = 16
DECIMAL: Final = re.compile(r"[0-9]{1,39}")
HEXADECIMAL: Final = re.compile(
    r"[0-9a-fA-F]{32}|[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"
)
U128_MAX: Final = (1 << 128) - 1
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


def batch_of(messages: Sequence[MessageBody], now_us: int) -> bytearray:
    """The messages back to back as they are stored, nothing stamped."""
    if not messages:
        raise InvalidMessagesCount("a batch without messages")
    parts: list[bytes] = []
    for number, message in enumerate(messages):
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
    """The answer to a poll, in pieces of about PIECE_SIZE or one message."""
    head = f'{{"partition_id":{partition_id},"current_offset":{current_offset},"count":{count}'
    parts = [head, ',"messages":[']
    size = 0
    comma = ""
    for view in uncut(views):
        at = 0
        while at < len(view):
            text, at = message_at(view, at)
            parts += (comma, text)
            comma = ","
            size += len(text)
            if size >= PIECE_SIZE:
                yield "".join(parts).encode()
                parts.clear()
                size = 0
    parts.append("]}")
    yield "".join(parts).encode()


def message_at(view: memoryview, at: int) -> tuple[str, int]:
    """The stored message that begins at `at`, as JSON; and where the next one begins."""
    checksum, id_bytes, offset, timestamp, origin, headers_size, payload_size, reserved = (
        MESSAGE_HEADER.unpack_from(view, at)
    )
    start = at + MESSAGE_HEADER_SIZE
    middle = start + payload_size
    end = middle + headers_size
    payload = binascii.b2a_base64(view[start:middle], newline=False).decode("ascii")
    headers = _headers_json(view[middle:end]) if headers_size else "[]"
    number = int.from_bytes(id_bytes, "little")
    text = (
        f'{{"header":{{"checksum":{checksum},"id":{number},"offset":{offset},'
        f'"timestamp":{timestamp},"origin_timestamp":{origin},'
        f'"user_headers_length":{headers_size},"payload_length":{payload_size},'
        f'"reserved":{reserved}}},"payload":"{payload}","user_headers":{headers}}}'
    )
    return text, end


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
        return f'"{binascii.b2a_base64(block, newline=False).decode("ascii")}"'
    pairs = [
        HeaderBody(
            FieldBody(KIND_NAMES[key.kind], key.data),  # type: ignore[arg-type]  # of the Literal
            FieldBody(KIND_NAMES[value.kind], value.data),  # type: ignore[arg-type]  # as above
        )
        for key, value in found.items()
    ]
    return msgspec.json.encode(pairs).decode()
