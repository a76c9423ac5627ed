"""What may differ between a recorded answer and a replayed one: twelve masks, by field position.

A field that is renamed must be renamed the same way in every answer: a stream keeps its time of
creation, a message its id, a client its number. Only a field that is put aside is not compared.
All other bytes are compared one by one. Layouts are those of the wire's specification.
"""

import io
import struct
import zipfile
from collections.abc import Callable, Iterator
from enum import IntEnum
from itertools import zip_longest
from typing import Final, NamedTuple

import xxhash

from borzoi.protocol.responses.clients import Transport
from tests.replay.cutting import HEADER, Request


class Mask(NamedTuple):
    """A reason to differ; a renamed field differs everywhere in the same way."""

    reason: str
    renamed: bool


TIME: Final = Mask("the broker's clock, in microseconds; 0 stays 0", renamed=True)
MESSAGE_ID: Final = Mask(
    "random where the client gave none; given ids are below 2**64", renamed=True
)
CLIENT_ID: Final = Mask("made from the client's port, which the kernel chooses", renamed=True)
TOKEN: Final = Mask("a random secret", renamed=True)
DOOR: Final = Mask("the door that a client came in by; TCP when it was recorded", renamed=True)
ADDRESS: Final = Mask("ports that the kernel chooses, and the text that holds one", renamed=False)
CHECKSUM: Final = Mask("covers time and id; verified on both sides instead", renamed=False)
PROCESS: Final = Mask("pid, CPU, memory, times, bytes, threads of the process", renamed=False)
MACHINE: Final = Mask("host name, kernel, memory and disk of the machine", renamed=False)
VERSION: Final = Mask("the version of the broker", renamed=False)
READS: Final = Mask("reads of files: a poll that commits read twice then, once now", renamed=False)
LENGTH: Final = Mask("the length of a text that is masked", renamed=False)
SNAPSHOT: Final = Mask("a ZIP file about this process; its file names are compared", renamed=False)


class Code(IntEnum):
    """The commands whose answers are taken apart."""

    GET_STATS = 10
    GET_SNAPSHOT = 11
    GET_CLUSTER_METADATA = 12
    GET_ME = 20
    GET_CLIENT = 21
    GET_CLIENTS = 22
    GET_USER = 31
    GET_USERS = 32
    CREATE_USER = 33
    GET_PERSONAL_ACCESS_TOKENS = 41
    CREATE_PERSONAL_ACCESS_TOKEN = 42
    LOGIN_WITH_PERSONAL_ACCESS_TOKEN = 44
    POLL_MESSAGES = 100
    GET_STREAM = 200
    GET_STREAMS = 201
    CREATE_STREAM = 202
    GET_TOPIC = 300
    GET_TOPICS = 301
    CREATE_TOPIC = 302


ID_FREE_FROM: Final = 1 << 64  # ids from here on are the broker's own
BY_TIME: Final = 2  # kind of polling strategy
MESSAGE: Final = struct.Struct("<Q16sQQQIIQ")
# kind u8 | value u64 | count u32 | auto_commit u8: the end of every POLL_MESSAGES request
STRATEGY_AT, VALUE_AT, VALUE_END = -14, -13, -5


class Field(NamedTuple):
    """Some bytes of an answer; without a mask they are compared as they are."""

    data: bytes
    mask: Mask | None = None


class Answer:
    """The payload of an answer while it is taken apart; every byte ends up in one field."""

    def __init__(self, payload: bytes) -> None:
        self.payload = payload
        self.at = 0
        self.fields: list[Field] = []

    @property
    def has_more(self) -> bool:
        return self.at < len(self.payload)

    def take(self, size: int, mask: Mask | None = None) -> bytes:
        data = self.payload[self.at : self.at + size]
        if len(data) != size:
            raise ValueError(f"{size} bytes wanted, {len(data)} are there")
        self.at += size
        self.fields.append(Field(data, mask))
        return data

    def number(self, size: int) -> int:
        return _number(self.take(size))

    def text(self, length_size: int, mask: Mask | None = None) -> bytes:
        """A text behind its length; the length of a masked text is masked as well."""
        length = self.take(length_size, mask and LENGTH)
        return self.take(_number(length), mask)

    def rest(self) -> None:
        self.take(len(self.payload) - self.at)


