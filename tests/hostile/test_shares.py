"""Scarce things are shared by user: the one that takes most waits, and the others are served.

The victim's socket gives up after VICTIM_TIMEOUT_S; what the attackers hold is theirs for much
longer (the deadlines of the broker are). So a broker that lets the victim wait for them fails.
"""

from collections.abc import Iterator
from contextlib import ExitStack
from typing import ClassVar, Final

import pytest

from borzoi.protocol.commands import CreateConsumerGroup, JoinConsumerGroup, StoreConsumerOffset
from borzoi.protocol.errors import (
    CannotOpenConsumerOffsetsFile,
    StreamIdNotFound,
    Unauthorized,
)
from borzoi.protocol.identifiers import Consumer, ConsumerKind
from tests.broker import BrokerProcess
from tests.conftest import NewBroker
from tests.hostile.attacks import (
    MAY_POLL,
    MAY_SEND,
    PASSWORD,
    invent_consumers,
    make_user,
    slow_readers,
    unfinished_sends,
)
from tests.hostile.memory import MIB, counted_memory
from tests.scraped import Scraped
from tests.shard_wires import ONE_SHARD
from tests.topics import make_topic
from tests.wire import Answer, Wire, poll_frame, send_frame

VICTIM_TIMEOUT_S: Final = 20.0
OK: Final = Answer(0, b"")
ENCRYPTED: Final = {
    **ONE_SHARD,
    "IGGY_SYSTEM_ENCRYPTION_ENABLED": "true",
    "IGGY_SYSTEM_ENCRYPTION_KEY": "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=",
}


@pytest.fixture
def broker(request: pytest.FixtureRequest, new_broker: NewBroker) -> BrokerProcess:
    """A broker with the settings of the class."""
    return new_broker(**request.cls.SETTINGS)


@pytest.fixture
def victim(broker: BrokerProcess) -> Iterator[Wire]:
    """Root, with a topic of its own; it does not wait for long."""
    with Wire(broker) as wire:
        make_topic(wire, "root", "t")
        make_topic(wire, "s", "t")
        make_user(wire, "poller", MAY_POLL)
        make_user(wire, "sender", MAY_SEND)
        wire.socket.settimeout(VICTIM_TIMEOUT_S)
        yield wire


class TestUnfinishedSends:
    """The receive pool: 512 MiB, of which every shard has its part."""

    SETTINGS: ClassVar = {**ONE_SHARD, "IGGY_SYSTEM_MEMORY_POOL_SIZE": "512MiB"}

    @pytest.mark.slow
    def test_of_a_user_that_may_send(self, broker: BrokerProcess, victim: Wire) -> None:
        with unfinished_sends(broker, "sender", "s", "t", connections=12, size=60 * MIB):
            for size in (1, 10, 60):
                victim.put(send_frame("root", "t", [bytes(size * MIB)]))
                assert victim.answer() == OK, size
        assert "waits for 67108864 bytes of the receive pool" in broker.output()

    @pytest.mark.slow
    def test_of_a_user_that_may_not_send_are_not_even_kept(
        self, broker: BrokerProcess, victim: Wire
    ) -> None:
        before = counted_memory(broker)
        with unfinished_sends(broker, "poller", "s", "t", connections=8, size=60 * MIB) as begun:
            assert counted_memory(broker) - before < 60 * MIB
            victim.put(send_frame("root", "t", [bytes(10 * MIB)]))
            assert victim.answer() == OK
            # The refused frame is drained to its end, and the connection goes on behind it.
            wire, rest = begun[0]
            wire.socket.settimeout(VICTIM_TIMEOUT_S)
            wire.put(rest)
            assert wire.answer().status == Unauthorized.status
            assert wire.is_in_step()


class TestSlowReaders:
    """Copies of decrypted messages: 8 MiB, of which one poll gets a quarter."""

    SETTINGS: ClassVar = {**ENCRYPTED, "IGGY_LIMITS_COPIED_SIZE_MAX": "8MiB"}

    @pytest.mark.slow
    def test_of_encrypted_messages(self, broker: BrokerProcess, victim: Wire) -> None:
        for stream, batches in (("s", 8), ("root", 1)):
            for _ in range(batches):
                victim.put(send_frame(stream, "t", [bytes(1000)] * 1000))
                assert victim.answer() == OK
        with slow_readers(broker, "poller", "s", "t", connections=12, count=8000):
            for count in (100, 1000) * 5:
                victim.put(poll_frame("root", "t", 0, count))
                answer = victim.answer()
                assert answer.status == 0
                assert len(answer.payload) > count * 1000
        assert "bytes of copied messages" in broker.output()


class TestWaitingRequests:
    """Requests that wait keep nothing of the receive pool but batches."""

    SETTINGS: ClassVar = {**ENCRYPTED, "IGGY_LIMITS_COPIED_SIZE_MAX": "32MiB"}

    @pytest.mark.slow
    def test_keep_no_receive_blocks(self, broker: BrokerProcess, victim: Wire) -> None:
        """Polls that wait for memory for copies, each received into another block."""
        for _ in range(24):
            victim.put(send_frame("s", "t", [bytes(1000)] * 1000))
            assert victim.answer() == OK
        refused = send_frame("missing", "t", [bytes(MIB)])
        with ExitStack() as opened:
            wires = [
                opened.enter_context(Wire(broker, login=False)).log_in("poller", PASSWORD)
                for _ in range(80)
            ]
            before = counted_memory(broker)
            for wire in wires:
                wire.put(poll_frame("s", "t", 0, 24_000))
                victim.put(refused)
                assert victim.answer().status == StreamIdNotFound.status
            assert counted_memory(broker) - before < 60 * MIB


class TestInventedConsumers:
    """Stored offsets: 200 of a partition."""

    SETTINGS: ClassVar = {
        "IGGY_LIMITS_CONSUMERS_PER_PARTITION_MAX": "200",
        "IGGY_METRICS_ENABLED": "true",
        "IGGY_METRICS_ADDRESS": "127.0.0.1:0",
    }

    def test_lock_no_other_user_out(self, broker: BrokerProcess, victim: Wire) -> None:
        victim.put(send_frame("s", "t", [b"one"]))
        assert victim.answer() == OK
        refused = CannotOpenConsumerOffsetsFile.status
        statuses = invent_consumers(broker, "poller", "s", "t", 400)
        assert statuses == [0] * 100 + [refused] * 300
        self.use_offsets(victim, 1)
        scraped = Scraped.of(broker.metrics_address)
        assert scraped.total("borzoi_share_refusals", share="offsets") == 300
        victim.close()
        assert broker.stop() == 0
        broker.start()
        assert invent_consumers(broker, "poller", "s", "t", 400)[100:] == [refused] * 300
        with Wire(broker) as again:
            self.use_offsets(again, 2)

    def use_offsets(self, wire: Wire, number: int) -> None:
        """Of a consumer and of a group."""
        consumer = Consumer(ConsumerKind.CONSUMER, number)
        assert wire.answer_to(StoreConsumerOffset(consumer, "s", "t", 0, 0)) == OK
        name = f"group {number}"
        assert wire.answer_to(CreateConsumerGroup("s", "t", name)).status == 0
        assert wire.answer_to(JoinConsumerGroup("s", "t", name)) == OK
        group = Consumer(ConsumerKind.GROUP, name)
        assert wire.answer_to(StoreConsumerOffset(group, "s", "t", 0, 0)) == OK
