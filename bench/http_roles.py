"""Actors that speak HTTP: what differs from roles.py, and no more.

Batches and answers to polls are bytes (application/octet-stream); transport `http-json` sends JSON.
"""

import json
import re
from base64 import b64encode
from typing import Final

from borzoi.bench.actors import Actor, LoadFailed
from borzoi.bench.batches import PollFrame, SendFrame
from borzoi.bench.carriers import Carrier
from borzoi.bench.plans import HTTP_JSON, ActorPlan, Role
from borzoi.bench.roles import U64, ConsumerActor, IdleActor, Polled, Producer, send_frames
from borzoi.protocol.http_answer import HttpAnswerHead, read_answer_head
from borzoi.protocol.http_head import HEAD_END
from borzoi.protocol.message import MESSAGE_HEADER_SIZE

LOGIN_TIMEOUT_S: Final = 60.0
HEAD_SIZE_MAX: Final = 2048
CREATED: Final = b"HTTP/1.1 201 "
OK: Final = 200
NO_BODY: Final = re.compile(rb"content-length: 0\r\n", re.IGNORECASE)
OFFSET_AT: Final = 24
ORIGIN_AT: Final = 40


def log_in(connection: Carrier, plan: ActorPlan) -> bytes:
    """The header that carries the token of a login."""
    assert plan.credentials is not None, "only a broker is logged in to"
    account = {"username": plan.credentials.username, "password": plan.credentials.password}
    body = json.dumps(account).encode()
    connection.setblocking(True)
    connection.sendall(request_head("POST /users/login", b"", "application/json", len(body)) + body)
    head, answer = _whole_answer(connection)
    connection.setblocking(False)
    if head.status != OK:
        raise LoadFailed(f"the server refused a login: HTTP status {head.status} {answer!r}")
    token: str = json.loads(answer)["access_token"]["token"]
    return f"Authorization: Bearer {token}\r\n".encode("ascii")


def request_head(line: str, token: bytes, content_type: str, size: int) -> bytes:
    """Everything before the body of a request."""
    head = f"{line} HTTP/1.1\r\nHost: localhost\r\n".encode("ascii") + token
    if size:
        head += f"Content-Type: {content_type}\r\nContent-Length: {size}\r\n".encode("ascii")
    return head + b"\r\n"


class HttpProducer(Producer):
    """Sends whole messages as bytes, or as JSON."""

    reply_size = HEAD_SIZE_MAX

    def send_frames(self) -> list[SendFrame]:
        """Returns the batches of the plan, as requests."""
        plan, token = self.plan, log_in(self.socket, self.plan)
        make = _json_frame if plan.transport == HTTP_JSON else _octets_frame
        return [make(plan, token, frame) for frame in send_frames(plan)]

    def stamp(self, frame: SendFrame, origin_us: int) -> None:
        """Writes into a request when its first message was made; JSON does not say so."""
        if frame.origin_at:
            U64.pack_into(frame.frame, frame.origin_at, origin_us)

    def is_answered(self, size: int) -> bool:
        """Whether the first `size` bytes of the reply are all of it. Raises if it is no success."""
        head = bytes(self._reply_view[:size])
        if not head.endswith(HEAD_END):
            return False
        if not head.startswith(CREATED) or not NO_BODY.search(head):
            raise LoadFailed(f"the server refused a send: {head[:100]!r}")
        return True


