"""Captured frames of clients up to SDK 0.6, both ways."""

from typing import Any

import pytest

from borzoi.protocol import commands as c
from borzoi.protocol import responses as r
from borzoi.protocol.codes import Code
from borzoi.protocol.edges import OLD_FORM
from borzoi.protocol.framing import ClassicFraming
from borzoi.protocol.generations import OLD, V1, V1_SHORT, V1_TEXT, Generation
from borzoi.protocol.headers import decode_user_headers, header_field
from borzoi.protocol.identifiers import (
    U64_MAX,
    Balanced,
    Consumer,
    ConsumerKind,
    PartitionId,
    PollingStrategy,
    StrategyKind,
)
from borzoi.protocol.message import Message, decode_messages, encode_messages
from borzoi.protocol.older import codecs
from borzoi.protocol.older.sends import decode_old_send
from borzoi.protocol.older.statuses import TextFraming
from tests.protocol.older.frames import FRAMES, payload_of

TIME = 1_700_000_000_000_000
FIRST = PollingStrategy(StrategyKind.FIRST)
NEXT = PollingStrategy(StrategyKind.NEXT)
CONSUMER_1 = Consumer(ConsumerKind.CONSUMER, 1)
NEW_T1 = ("auto", 3, 1, U64_MAX, 0, 0, "t1")

REQUESTS: list[tuple[str, Code, Any]] = [
    ("login", Code.LOGIN_USER, c.LoginUser("iggy", "iggy", "0.6.202", "")),
    ("create-stream", Code.CREATE_STREAM, c.CreateStream("auto")),
    ("create-stream-5", Code.CREATE_STREAM, c.CreateStream("five", wanted_id=4)),
    ("create-topic", Code.CREATE_TOPIC, c.CreateTopic(*NEW_T1)),
    (
        "create-topic-9",
        Code.CREATE_TOPIC,
        c.CreateTopic(0, 2, 2, U64_MAX, 0, 1, "t9", wanted_id=8),
    ),
    ("get-stream", Code.GET_STREAM, c.GetStream(0)),
    ("get-topic", Code.GET_TOPIC, c.GetTopic("auto", "t1")),
    (
        "poll",
        Code.POLL_MESSAGES,
        c.PollMessages(CONSUMER_1, "auto", "t1", 0, FIRST, 100, auto_commit=False),
    ),
    (
        "poll-next",
        Code.POLL_MESSAGES,
        c.PollMessages(CONSUMER_1, 0, 0, 0, NEXT, 4, auto_commit=True),
    ),
    ("create-group", Code.CREATE_CONSUMER_GROUP, c.CreateConsumerGroup(0, 0, "g")),
    ("join-group", Code.JOIN_CONSUMER_GROUP, c.JoinConsumerGroup(0, 0, 0)),
    ("store-offset", Code.STORE_CONSUMER_OFFSET, c.StoreConsumerOffset(CONSUMER_1, 0, 0, 0, 4)),
    ("get-offset", Code.GET_CONSUMER_OFFSET, c.GetConsumerOffset(CONSUMER_1, 0, 0, 0)),
    ("delete-offset", Code.DELETE_CONSUMER_OFFSET, c.DeleteConsumerOffset(CONSUMER_1, 0, 0, 0)),
]


@pytest.mark.parametrize(("name", "code", "command"), REQUESTS, ids=[one[0] for one in REQUESTS])
def test_requests_both_ways(name: str, code: Code, command: Any) -> None:
    assert FRAMES[name][4:8] == code.to_bytes(4, "little")
    assert OLD.requests[code](payload_of(name)) == command
    assert codecs.OLD_CODECS[code].request.encode(command) == payload_of(name)


STREAM = r.StreamInfo(0, TIME, 0, 0, 0, "auto")
TOPIC = r.TopicInfo(0, TIME, 3, U64_MAX, 1, U64_MAX, 1, 0, 0, "t1")
ANSWERS: list[tuple[str, Code, Any]] = [
    ("login-answer", Code.LOGIN_USER, r.Identity(0)),
    ("create-stream-answer", Code.CREATE_STREAM, STREAM),
    (
        "create-topic-answer",
        Code.CREATE_TOPIC,
        r.TopicDetails(TOPIC, tuple(r.PartitionInfo(id, TIME, 1, 0, 0, 0) for id in range(3))),
    ),
    (
        "get-stream-answer",
        Code.GET_STREAM,
        r.StreamDetails(
            r.StreamInfo(0, TIME, 1, 132, 2, "auto"),
            (r.TopicInfo(0, TIME, 3, U64_MAX, 1, U64_MAX, 1, 132, 2, "t1"),),
        ),
    ),
    ("create-group-answer", Code.CREATE_CONSUMER_GROUP, r.ConsumerGroupInfo(0, 3, 0, "g")),
    ("get-offset-answer", Code.GET_CONSUMER_OFFSET, r.ConsumerOffsetInfo(0, 9, 4)),
]


