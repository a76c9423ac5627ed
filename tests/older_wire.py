"""A client of an older generation, by the layouts of that generation: the Wire for all commands.

What published packages cannot send: groups, offsets, users, tokens, headers. Ids are those of the
broker, from 0; the layouts shift them. Messages are laid out here, byte by byte, and not by the
code of the broker.
"""

import struct
from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple, Self

from borzoi.protocol.classic import CODECS
from borzoi.protocol.codec import CommandCodec
from borzoi.protocol.codes import Code
from borzoi.protocol.commands import Command, CreateTopic, LoginUser, PollMessages
from borzoi.protocol.errors import error_for
from borzoi.protocol.framing import encode_request
from borzoi.protocol.generations import code_of
from borzoi.protocol.identifiers import Consumer, Identifier, PollingStrategy
from borzoi.protocol.index_entry import INDEX_ENTRY
from borzoi.protocol.older.codecs import (
    HYBRID_CODECS,
    OLD_CODECS,
    V1_CODECS,
    V1_SHORT_CODECS,
)
from borzoi.protocol.older.one_based import to_one
from borzoi.protocol.payload import pack_identifiers
from tests.wire import ANYBODY, FIRST, ROOT, Answer, Listening, Wire

POLLED_HEADER: Final = struct.Struct("<IQI")
OLD_SHOWN: Final = struct.Struct("<QBQ16sII")
SHORT_HEAD: Final = struct.Struct("<Q16sQQQII")
NUMERIC_PARTITION: Final = struct.Struct("<BBI")
U32: Final = struct.Struct("<I")


class Dialect(NamedTuple):
    """A generation as its clients see it."""

    version: str | None
    codecs: Mapping[int, CommandCodec]
    base: int  # of ids
    is_short: bool  # messages have heads of 56 bytes


DIALECTS: Final[Mapping[str, Dialect]] = {
    "v1-short": Dialect(None, V1_SHORT_CODECS, 1, is_short=False),
    "v1": Dialect(None, V1_CODECS, 1, is_short=False),
    "old-text": Dialect("0.6.31", OLD_CODECS, 1, is_short=False),
    "old": Dialect("0.6.202", OLD_CODECS, 1, is_short=False),
    "hybrid": Dialect("0.7.0", HYBRID_CODECS, 1, is_short=True),
    "bare-keys": Dialect("0.8.0", CODECS, 0, is_short=True),
}


class Shown(NamedTuple):
    """A message as such a client sees it; headers are the bare block."""

    offset: int
    payload: bytes
    id: int
    timestamp: int
    headers: bytes


class OlderWire(Wire):
    """A connection in one of the DIALECTS."""

    def __init__(self, broker: Listening, name: str, *, login: bool = True) -> None:
        self.dialect = DIALECTS[name]
        super().__init__(broker, login=False)
        # As published packages begin.
        assert self.is_in_step()
        if login:
            self.log_in()

    def log_in(self, username: str = ROOT.username, password: str = ROOT.password) -> Self:
        super().log_in(username, password)
        if self.dialect.codecs is V1_SHORT_CODECS:
            # The login is that of all of V1; the shape of a topic tells the rest.
            self.answer_to(CreateTopic("nowhere", 1, 1, 0, 0, 0, "t"))
        return self

    def begin(self, command: Command) -> None:
        code = code_of(command)
        if isinstance(command, LoginUser):
            self.put(encode_request(code, self._login(command)))
        else:
            self.put(encode_request(code, self.dialect.codecs[code].request.encode(command)))

    def ask(self, command: Command) -> Any:
        self.begin(command)
        status, payload = self.answer()
        if status:
            raise error_for(status)
        answer = self.dialect.codecs[code_of(command)].answer
        return answer.decode(memoryview(payload))

    def _login(self, command: LoginUser) -> bytes:
        who = b"".join(
            bytes((len(text),)) + text
            for text in (command.username.encode(), command.password.encode())
        )
        version = self.dialect.version
        if version is None:
            return who
        return who + U32.pack(len(version)) + version.encode() + bytes(4)

    # Messages.

    def send_all(
        self,
        stream: Identifier,
        topic: Identifier,
        partition: int,
        messages: Iterable[tuple[int, bytes, bytes]],
    ) -> Answer:
        """Messages as (id, bare headers, payload) to a partition, from 0."""
        base = self.dialect.base
        names = (to_one(stream), to_one(topic)) if base else (stream, topic)
        target = pack_identifiers(*names) + NUMERIC_PARTITION.pack(2, 4, partition + base)
        if self.dialect.is_short:
            return self.request(Code.SEND_MESSAGES, _short_send(target, list(messages)))
        batch = b"".join(
            id.to_bytes(16, "little")
            + U32.pack(len(headers))
            + headers
            + U32.pack(len(payload))
            + payload
            for id, headers, payload in messages
        )
        return self.request(Code.SEND_MESSAGES, target + batch)

    def poll_all(
        self,
        stream: Identifier,
        topic: Identifier,
        partition: int | None = 0,
        strategy: PollingStrategy = FIRST,
        count: int = 1000,
        consumer: Consumer = ANYBODY,
        *,
        auto_commit: bool = False,
    ) -> tuple[int, list[Shown]]:
        """The partition that the answer names, as it stands there, and the messages."""
        self.begin(PollMessages(consumer, stream, topic, partition, strategy, count, auto_commit))
        payload = self.result()
        partition_id, _, announced = POLLED_HEADER.unpack_from(payload)
        read = _read_short if self.dialect.is_short else _read_old
        shown = read(payload, POLLED_HEADER.size)
        assert len(shown) == announced
        return partition_id, shown


def _short_send(target: bytes, messages: list[tuple[int, bytes, bytes]]) -> bytes:
    metadata = target + U32.pack(len(messages))
    index, batch = b"", b""
    for id, headers, payload in messages:
        head = SHORT_HEAD.pack(0, id.to_bytes(16, "little"), 0, 0, 5, len(headers), len(payload))
        batch += head + payload + headers
        index += INDEX_ENTRY.pack(0, len(batch), 0)
    return U32.pack(len(metadata)) + metadata + index + batch


def _read_old(payload: bytes, at: int) -> list[Shown]:
    shown = []
    while len(payload) - at >= OLD_SHOWN.size + U32.size:
        offset, state, timestamp, id_bytes, _, size = OLD_SHOWN.unpack_from(payload, at)
        assert state == 1
        start = at + OLD_SHOWN.size
        headers = payload[start : start + size]
        (length,) = U32.unpack_from(payload, start + size)
        at = start + size + U32.size + length
        id = int.from_bytes(id_bytes, "little")
        shown.append(Shown(offset, payload[at - length : at], id, timestamp, headers))
    return shown


def _read_short(payload: bytes, at: int) -> list[Shown]:
    shown = []
    while at < len(payload):
        head = SHORT_HEAD.unpack_from(payload, at)
        _, id_bytes, offset, timestamp, _, headers_size, size = head
        start = at + SHORT_HEAD.size
        at = start + size + headers_size
        id = int.from_bytes(id_bytes, "little")
        body = payload[start : start + size]
        shown.append(Shown(offset, body, id, timestamp, payload[start + size : at]))
    return shown
