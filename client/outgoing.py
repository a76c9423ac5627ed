"""From what an application has to a batch that can be sent.

Payloads may be bytes or text. What the server gives a message (offset, timestamp, checksum) is
left out, so that a polled message can be sent on as it is: the server refuses a batch whose
offsets go backwards.
"""

from collections.abc import Iterable, Mapping
from typing import Final, TypeAlias

from borzoi.client.arguments import InvalidArgument, check_number
from borzoi.protocol.batch import INDEX_ENTRY_SIZE
from borzoi.protocol.frame import CODE_SIZE
from borzoi.protocol.headers import HeaderScalar, encode_user_headers, header_field
from borzoi.protocol.identifiers import U32_MAX, U64_MAX
from borzoi.protocol.message import MESSAGE_PAYLOAD_SIZE_MAX, USER_HEADERS_SIZE_MAX, Message
from borzoi.protocol.payload import U32
from borzoi.protocol.send_messages import PreparedBatch, prepare_messages
from borzoi.protocol.send_target import METADATA_SIZE_MAX

Outgoing: TypeAlias = bytes | str | Message

MESSAGE_ID_MAX: Final = 2**128 - 1
# What is left of the largest frame when its code and the largest metadata are taken off.
BATCH_SIZE_MAX: Final = U32_MAX - CODE_SIZE - U32.size - METADATA_SIZE_MAX


def new_message(
    payload: bytes | str,
    *,
    id: int = 0,
    headers: Mapping[HeaderScalar, HeaderScalar] | None = None,
) -> Message:
    """A message to send; with id 0 the server gives it one."""
    pairs = {header_field(key): header_field(value) for key, value in (headers or {}).items()}
    return Message(_as_bytes(payload), id, encode_user_headers(pairs))


def prepare_outgoing(messages: Iterable[Outgoing], now_us: int) -> PreparedBatch:
    """Check and encode; `now_us` goes into every message that has no origin timestamp."""
    if isinstance(messages, bytes | str):
        # Iterating would send its letters one by one.
        raise InvalidArgument(f"messages is one {type(messages).__name__}; a list is needed")
    cleaned = [_cleaned(number, message, now_us) for number, message in enumerate(messages)]
    if not cleaned:
        raise InvalidArgument("messages has no message; at least 1 is needed")
    check_batch_size(sum(message.size_bytes + INDEX_ENTRY_SIZE for message in cleaned))
    return prepare_messages(cleaned)


def check_batch_size(size: int) -> None:
    """Of index and messages together."""
    if size > BATCH_SIZE_MAX:
        raise InvalidArgument(f"the batch has {size} bytes; at most {BATCH_SIZE_MAX} fit a request")


def _cleaned(number: int, outgoing: Outgoing, now_us: int) -> Message:
    what = f"message {number}"
    if not isinstance(outgoing, Message):
        if not isinstance(outgoing, bytes | str):
            found = type(outgoing).__name__
            raise InvalidArgument(f"{what} is of type {found}; bytes, str or Message is needed")
        outgoing = Message(_as_bytes(outgoing))
    payload_size, headers_size = len(outgoing.payload), len(outgoing.user_headers)
    if not 1 <= payload_size <= MESSAGE_PAYLOAD_SIZE_MAX:
        raise InvalidArgument(
            f"{what} has a payload of {payload_size} bytes;"
            f" 1 to {MESSAGE_PAYLOAD_SIZE_MAX} are needed"
        )
    if headers_size > USER_HEADERS_SIZE_MAX:
        raise InvalidArgument(
            f"{what} has {headers_size} bytes of user headers;"
            f" at most {USER_HEADERS_SIZE_MAX} are allowed"
        )
    check_number(f"{what}: id", outgoing.id, MESSAGE_ID_MAX)
    check_number(f"{what}: origin_timestamp", outgoing.origin_timestamp, U64_MAX)
    return Message(
        outgoing.payload,
        outgoing.id,
        outgoing.user_headers,
        outgoing.origin_timestamp or now_us,
    )


def _as_bytes(payload: bytes | str) -> bytes:
    return payload.encode() if isinstance(payload, str) else payload
