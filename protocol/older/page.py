"""Shapes of the first releases, before SDK 0.1: some clients were written from the page about them.

    a consumer       kind u8 | id u32, where later ones have an identifier behind the kind
    a group          u32, where later ones have an identifier
    a new group      without a name: its id in decimal digits is the name
    a new topic      without an expiry

No published package sends them. Their length alone shows them: what reads as the later shape is
that. A request in the earlier shape is written as the later one, and decoded as that.
"""

from collections.abc import Callable
from typing import Any, TypeAlias

from borzoi.protocol.codec import PayloadCodec
from borzoi.protocol.errors import BrokerError
from borzoi.protocol.payload import STRING, U32, PayloadReader, pack_identifier, pack_str8

Later: TypeAlias = Callable[[memoryview], bytes | None]
"""Writes a request in the later shape; None: it is not in the earlier one."""


def accepting(codec: PayloadCodec, later: Later) -> PayloadCodec:
    """The codec, which reads requests in the earlier shape as well."""

    def decode(payload: memoryview) -> Any:
        written = later(payload)
        return codec.decode(payload if written is None else memoryview(written))

    return PayloadCodec(decode, codec.encode)


def later_consumer(tail: int) -> Later:
    """Of a request that has a consumer, a stream and a topic before its last `tail` bytes."""

    def look(payload: memoryview) -> bytes | None:
        if len(payload) < 1 + U32.size or _rest(payload, 1, 3) == tail:
            return None
        if _rest(payload, 1 + U32.size, 2) != tail:
            return None
        (consumer,) = U32.unpack_from(payload, 1)
        return bytes(payload[:1]) + pack_identifier(consumer) + bytes(payload[1 + U32.size :])

    return look


def later_group(payload: memoryview) -> bytes | None:
    """Of a request that has a stream, a topic and a group."""
    if _rest(payload, 0, 2) != U32.size:
        return None
    at = len(payload) - U32.size
    if payload[at] == STRING and payload[at + 1] == U32.size - 2:
        return None
    (group,) = U32.unpack_from(payload, at)
    return bytes(payload[:at]) + pack_identifier(group)


def later_new_group(payload: memoryview) -> bytes | None:
    """Of CREATE_CONSUMER_GROUP."""
    if _rest(payload, 0, 2) != U32.size:
        return None
    (group,) = U32.unpack_from(payload, len(payload) - U32.size)
    return bytes(payload) + pack_str8(str(group))


def later_new_topic(payload: memoryview) -> bytes | None:
    """Of CREATE_TOPIC: id and number of partitions stand before its name."""
    rest = _rest(payload, 0, 1)
    if rest is None or rest <= 2 * U32.size + 1:
        return None
    name_at = len(payload) - rest + 2 * U32.size
    if payload[name_at] != len(payload) - name_at - 1:
        return None
    return bytes(payload[:name_at]) + bytes(U32.size) + bytes(payload[name_at:])


def _rest(payload: memoryview, at: int, identifiers: int) -> int | None:
    """How many bytes follow so many identifiers; None if they are not there."""
    reader = PayloadReader(payload[at:])
    try:
        for _ in range(identifiers):
            reader.identifier()
    except BrokerError:
        return None
    return reader.remaining
