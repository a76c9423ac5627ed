"""How the generation of a client is known: by its version, or by the shape of a request."""

import random
import struct

import pytest

from borzoi.protocol import commands as c
from borzoi.protocol.classic import CODECS
from borzoi.protocol.codes import Code
from borzoi.protocol.generations import GENERATIONS, generation_for
from borzoi.protocol.identifiers import (
    Consumer,
    ConsumerKind,
    Identifier,
    PartitionId,
    PollingStrategy,
    StrategyKind,
)
from borzoi.protocol.message import Message
from borzoi.protocol.older.codecs import OLD_CODECS
from borzoi.protocol.older.versions import (
    LOOKED_AT_MAX,
    shown_by_heads,
    shown_by_v1,
    shown_without_version,
)
from borzoi.protocol.send_messages import encode_send_messages
from tests.protocol.older.frames import FRAMES, payload_of
from tests.protocol.older.test_differences import short_send


@pytest.mark.parametrize(
    ("version", "name"),
    [
        (None, "v1"),
        ("", "classic"),
        ("0.5.0", "old-text"),
        ("0.6.31", "old-text"),
        ("0.6.51", "old-text"),
        ("0.6.60", "old"),
        ("0.6.102", "old"),
        ("0.6.202", "old"),
        ("0.6.202-rc1", "old"),
        ("0.7.0", "hybrid"),
        ("0.8.0", "bare-keys"),
        ("0.8.1-edge.3", "bare-keys"),
        ("0.8.2", "bare-keys"),
        ("0.8.3-edge.1", "classic"),
        ("0.8.12-edge.1", "classic"),
        ("iggy-java-sdk/0.7.0", "classic"),
        ("0.9.0", "classic"),
        ("0.10.0", "classic"),
        ("1.0", "classic"),
        ("rust", "classic"),
        ("0.x", "classic"),
    ],
)
def test_versions_compare_as_numbers(version: str | None, name: str) -> None:
    assert generation_for(version, "", True) is GENERATIONS[name]
    if name != "bare-keys":
        assert generation_for(version, "", False) is GENERATIONS[name]


def test_the_java_sdk_0_6_says_a_version_that_is_not_its_own() -> None:
    """Its login as it is in the published jar; iggy-py 0.2.5 says nearly the same."""
    sent = b"\x04iggy\x04iggy\x06\0\0\x000.6.30\x08\0\0\0java-sdk"
    command = CODECS[Code.LOGIN_USER].request.decode(memoryview(sent))
    assert isinstance(command, c.LoginUser)
    for has_pinged in (False, True):
        found = generation_for(command.version, command.context, has_pinged)
        assert found is GENERATIONS["bare-keys"]
    assert generation_for("0.6.30", "", True) is GENERATIONS["old-text"]


def test_two_families_say_0_8() -> None:
    assert generation_for("0.8.0", "", False).name == "sdk-0.8"
    classic = memoryview(encode_send_messages("s", "t", PartitionId(0), [Message(b"hi")]))
    short = memoryview(short_send("s", 0))
    assert shown_by_heads(Code.SEND_MESSAGES, classic) == "classic"
    assert shown_by_heads(Code.SEND_MESSAGES, short) == "bare-keys"
    assert shown_by_heads(Code.POLL_MESSAGES, payload_of("poll")) is None


def test_a_ping_behind_the_login_tells_as_well() -> None:
    """As long as nothing else was asked but the metadata of the cluster."""
    nothing = memoryview(b"")
    tells = GENERATIONS["sdk-0.8"].tells
    assert tells is not None
    assert tells(Code.GET_CLUSTER_METADATA, nothing) is None
    assert tells(Code.PING, nothing) == "bare-keys"
    assert tells(Code.SEND_MESSAGES, memoryview(short_send("s", 0))) == "bare-keys"
    assert tells(Code.POLL_MESSAGES, payload_of("poll")) == "sdk-0.8-silent"
    later = GENERATIONS["sdk-0.8-silent"].tells
    assert later is not None
    assert later(Code.PING, nothing) is None


CONSUMER = Consumer(ConsumerKind.CONSUMER, 1)
GROUP = Consumer(ConsumerKind.GROUP, "readers")
NEXT = PollingStrategy(StrategyKind.NEXT)


