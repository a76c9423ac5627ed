"""A message of NATS as it is to be stored: an envelope is opened, all else is a value. Pure.

Fields of an envelope's Message that say where it was published are ignored: the subject that it
came on counts. Its `offset` is the one that its publisher expects, for streams that check offsets.
Headers of NATS are headers, unless the envelope has others of their names.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

from google.protobuf.message import DecodeError

from borzoi.liftbridge.envelope import PUBLISH, Envelope, Plain, decode_envelope
from borzoi.liftbridge.schema import AckPolicy, Message
from borzoi.liftbridge.stored import Received


class Arrived(NamedTuple):
    """What came, and what its publisher wants to hear of it."""

    message: Received
    plain: Plain | None
    """Why it is stored as it is; None if it was an envelope."""

    inbox: str = ""
    policy: int = AckPolicy.LEADER
    expected: int = 0


def arrived(subject: str, reply: str, data: bytes, headers: Mapping[str, str] | None) -> Arrived:
    """What one message of NATS means. Never fails: whatever is no envelope is plain."""
    given = {name: value.encode() for name, value in (headers or {}).items()}
    opened = _publish_of(data)
    if isinstance(opened, Plain):
        return Arrived(Received(data, b"", given, subject, reply), opened)
    given.update(opened.headers)
    message = Received(opened.value, opened.key, given, subject, reply, opened.correlationId)
    return Arrived(message, None, opened.ackInbox, opened.ackPolicy, opened.offset)


def _publish_of(data: bytes) -> Any:
    """The Message in an envelope; a Plain that says why there is none."""
    envelope = decode_envelope(data)
    if not isinstance(envelope, Envelope):
        return envelope
    if envelope.message_type != PUBLISH:
        return Plain.TYPE
    try:
        return Message.FromString(bytes(envelope.payload))
    except DecodeError:
        return Plain.PAYLOAD
