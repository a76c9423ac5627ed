"""SEND_MESSAGES: what comes back of a message, where it goes, and what is refused."""

import os
import struct
from collections import Counter
from typing import Final

import pytest
import xxhash

from borzoi.protocol.codes import Code
from borzoi.protocol.commands.topics import DeletePartitions
from borzoi.protocol.errors import (
    CannotReadIndexPosition,
    InvalidCommand,
    InvalidIdentifier,
    InvalidMessagesCount,
    InvalidMessagesSize,
    MissingIndex,
    NonZeroOffset,
    NonZeroTimestamp,
    NoPartitions,
    PartitionNotFound,
    StreamIdNotFound,
    TooBigMessagePayload,
    TooBigUserHeaders,
    TopicIdNotFound,
)
from borzoi.protocol.headers import (
    HeaderField,
    HeaderKind,
    encode_user_headers,
)
from borzoi.protocol.identifiers import Balanced, MessagesKey, PartitionId
from borzoi.protocol.message import Message, checksum_of, encode_message
from borzoi.protocol.send_messages import encode_send_messages
from tests.broker import BrokerProcess
from tests.topics import described, topic_of
from tests.wire import Wire

PAYLOAD_MAX: Final = 64_000_000
USER_HEADERS_MAX: Final = 100_000
INDEX_ENTRY: Final = struct.Struct("<IIQ")


def test_ids_headers_and_origin_times_come_back(wire: Wire, topic: str) -> None:
    block = b"\x02\x01\0\0\0k\x02\x05\0\0\0value" + b"\x01\x02\0\0\0ab\x09\x01\0\0\0\x07"
    sent = [
        Message(b"one", id=1, user_headers=block, origin_timestamp=123_456_789),
        Message(b"two", id=2**128 - 1),
        Message(b"three", origin_timestamp=2**64 - 1),
        Message(b"", id=7),
        Message(b"five", user_headers=b"not a block, and stored as it is"),
    ]
    assert wire.send(topic, 0, *sent) == 0
    received = wire.poll(topic).messages
    assert [message.payload for message in received] == [message.payload for message in sent]
    assert [m.user_headers for m in received] == [m.user_headers for m in sent]
    assert [m.origin_timestamp for m in received] == [m.origin_timestamp for m in sent]
    assert [m.offset for m in received] == [0, 1, 2, 3, 4]
    given = [message.id for message in received]
    assert (given[0], given[1], given[3]) == (1, 2**128 - 1, 7)
    # 0 asks for a random UUID of version 4.
    for made in (given[2], given[4]):
        octets = made.to_bytes(16, "little")
        assert octets[6] >> 4 == 4
        assert octets[8] >> 6 == 2
    assert given[2] != given[4]


def test_typed_headers_come_back(wire: Wire, topic: str) -> None:
    headers = {
        HeaderField(HeaderKind.STRING, b"text"): HeaderField(HeaderKind.STRING, "grün".encode()),
        HeaderField(HeaderKind.UINT32, b"\x01\0\0\0"): HeaderField(HeaderKind.BOOL, b"\x01"),
    }
    message = Message(b"x", user_headers=encode_user_headers(headers))
    assert wire.send(topic, 0, message) == 0
    assert wire.poll(topic).messages[0].headers == headers


def test_checksums_and_times_are_the_servers(wire: Wire, topic: str) -> None:
    for _ in range(3):
        assert wire.send(topic, 0, b"a", Message(b"b", user_headers=b"h" * 20)) == 0
    received = wire.poll(topic).messages
    for message in received:
        assert checksum_of(memoryview(encode_message(message))) == message.checksum
    times = [message.timestamp for message in received]
    assert times == sorted(times)
    assert times[0::2] == times[1::2]


def test_reserved_bytes_offsets_and_checksums_of_clients_do_not_stay(
    wire: Wire, topic: str
) -> None:
    """Official clients refuse a message whose reserved word is not 0."""
    message = bytearray(encode_message(Message(b"x", checksum=99, timestamp=99)))
    message[56:64] = b"\xff" * 8
    payload = bytearray(encode_send_messages(topic, topic, PartitionId(0), [Message(b"x")]))
    payload[-len(message) :] = message
    assert wire.request(Code.SEND_MESSAGES, bytes(payload)) == (0, b"")
    raw = wire.request(
        Code.POLL_MESSAGES,
        b"\x01\x01\x04\0\0\0\0"
        + 2 * (b"\x02" + bytes((len(topic),)) + topic.encode())
        + b"\x01\0\0\0\0\x03"
        + bytes(8)
        + b"\x01\0\0\0\0",
    )[1]
    assert raw[16 + 56 : 16 + 64] == bytes(8)
    (received,) = wire.poll(topic).messages
    assert received.timestamp != 99
    assert checksum_of(memoryview(encode_message(received))) == received.checksum