def some_commands(draw: random.Random) -> list[tuple[Code, c.Command]]:
    """Commands whose shape differs, with ordinary names."""
    name = "".join(draw.choices("abcdefghijklmnopqrstuvwxyz-_0123456789", k=draw.randint(1, 40)))
    stream: Identifier = name if draw.random() < 0.5 else draw.randint(0, 4000)
    wanted = draw.choice([None, draw.randint(0, 4000)])
    partition = draw.choice([None, draw.randint(0, 999)])
    who = draw.choice([CONSUMER, GROUP])
    return [
        (Code.CREATE_STREAM, c.CreateStream(name, wanted_id=wanted)),
        (Code.CREATE_CONSUMER_GROUP, c.CreateConsumerGroup(stream, name, name, wanted_id=wanted)),
        (
            Code.CREATE_TOPIC,
            c.CreateTopic(stream, draw.randint(0, 1000), 1, 2**64 - 1, 0, 0, name, b"", wanted),
        ),
        (
            Code.POLL_MESSAGES,
            c.PollMessages(who, stream, 0, partition, NEXT, 10, auto_commit=True),
        ),
        (Code.GET_CONSUMER_OFFSET, c.GetConsumerOffset(who, stream, name, partition)),
        (Code.DELETE_CONSUMER_OFFSET, c.DeleteConsumerOffset(who, stream, name, partition)),
        (Code.STORE_CONSUMER_OFFSET, c.StoreConsumerOffset(who, stream, name, partition, 9)),
    ]


def test_requests_with_ordinary_names_are_never_misread() -> None:
    draw = random.Random(4)
    for _ in range(500):
        for code, command in some_commands(draw):
            old = OLD_CODECS[code].request.encode(command)
            assert shown_without_version(code, memoryview(old)) == "old", command
            new = CODECS[code].request.encode(command)
            assert shown_without_version(code, memoryview(new)) == "classic", command


def test_sends() -> None:
    for name in ("send", "send-v1", "send-header", "send-balanced"):
        assert shown_without_version(Code.SEND_MESSAGES, payload_of(name)) == "old"
    for messages in ([Message(b"hi")], [Message(b"", 5), Message(b"x" * 900, 6)]):
        classic = encode_send_messages("s", "t", PartitionId(0), messages)
        assert shown_without_version(Code.SEND_MESSAGES, memoryview(classic)) == "classic"
    short = memoryview(short_send("s", 0))
    assert shown_without_version(Code.SEND_MESSAGES, short) == "bare-keys"


def test_a_send_tells_by_its_first_messages() -> None:
    """One of 128 MiB may hold five million: looking at each took 13 s, in the worker's loop."""
    target = b"\2\1s\2\1t" + struct.pack("<BBI", 2, 4, 1)
    message = bytes(15) + b"\7" + struct.pack("<II", 0, 1) + b"x"
    for count in (1, LOOKED_AT_MAX, LOOKED_AT_MAX + 1):
        whole = memoryview(target + message * count)
        assert shown_without_version(Code.SEND_MESSAGES, whole) == "old"
        cut_short = "old" if count > LOOKED_AT_MAX else "classic"
        assert shown_without_version(Code.SEND_MESSAGES, whole[:-1]) == cut_short


def test_what_cannot_be_read_or_looks_alike_shows_nothing() -> None:
    for code in Code:
        assert shown_without_version(code, memoryview(b"")) is None
    assert shown_without_version(Code.GET_STREAM, payload_of("get-stream")) is None
    for name in FRAMES:
        for end in range(len(payload_of(name))):
            for code in (Code.POLL_MESSAGES, Code.CREATE_TOPIC, Code.SEND_MESSAGES):
                shown_without_version(code, payload_of(name)[:end])


def test_v1_is_known_by_its_first_topic() -> None:
    assert shown_by_v1(Code.CREATE_TOPIC, payload_of("create-topic-v1")) == "v1-text"
    assert shown_by_v1(Code.CREATE_TOPIC, payload_of("create-topic-v1-short")) == "v1-short"
    assert shown_by_v1(Code.CREATE_TOPIC, memoryview(b"\1")) is None
    assert shown_by_v1(Code.CREATE_STREAM, payload_of("create-stream")) is None
