"""POLL_MESSAGES: the five strategies on empty, filled and purged partitions."""

import time
from typing import Final

import pytest

from borzoi.protocol.codes import Code
from borzoi.protocol.commands.offsets import GetConsumerOffset
from borzoi.protocol.commands.topics import PurgeTopic
from borzoi.protocol.errors import (
    ConsumerGroupIdNotFound,
    InvalidCommand,
    PartitionNotFound,
    StreamIdNotFound,
    TopicIdNotFound,
)
from borzoi.protocol.identifiers import (
    U64_MAX,
    Consumer,
    ConsumerKind,
    PollingStrategy,
    StrategyKind,
)
from borzoi.protocol.message import Message
from borzoi.protocol.responses.polled import PolledMessages
from tests.topics import topic_of
from tests.wire import ANYBODY, FIRST, NEXT, Wire

LAST: Final = PollingStrategy(StrategyKind.LAST)
EVERY_KIND: Final = list(StrategyKind)
COUNT: Final = 6


def offset(value: int) -> PollingStrategy:
    return PollingStrategy(StrategyKind.OFFSET, value)


def timestamp(value: int) -> PollingStrategy:
    return PollingStrategy(StrategyKind.TIMESTAMP, value)


def offsets_of(polled: PolledMessages) -> list[int]:
    return [message.offset for message in polled.messages]


@pytest.fixture
def filled(wire: Wire, topic: str) -> str:
    """A topic with messages 0 to 5: three batches of two, each with a time of its own."""
    for number in range(0, COUNT, 2):
        before = time.time_ns() // 1000
        assert wire.send(topic, 0, b"%d" % number, b"%d" % (number + 1)) == 0
        while time.time_ns() // 1000 <= before + 1:
            pass
    return topic


@pytest.mark.parametrize("count", [0, 1, 100])
@pytest.mark.parametrize("kind", EVERY_KIND)
@pytest.mark.parametrize("purged", [False, True], ids=["new", "purged"])
def test_an_empty_partition(
    wire: Wire, stream: str, kind: StrategyKind, count: int, purged: bool
) -> None:
    wire.ask(topic_of(stream, 2))
    if purged:
        for partition_id in range(2):
            assert wire.send(stream, partition_id, b"x", b"y") == 0
            wire.poll(stream, partition_id, auto_commit=True)
        wire.ask(PurgeTopic(stream, stream))
    for partition_id in range(2):
        for value in (0, 1, U64_MAX):
            polled = wire.poll(stream, partition_id, PollingStrategy(kind, value), count)
            assert polled == PolledMessages(partition_id, 0, ())


@pytest.mark.parametrize(
    ("strategy", "count", "expected"),
    [
        (offset(0), 2, [0, 1]),
        (offset(0), 100, [0, 1, 2, 3, 4, 5]),
        (offset(3), 2, [3, 4]),
        (offset(5), 100, [5]),
        (offset(6), 100, []),
        (offset(U64_MAX), 100, []),
        (timestamp(0), 3, [0, 1, 2]),
        (timestamp(U64_MAX), 3, []),
        (FIRST, 1, [0]),
        (FIRST, 100, [0, 1, 2, 3, 4, 5]),
        (PollingStrategy(StrategyKind.FIRST, 77), 1, [0]),
        (LAST, 1, [5]),
        (LAST, 4, [2, 3, 4, 5]),
        (LAST, 100, [0, 1, 2, 3, 4, 5]),
        (LAST, 2**32 - 1, [0, 1, 2, 3, 4, 5]),
        (NEXT, 2, [0, 1]),
        (NEXT, 100, [0, 1, 2, 3, 4, 5]),
        *((PollingStrategy(kind, 0), 0, []) for kind in EVERY_KIND),
    ],
)
def test_where_a_poll_begins(
    wire: Wire, filled: str, strategy: PollingStrategy, count: int, expected: list[int]
) -> None:
    polled = wire.poll(filled, 0, strategy, count)
    assert (polled.partition_id, polled.current_offset) == (0, COUNT - 1)
    assert offsets_of(polled) == expected
    assert [message.payload for message in polled.messages] == [b"%d" % one for one in expected]


def test_timestamps(wire: Wire, filled: str) -> None:
    messages = wire.poll(filled).messages
    times = [message.timestamp for message in messages]
    assert times[0] == times[1] < times[2] == times[3] < times[4] == times[5]
    for at in {moment + shift for moment in times for shift in (-1, 0, 1)}:
        found = wire.poll(filled, 0, timestamp(at))
        assert offsets_of(found) == [one.offset for one in messages if one.timestamp >= at]