def _stats(answer: Answer) -> None:
    answer.take(4 + 4 + 4 + 8, PROCESS)  # process_id, cpu_usage, total_cpu_usage, memory_usage
    answer.take(8 + 8, MACHINE)  # total_memory, available_memory
    answer.take(4 * 8, PROCESS)  # run_time, start_time, read_bytes, written_bytes
    answer.take(8 + 4 * 4 + 8 + 2 * 4)  # what the broker holds: sizes and counts
    for _ in range(4):
        answer.text(4, MACHINE)  # hostname, os_name, os_version, kernel_version
    answer.text(4, VERSION)
    answer.take(4, VERSION)
    for _ in range(answer.number(4)):
        answer.take(3 * 4)  # the partition of a cache metric
        answer.take(8 + 8 + 4, READS)  # hits, misses, hit_ratio
    answer.take(4, PROCESS)  # threads_count
    answer.take(8 + 8, MACHINE)  # free_disk_space, total_disk_space


def _snapshot(answer: Answer) -> None:
    names = zipfile.ZipFile(io.BytesIO(answer.take(len(answer.payload), SNAPSHOT))).namelist()
    answer.fields.append(Field("\n".join(names).encode()))


def _cluster(answer: Answer) -> None:
    answer.text(4)
    for _ in range(answer.number(4)):
        answer.text(4)
        answer.text(4)
        # Then the ports of closed doors were shown as configured; now a closed door shows 0.
        answer.take(4 * 2, ADDRESS)
        answer.take(1 + 1)


def _client(answer: Answer) -> int:
    answer.take(4, CLIENT_ID)
    answer.take(4)
    answer.take(1, DOOR)
    answer.text(4, ADDRESS)
    return answer.number(4)


def _client_details(answer: Answer) -> None:
    if answer.has_more:
        for _ in range(_client(answer)):
            answer.take(12)


def _clients(answer: Answer) -> None:
    """Entries are sorted by client id, which is renamed: sorted here by what is compared."""
    entries: list[list[Field]] = []
    while answer.has_more:
        _client(answer)
        entries.append(answer.fields)
        answer.fields = []
    entries.sort(key=lambda fields: [field.data for field in fields if field.mask is None])
    # Entries that look alike cannot be distinguished, so their ids are put aside here.
    answer.fields = [
        Field(field.data, ADDRESS if field.mask is CLIENT_ID else field.mask)
        for fields in entries
        for field in fields
    ]


def _user(answer: Answer) -> None:
    answer.take(4)
    answer.take(8, TIME)
    answer.take(1)
    answer.text(1)


def _user_details(answer: Answer) -> None:
    if answer.has_more:
        _user(answer)
        answer.rest()


def _users(answer: Answer) -> None:
    while answer.has_more:
        _user(answer)


def _tokens(answer: Answer) -> None:
    while answer.has_more:
        answer.text(1)
        answer.take(8, TIME)


def _raw_token(answer: Answer) -> None:
    answer.text(1, TOKEN)


def _stream(answer: Answer) -> None:
    answer.take(4)
    answer.take(8, TIME)
    answer.take(4 + 8 + 8)
    answer.text(1)


def _streams(answer: Answer) -> None:
    while answer.has_more:
        _stream(answer)


def _topic(answer: Answer) -> int:
    answer.take(4)
    answer.take(8, TIME)
    partitions_count = answer.number(4)
    answer.take(8 + 1 + 8 + 1 + 8 + 8)
    answer.text(1)
    return partitions_count


def _topics(answer: Answer) -> None:
    while answer.has_more:
        _topic(answer)


def _stream_details(answer: Answer) -> None:
    if answer.has_more:
        _stream(answer)
        _topics(answer)


def _topic_details(answer: Answer) -> None:
    if answer.has_more:
        for _ in range(_topic(answer)):
            answer.take(4)
            answer.take(8, TIME)
            answer.take(4 + 8 + 8 + 8)


def _polled(answer: Answer) -> None:
    answer.take(4 + 8 + 4)
    while answer.has_more:
        _message(answer)


def _message(answer: Answer) -> None:
    start = answer.at
    answer.take(8, CHECKSUM)
    own_id = _number(answer.payload[start + 8 : start + 24]) >= ID_FREE_FROM
    answer.take(16, MESSAGE_ID if own_id else None)
    answer.take(8)  # offset
    answer.take(8, TIME)
    answer.take(8)  # origin_timestamp
    sizes = answer.number(4) + answer.number(4)
    answer.take(8 + sizes)
    whole = answer.payload[start : answer.at]
    if xxhash.xxh3_64_intdigest(whole[8:]) != MESSAGE.unpack_from(whole)[0]:
        raise ValueError(f"the checksum of the message at {start} is wrong")


