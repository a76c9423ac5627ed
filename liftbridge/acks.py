"""Acks as bytes: what a publisher gets for each message, made without objects of protobuf.

An ack of PublishAsync is sent for every message, so most of it is made once for all messages of a
partition. tests/liftbridge compares the bytes with those of the classes in schema.py.
"""

from typing import Final

from borzoi.liftbridge.bridge import Route
from borzoi.liftbridge.calls import PREFIX
from borzoi.liftbridge.schema import Ack, AckPolicy, PublishResponse

SHORT: Final = 0x80
"""Numbers below take one byte."""


def varint(number: int) -> bytes:
    """A number that is not negative, seven bits to a byte."""
    if number < SHORT:
        return bytes((number,))
    out = bytearray()
    while number >= SHORT:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def text_field(tag: int, text: str) -> bytes:
    """A field of text; nothing if it is empty."""
    if not text:
        return b""
    data = text.encode()
    return bytes((tag,)) + varint(len(data)) + data


class AckForm:
    """The acks of one partition to one inbox with one policy: all but what differs."""

    __slots__ = ("_head", "_tail")

    def __init__(self, route: Route, inbox: str, policy: int) -> None:
        self._head = (
            text_field(0x0A, route.view.name)
            + text_field(0x12, route.view.subject)
            + text_field(0x1A, route.subject)
        )
        self._tail = text_field(0x2A, inbox), b"" if policy == 0 else b"\x38" + varint(policy)

    def ack(self, offset: int, correlation_id: str, times: bytes) -> bytes:
        """One ack."""
        inbox, policy = self._tail
        at = b"\x20" + varint(offset) if offset else b""
        return b"".join((self._head, at, inbox, text_field(0x32, correlation_id), policy, times))

    def responses(self, first: int, correlation_ids: list[str], times: bytes) -> bytes:
        """Framed answers of PublishAsync to messages with consecutive offsets."""
        parts: list[bytes] = []
        head, (inbox, policy) = self._head, self._tail
        for offset, correlation_id in enumerate(correlation_ids, first):
            correlation = correlation_id.encode()
            size = varint(len(correlation)) + correlation if correlation else b""
            ack = b"".join(
                (
                    head,
                    b"\x20" + varint(offset) if offset else b"",
                    inbox,
                    b"\x32" + size if size else b"",
                    policy,
                    times,
                )
            )
            length = varint(len(ack))
            total = 1 + len(length) + len(ack) + (1 + len(size) if size else 0)
            parts += (PREFIX.pack(0, total), b"\x0a", length, ack)
            if size:
                parts += (b"\x1a", size)
        return b"".join(parts)


def times_field(received_ns: int, committed_ns: int) -> bytes:
    """When a message came and when it was stored."""
    return b"\x40" + varint(received_ns) + b"\x48" + varint(committed_ns)


def async_failure(correlation_id: str, code: int, text: str) -> bytes:
    """A framed answer of PublishAsync to a message that was not stored.

    The empty ack is for clients that know no errors there.
    """
    answer = PublishResponse(correlationId=correlation_id, ack=Ack())
    answer.asyncError.code = code
    answer.asyncError.message = text
    data: bytes = answer.SerializeToString()
    return PREFIX.pack(0, len(data)) + data


def ack_of(
    route: Route, offset: int, correlation_id: str, inbox: str, policy: int, times: tuple[int, int]
) -> "Ack":
    """One ack as an object."""
    return Ack(
        stream=route.view.name,
        partitionSubject=route.view.subject,
        msgSubject=route.subject,
        offset=offset,
        ackInbox=inbox,
        correlationId=correlation_id,
        ackPolicy=policy,
        receptionTimestamp=times[0],
        commitTimestamp=times[1],
    )


def waits(policy: int) -> bool:
    """Whether a publisher with this policy gets an ack."""
    return policy != AckPolicy.NONE
