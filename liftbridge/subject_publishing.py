"""PublishToSubject through NATS: the message goes out as an envelope, and its ack comes back.

So whatever listens on the subject gets it, here and elsewhere: streams of this broker by their
subscriptions, of other brokers, and plain subscribers. The first ack is the answer.

NATS knows this broker, not its users, so what a user may do is decided here: a subject of streams
needs the permission to publish to all of them, any other subject the one to publish to all streams.
"""

from typing import Any

from google.protobuf.message import DecodeError

from borzoi.liftbridge.bridge import Bridge
from borzoi.liftbridge.envelope import ACK, PUBLISH, Envelope, decode_envelope, encode_envelope
from borzoi.liftbridge.nats_link import NatsLink
from borzoi.liftbridge.ports import Action, Failed, Unavailable, User
from borzoi.liftbridge.schema import Ack, Message
from borzoi.liftbridge.stored import TooLarge


class SubjectPublishing:
    """Publishes to subjects over the link of one shard."""

    def __init__(self, bridge: Bridge, link: NatsLink) -> None:
        self._bridge = bridge
        self._link = link

    async def publish(self, user: User, request: Any, inbox: str, *, waits: bool) -> Ack | None:
        """Publish a PublishToSubjectRequest; its first ack, if the caller `waits` for one."""
        self._require(user, request.subject)
        self.require_inbox(user, request.ackInbox)
        envelope = encode_envelope(PUBLISH, _message(request, inbox).SerializeToString())
        if not waits:
            if not await self._link.publish(request.subject, envelope):
                raise Unavailable("the message cannot be sent to a NATS server now")
            return None
        try:
            return _ack_of(await self._link.first_answer(request.subject, envelope, inbox))
        except ConnectionError as error:
            raise Unavailable(str(error)) from error
        except ValueError as error:
            raise TooLarge(str(error)) from error

    def require_inbox(self, user: User, inbox: str) -> None:
        """Raise unless the user may have an ack published there: streams would store it."""
        for one in self._bridge.listening(inbox):
            self._bridge.require(user, Action.PUBLISH, one.stream)

    async def acknowledge(self, inbox: str, ack: Ack) -> None:
        """Publish an ack. Without a connection there is none, as from the reference."""
        await self._link.publish(inbox, encode_envelope(ACK, ack.SerializeToString()))

    def _require(self, user: User, subject: str) -> None:
        streams = {one.stream for one in self._bridge.listening(subject)}
        for stream in streams:
            self._bridge.require(user, Action.PUBLISH, stream)
        if not streams:
            self._bridge.store.require(user, Action.PUBLISH)


def _message(request: Any, inbox: str) -> Message:
    return Message(
        key=request.key,
        value=request.value,
        subject=request.subject,
        headers=dict(request.headers),
        ackInbox=inbox,
        correlationId=request.correlationId,
        ackPolicy=request.ackPolicy,
    )


def _ack_of(data: bytes) -> Ack:
    envelope = decode_envelope(data)
    if not isinstance(envelope, Envelope) or envelope.message_type != ACK:
        raise Failed("what came to the inbox of the ack is none")
    try:
        return Ack.FromString(bytes(envelope.payload))
    except DecodeError as error:
        raise Failed(f"what came to the inbox of the ack is none: {error}") from error
