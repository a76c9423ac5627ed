"""What actors do: produce, consume, both in turn, echo, keep silent. The hot path of a generator.

Requests are prebuilt. Per request an actor sends, receives into a buffer it made before, looks at
the header of the answer and notes four numbers. That is a few microseconds of Python beside the
kernel's own work, so that one generator can keep a shard busy that needs ten.
"""

import struct
import time
from typing import Final, NamedTuple

from borzoi.bench.actors import Actor, LoadFailed, refusal
from borzoi.bench.batches import (
    PollFrame,
    SendFrame,
    build_poll_frame,
    build_send_frames,
    group_member,
    response_size_max,
    single_consumer,
)
from borzoi.bench.plans import ActorPlan, Role
from borzoi.bench.quantities import NS_PER_US
from borzoi.protocol.framing import OK, RESPONSE_HEADER
from borzoi.protocol.identifiers import StrategyKind
from borzoi.protocol.message import MESSAGE_HEADER_SIZE

U32: Final = struct.Struct("<I")
U64: Final = struct.Struct("<Q")

# status u32 | length u32 | partition u32 | current_offset u64 | count u32 | then of the first
# message: checksum and id, offset u64, timestamp, origin_timestamp u64
POLLED: Final = struct.Struct("<IIIQI24xQ8xQ")
POLLED_HEAD_SIZE: Final = 24

# A consumer that is up to date looks again after this long. Asking at once would only measure
# how fast the server says "nothing", and take the shard from the producers.
EMPTY_POLL_PAUSE_NS: Final = 500 * NS_PER_US


class Polled(NamedTuple):
    """The answer to a poll: how many messages, and of the first its offset and its origin."""

    message_count: int
    offset: int
    origin_us: int
    user_bytes: int