LAYOUTS: Final[dict[int, Callable[[Answer], object]]] = {
    Code.GET_STATS: _stats,
    Code.GET_SNAPSHOT: _snapshot,
    Code.GET_CLUSTER_METADATA: _cluster,
    Code.GET_ME: _client_details,
    Code.GET_CLIENT: _client_details,
    Code.GET_CLIENTS: _clients,
    Code.GET_USER: _user_details,
    Code.GET_USERS: _users,
    Code.CREATE_USER: _user_details,
    Code.GET_PERSONAL_ACCESS_TOKENS: _tokens,
    Code.CREATE_PERSONAL_ACCESS_TOKEN: _raw_token,
    Code.POLL_MESSAGES: _polled,
    Code.GET_STREAM: _stream_details,
    Code.GET_STREAMS: _streams,
    Code.CREATE_STREAM: _stream,
    Code.GET_TOPIC: _topic_details,
    Code.GET_TOPICS: _topics,
    Code.CREATE_TOPIC: _topic_details,
}
"""The code of a command and how its answer is taken apart; every other answer is compared whole."""


class Renaming:
    """Which recorded value stands for which one of this run."""

    def __init__(self, transport: Transport = Transport.TCP) -> None:
        """`transport`: what clients of this run are shown as."""
        self._known = {(DOOR, bytes((Transport.TCP,))): bytes((transport,))}

    def difference(self, code: int, recorded: bytes, replayed: bytes) -> str | None:
        """How two answers to a request differ, None if they do not."""
        was_status, now_status = recorded[:4], replayed[:4]
        if was_status != now_status:
            return f"status {_number(now_status)}, was {_number(was_status)}"
        pairs = zip_longest(fields_of(code, recorded), fields_of(code, replayed))
        for at, (was, now) in enumerate(pairs):
            if was is None or now is None or was.mask != now.mask or not self._is_same(was, now):
                return f"field {at}: {_shown(now)}, was {_shown(was)}"
        return None

    def _is_same(self, was: Field, now: Field) -> bool:
        if was.mask is None:
            return was.data == now.data
        if not was.mask.renamed:
            return True
        if not any(was.data) or not any(now.data):
            return was.data == now.data
        return self._known.setdefault((was.mask, was.data), now.data) == now.data

    def translate(self, request: Request) -> Request:
        """A recorded request with the values of this run in place of the recorded ones."""
        code, payload = request
        if code == Code.LOGIN_WITH_PERSONAL_ACCESS_TOKEN:
            token = payload[1:]
            return Request(code, payload[:1] + self._known.get((TOKEN, token), token))
        if code == Code.GET_CLIENT:
            return Request(code, self._known.get((CLIENT_ID, payload), payload))
        if code == Code.POLL_MESSAGES and payload[STRATEGY_AT:VALUE_AT] == bytes([BY_TIME]):
            value = payload[VALUE_AT:VALUE_END]
            value = self._known.get((TIME, value), value)
            return Request(code, payload[:VALUE_AT] + value + payload[VALUE_END:])
        return request


def fields_of(code: int, answer: bytes) -> Iterator[Field]:
    """The header's status, then what the layout of the command finds in the payload."""
    yield Field(answer[:4])
    payload = answer[HEADER.size :]
    if answer[:4] == bytes(4) and code in LAYOUTS:
        taken = Answer(payload)
        LAYOUTS[code](taken)
        taken.rest()
        yield from taken.fields
    else:
        yield Field(payload)


def without_machine(code: int, answer: bytes) -> bytes:
    """A recorded answer without what it says about the machine and the process."""
    if code == Code.GET_SNAPSHOT and answer[:4] == bytes(4):
        payload = _emptied(answer[HEADER.size :])
        return HEADER.pack(0, len(payload)) + payload
    if code != Code.GET_STATS:
        return answer
    fields = [
        bytes(len(field.data)) if field.mask in (MACHINE, PROCESS) else field.data
        for field in fields_of(code, answer)
    ]
    return answer[: HEADER.size] + b"".join(fields[1:])


def _emptied(archive: bytes) -> bytes:
    """A ZIP file with the same names and nothing behind them."""
    emptied = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(archive)) as full, zipfile.ZipFile(emptied, "w") as empty:
        for name in full.namelist():
            empty.writestr(zipfile.ZipInfo(name), b"")
    return emptied.getvalue()


def _number(data: bytes) -> int:
    return int.from_bytes(data, "little")


def _shown(field: Field | None) -> str:
    return "nothing" if field is None else field.data.hex() or "empty"
