"""Counts and inner lengths that promise more than the frame holds.

Each is answered with its status, nothing is allocated for the promise, and the connection stays
in step. The same frames before the login get the decoder's status too, except SEND_MESSAGES.
"""

import struct
from typing import Final

import pytest

from borzoi.protocol.codes import Code
from borzoi.protocol.errors import (
    InvalidCommand,
    InvalidFormat,
    InvalidIdentifier,
    InvalidMessagesCount,
    InvalidMessagesSize,
    MissingIndex,
    NonZeroOffset,
    NonZeroTimestamp,
    TooManyPartitions,
    Unauthenticated,
)
from tests.broker import BrokerProcess
from tests.hostile.memory import MIB, counted_memory, memory_peak
from tests.hostile.neighbour import good_neighbour
from tests.topics import make_topic
from tests.wire import Wire, poll_frame

MAX: Final = 2**32 - 1
GROWTH_MAX: Final = 24 * MIB

STREAM: Final = b"\x02\x01s"
TOPIC: Final = b"\x02\x01t"
FIRST_PARTITION: Final = b"\x02\x04" + bytes(4)
CONSUMER: Final = b"\x01\x01\x04" + bytes(4)


def u32(number: int) -> bytes:
    return struct.pack("<I", number)


def message(payload_length: int = 5, headers_length: int = 0, body: bytes = b"hello") -> bytes:
    return bytes(48) + struct.pack("<IIQ", headers_length, payload_length, 0) + body


def entry(position: int, offset: int = 0, timestamp: int = 0) -> bytes:
    return struct.pack("<IIQ", offset, position, timestamp)


def sent(
    *,
    stream: bytes = STREAM,
    topic: bytes = TOPIC,
    partitioning: bytes = FIRST_PARTITION,
    count: int = 1,
    metadata_length: int | None = None,
    index: bytes | None = None,
    messages: bytes = message(),
) -> bytes:
    """A SEND_MESSAGES payload of which any part may be false."""
    metadata = stream + topic + partitioning + u32(count)
    length = len(metadata) if metadata_length is None else metadata_length
    return u32(length) + metadata + (entry(len(messages)) if index is None else index) + messages


TWO: Final = message() * 2
SIZE: Final = len(message())

SENDS: Final = {
    "nothing at all": (b"", InvalidCommand),
    "metadata_length beyond the frame": (sent(metadata_length=775), InvalidCommand),
    "metadata_length without room for a count": (sent(metadata_length=12), InvalidCommand),
    "messages_count of 0": (sent(count=0, index=b""), InvalidMessagesCount),
    "messages_count one too many": (sent(count=2), MissingIndex),
    "messages_count of 1 GiB of index": (sent(count=2**26), InvalidCommand),
    "messages_count of 2^31": (sent(count=2**31), InvalidCommand),
    "messages_count of 2^32 - 1": (sent(count=MAX), InvalidCommand),
    "stream name of 255 bytes": (sent(stream=b"\x02\xffs"), InvalidIdentifier),
    "topic name of 255 bytes": (sent(topic=b"\x02\xfft"), InvalidIdentifier),
    "numeric stream of 255 bytes": (sent(stream=b"\x01\xffs"), InvalidIdentifier),
    "key of 255 bytes": (sent(partitioning=b"\x03\xffk"), InvalidCommand),
    "position of 2^32 - 1": (
        sent(count=2, index=entry(MAX) + entry(MAX), messages=TWO),
        MissingIndex,
    ),
    "position inside the first header": (
        sent(count=2, index=entry(10) + entry(2 * SIZE), messages=TWO),
        MissingIndex,
    ),
    "index with an offset": (sent(index=entry(SIZE, offset=MAX)), NonZeroOffset),
    "index with a timestamp": (sent(index=entry(SIZE, timestamp=2**64 - 1)), NonZeroTimestamp),
    "payload of 2^32 - 1 bytes": (sent(messages=message(MAX)), MissingIndex),
    "payload of 2^31 bytes": (sent(messages=message(2**31)), MissingIndex),
    "user headers of 2^32 - 1 bytes": (sent(messages=message(0, MAX)), MissingIndex),
    "both lengths of 2^32 - 1 bytes": (sent(messages=message(MAX, MAX)), MissingIndex),
    "messages that end early": (sent(messages=message(4)), InvalidMessagesSize),
    "plain layout with a long payload": (
        STREAM + TOPIC + FIRST_PARTITION + message(MAX),
        InvalidMessagesSize,
    ),
    "plain layout without messages": (STREAM + TOPIC + FIRST_PARTITION, InvalidMessagesCount),
}

