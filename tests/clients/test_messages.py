"""Every package: each partitioning, each polling strategy, headers, large messages."""

from collections.abc import Sequence
from typing import Final

import pytest

from tests.broker import BrokerProcess
from tests.clients.conftest import Start
from tests.clients.running import Connection, Outgoing, Seen
from tests.clients.wheels import Wheel, wheels_that_can

pytestmark = pytest.mark.slow

PARTITIONS: Final = 4
LARGE_SIZE: Final = 8_000_000
TEXTS: Final = ("one", "zwei \u00fc", "\U0001f43a" * 10, " " * 1000)
HEADERS: Final = {"kind": "order", "count": 7, "paid": True, "weight": 0.5}
MESSAGE_ID: Final = 2**127 + 5


def payloads(messages: Sequence[Seen]) -> list[bytes]:
    return [message.payload for message in messages]


def test_each_partition(connection: Connection, name: str) -> None:
    connection.new_topic(name, PARTITIONS)
    for partition in range(PARTITIONS):
        connection.send(name, partition, f"for {partition}", "and one more")
    for partition in range(PARTITIONS):
        found = connection.poll(name, partition)
        assert payloads(found) == [f"for {partition}".encode(), b"and one more"]
        assert [message.offset for message in found] == [0, 1]
        assert {message.partition for message in found} <= {partition, None}


def test_text_comes_back_as_it_was(connection: Connection, name: str) -> None:
    connection.new_topic(name)
    connection.send(name, 0, *TEXTS)
    found = connection.poll(name)
    assert payloads(found) == [text.encode() for text in TEXTS]
    assert len({message.id for message in found} - {0}) == len(TEXTS)
    assert all(message.timestamp > 0 for message in found)


@pytest.mark.parametrize("wheel", wheels_that_can("bytes"), ids=str)
def test_bytes_come_back_as_they_were(connection: Connection, name: str) -> None:
    connection.new_topic(name)
    sent = [bytes(range(256)), b"\0", b"\xff" * 5000]
    connection.send(name, 0, *sent)
    assert payloads(connection.poll(name)) == sent


def test_polls_with_each_strategy(connection: Connection, name: str) -> None:
    connection.new_topic(name)
    sent = [f"message {number}" for number in range(10)]
    # Two batches: messages of one batch share a time.
    connection.send(name, 0, *sent[:5])
    connection.send(name, 0, *sent[5:])
    expected = [text.encode() for text in sent]
    found = connection.poll(name)
    assert payloads(found) == expected
    assert payloads(connection.poll(name, 0, "First", count=3)) == expected[:3]
    assert payloads(connection.poll(name, 0, "Last", count=3)) == expected[7:]
    assert payloads(connection.poll(name, 0, "Offset", 4, count=3)) == expected[4:7]
    assert connection.poll(name, 0, "Offset", 10) == []
    since = connection.poll(name, 0, "Timestamp", found[5].timestamp)
    assert payloads(since) == expected[5:]


def test_a_consumer_goes_on_where_it_committed(connection: Connection, name: str) -> None:
    connection.new_topic(name)
    connection.send(name, 0, *(f"message {number}" for number in range(5)))
    assert len(connection.poll(name, 0, "Next", count=2)) == 2
    first = connection.poll(name, 0, "Next", count=2, commit=True)
    second = connection.poll(name, 0, "Next", count=2, commit=True)
    third = connection.poll(name, 0, "Next", count=2, commit=True)
    assert [message.offset for message in (*first, *second, *third)] == [0, 1, 2, 3, 4]
    assert connection.poll(name, 0, "Next", count=2, commit=True) == []


def test_large_messages(connection: Connection, name: str) -> None:
    connection.new_topic(name)
    sent = [letter * LARGE_SIZE for letter in "ab"]
    for text in sent:
        connection.send(name, 0, text)
    found = [*connection.poll(name, count=1), *connection.poll(name, 0, "Offset", 1)]
    # Not compared as lists: a difference would be printed.
    assert [(len(one.payload), one.payload[:1]) for one in found] == [
        (LARGE_SIZE, b"a"),
        (LARGE_SIZE, b"b"),
    ]
    assert b"".join(payloads(found)) == "".join(sent).encode(), "the payloads are not those sent"


@pytest.mark.parametrize("wheel", wheels_that_can("partitioning"), ids=str)
def test_sends_by_key_and_balanced(connection: Connection, name: str) -> None:
    connection.new_topic(name, PARTITIONS)
    answers = [connection.send(name, {"key": f"user-{number // 3}"}, "x") for number in range(12)]
    assert all(len(one) == 1 for one in answers)
    partitions = [one[0][0] for one in answers]
    assert all(len(set(partitions[at : at + 3])) == 1 for at in range(0, 12, 3))
    answers += [connection.send(name, {"balanced": True}, "y", "z") for _ in range(PARTITIONS)]
    assert sorted(one[0][0] for one in answers[12:]) == list(range(PARTITIONS))
    # What the confirmations say is where the messages are.
    for partition in range(PARTITIONS):
        offsets = [one[0][1] for one in answers if one[0][0] == partition]
        found = connection.poll(name, partition)
        starts = [one.offset for one in found if one.payload in (b"x", b"y")]
        assert starts == offsets


@pytest.mark.parametrize("wheel", wheels_that_can("headers"), ids=str)
def test_headers_and_ids(connection: Connection, name: str) -> None:
    connection.new_topic(name)
    connection.send(name, 0, Outgoing(b"with", HEADERS, MESSAGE_ID), Outgoing(b"without"))
    with_headers, without = connection.poll(name)
    assert (with_headers.headers, with_headers.id) == (HEADERS, MESSAGE_ID)
    assert not without.headers


def test_two_connections_of_one_package(
    wheel: Wheel, start: Start, standing_broker: BrokerProcess, connection: Connection, name: str
) -> None:
    connection.new_topic(name)
    other = Connection(start(wheel), standing_broker, f"{name}-other")
    connection.send(name, 0, "from one")
    other.send(name, 0, "from the other")
    assert payloads(connection.poll(name)) == payloads(other.poll(name))
    other.close()
