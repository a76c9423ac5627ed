"""Actors that speak the bytes of the 0.9 generation: what differs from roles.py, and no more."""

import random
import struct
from typing import Final

from borzoi.bench.actors import Actor, LoadFailed, refusal
from borzoi.bench.batches import PollFrame, SendFrame
from borzoi.bench.carriers import Carrier
from borzoi.bench.consensus_frames import (
    ConsensusFrame,
    Session,
    build_consensus_frames,
    login_frame,
    poll_request,
)
from borzoi.bench.plans import ActorPlan, Role
from borzoi.bench.roles import ConsumerActor, IdleActor, Polled, Producer
from borzoi.protocol.consensus.evictions import HEADER_SIZE
from borzoi.protocol.edge_layouts import BATCH_HEADER_SIZE, FRAME_HEADER_SIZE
from borzoi.protocol.framing import REQUEST_HEADER
from borzoi.protocol.responses.polled import POLLED_HEADER

REPLY: Final = 8
KIND_AT: Final = 60
# Of a reply: size, then status.
REPLY_HEAD: Final = struct.Struct("<48xI164xI")
# Result section, user, session.
LOGGED_IN: Final = struct.Struct("<4xIQ")
CONFIRMATION_SIZE: Final = 4 + 20
RECORDS_AT: Final = HEADER_SIZE + POLLED_HEADER.size
POLLED_COUNT: Final = struct.Struct("<12xI")
# Of a batch record: base offset, origin timestamp, length.
RECORD: Final = struct.Struct("<8xQ8xQQ")


def log_in(connection: Carrier, plan: ActorPlan) -> Session:
    """The session of a connection that has just been opened."""
    assert plan.credentials is not None, "only a broker is logged in to"
    client = random.Random(f"{plan.actor_id} {connection.getsockname()}").randbytes(16)
    connection.setblocking(True)
    connection.sendall(login_frame(client, plan.credentials))
    head = _exactly(connection, HEADER_SIZE)
    size, status = REPLY_HEAD.unpack_from(head)
    if head[KIND_AT] != REPLY:
        raise LoadFailed(f"the server evicted a login of this generation (reason {head[-1]})")
    if status:
        raise refusal(status, "login")
    _, number = LOGGED_IN.unpack_from(_exactly(connection, size - HEADER_SIZE))
    connection.setblocking(False)
    return Session(client, number)


class ConsensusProducer(Producer):
    """A producer whose sends are numbered and confirmed with an offset."""

    reply_size = HEADER_SIZE + CONFIRMATION_SIZE

    def send_frames(self) -> list[SendFrame]:
        """Returns the batches of the plan, as requests."""
        self._request = 0
        return list(build_consensus_frames(self.plan, log_in(self.socket, self.plan)))

    def stamp(self, frame: SendFrame, origin_us: int) -> None:
        """Writes into a request its number, and when its messages were made."""
        assert isinstance(frame, ConsensusFrame)
        self._request += 1
        frame.stamp(self._request, origin_us)

    def is_answered(self, size: int) -> bool:
        """Whether the first `size` bytes of the reply are all of it. Raises if it is no success."""
        if size < HEADER_SIZE:
            return False
        total, status = REPLY_HEAD.unpack_from(self._reply)
        if status or self._reply[KIND_AT] != REPLY:
            raise refusal(status, "send")
        return bool(size == total)


class ConsensusConsumer(ConsumerActor):
    """A consumer that gets batch records."""

    head_size = HEADER_SIZE

    def poll_frame(self) -> PollFrame:
        """Returns the poll of the plan, as a request."""
        classic = super().poll_frame()
        payload = bytes(classic.frame[REQUEST_HEADER.size :])
        frame = poll_request(log_in(self.socket, self.plan), payload)
        return PollFrame(frame, classic.value_at + HEADER_SIZE - REQUEST_HEADER.size)

    def answer(self) -> tuple[int, int]:
        """Returns the status of an answer whose head has come, and the size of all of it."""
        size, status = REPLY_HEAD.unpack_from(self._buffer)
        return status, size

    def polled(self, size: int) -> Polled:
        """Returns what a whole answer to a poll holds."""
        (count,) = POLLED_COUNT.unpack_from(self._buffer, HEADER_SIZE)
        if count == 0:
            return Polled(0, 0, 0, 0)
        offset, origin_us, _ = RECORD.unpack_from(self._buffer, RECORDS_AT)
        at, records = RECORDS_AT, 0
        while at < size:
            at += RECORD.unpack_from(self._buffer, at)[2]
            records += 1
        heads = RECORDS_AT + records * BATCH_HEADER_SIZE + count * FRAME_HEADER_SIZE
        return Polled(count, offset, origin_us, size - heads)


CONSENSUS_CLASSES: Final[dict[Role, type[Actor]]] = {
    Role.PRODUCER: ConsensusProducer,
    Role.CONSUMER: ConsensusConsumer,
    Role.IDLE: IdleActor,
}


def _exactly(connection: Carrier, size: int) -> bytes:
    data, filled = memoryview(bytearray(size)), 0
    while filled < size:
        received = connection.recv_into(data[filled:])
        if not received:
            raise LoadFailed("the server closed the connection at its login")
        filled += received
    return bytes(data)
