"""Size limits against those who send or read in odd ways: nothing is lost, nothing grows."""

from typing import Final

import pytest

from borzoi.protocol.commands.offsets import StoreConsumerOffset
from borzoi.protocol.commands.sessions import LoginUser
from borzoi.protocol.commands.streams import CreateStream
from borzoi.protocol.commands.topics import CreateTopic
from borzoi.protocol.commands.users import CreateUser
from borzoi.protocol.identifiers import Consumer, ConsumerKind
from borzoi.protocol.permissions import GlobalPermissions, Permissions, UserStatus
from tests.broker import BrokerProcess, wait_for
from tests.conftest import NewBroker
from tests.shard_wires import ONE_SHARD
from tests.topics import described
from tests.wire import Wire

pytestmark = pytest.mark.slow

MIB: Final = 1 << 20
TOPIC_SIZE: Final = 2 * MIB
SEGMENT_SIZE: Final = MIB // 2
NEVER: Final = (1 << 64) - 1
SETTINGS: Final = {
    **ONE_SHARD,
    "IGGY_SYSTEM_SEGMENT_SIZE": "512KiB",
    "IGGY_DATA_MAINTENANCE_MESSAGES_CLEANER_ENABLED": "true",
    "IGGY_DATA_MAINTENANCE_MESSAGES_INTERVAL": "50 ms",
}
BATCH: Final = [bytes(1000)] * 1000  # 1,064,000 bytes, twice a segment


def limited_topic(broker: BrokerProcess, name: str) -> Wire:
    wire = Wire(broker)
    wire.ask(CreateStream(name))
    wire.ask(CreateTopic(name, 1, 1, NEVER, TOPIC_SIZE, 1, name))
    return wire


def let_the_cleaner_run(broker: BrokerProcess, name: str) -> None:
    """Wait until a topic made after all others has lost a segment: each had its turn before."""
    witness = limited_topic(broker, name)
    for _ in range(8):
        assert witness.send(name, 0, *[bytes(1000)] * 400) == 0
    wait_for(lambda: described(witness, name).topic.size_bytes < TOPIC_SIZE)


def test_batches_larger_than_a_segment_do_not_empty_their_topic(new_broker: NewBroker) -> None:
    """Each sealed segment is larger than the topic may be, and the active one is empty."""
    broker = new_broker(**SETTINGS)
    wire = limited_topic(broker, "large")
    for _ in range(4):
        assert wire.send("large", 0, *BATCH) == 0
    let_the_cleaner_run(broker, "witness")
    polled = wire.poll("large", count=10_000).messages
    assert polled, "acknowledged messages are gone, and nothing came after them"
    assert polled[-1].offset == 3999
    assert "a batch of 1064000 bytes with 1000 messages from offset 0" in broker.output()
    assert broker.output().count("is larger than system.segment.size, 524288 bytes") == 1
    # What comes next makes room for itself.
    assert wire.send("large", 0, b"one more") == 0
    wait_for(lambda: described(wire, "large").topic.size_bytes < TOPIC_SIZE)
    assert [m.offset for m in wire.poll("large").messages] == [4000]


def test_a_batch_larger_than_its_topic_is_accepted_read_and_logged(new_broker: NewBroker) -> None:
    broker = new_broker(**SETTINGS)
    wire = limited_topic(broker, "huge")
    for _ in range(2):
        assert wire.send("huge", 0, *BATCH, *BATCH) == 0
    let_the_cleaner_run(broker, "witness")
    polled = wire.poll("huge", count=10_000).messages
    assert polled
    assert polled[-1].offset == 3999
    assert broker.output().count("larger than the topic's max_topic_size, 2097152 bytes") == 1
    assert "larger than system.segment.size" not in broker.output()


def test_a_user_who_may_only_poll_cannot_switch_retention_off(new_broker: NewBroker) -> None:
    """One stored offset of an invented consumer, and a topic that is sent ten times its limit."""
    broker = new_broker(**SETTINGS)
    wire = limited_topic(broker, "pinned")
    may_poll = Permissions(GlobalPermissions(poll_messages=True))
    wire.ask(CreateUser("reader", "secret", UserStatus.ACTIVE, may_poll))
    reader = Wire(broker, login=False)
    reader.ask(LoginUser("reader", "secret"))
    assert wire.send("pinned", 0, b"first") == 0
    invented = Consumer(ConsumerKind.CONSUMER, 31337)
    reader.ask(StoreConsumerOffset(invented, "pinned", "pinned", 0, 0))

    for _ in range(80):
        assert wire.send("pinned", 0, *[bytes(1000)] * 250) == 0
    wait_for(lambda: described(wire, "pinned").topic.size_bytes < TOPIC_SIZE)
    said = broker.output()
    assert said.count("deleted unread: consumer 31337 has read up to offset 0 only") == 1
    assert said.count("is due to be deleted but is kept since") <= 1
    last = wire.poll("pinned", count=10_000).messages[-1]
    assert last.offset == 80 * 250