def test_balanced_takes_one_step_per_request(wire: Wire, stream: str) -> None:
    wire.ask(topic_of(stream, 3))
    for number in range(7):
        assert wire.send(stream, Balanced(), b"%d a" % number, b"%d b" % number) == 0
    assert [wire.payloads(stream, partition_id) for partition_id in range(3)] == [
        [b"0 a", b"0 b", b"3 a", b"3 b", b"6 a", b"6 b"],
        [b"1 a", b"1 b", b"4 a", b"4 b"],
        [b"2 a", b"2 b", b"5 a", b"5 b"],
    ]


def test_balanced_follows_the_number_of_partitions(wire: Wire, stream: str) -> None:
    wire.ask(topic_of(stream, 3))
    for _ in range(2):
        assert wire.send(stream, Balanced(), b"x") == 0
    wire.ask(DeletePartitions(stream, stream, 2))
    for _ in range(3):
        assert wire.send(stream, Balanced(), b"y") == 0
    assert wire.payloads(stream, 0) == [b"x", b"y", b"y", b"y"]


@pytest.mark.parametrize("partitions_count", [1, 2, 3, 4, 10])
def test_equal_keys_meet(wire: Wire, stream: str, partitions_count: int) -> None:
    wire.ask(topic_of(stream, partitions_count))
    keys = [b"key-1", b"user-42", b"a", b"order-1001", b"\x07\0\0\0", b"\0", b"k" * 255]
    for key in keys:
        assert wire.send(stream, MessagesKey(key), key) == 0
        assert wire.send(stream, MessagesKey(key), key) == 0
    for partition_id in range(partitions_count):
        mine = [k for k in keys if xxhash.xxh32_intdigest(k) % partitions_count == partition_id]
        assert wire.payloads(stream, partition_id) == [key for key in mine for _ in range(2)]


def test_known_key_hashes(wire: Wire, stream: str) -> None:
    """Figures written down from another implementation."""
    wire.ask(topic_of(stream, 10))
    known = {b"key-1": 1, b"user-42": 6, b"a": 0, b"order-1001": 3, b"\x07\0\0\0": 2}
    for key, partition_id in known.items():
        assert wire.send(stream, MessagesKey(key), key) == 0
        assert wire.payloads(stream, partition_id) == [key]


def test_a_topic_without_partitions(wire: Wire, stream: str) -> None:
    wire.ask(topic_of(stream, 0))
    assert wire.send(stream, Balanced(), b"x") == TopicIdNotFound.status
    assert wire.send(stream, MessagesKey(b"k"), b"x") == NoPartitions.status
    assert wire.send(stream, 0, b"x") == PartitionNotFound.status
    assert described(wire, stream).topic.messages_count == 0


def test_places_that_do_not_exist(wire: Wire, topic: str) -> None:
    assert wire.send(topic, 0, b"x", stream="nowhere") == StreamIdNotFound.status
    assert wire.send("nothing", 0, b"x", stream=topic) == TopicIdNotFound.status
    assert wire.send(topic, 1, b"x") == PartitionNotFound.status
    assert wire.send(topic, 2**32 - 1, b"x") == PartitionNotFound.status


def test_names_need_not_be_utf8_to_be_missing(wire: Wire, topic: str) -> None:
    payload = encode_send_messages(topic, topic, PartitionId(0), [Message(b"x")])
    broken = payload.replace(topic.encode(), b"\xff" * len(topic), 1)
    assert wire.request(Code.SEND_MESSAGES, broken)[0] == StreamIdNotFound.status


@pytest.mark.parametrize(
    ("at", "wrong", "status"),
    [
        (0, b"\xff\xff\0\0", InvalidIdentifier.status),  # taken for the plain layout
        (4, b"\x07", InvalidIdentifier.status),  # kind of the stream
        (5, b"\x03", InvalidIdentifier.status),  # length of a numeric id
        (10, b"\x09", InvalidIdentifier.status),  # kind of the topic
        (16, b"\x04", InvalidCommand.status),  # kind of the partitioning
        (17, b"\x05", InvalidCommand.status),  # length of a partition id
        (22, b"\0\0\0\0", InvalidMessagesCount.status),  # message count
        (22, b"\xff\xff\xff\x0f", InvalidCommand.status),
        (26, b"\x01", NonZeroOffset.status),  # index: offset
        (34, b"\x01", NonZeroTimestamp.status),  # index: timestamp
    ],
)
def test_broken_requests(wire: Wire, topic: str, at: int, wrong: bytes, status: int) -> None:
    # metadata length | stream 0 | topic 0 | partition 0 | count | index | messages
    payload = bytearray(encode_send_messages(0, 0, PartitionId(0), [Message(b"a"), Message(b"b")]))
    assert payload[22:26] == b"\x02\0\0\0"
    payload[at : at + len(wrong)] = wrong
    assert wire.request(Code.SEND_MESSAGES, bytes(payload)) == (status, b"")
    assert wire.send(topic, 0, b"in step") == 0


