"""Both layouts of SEND_MESSAGES, every check of the server, and which status wins."""

import struct
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings

from borzoi.protocol import send_messages
from borzoi.protocol.batch import INDEX_ENTRY, INDEX_ENTRY_SIZE
from borzoi.protocol.errors import (
    BrokerError,
    CannotReadIndexPosition,
    InvalidCommand,
    InvalidIdentifier,
    InvalidMessagesCount,
    InvalidMessagesSize,
    InvalidOffset,
    MissingIndex,
    NonZeroOffset,
    NonZeroTimestamp,
    TooBigMessagePayload,
    TooBigUserHeaders,
)
from borzoi.protocol.identifiers import (
    Balanced,
    Identifier,
    MessagesKey,
    PartitionId,
    Partitioning,
)
from borzoi.protocol.message import (
    MESSAGE_HEADER,
    MESSAGE_PAYLOAD_SIZE_MAX,
    USER_HEADERS_SIZE_MAX,
    Message,
    encode_message,
    encode_messages,
)
from borzoi.protocol.payload import U32, pack_identifiers, pack_partitioning
from borzoi.protocol.send_messages import (
    decode_send_messages,
    encode_prepared_messages,
    encode_send_messages,
    prepare_batch,
    prepare_messages,
)
from borzoi.protocol.send_target import METADATA_SIZE_MAX, METADATA_SIZE_MIN
from tests.protocol import values

HEADERS = bytes.fromhex("02 01000000 6b 0b 04000000 07000000")
THREE = [Message(b"one"), Message(b"two!", id=7), Message(b"three", user_headers=HEADERS)]


