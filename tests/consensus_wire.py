"""The tests' client in the consensus generation: as Wire, with its headers, sessions and batches.

Statuses are as the official client reports them, whichever way they travel: in the header, in a
result section, or as the reason of an eviction (`evicted` has that).
"""

import os
import struct
import time
from collections.abc import Iterable
from dataclasses import replace
from typing import Any, Final, Self

from borzoi.protocol import commands as c
from borzoi.protocol.codes import Code, LaterCode
from borzoi.protocol.commands import Command
from borzoi.protocol.consensus.codecs import CODECS
from borzoi.protocol.consensus.evictions import EVICTION
from borzoi.protocol.consensus.heads import stamp
from borzoi.protocol.consensus.layout import FIELDS, FIELDS_AT
from borzoi.protocol.consensus.operations import HAS_SECTION, OPERATIONS, QUERY, REFUSAL, STAMPED
from borzoi.protocol.edge_layouts import BATCH_HEADER, FRAME_HEADER
from borzoi.protocol.identifiers import Identifier, PartitionId, Partitioning
from borzoi.protocol.message import Message
from borzoi.protocol.payload import pack_identifier, pack_partitioning
from borzoi.protocol.responses import PolledMessages, Registered, SentBatch
from borzoi.protocol.responses.polled import POLLED_HEADER
from tests.protocol.foreign import consensus_batch
from tests.wire import ROOT, Answer, Listening, Wire

VERSION: Final = 11 << 10
REPORTED: Final = {1: 40, 4: 3, 5: 3, 6: 3, 9: 42, 10: 53, 13: 30, 14: 14003, 15: 4}
"""What the official client reports for the reason of an eviction."""
CODES: Final = {codec.command: code for code, codec in CODECS.items()}
NO_MEMBER: Final = 0xFFFFFFFF
"""The partition in the answer to a poll of a partition that is not the member's."""


class ConsensusWire(Wire):
    """One connection of that generation, logged in as root unless that is left for later."""

    def __init__(self, broker: Listening, *, login: bool = True, source: str | None = None) -> None:
        self.client = os.urandom(16)
        self.session = 0
        self.number = 1
        self.evicted: int | None = None
        self.header = b""  # of the last answer
        super().__init__(broker, login=login, source=source)

    def log_in(self, username: str = ROOT.username, password: str = ROOT.password) -> Self:
        """Register; a connection that is refused here is closed."""
        try:
            self.register(c.Register(VERSION, "test", "1", username, password))
        except BaseException:
            self.close()
            raise
        return self

    def register(self, command: c.Register) -> Registered:
        """Log in, with a new client id, and keep the session number."""
        self.client, self.session, self.number = os.urandom(16), 0, 1
        registered: Registered = self.ask(command)
        self.session = registered.session
        return registered

    # Bytes.

    def frame(self, code: int, payload: bytes = b"", **changed: Any) -> bytes:
        """A request; `changed` are fields of its header that are not as they should be."""
        operation = OPERATIONS.get(code, QUERY)
        fields = {
            "size": 256 + len(payload),
            "kind": 5,
            "client": self.client,
            "checksum": stamp(payload) if operation in STAMPED else bytes(16),
            "request": 0 if code == LaterCode.LOGIN_REGISTER else self.number,
            "operation": operation,
            "session": self.session,
            "header_code": code if operation == QUERY else 0,
            **changed,
        }
        header = bytearray(256)
        FIELDS.pack_into(header, FIELDS_AT, *fields.values())
        return bytes(header) + payload

    def request(self, code: int, payload: bytes = b"", **changed: Any) -> Answer:
        """Any request, however wrong, and what is answered to it."""
        self.put(self.frame(code, payload, **changed))
        return self.answer()

    def answer(self) -> Answer:
        """The next answer, whatever it says."""
        header = self.header = self._take(256)
        (size,) = struct.unpack_from("<I", header, 48)
        payload = self._take(size - 256)
        if header[60] == EVICTION:
            self.evicted = header[255]
            return Answer(REPORTED[self.evicted], b"")
        self.evicted = None
        assert header[60] == 8
        (status,) = struct.unpack_from("<I", header, 216)
        if status or not HAS_SECTION[header[208]]:
            return Answer(status, payload)
        if payload[:4] == bytes(4):
            return Answer(0, payload[4:])
        assert len(payload) == REFUSAL.size
        return Answer(REFUSAL.unpack(payload)[2], b"")

    # Values.

    def ask(self, command: Command) -> Any:
        """The value that a command answers with, None for an empty answer; errors are raised."""
        self.begin(command)
        payload = memoryview(self.result())
        if isinstance(command, c.PollMessages):
            return decode_polled(payload)
        return CODECS[CODES[type(command)]].answer.decode(payload)

    def begin(self, command: Command) -> None:
        """Write a command without waiting; `result` or `answer` waits."""
        code = CODES[type(command)]
        self.put(self.frame(code, CODECS[code].request.encode(command)))
        if OPERATIONS.get(code, QUERY) != QUERY:
            self.number += 1

    def begin_append(
        self,
        stream: Identifier,
        topic: Identifier,
        partitioning: Partitioning | int,
        messages: Iterable[Message | bytes],
    ) -> None:
        """Write a batch without waiting; `result` or `answer` waits."""
        self.put(
            self.frame(Code.SEND_MESSAGES, send_payload(stream, topic, partitioning, messages))
        )
        self.number += 1

    def confirmed(
        self, topic: Identifier, partitioning: Partitioning | int, *messages: Message | bytes
    ) -> SentBatch:
        """Send a batch, and where it lies."""
        self.begin_append(topic, topic, partitioning, messages)
        payload = memoryview(self.result())
        sent: SentBatch = CODECS[Code.SEND_MESSAGES].answer.decode(payload)
        return sent


def send_payload(
    stream: Identifier,
    topic: Identifier,
    partitioning: Partitioning | int,
    messages: Iterable[Message | bytes],
) -> bytes:
    """The payload of a send."""
    if isinstance(partitioning, int):
        partitioning = PartitionId(partitioning)
    now = time.time_ns() // 1000
    batch = [
        replace(one, id=one.id or 1 + at, origin_timestamp=one.origin_timestamp or now)
        for at, one in enumerate(
            Message(one) if isinstance(one, bytes) else one for one in messages
        )
    ]
    target = pack_identifier(stream) + pack_identifier(topic) + pack_partitioning(partitioning)
    metadata = target + struct.pack("<I", len(batch))
    return struct.pack("<I", len(metadata)) + metadata + consensus_batch(batch)


def decode_polled(payload: memoryview) -> PolledMessages:
    """The messages of a poll, record by record."""
    partition_id, current, count = POLLED_HEADER.unpack_from(payload)
    messages: list[Message] = []
    at = POLLED_HEADER.size
    while at < len(payload):
        _, base, timestamp, origin, length, _, held, reserved = BATCH_HEADER.unpack_from(
            payload, at
        )
        assert reserved == bytes(204)
        end, at = at + length, at + BATCH_HEADER.size
        for _ in range(held):
            _, id, delta, time_delta, headers, size, _ = FRAME_HEADER.unpack_from(payload, at)
            at += FRAME_HEADER.size
            body = bytes(payload[at : at + size + headers])
            at += size + headers
            messages.append(
                Message(
                    body[:size], int.from_bytes(id, "little"), body[size:], origin + time_delta,
                    offset=base + delta, timestamp=timestamp,
                )
            )  # fmt: skip
        assert at == end
    assert len(messages) == count
    return PolledMessages(partition_id, current, tuple(messages))