@pytest.mark.parametrize(
    ("first_end", "last_end", "behind", "status"),
    [
        (63, 148, b"", MissingIndex.status),  # not even a header fits
        (10_000, 148, b"", MissingIndex.status),
        (74, 73, b"", CannotReadIndexPosition.status),
        (74, 148, b"more", InvalidMessagesSize.status),
        (74, 10_000, b"", 0),  # the last one ends where the bytes end
    ],
)
def test_a_batch_that_does_not_fit_its_index(
    wire: Wire, topic: str, first_end: int, last_end: int, behind: bytes, status: int
) -> None:
    messages = [Message(b"a" * 10), Message(b"b" * 10)]
    payload = bytearray(encode_send_messages(topic, topic, PartitionId(0), messages))
    index = len(payload) - 2 * 74 - 2 * INDEX_ENTRY.size
    INDEX_ENTRY.pack_into(payload, index, 0, first_end, 0)
    INDEX_ENTRY.pack_into(payload, index + INDEX_ENTRY.size, 0, last_end, 0)
    assert wire.request(Code.SEND_MESSAGES, bytes(payload) + behind) == (status, b"")
    # All of a batch or nothing.
    assert described(wire, topic).topic.messages_count == (0 if status else 2)


def test_the_plain_layout_of_the_public_page(wire: Wire, topic: str) -> None:
    """No length, no count, no index; user headers before the payload."""
    name = b"\x02" + bytes((len(topic),)) + topic.encode()
    block = b"\x02\x01\0\0\0k\x02\x05\0\0\0value"
    header = struct.pack("<Q16sQQQIIQ", 0, bytes(16), 0, 0, 5, len(block), 4, 0)
    plain = name + name + b"\x02\x04\0\0\0\0" + header + block + b"load"
    assert wire.request(Code.SEND_MESSAGES, plain) == (0, b"")
    (message,) = wire.poll(topic).messages
    assert (message.payload, message.user_headers) == (b"load", block)


@pytest.mark.slow
def test_the_largest_payload(wire: Wire, topic: str) -> None:
    refused = Message(bytes(PAYLOAD_MAX + 1))
    assert wire.send(topic, 0, refused) == TooBigMessagePayload.status
    assert described(wire, topic).topic.messages_count == 0
    largest = os.urandom(1000) * (PAYLOAD_MAX // 1000)
    assert wire.send(topic, 0, largest) == 0
    (message,) = wire.poll(topic).messages
    assert message.payload == largest


def test_the_largest_user_headers(wire: Wire, topic: str) -> None:
    largest = Message(b"x", user_headers=b"h" * USER_HEADERS_MAX)
    refused = Message(b"x", user_headers=b"h" * (USER_HEADERS_MAX + 1))
    assert wire.send(topic, 0, b"good", refused) == TooBigUserHeaders.status
    assert wire.send(topic, 0, largest) == 0
    assert [message.user_headers for message in wire.poll(topic).messages] == [largest.user_headers]


@pytest.mark.slow
def test_many_connections_one_partition(standing_broker: BrokerProcess, topic: str) -> None:
    wires = [Wire(standing_broker) for _ in range(8)]
    rounds = 20
    frames = [
        [
            encode_send_messages(topic, topic, PartitionId(0), [Message(b"%d %d" % (k, n))])
            for n in range(rounds)
        ]
        for k in range(len(wires))
    ]
    for number in range(rounds):
        # All ask before anybody is answered.
        for wire, mine in zip(wires, frames, strict=True):
            length = len(mine[number]) + 4
            wire.put(struct.pack("<II", length, Code.SEND_MESSAGES) + mine[number])
        assert all(wire.answer() == (0, b"") for wire in wires)
    messages = wires[0].poll(topic).messages
    assert [message.offset for message in messages] == list(range(rounds * len(wires)))
    counted = Counter(message.payload for message in messages)
    assert counted == {b"%d %d" % (k, n): 1 for k in range(len(wires)) for n in range(rounds)}