@pytest.fixture(scope="module", autouse=True)
def running(loops: Any) -> Iterator[None]:
    """Every test here holds for each implementation of the loops."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ("read_sent_batch", "encode_batch", "sent_index"):
            patch.setattr(send_messages, name, getattr(loops, name))
        yield


@settings(max_examples=50)
@given(values.identifiers, values.identifiers, values.partitionings, values.batches)
def test_what_is_sent_arrives(
    stream: Identifier, topic: Identifier, partitioning: Partitioning, batch: list[Message]
) -> None:
    payload = encode_send_messages(stream, topic, partitioning, batch)
    sent = decode_send_messages(memoryview(payload))
    assert (sent.stream, sent.topic, sent.partitioning) == (stream, topic, partitioning)
    assert sent.message_count == len(batch)
    assert bytes(sent.batch) == encode_messages(batch)
    assert sent.batch_start is not None
    assert payload[sent.batch_start :] == bytes(sent.batch)


def test_the_batch_is_not_copied() -> None:
    payload = bytearray(encode_send_messages(1, 2, Balanced(), THREE))
    sent = decode_send_messages(memoryview(payload))
    sent.batch[0] = 0xEE
    assert sent.batch_start is not None
    assert payload[sent.batch_start] == 0xEE


def test_a_batch_can_be_prepared_once_and_sent_often() -> None:
    prepared = prepare_messages(THREE)
    for partition in range(3):
        target = PartitionId(partition)
        payload = encode_prepared_messages("s", "t", target, prepared)
        assert payload == encode_send_messages("s", "t", target, THREE)
    assert prepare_batch(memoryview(encode_messages(THREE)), 3) == prepared


@pytest.mark.parametrize("count", [4, 5])
def test_a_batch_with_fewer_messages_cannot_be_prepared(count: int) -> None:
    with pytest.raises(InvalidMessagesSize):
        prepare_batch(memoryview(encode_messages(THREE)), count)


def test_the_smallest_and_the_largest_metadata() -> None:
    small = encode_send_messages("s", "t", Balanced(), THREE)
    large = encode_send_messages("s" * 255, "t" * 255, MessagesKey(b"k" * 255), THREE)
    assert U32.unpack_from(small)[0] == METADATA_SIZE_MIN
    assert U32.unpack_from(large)[0] == METADATA_SIZE_MAX
    for payload in (small, large):
        assert decode_send_messages(memoryview(payload)).message_count == 3


def request(
    target: bytes | None = None,
    *,
    count: int | None = None,
    index: list[tuple[int, int, int]] | None = None,
    messages: bytes | None = None,
    metadata_size: int | None = None,
) -> memoryview:
    """A request of THREE messages, with any part replaced by something wrong."""
    if target is None:
        target = pack_identifiers("stream", 1) + pack_partitioning(PartitionId(0))
    sizes = [len(encode_message(message)) for message in THREE]
    if index is None:
        index = [(0, sum(sizes[: i + 1]), 0) for i in range(3)]
    if messages is None:
        messages = encode_messages(THREE)
    metadata = target + U32.pack(3 if count is None else count)
    return memoryview(
        U32.pack(len(metadata) if metadata_size is None else metadata_size)
        + metadata
        + b"".join(INDEX_ENTRY.pack(*entry) for entry in index)
        + messages
    )


FIRST, SECOND, THIRD = (len(encode_message(message)) for message in THREE)
ENDS = (FIRST, FIRST + SECOND, FIRST + SECOND + THIRD)


def index(*positions: int) -> list[tuple[int, int, int]]:
    return [(0, position, 0) for position in positions]


def with_offsets(*offsets: int) -> bytes:
    batch = bytearray(encode_messages(THREE))
    for start, offset in zip((0, *ENDS), offsets, strict=False):
        struct.pack_into("<Q", batch, start + 24, offset)
    return bytes(batch)


def test_the_request_without_a_fault() -> None:
    assert decode_send_messages(request()).message_count == 3


@pytest.mark.parametrize(
    ("payload", "error"),
    [
        (memoryview(b""), InvalidCommand),
        (memoryview(b"\x0c\0\0"), InvalidCommand),
        (memoryview(U32.pack(12)), InvalidCommand),
        (request(metadata_size=775), InvalidCommand),
        # identifiers are 6 here, whatever is wrong with them
        (request(b"\3\4\0\0\0\0" + b"\2\1t\1\0\0\0"), InvalidIdentifier),
        (request(b"\1\3\0\0\0" + b"\2\1t\1\0\0\0"), InvalidIdentifier),
        (request(b"\2\0" + b"\1\4\0\0\0\0" + b"\1\0"), InvalidIdentifier),
        (request(b"\2\1s" + b"\2\xfft" + b"\1\0"), InvalidIdentifier),
        # partitioning
        (request(b"\2\1s\2\1t" + b"\0\0"), InvalidCommand),
        (request(b"\2\1s\2\1t" + b"\4\0"), InvalidCommand),
        (request(b"\2\1s\2\1t" + b"\1\1\0"), InvalidCommand),
        (request(b"\2\1s\2\1t" + b"\2\3\0\0\0"), InvalidCommand),
        (request(b"\2\1s\2\1t" + b"\3\xff\0"), InvalidCommand),
        # the count swallowed by a key that is too long
        (request(b"\2\1s\2\1t" + b"\3\4k"), InvalidCommand),
        # counts
        (request(count=1000), InvalidCommand),
        (request(count=2**32 - 1), InvalidCommand),
        (request(count=0), InvalidMessagesCount),
        # the index, in the order in which its faults are noticed
        (request(index=[(1, ENDS[0], 1), (0, ENDS[1], 0), (0, ENDS[2], 0)]), NonZeroOffset),
        (request(index=[(0, 1, 1), (0, ENDS[1], 0), (0, ENDS[2], 0)]), NonZeroTimestamp),
        (request(index=[(0, ENDS[0], 0), (0, 1, 0), (0, ENDS[2], 5)]), MissingIndex),
        (request(index=index(ENDS[0] - 1, ENDS[1], ENDS[2])), MissingIndex),
        (request(index=index(63, ENDS[1], ENDS[2])), MissingIndex),
        (request(index=index(10_000, ENDS[1], ENDS[2])), MissingIndex),
        (request(index=index(ENDS[1], ENDS[0], ENDS[2])), MissingIndex),
        (request(index=index(ENDS[0], ENDS[1], ENDS[1] - 1)), CannotReadIndexPosition),
        # header offsets
        (request(messages=with_offsets(0, 2, 1)), InvalidOffset),
        # bytes
        (request(messages=encode_messages(THREE) + b"\0"), InvalidMessagesSize),
        (request(messages=encode_messages(THREE)[:-1]), MissingIndex),
        (request(messages=b""), MissingIndex),
        (
            request(
                messages=encode_message(THREE[0]) + b"\0" + encode_messages(THREE[1:]),
                index=index(ENDS[0] + 1, ENDS[1] + 1, ENDS[2] + 1),
            ),
            InvalidMessagesSize,
        ),
    ],
)
def test_faults(payload: memoryview, error: type[BrokerError]) -> None:
    with pytest.raises(BrokerError) as raised:
        decode_send_messages(payload)
    assert type(raised.value) is error


@pytest.mark.parametrize(
    "payload",
    [
        request(index=index(ENDS[0], ENDS[1], ENDS[1])),  # the last position is hardly looked at
        request(index=index(ENDS[0], ENDS[1], 2**32 - 1)),
        request(messages=with_offsets(5, 5, 9)),
        request(b"\2\1s\2\1t" + b"\3\0"),  # an empty key
    ],
)
def test_what_looks_wrong_but_is_accepted(payload: memoryview) -> None:
    assert decode_send_messages(payload).message_count == 3


def test_names_that_are_not_utf8_pass_and_keep_their_bytes() -> None:
    target = b"\2\2\xff\xfe" + b"\2\1t" + b"\1\0"
    sent = decode_send_messages(request(target))
    assert sent.stream == "\udcff\udcfe"
    assert pack_identifiers(sent.stream) == b"\2\2\xff\xfe"


def test_metadata_may_be_longer_than_its_parts() -> None:
    target = b"\2\1s\2\1t\1\0" + U32.pack(3) + b"junk"
    payload = bytes(request(target))
    # request() puts its own count behind the junk; the first one is the one that is read.
    assert decode_send_messages(memoryview(payload)).message_count == 3


def check_one(loops: Any, user_headers_length: int, payload_length: int) -> None:
    batch = bytearray(64 + user_headers_length + payload_length)
    MESSAGE_HEADER.pack_into(batch, 0, 0, b"", 0, 0, 0, user_headers_length, payload_length, 0)
    entry = INDEX_ENTRY.pack(0, len(batch), 0)
    loops.check_sent_batch(memoryview(entry), memoryview(batch), 1)


@pytest.mark.slow
def test_the_largest_payload(loops: Any) -> None:
    check_one(loops, 0, MESSAGE_PAYLOAD_SIZE_MAX)
    with pytest.raises(TooBigMessagePayload):
        check_one(loops, 0, MESSAGE_PAYLOAD_SIZE_MAX + 1)


def test_the_largest_user_headers(loops: Any) -> None:
    check_one(loops, USER_HEADERS_SIZE_MAX, 1)
    with pytest.raises(TooBigUserHeaders):
        check_one(loops, USER_HEADERS_SIZE_MAX + 1, 1)


def test_a_message_without_payload_is_accepted(loops: Any) -> None:
    check_one(loops, 0, 0)


# The plain layout: no metadata length, no count, no index, user headers first.


def plain(target: bytes, *messages: Message, headers_first: bool = True) -> bytes:
    parts = [target]
    for message in messages:
        whole = encode_message(message)
        body = (message.user_headers, message.payload)
        parts += (whole[:64], *(body if headers_first else reversed(body)))
    return b"".join(parts)


PLAIN_TARGETS = [
    pack_identifiers(0, 0) + pack_partitioning(Balanced()),
    pack_identifiers("s", 1) + pack_partitioning(PartitionId(1)),
    pack_identifiers("stream", "topic") + pack_partitioning(MessagesKey(b"key")),
]


@pytest.mark.parametrize("target", PLAIN_TARGETS)
@pytest.mark.parametrize("headers_first", [True, False])
def test_the_plain_layout(target: bytes, headers_first: bool) -> None:
    payload = bytearray(plain(target, *THREE, headers_first=headers_first))
    sent = decode_send_messages(memoryview(payload))
    assert sent.message_count == 3
    assert sent.batch_start is None
    assert bytes(sent.batch) == encode_messages(THREE)
    sent.batch[0] = 1  # a copy of its own, to be stamped
    assert bytes(payload) == plain(target, *THREE, headers_first=headers_first)


@pytest.mark.parametrize("target", PLAIN_TARGETS)
def test_the_plain_layout_cut_at_every_byte(target: bytes) -> None:
    payload = plain(target, *THREE)
    starts = {len(target) + end for end in ENDS}
    for size in range(len(payload)):
        cut = memoryview(payload[:size])
        if size in starts:
            assert decode_send_messages(cut).message_count < 3
        else:
            with pytest.raises(BrokerError):
                decode_send_messages(cut)


@pytest.mark.parametrize(
    ("payload", "error"),
    [
        (plain(PLAIN_TARGETS[0]), InvalidMessagesCount),
        (plain(PLAIN_TARGETS[0], *THREE) + b"\0", InvalidMessagesSize),
        (plain(PLAIN_TARGETS[0], *THREE)[:-1], InvalidMessagesSize),
        (plain(PLAIN_TARGETS[0], Message(b"", offset=2), Message(b"", offset=1)), InvalidOffset),
        (
            plain(PLAIN_TARGETS[0], Message(b"", user_headers=bytes(USER_HEADERS_SIZE_MAX + 1))),
            TooBigUserHeaders,
        ),
        (b"\1\5" + bytes(20), InvalidIdentifier),
        (b"\5\0\0\0", InvalidIdentifier),
    ],
)
def test_faults_of_the_plain_layout(payload: bytes, error: type[BrokerError]) -> None:
    with pytest.raises(BrokerError) as raised:
        decode_send_messages(memoryview(payload))
    assert type(raised.value) is error


@pytest.mark.slow
def test_the_largest_payload_of_the_plain_layout() -> None:
    with pytest.raises(TooBigMessagePayload):
        decode_send_messages(
            memoryview(plain(PLAIN_TARGETS[0], Message(bytes(MESSAGE_PAYLOAD_SIZE_MAX + 1))))
        )


def test_index_entries_have_the_size_they_say() -> None:
    assert INDEX_ENTRY_SIZE == 16