@pytest.mark.parametrize(("name", "code", "value"), ANSWERS, ids=[one[0] for one in ANSWERS])
def test_answers_both_ways(name: str, code: Code, value: Any) -> None:
    payload = OLD.replies[code](value)
    assert OLD.framing().success(len(payload)) + payload == FRAMES[name]
    assert codecs.OLD_CODECS[code].answer.decode(payload_of(name)) == value


def sent(name: str) -> tuple[c.SendMessages, list[Message]]:
    command = decode_old_send(payload_of(name), TIME)
    messages = list(decode_messages(command.batch))
    assert {message.origin_timestamp for message in messages} == {TIME}
    assert command.message_count == len(messages)
    assert command.batch_start is None
    return command, messages


def test_sends() -> None:
    command, messages = sent("send")
    assert command[:3] == ("auto", "t1", PartitionId(0))
    assert [message.payload for message in messages] == [b"m0", b"m1"]
    command, messages = sent("send-v1")
    assert command[:3] == (20, 0, PartitionId(0))
    assert [message.payload for message in messages] == [b"a", b"bb"]
    command, messages = sent("send-balanced")
    assert command[:3] == (0, 0, Balanced())


def test_a_send_with_headers() -> None:
    command, (message,) = sent("send-header")
    assert command.partitioning == PartitionId(1)
    assert (message.id, message.payload) == (42, b"hi")
    assert decode_user_headers(message.user_headers) == {header_field("key"): header_field("value")}


def test_what_a_poll_shows() -> None:
    stored = encode_messages(
        [Message(b"m0", 7, offset=0, timestamp=TIME), Message(b"m1", 8, offset=1, timestamp=TIME)]
    )
    shown = OLD_FORM.whole([memoryview(stored)], 0)
    head = ClassicFraming().polled(0 + OLD_FORM.partition_base, 1, 2, len(shown))
    assert head + shown == FRAMES["poll-answer"]
    nothing = OLD_FORM.whole([], 1)
    assert ClassicFraming().polled(1 + 1, 0, 0, len(nothing)) == FRAMES["poll-answer-empty"]


@pytest.mark.parametrize("generation", [V1, V1_TEXT])
def test_a_topic_of_v1(generation: Generation) -> None:
    new = generation.requests[Code.CREATE_TOPIC](payload_of("create-topic-v1"))
    assert new == c.CreateTopic(21, 1, 1, U64_MAX, 0, 1, "t", wanted_id=0)
    shown = generation.replies[Code.GET_TOPICS]((TOPIC,))
    assert shown[16:20] == bytes(4)  # never expires
    assert shown[20] == 1
    assert shown[21:29] == bytes(8)  # without limit
    assert shown[46:] == b"\2t1"


@pytest.mark.parametrize("generation", [V1, V1_SHORT])
def test_a_topic_of_sdk_0_1(generation: Generation) -> None:
    new = generation.requests[Code.CREATE_TOPIC](payload_of("create-topic-v1-short"))
    assert new == c.CreateTopic(20, 1, 1, U64_MAX, 0, 0, "t", wanted_id=0)
    shown = V1_SHORT.replies[Code.GET_TOPICS]((TOPIC,))
    assert shown[16:20] == bytes(4)
    assert shown[36:] == b"\2t1"


@pytest.mark.parametrize(
    ("seconds", "expiry", "shown"),
    [(0, U64_MAX, 0), (1, 1_000_000, 1), (2**32 - 1, (2**32 - 1) * 1_000_000, 2**32 - 1)],
)
def test_an_expiry_of_v1_is_in_seconds(seconds: int, expiry: int, shown: int) -> None:
    kind = codecs.EXPIRY_SECONDS
    assert kind.load is not None
    assert kind.dump is not None
    assert kind.load(seconds) == expiry
    assert kind.dump(expiry) == shown


def test_an_expiry_below_a_second_is_not_never() -> None:
    assert codecs.EXPIRY_SECONDS.dump is not None
    assert codecs.EXPIRY_SECONDS.dump(1) == 1
    assert codecs.EXPIRY_SECONDS.dump(U64_MAX - 1) == 2**32 - 1


def test_errors_with_a_text() -> None:
    framing = TextFraming()
    assert framing.status(0) == bytes(8)
    text = b"another stream has this name"
    assert framing.status(1012) == b"\xf4\3\0\0" + bytes((32, 0, 0, 0, 28, 0, 0, 0)) + text
    assert b"id" in framing.status(1011)