class HttpConsumer(ConsumerActor):
    """Polls messages as bytes."""

    def prepare(self) -> None:
        """Builds the poll and a buffer for its answers, before anything is measured."""
        self._token = log_in(self.socket, self.plan)
        self._head: HttpAnswerHead | None = None
        super().prepare()
        if self.plan.group is None:
            self._buffer = bytearray(len(self._buffer) + HEAD_SIZE_MAX)
            self._view = memoryview(self._buffer)

    def poll_frame(self) -> PollFrame:
        """Returns the poll of the plan, as a request."""
        plan = self.plan
        path = f"/streams/{plan.stream}/topics/{plan.topic}/messages"
        query = f"consumer_id={plan.actor_id}&partition_id={plan.partition_id or 0}"
        count = plan.messages_per_batch.last
        line = f"GET {path}?{query}&kind={plan.strategy.name.lower()}&count={count}&value="
        self._before = line.encode("ascii")
        accept = b"Accept: application/octet-stream\r\n"
        self._behind = b" HTTP/1.1\r\nHost: localhost\r\n" + self._token + accept + b"\r\n"
        return PollFrame(bytearray(), 0)

    def receive(self) -> None:
        """Reads a part of an answer, and calls complete() behind its last byte."""
        size = self.socket.recv_into(self._view[self._received :])
        if size == 0:
            raise LoadFailed("the server closed the connection")
        self._received += size
        if self._head is None:
            self._head = read_answer_head(bytes(self._view[: min(self._received, HEAD_SIZE_MAX)]))
            if self._head is None:
                return
            if self._head.status != OK:
                raise LoadFailed(f"the server refused a poll: {bytes(self._view[:200])!r}")
            self._expected = self._head.size + self._head.length
            if self._expected > len(self._buffer):
                self._grow(self._received)
        if self._received < self._expected:
            return
        length = self._expected
        self._received = self._expected = 0
        self.complete(length)

    def polled(self, size: int) -> Polled:
        """Returns what a whole answer to a poll holds."""
        head, self._head = self._head, None
        assert head is not None, "an answer begins with its head"
        count = int(head.fields["messages-count"])
        if count == 0:
            return Polled(0, 0, 0, 0)
        (offset,) = U64.unpack_from(self._buffer, head.size + OFFSET_AT)
        (origin_us,) = U64.unpack_from(self._buffer, head.size + ORIGIN_AT)
        return Polled(count, offset, origin_us, head.length - count * MESSAGE_HEADER_SIZE)

    def _aim(self, value: int) -> None:
        self._value = value
        self._poll = PollFrame(bytearray(self._before + b"%d" % value + self._behind), 0)


HTTP_CLASSES: Final[dict[Role, type[Actor]]] = {
    Role.PRODUCER: HttpProducer,
    Role.CONSUMER: HttpConsumer,
    Role.IDLE: IdleActor,
}


def _octets_frame(plan: ActorPlan, token: bytes, classic: SendFrame) -> SendFrame:
    messages = bytes(classic.frame[len(classic.frame) - classic.total_bytes :])
    query = f"count={classic.message_count}"
    if plan.partition_id is not None:
        query += f"&partition_id={plan.partition_id}"
    line = f"POST /streams/{plan.stream}/topics/{plan.topic}/messages?{query}"
    head = request_head(line, token, "application/octet-stream", len(messages))
    origin_at = len(head) + ORIGIN_AT
    return _frame(classic, head + messages, origin_at)


def _json_frame(plan: ActorPlan, token: bytes, classic: SendFrame) -> SendFrame:
    size = classic.user_bytes // classic.message_count
    payload = b64encode(bytes(classic.frame[-size:])).decode("ascii")
    partition = b64encode((plan.partition_id or 0).to_bytes(4, "little")).decode("ascii")
    body = json.dumps(
        {
            "partitioning": {"kind": "partition_id", "value": partition},
            "messages": [{"payload": payload}] * classic.message_count,
        },
        separators=(",", ":"),
    ).encode()
    line = f"POST /streams/{plan.stream}/topics/{plan.topic}/messages"
    return _frame(classic, request_head(line, token, "application/json", len(body)) + body, 0)


def _frame(classic: SendFrame, request: bytes, origin_at: int) -> SendFrame:
    return SendFrame(
        frame=bytearray(request),
        message_count=classic.message_count,
        user_bytes=classic.user_bytes,
        total_bytes=classic.total_bytes,
        origin_at=origin_at,
        partition_at=None,
    )


def _whole_answer(connection: Carrier) -> tuple[HttpAnswerHead, bytes]:
    data, view = bytearray(), memoryview(bytearray(HEAD_SIZE_MAX))
    while True:
        size = connection.recv_into(view)
        if size == 0:
            raise LoadFailed("the server closed the connection at its login")
        data += view[:size]
        head = read_answer_head(bytes(data))
        if head is not None and len(data) >= head.size + head.length:
            return head, bytes(data[head.size :])
