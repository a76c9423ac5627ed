"""Options of topics: kept, returned, refused by name."""

import os
import signal
from typing import Any

import pytest

from borzoi.protocol import commands as c
from borzoi.protocol.consensus.options import pack_options, read_options
from borzoi.protocol.errors import (
    InvalidOptionValue,
    OptionsBlockTooLarge,
    UnsupportedOptionKey,
)
from borzoi.protocol.headers import header_field
from borzoi.protocol.identifiers import U64_MAX, Consumer, ConsumerKind
from tests.broker import BrokerProcess
from tests.consensus_wire import ConsensusWire
from tests.integration.consensus.topics import field, new_topic, topic_with
from tests.shard_wires import connect
from tests.wire import Wire

GROUP = Consumer(ConsumerKind.GROUP, "g")


def test_options_of_a_topic(wire: ConsensusWire) -> None:
    given: dict[str, Any] = {
        "durability": "replicated",
        "segment_size": 2**20,
        "message_expiry": 60_000_000,
    }
    made = topic_with(wire, "options", **given).topic
    assert read_options(made.explicit_options) == {key: field(one) for key, one in given.items()}
    assert made.message_expiry == 60_000_000
    derived = read_options(made.derived_options)
    assert set(derived) == {
        one.key for one in wire.ask(c.DescribeOptions(c.OptionScope.TOPIC))
    } - set(given)
    assert derived["max_topic_size"] == field(U64_MAX)
    assert derived["compression_algorithm"] == field("none")
    assert wire.ask(c.GetTopic("options", "options")).topic == made
    assert wire.ask(c.GetTopics("options")) == (made,)
    assert wire.ask(c.GetStream("options")).topics == (made,)


def test_what_an_update_leaves_out_stays(broker: BrokerProcess, wire: ConsensusWire) -> None:
    topic_with(
        wire, "update", compression_algorithm="gzip", message_expiry=9, durability="persisted"
    )

    def update(**options: Any) -> Any:
        block = pack_options({key: field(value) for key, value in options.items()})
        wire.ask(c.UpdateTopic("update", "update", -1, -1, -1, -1, "update", block))
        topic = wire.ask(c.GetTopic("update", "update")).topic
        return topic, {
            key: value.data for key, value in read_options(topic.explicit_options).items()
        }

    topic, explicit = update(max_topic_size=2**40)
    assert (topic.compression_algorithm, topic.message_expiry, topic.max_topic_size) == (
        2,
        9,
        2**40,
    )
    assert set(explicit) == {
        "compression_algorithm",
        "message_expiry",
        "durability",
        "max_topic_size",
    }
    topic, explicit = update(message_expiry="2 minutes")
    assert (topic.message_expiry, explicit["message_expiry"]) == (120_000_000, b"2 minutes")
    # A classic client sets all three, and knows no options.
    Wire(broker).ask(c.UpdateTopic("update", "update", 1, 5, 2**41, 1, "update"))
    topic = wire.ask(c.GetTopic("update", "update")).topic
    assert (topic.compression_algorithm, topic.message_expiry, topic.max_topic_size) == (
        1,
        5,
        2**41,
    )
    assert set(read_options(topic.explicit_options)) == {"durability"}
    assert read_options(topic.derived_options)["message_expiry"] == field(5)


@pytest.mark.parametrize(
    ("options", "status"),
    [
        ({"colour": "red"}, UnsupportedOptionKey.status),
        ({"durability": "replicated", "Colour": 1}, UnsupportedOptionKey.status),
        ({"segment_size": "a lot"}, InvalidOptionValue.status),
        ({"segment_size": 2**20 + 1}, InvalidOptionValue.status),
        ({"durability": "quick"}, InvalidOptionValue.status),
        ({"preallocate_segments": "perhaps"}, InvalidOptionValue.status),
        ({f"{at}": True for at in range(1025)}, OptionsBlockTooLarge.status),
    ],
)
def test_options_that_are_refused(
    broker: BrokerProcess, wire: ConsensusWire, options: dict[str, Any], status: int
) -> None:
    if wire.ask(c.GetStream("refused")) is None:
        wire.ask(c.CreateStream("refused"))
    assert wire.status(new_topic("refused", **options)) == status
    assert wire.ask(c.GetTopics("refused")) == ()
    if status != OptionsBlockTooLarge.status:
        assert repr(list(options)[-1]) in broker.output()


def test_streams_and_users_have_no_options(broker: BrokerProcess, wire: ConsensusWire) -> None:
    block = pack_options({"of_a_stream": header_field(True)})
    wire.ask(c.CreateStream("plain"))
    for command in (
        c.CreateStream("with options", block),
        c.UpdateStream("plain", "renamed", block),
        c.CreateUser("with options", "password", options=block),
        c.UpdateUser("iggy", "renamed", None, block),
    ):
        assert wire.status(command) == UnsupportedOptionKey.status
    assert "'of_a_stream'" in broker.output()
    assert wire.ask(c.GetStream("renamed")) is None
    for key in ("segment_size", "nothing"):
        update = c.UpdateTopic("plain", "t", -1, -1, -1, -1, "t", pack_options({key: field(2**20)}))
        assert wire.status(update) == UnsupportedOptionKey.status


def test_other_generations_see_the_settings(broker: BrokerProcess, wire: ConsensusWire) -> None:
    topic_with(wire, "seen", message_expiry="1 day", compression_algorithm="gzip")
    topic = Wire(broker).ask(c.GetTopic("seen", "seen")).topic
    assert (topic.message_expiry, topic.compression_algorithm) == (86_400_000_000, 2)
    assert topic.replication_factor == 1


@pytest.mark.slow
def test_segments_have_the_size_that_a_topic_asks_for(
    broker: BrokerProcess, wire: ConsensusWire
) -> None:
    topic_with(wire, "segments", segment_size=2**20)
    topic_with(wire, "usual")

    def fill(name: str, count: int) -> int:
        for _ in range(count):
            wire.append(name, name, 0, [bytes(600_000)])
        segments: int = wire.ask(c.GetTopic(name, name)).partitions[0].segments_count
        return segments

    assert fill("usual", 5) == 1
    assert fill("segments", 5) > 1
    # Also in a life that begins later, and after its worker was replaced.
    wire.ask(c.PurgeTopic("segments", "segments"))
    assert fill("segments", 2) == 1
    for pid in broker.workers().values():
        os.kill(pid, signal.SIGKILL)
    again = connect(broker)
    before = again.ask(c.GetTopic("segments", "segments")).partitions[0].segments_count
    for _ in range(5):
        assert again.send("segments", 0, bytes(600_000)) == 0
    assert again.ask(c.GetTopic("segments", "segments")).partitions[0].segments_count > before + 1
