"""What one package writes every other reads: the same bytes at the same offsets.

Each package in turn writes into the same partition, and the wire of these tests, which can send
headers that most packages cannot; then all of them read all of it.
"""

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import pytest

from borzoi.protocol.headers import HeaderScalar, encode_user_headers, header_field, header_scalar
from borzoi.protocol.message import Message
from tests.broker import BrokerProcess
from tests.clients.conftest import Start
from tests.clients.running import Connection, Outgoing, Seen
from tests.clients.wheels import WHEELS, Wheel
from tests.topics import make_topic
from tests.wire import Wire

pytestmark = pytest.mark.slow

TOPIC: Final = "cross"
PARTITION: Final = 1
OURS: Final = "tests/wire.py"
HEADERS: Final[dict[str, HeaderScalar]] = {"kind": "order", "count": 7, "paid": True, "weight": 0.5}
MESSAGE_ID: Final = 2**100 + 1


class Written(NamedTuple):
    """A message and its writer."""

    writer: Wheel | str
    message: Outgoing

    @property
    def payload(self) -> bytes:
        payload = self.message.payload
        return payload.encode() if isinstance(payload, str) else payload


def messages_of(wheel: Wheel) -> list[Outgoing]:
    """As much as its interface can say."""
    found = [Outgoing(f"text of {wheel}, \u00fc and \U0001f43a"), Outgoing(f"{wheel} " * 5000)]
    if wheel.can("bytes"):
        found.append(Outgoing(str(wheel).encode() + bytes(range(256))))
    if wheel.can("headers"):
        found.append(Outgoing(f"headers of {wheel}".encode(), HEADERS, MESSAGE_ID))
    return found


def write_ours(wire: Wire) -> Written:
    fields = {header_field(key): header_field(value) for key, value in HEADERS.items()}
    message = Message(b"ours", MESSAGE_ID, encode_user_headers(fields))
    wire.append(TOPIC, TOPIC, PARTITION, [message])
    return Written(OURS, Outgoing(b"ours", HEADERS, MESSAGE_ID))


def write(connections: Sequence[Connection], wire: Wire) -> list[Written]:
    """There and back, so that there is more than one order of packages."""
    written = [write_ours(wire)]
    for connection in (*connections, *reversed(connections)):
        wheel = connection.running.wheel
        messages = messages_of(wheel)
        for answer in connection.send(TOPIC, PARTITION, *messages):
            assert answer == [PARTITION, len(written)], f"{wheel} was answered {answer}"
        written += [Written(wheel, message) for message in messages]
    return written


def test_every_package_reads_what_every_package_wrote(
    start: Start, standing_broker: BrokerProcess
) -> None:
    connections = [Connection(start(wheel), standing_broker, TOPIC) for wheel in WHEELS]
    connections[-1].new_topic(TOPIC, partitions=2)
    with Wire(standing_broker) as wire:
        written = write(connections, wire)
        stored = list(wire.read(TOPIC, TOPIC, PARTITION))
    assert [scalars(message) for message in stored] == [one.message.headers for one in written]
    for connection in connections:
        reader = connection.running.wheel
        messages = connection.poll(TOPIC, PARTITION)
        assert len(messages) == len(written), f"{reader} reads {len(messages)} messages"
        for offset, (one, sent, ours) in enumerate(zip(messages, written, stored, strict=True)):
            check(reader, one, sent, offset)
            assert (one.id, one.timestamp) == (ours.id, ours.timestamp), f"{reader} at {offset}"
        topic = connection.ask("get_topic", stream=TOPIC, topic=TOPIC)
        assert topic["messages"] == len(written), reader
        connection.close()


def check(reader: Wheel, one: Seen, sent: Written, offset: int) -> None:
    cell = f"{reader} reads what {sent.writer} wrote at {offset}"
    assert one.offset == offset, cell
    assert one.payload == sent.payload, cell
    if reader.can("headers"):
        assert (one.headers or None) == sent.message.headers, cell
    if sent.message.id is not None:
        assert one.id == sent.message.id, cell


def scalars(message: Message) -> dict[Any, Any] | None:
    """The headers that were stored, as a caller gave them."""
    return {
        header_scalar(key): header_scalar(value) for key, value in message.headers.items()
    } or None


def test_every_package_shows_the_same_streams_and_topics(
    start: Start, standing_broker: BrokerProcess, name: str
) -> None:
    """Also by their numbers, which some packages count from 1 (driver.py)."""
    connections = [Connection(start(wheel), standing_broker, name) for wheel in WHEELS]
    for maker in connections:
        made = f"{name}-{maker.running.wheel}"
        maker.new_topic(made, partitions=3)
        maker.send(made, 2, "one", "two")
        stream = maker.ask("get_stream", stream=made)
        topic = maker.ask("get_topic", stream=made, topic=made)
        for reader in connections:
            cell = f"{reader.running.wheel} reads what {maker.running.wheel} made"
            assert reader.ask("get_stream", stream=stream["id"]) == stream, cell
            found = reader.ask("get_topic", stream=stream["id"], topic=topic["id"])
            assert found == topic, cell
    for connection in connections:
        connection.close()


def test_packages_share_the_offset_of_a_consumer(
    start: Start, standing_broker: BrokerProcess, name: str
) -> None:
    """Packages have no say in the number of their consumer; those with the same one go on."""
    connections = [Connection(start(wheel), standing_broker, name) for wheel in WHEELS]
    connections[0].new_topic(name)
    rounds = 3
    connections[0].send(name, 0, *(str(at) for at in range(rounds * len(connections))))
    taken: dict[int, list[int]] = {}
    for _ in range(rounds):
        for connection in connections:
            (one,) = connection.poll(name, 0, "Next", count=1, commit=True)
            taken.setdefault(connection.ask("consumer"), []).append(one.offset)
    for consumer, offsets in taken.items():
        assert offsets == list(range(len(offsets))), f"consumer {consumer}"
    for connection in connections:
        connection.close()


def test_a_connection_that_only_reads(
    start: Start, standing_broker: BrokerProcess, name: str
) -> None:
    """What a connection has sent says much about its generation; this one sends nothing."""
    with Wire(standing_broker) as wire:
        make_topic(wire, name, name)
        wire.append(name, name, 0, [b"one", b"two", bytes(1000)])
    for wheel in WHEELS:
        connection = Connection(start(wheel), standing_broker, name)
        found = connection.poll(name)
        assert [one.payload for one in found] == [b"one", b"two", bytes(1000)], wheel
        assert [one.offset for one in found] == [0, 1, 2], wheel
        connection.close()
