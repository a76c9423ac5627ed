"""Batches there and back, and what other generations see of them."""

import pytest

from borzoi.protocol.codes import Code
from borzoi.protocol.identifiers import Consumer, ConsumerKind
from borzoi.protocol.message import Message
from tests.broker import BrokerProcess
from tests.consensus_wire import ConsensusWire
from tests.integration.consensus.topics import topic_with
from tests.wire import Wire

NOW = 1_700_000_000_000_000
GROUP = Consumer(ConsumerKind.GROUP, "g")


def test_messages_there_and_back(broker: BrokerProcess, wire: ConsensusWire) -> None:
    topic = topic_with(wire, "messages", 2).topic
    headers = b"\2\1\0\0\0k\x0b\4\0\0\0\7\0\0\0"
    sent = [Message(b"one", 2**100, headers, NOW), Message(b"two", 5, origin_timestamp=NOW + 7)]
    first = wire.confirmed("messages", 1, *sent)
    assert (first.topic_id, first.partition_id, first.base_offset) == (topic.id, 1, 0)
    assert wire.confirmed("messages", 1, b"three").base_offset == 2
    polled = wire.poll("messages", 1)
    assert [one.payload for one in polled.messages] == [b"one", b"two", b"three"]
    assert [one.offset for one in polled.messages] == [0, 1, 2]
    assert (polled.messages[0].id, polled.messages[0].user_headers) == (2**100, headers)
    classic = Wire(broker)
    seen = classic.poll("messages", 1).messages
    keys = ("payload", "id", "user_headers", "origin_timestamp", "offset", "timestamp")
    for here, there in zip(polled.messages, seen, strict=True):
        assert [getattr(here, key) for key in keys] == [getattr(there, key) for key in keys]
    assert classic.send("messages", 1, b"four") == 0
    assert wire.payloads("messages", 1)[-1] == b"four"


def test_a_batch_that_is_not_whole_is_refused(wire: ConsensusWire) -> None:
    topic_with(wire, "broken")
    wire.begin_append("broken", "broken", 0, [b"x" * 100])
    assert wire.answer().status == 0
    frame = bytearray(wire.frame(Code.SEND_MESSAGES))
    assert wire.request(Code.SEND_MESSAGES, bytes(frame)).status != 0
    assert wire.payloads("broken") == [b"x" * 100]


@pytest.mark.slow
def test_a_poll_of_many_megabytes(wire: ConsensusWire) -> None:
    topic_with(wire, "large")
    payloads = [bytes((at,)) * 3_000_000 for at in range(5)]
    for payload in payloads:
        wire.append("large", "large", 0, [payload])
    assert wire.payloads("large") == payloads
    assert wire.is_in_step()