@pytest.mark.parametrize("kind", EVERY_KIND)
def test_auto_commit(wire: Wire, filled: str, kind: StrategyKind) -> None:
    who = Consumer(ConsumerKind.CONSUMER, "auto " + kind.name)
    polled = wire.poll(filled, 0, PollingStrategy(kind), 3, consumer=who, auto_commit=True)
    last = polled.messages[-1].offset
    stored = wire.ask(GetConsumerOffset(who, filled, filled, 0))
    assert (stored.stored_offset, stored.current_offset) == (last, COUNT - 1)
    assert offsets_of(wire.poll(filled, 0, NEXT, consumer=who)) == [*range(last + 1, COUNT)]
    # An empty result commits nothing.
    wire.poll(filled, 0, offset(COUNT), consumer=who, auto_commit=True)
    wire.poll(filled, 0, FIRST, 0, consumer=who, auto_commit=True)
    assert wire.ask(GetConsumerOffset(who, filled, filled, 0)) == stored


def test_next_waits_at_the_end(wire: Wire, filled: str) -> None:
    assert len(wire.poll(filled, 0, NEXT, auto_commit=True).messages) == COUNT
    for _ in range(2):
        polled = wire.poll(filled, 0, NEXT, auto_commit=True)
        assert (polled.current_offset, polled.messages) == (COUNT - 1, ())
    assert wire.send(filled, 0, b"new") == 0
    assert offsets_of(wire.poll(filled, 0, NEXT, auto_commit=True)) == [COUNT]


def test_consumers_are_kept_apart_and_named_ones_are_numbers(wire: Wire, filled: str) -> None:
    one, two = (Consumer(ConsumerKind.CONSUMER, number) for number in (1, 2))
    wire.poll(filled, 0, NEXT, 2, consumer=one, auto_commit=True)
    wire.poll(filled, 0, NEXT, 4, consumer=two, auto_commit=True)
    assert offsets_of(wire.poll(filled, 0, NEXT, 1, consumer=one)) == [2]
    assert offsets_of(wire.poll(filled, 0, NEXT, 1, consumer=two)) == [4]
    assert offsets_of(wire.poll(filled, 0, NEXT, 1, consumer=ANYBODY)) == [0]
    # The XXH32 of "a" is the number under which the consumer "a" is kept.
    by_name = Consumer(ConsumerKind.CONSUMER, "a")
    by_number = Consumer(ConsumerKind.CONSUMER, 1_426_945_110)
    wire.poll(filled, 0, NEXT, 3, consumer=by_name, auto_commit=True)
    assert offsets_of(wire.poll(filled, 0, NEXT, 1, consumer=by_number)) == [3]


def test_no_partition_means_partition_0(wire: Wire, stream: str) -> None:
    wire.ask(topic_of(stream, 2))
    assert wire.send(stream, 0, b"zero") == 0
    assert wire.send(stream, 1, b"one") == 0
    polled = wire.poll(stream, None)
    assert polled.partition_id == 0
    assert [message.payload for message in polled.messages] == [b"zero"]


@pytest.mark.parametrize("count", [0, 1])
def test_places_that_do_not_exist(wire: Wire, filled: str, count: int) -> None:
    with pytest.raises(StreamIdNotFound):
        wire.poll(filled, 0, count=count, stream="nowhere")
    with pytest.raises(TopicIdNotFound):
        wire.poll("nothing", 0, count=count, stream=filled)
    for partition_id in (1, 2**32 - 1):
        with pytest.raises(PartitionNotFound):
            wire.poll(filled, partition_id, count=count)


def test_a_group_that_does_not_exist(wire: Wire, filled: str) -> None:
    with pytest.raises(ConsumerGroupIdNotFound):
        wire.poll(filled, None, consumer=Consumer(ConsumerKind.GROUP, "no such group"))


@pytest.mark.parametrize("kind", [0, 6, 255])
def test_strategies_that_are_none(wire: Wire, filled: str, kind: int) -> None:
    name = b"\x02" + bytes((len(filled),)) + filled.encode()
    head = b"\x01\x01\x04\0\0\0\0" + name + name + b"\x01\0\0\0\0"
    tail = bytes(8) + b"\x01\0\0\0\0"
    assert (
        wire.request(Code.POLL_MESSAGES, head + bytes((kind,)) + tail)[0] == InvalidCommand.status
    )
    assert wire.request(Code.POLL_MESSAGES, head + b"\x03" + tail)[0] == 0


def test_one_poll_spans_many_batches(wire: Wire, topic: str) -> None:
    sent = [b"%d" % number * (number % 50) for number in range(400)]
    for at in range(0, 400, 7):
        assert wire.send(topic, 0, *sent[at : at + 7]) == 0
    assert [m.payload for m in wire.poll(topic).messages] == sent
    assert [m.payload for m in wire.poll(topic, 0, offset(123), 50).messages] == sent[123:173]
    last = wire.poll(topic, 0, LAST, 30)
    assert [m.payload for m in last.messages] == sent[-30:]
    assert isinstance(last.messages[0], Message)