class Producer(Actor):
    """Sends prebuilt batches and waits for each acknowledgement."""

    reply_size = RESPONSE_HEADER.size

    def prepare(self) -> None:
        """Builds all requests, before anything is measured."""
        self._frames = self.send_frames()
        self._costs = [_cost(self.plan, frame) for frame in self._frames]
        self._reply = bytearray(self.reply_size)
        self._reply_view = memoryview(self._reply)
        self._replied = 0

    def rewind(self) -> None:
        """Starts again with the first batch and the first partition."""
        self._number = 0
        self._turn = 0
        self._frame = self._frames[0]

    def begin(self, planned_ns: int) -> None:
        """Stamps and sends the next batch."""
        frame = self._frame
        if len(self._frames) > 1:
            self._number = (self._number + 1) % len(self._frames)
            frame = self._frame = self._frames[self._number]
        if self.plan.partition_count > 1 and frame.partition_at is not None:
            U32.pack_into(frame.frame, frame.partition_at, self._turn)
            self._turn = (self._turn + 1) % self.plan.partition_count
        # The planned moment, not the real one: what a consumer sees of a late message is late.
        self.stamp(frame, (planned_ns + self._wall_ns) // NS_PER_US)
        self._planned_ns = planned_ns
        self._send(frame.frame)

    def send_frames(self) -> list[SendFrame]:
        """Returns the batches of the plan, as requests."""
        return send_frames(self.plan)

    def stamp(self, frame: SendFrame, origin_us: int) -> None:
        """Writes into a request when its first message was made."""
        U64.pack_into(frame.frame, frame.origin_at, origin_us)

    def is_answered(self, size: int) -> bool:
        """Whether the first `size` bytes of the reply are all of it. Raises if it is no success."""
        if size != self.reply_size:
            return False
        if self._reply != OK:
            raise refusal(RESPONSE_HEADER.unpack(self._reply)[0], "send")
        return True

    def receive(self) -> None:
        """Reads the acknowledgement, notes the latency and goes on."""
        size = self.socket.recv_into(self._reply_view[self._replied :])
        if size == 0:
            raise LoadFailed("the server closed the connection")
        self._replied += size
        if not self.is_answered(self._replied):
            return
        self._replied = 0
        now = time.monotonic_ns()
        frame = self._frame
        self._note(now, now - self._planned_ns, frame.message_count, frame.user_bytes)
        self._left -= self._costs[self._number]
        self.advance(now)


class Poller(Actor):
    """Receives answers of any length into one buffer; what they mean is up to the subclass."""

    head_size = RESPONSE_HEADER.size

    def prepare(self) -> None:
        """Builds the poll and a buffer for its answers, before anything is measured."""
        plan = self.plan
        size = response_size_max(plan.message_size, plan.messages_per_batch)
        self._buffer = bytearray(max(size, POLLED.size, self.head_size))
        self._view = memoryview(self._buffer)
        self._poll = self.poll_frame()
        self._value = plan.value
        self._received = 0
        self._expected = 0
        if plan.group is None:
            self._aim(plan.value)

    def rewind(self) -> None:
        """Aims at the start again, unless producers run beside it."""
        self._got_something_ns = time.monotonic_ns()
        # Beside producers a second phase goes on behind the first: going back would make every
        # message look as old as the warm-up was long.
        if self.plan.group is None and not self.plan.latency_from_origin:
            self._aim(self.plan.value)

    def receive(self) -> None:
        """Reads a part of an answer, and calls complete() behind its last byte."""
        received = self._received
        size = self.socket.recv_into(self._view[received:] if received else self._view)
        if size == 0:
            raise LoadFailed("the server closed the connection")
        received += size
        if not self._expected:
            if received < self.head_size:
                self._received = received
                return
            status, self._expected = self.answer()
            if status:
                raise refusal(status, "request")
            if self._expected > len(self._buffer):
                # Larger messages of another producer lie in this stream.
                self._grow(received)
        if received < self._expected:
            self._received = received
            return
        length = self._expected
        self._received = self._expected = 0
        self.complete(length)

    def complete(self, size: int) -> None:
        """A whole answer of `size` bytes lies in the buffer."""
        raise NotImplementedError

    def poll_frame(self) -> PollFrame:
        """Returns the poll of the plan, as a request."""
        plan = self.plan
        grouped = plan.group is not None
        consumer = (
            single_consumer(plan.actor_id) if plan.group is None else group_member(plan.group)
        )
        return build_poll_frame(
            plan.stream,
            plan.topic,
            None if grouped else plan.partition_id,
            consumer=consumer,
            strategy=StrategyKind.NEXT if grouped else plan.strategy,
            count=plan.messages_per_batch.last,
            auto_commit=grouped or plan.strategy is StrategyKind.NEXT,
        )

    def answer(self) -> tuple[int, int]:
        """Returns the status of an answer whose head has come, and the size of all of it."""
        status, length = RESPONSE_HEADER.unpack_from(self._buffer)
        return status, RESPONSE_HEADER.size + length

    def polled(self, size: int) -> Polled:
        """Returns what a whole answer to a poll holds."""
        _, _, _, _, count, offset, origin_us = POLLED.unpack_from(self._buffer)
        user_bytes = size - POLLED_HEAD_SIZE - count * MESSAGE_HEADER_SIZE
        return Polled(count, offset, origin_us, user_bytes)

    def _grow(self, received: int) -> None:
        buffer = bytearray(self._expected)
        buffer[:received] = self._view[:received]
        self._buffer = buffer
        self._view = memoryview(buffer)

    def _aim(self, value: int) -> None:
        self._value = value
        U64.pack_into(self._poll.frame, self._poll.value_at, value)

    def _note_polled(self, now: int, latency: int, count: int, user_bytes: int) -> None:
        self._got_something_ns = now
        self._note(now, latency, count, user_bytes)
        goal = self.plan.goal
        if goal.messages is not None:
            self._left -= count
        elif goal.user_bytes is not None:
            self._left -= user_bytes
        else:
            self._left -= 1


class ConsumerActor(Poller):
    """Polls, by offset or time or as a member of a group, and counts what comes."""

    def begin(self, planned_ns: int) -> None:
        """Sends the poll."""
        self._planned_ns = planned_ns
        self._send(self._poll.frame)

    def complete(self, size: int) -> None:
        """Notes an answer and aims behind it; an empty one is polled again after a pause."""
        now = time.monotonic_ns()
        count, offset, origin_us, user_bytes = self.polled(size)
        if count == 0:
            self._nothing(now)
            return
        plan = self.plan
        if plan.group is None and plan.strategy is StrategyKind.OFFSET:
            if offset != self._value:
                raise LoadFailed(f"asked for offset {self._value}, got {offset}")
            following = offset + count
            at_end = plan.wraps_at is not None and following >= plan.wraps_at
            self._aim(plan.value if at_end else following)
        if plan.latency_from_origin:
            latency = now + self._wall_ns - origin_us * NS_PER_US
        else:
            latency = now - self._planned_ns
        self._note_polled(now, latency, count, user_bytes)
        self.advance(now)

    def _nothing(self, now: int) -> None:
        self._empty_polls += 1
        stop = self.plan.idle_stop_ns
        starved = stop is not None and now - self._got_something_ns > stop
        if starved or now >= self._until_ns:
            self._finished(self)
        else:
            # Counted from when it is planned, like every other request.
            self._wait(self, now + EMPTY_POLL_PAUSE_NS)


class PairActor(Poller):
    """Sends a batch, then polls it back; latency is from the planned send to the last byte."""

    def prepare(self) -> None:
        """Builds batches and poll, before anything is measured."""
        super().prepare()
        self._frames = send_frames(self.plan)
        self._number = 0
        self._acknowledged = False

    def begin(self, planned_ns: int) -> None:
        """Stamps and sends the next batch."""
        self._number = (self._number + 1) % len(self._frames)
        frame = self._frames[self._number]
        U64.pack_into(frame.frame, frame.origin_at, (planned_ns + self._wall_ns) // NS_PER_US)
        self._planned_ns = planned_ns
        self._acknowledged = False
        self._send(frame.frame)

    def complete(self, size: int) -> None:
        """Polls after the acknowledgement; notes the latency after the messages."""
        if not self._acknowledged:
            self._acknowledged = True
            self._send(self._poll.frame)
            return
        now = time.monotonic_ns()
        count, offset, origin_us, user_bytes = self.polled(size)
        if count:
            if self.plan.group is None:
                self._aim(offset + count)
            latency = now + self._wall_ns - origin_us * NS_PER_US
            self._note_polled(now, latency, count, user_bytes)
        else:
            self._empty_polls += 1
            if self.plan.goal.requests is not None:
                self._left -= 1
        self.advance(now)


class EchoActor(Actor):
    """Sends a few bytes and waits for as many: what a bare event loop can do."""

    def prepare(self) -> None:
        """Makes request and reply, before anything is measured."""
        self._request = bytearray(self.plan.echo_size)
        self._reply = bytearray(self.plan.echo_size)
        self._reply_view = memoryview(self._reply)
        self._replied = 0

    def begin(self, planned_ns: int) -> None:
        """Sends the request."""
        self._planned_ns = planned_ns
        self._send(self._request)

    def receive(self) -> None:
        """Reads the echo, notes the latency and goes on."""
        size = self.socket.recv_into(self._reply_view[self._replied :])
        if size == 0:
            raise LoadFailed("the echo closed the connection")
        self._replied += size
        if self._replied != len(self._reply):
            return
        self._replied = 0
        now = time.monotonic_ns()
        self._note(now, now - self._planned_ns, 1, self.plan.echo_size)
        self._left -= 1
        self.advance(now)


class IdleActor(Actor):
    """A connection that is logged in and silent."""

    def begin(self, planned_ns: int) -> None:
        """Waits without a request."""
        self._wait(self, planned_ns + EMPTY_POLL_PAUSE_NS)

    def advance(self, now_ns: int) -> None:
        """Ends the actor: its goal is to be there."""
        self._finished(self)

    def receive(self) -> None:
        """Raises LoadFailed: nothing may come."""
        raise LoadFailed("the server said something to an idle connection, or closed it")


CLASSES: Final[dict[Role, type[Actor]]] = {
    Role.PRODUCER: Producer,
    Role.CONSUMER: ConsumerActor,
    Role.PAIR: PairActor,
    Role.ECHO: EchoActor,
    Role.IDLE: IdleActor,
}


def send_frames(plan: ActorPlan) -> list[SendFrame]:
    """Returns the batches of a plan, as classic requests."""
    return build_send_frames(
        plan.stream,
        plan.topic,
        plan.partition_id,
        plan.message_size,
        plan.messages_per_batch,
        seed=plan.actor_id,
    )


def _cost(plan: ActorPlan, frame: SendFrame) -> int:
    """What one send of this frame takes off the goal."""
    if plan.goal.messages is not None:
        return frame.message_count
    if plan.goal.user_bytes is not None:
        return frame.user_bytes
    return 1