OTHERS: Final = {
    "str8 of 255 bytes": (Code.CREATE_STREAM, b"\xffabc", InvalidCommand),
    "str8 of no bytes": (Code.CREATE_STREAM, b"\x00", InvalidFormat),
    "str32 of 2^32 - 1 bytes": (
        Code.LOGIN_USER,
        b"\x04iggy\x04iggy" + u32(MAX) + b"0.1",
        InvalidCommand,
    ),
    "second str32 of 2^31 bytes": (
        Code.LOGIN_USER,
        b"\x04iggy\x04iggy" + u32(3) + b"0.1" + u32(2**31) + b"x",
        InvalidCommand,
    ),
    "identifier of 255 bytes": (Code.GET_STREAM, b"\x02\xffabc", InvalidCommand),
    "number of 255 bytes": (Code.GET_STREAM, b"\x01\xffabc", InvalidFormat),
    "permissions of 2^32 - 1 bytes": (
        Code.CREATE_USER,
        b"\x05user1\x05pass1\x01\x01" + u32(MAX) + bytes(12),
        InvalidCommand,
    ),
    "255 kinds of snapshot": (Code.GET_SNAPSHOT, b"\x01\xff\x01", InvalidCommand),
}

# Decoded without trouble: it is the handler that must not believe them.
HANDLED: Final = {
    "topic of 1,001 partitions": (
        Code.CREATE_TOPIC,
        STREAM + u32(1001) + b"\x01" + bytes(16) + b"\x01" + b"\x01u",
        {TooManyPartitions.status},
    ),
    "topic of 2^32 - 1 partitions": (
        Code.CREATE_TOPIC,
        STREAM + u32(MAX) + b"\x01" + bytes(16) + b"\x01" + b"\x01u",
        {TooManyPartitions.status},
    ),
    "2^32 - 1 more partitions": (
        Code.CREATE_PARTITIONS,
        STREAM + TOPIC + u32(MAX),
        {TooManyPartitions.status},
    ),
    "2^32 - 1 fewer partitions": (Code.DELETE_PARTITIONS, STREAM + TOPIC + u32(MAX), None),
    "offset of 2^64 - 1": (
        Code.STORE_CONSUMER_OFFSET,
        CONSUMER + STREAM + TOPIC + b"\x01" + u32(0) + bytes([255] * 8),
        None,
    ),
}


@pytest.mark.slow
def test_promises_that_a_frame_does_not_keep(shared_broker: BrokerProcess) -> None:
    broker = shared_broker
    with (
        good_neighbour(broker) as neighbour,
        memory_peak(broker) as peak,
        Wire(broker, login=False) as anonymous,
        Wire(broker, login=False) as wire,
    ):
        # The passwords of the good client's connections have been hashed, which takes 19 MiB.
        neighbour.check()
        before = counted_memory(broker)
        for name, (payload, _) in SENDS.items():
            assert anonymous.request(Code.SEND_MESSAGES, payload).status == (
                Unauthenticated.status
            ), name
        for name, (code, payload, error) in OTHERS.items():
            assert anonymous.request(code, payload).status == error.status, name
        assert anonymous.is_in_step()

        wire.log_in()
        make_topic(wire, "s", "t")
        for name, (payload, error) in SENDS.items():
            assert wire.request(Code.SEND_MESSAGES, payload).status == error.status, name
            assert wire.is_in_step(), name
        for name, (code, payload, error) in OTHERS.items():
            assert wire.request(code, payload).status == error.status, name
            assert wire.is_in_step(), name
        for name, (code, payload, statuses) in HANDLED.items():
            answer = wire.request(code, payload)
            assert answer.status != 0, name
            assert statuses is None or answer.status in statuses, (name, answer)
            assert wire.is_in_step(), name

        # As many segments as may go: none.
        fewer = STREAM + TOPIC + u32(0) + u32(MAX)
        assert wire.request(Code.DELETE_SEGMENTS, fewer).status == 0
        assert wire.is_in_step()

        # Nothing of all that was appended, and asking for 2^32 - 1 messages gives what there is.
        assert wire.request(Code.SEND_MESSAGES, sent()).status == 0
        wire.put(poll_frame("s", "t", 0, MAX))
        answer = wire.answer()
        assert (answer.status, len(answer.payload)) == (0, 16 + SIZE)
    assert peak() < before + GROWTH_MAX
