"""Peers that do not read, that send too fast, or that stop in the middle of a frame.

The bound that all of this is held against, for the workers together:

    what they need at rest + the budget of all pools (512 MiB) + 96 MiB for heaps

A page that two workers touch counts twice (memory.py), so tests that fill the pools give each
partition's owner nothing to touch: their frames never become complete.
"""

import socket
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from threading import Thread
from typing import Final

import pytest

from borzoi.protocol.codes import Code
from borzoi.protocol.commands import GetClients
from borzoi.protocol.errors import InvalidMessagesSize
from borzoi.protocol.framing import CODE_SIZE, REQUEST_HEADER, encode_request
from borzoi.protocol.responses.polled import decode_polled_messages
from tests.broker import BrokerProcess, wait_for
from tests.conftest import NewBroker
from tests.hostile.memory import MIB, counted_memory, memory_peak
from tests.hostile.neighbour import CONNECTIONS, good_neighbour
from tests.topics import make_topic
from tests.wire import Answer, Closed, Wire, poll_frame, send_frame

POOL_SIZE: Final = 512 * MIB
FRAME_SIZE_MAX: Final = 16 * MIB
HEAPS_SIZE_MAX: Final = 96 * MIB
CLOSED_TIMEOUT_S: Final = 60.0
# What remains when the hostile ones are gone: the test's own connection and its neighbour's.
GOOD: Final = 1 + CONNECTIONS
OK: Final = Answer(0, b"")
# Length, two names of one byte, a partition and a count.
TARGET_SIZE: Final = 4 + 3 + 3 + 6 + 4
# No user is kept from filling the pool: what happens then is what is tested.
NO_SHARES: Final = {"IGGY_LIMITS_SHARE_WEIGHT": "1000000000"}


@pytest.fixture
def broker(new_broker: NewBroker) -> Iterator[BrokerProcess]:
    """With short deadlines; at the end the same workers live and none has blamed itself."""
    made = new_broker(
        IGGY_SYSTEM_MEMORY_POOL_SIZE="512MiB",
        IGGY_LIMITS_FRAME_SIZE_MAX=str(FRAME_SIZE_MAX),
        IGGY_LIMITS_FRAME_TIMEOUT="2s",
        IGGY_LIMITS_WRITE_TIMEOUT="2s",
    )
    workers = made.workers()
    yield made
    assert made.workers() == workers, made.output()
    assert "fault of ours" not in made.output(), made.output()


def partial_frame(declared: int, present: int) -> bytes:
    """The first bytes of a SEND_MESSAGES frame for a topic that is there; its batch is zeros."""
    head = send_frame("s", "t", [b""])[REQUEST_HEADER.size :][:TARGET_SIZE]
    return REQUEST_HEADER.pack(declared, Code.SEND_MESSAGES) + head.ljust(present, b"\0")


def send_large(wire: Wire, stream: str) -> None:
    """The largest send there may be: the pool is in order if this works."""
    wire.put(send_frame(stream, "t", [bytes(FRAME_SIZE_MAX - 1000)]))
    assert wire.answer() == OK


@pytest.mark.slow
def test_peers_that_never_read(broker: BrokerProcess) -> None:
    """Each asks for 4 GiB by 256 polls in one write."""
    polls, batches = 256, 16
    with Wire(broker, login=False) as good, good_neighbour(broker), ExitStack() as opened:
        good.log_in()
        make_topic(good, "s", "t")
        for _ in range(batches):
            good.put(send_frame("s", "t", [bytes(1000)] * 1000))
            assert good.answer() == OK
        before = counted_memory(broker)
        wires = [opened.enter_context(Wire(broker)) for _ in range(10)]
        with memory_peak(broker) as peak:
            for wire in wires:
                wire.put(poll_frame("s", "t", 0, 1000 * batches) * polls)
            wait_for(lambda: len(good.ask(GetClients())) == GOOD, CLOSED_TIMEOUT_S)
        # They know without reading: what they did not take is not kept for them anywhere.
        wait_for(lambda: all(wire.was_reset() for wire in wires), CLOSED_TIMEOUT_S)
        # Answers are slices of mapped files: the peers cost next to nothing.
        assert peak() < before + HEAPS_SIZE_MAX
        good.put(poll_frame("s", "t", 0, 1))
        assert len(decode_polled_messages(memoryview(good.answer().payload)).messages) == 1
    assert broker.output().count("it took 0 bytes of its answers") == 10


@pytest.mark.slow
def test_a_slow_reader_is_not_cut_off(broker: BrokerProcess) -> None:
    """It takes several write timeouts over one answer, but it goes on reading."""
    count, size, payload_size = 24, 1_000_000, 24 * (64 + 1_000_000)
    with Wire(broker, login=False) as wire, Wire(broker, login=False) as idle:
        wire.log_in()
        idle.log_in()
        make_topic(wire, "s", "t")
        for _ in range(count):
            wire.put(send_frame("s", "t", [bytes(size)]))
            assert wire.answer() == OK
        # A small receive buffer, so that most of the answer waits in the broker.
        wire.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 64 * 1024)
        wire.put(poll_frame("s", "t", 0, count))
        left = 8 + 16 + payload_size
        for _ in range(10):
            assert idle.is_quiet_for(0.5)
            left -= wire.read_some(1_500_000)
        while left:
            left -= wire.read_some(left)
        assert wire.is_in_step()


@pytest.mark.slow
def test_peers_that_send_faster_than_they_read_answers(broker: BrokerProcess) -> None:
    """Eight connections push 32 MB each without waiting; nothing is lost or out of order."""
    frames, connections = 32, 8
    with Wire(broker, login=False) as good, good_neighbour(broker), ExitStack() as opened:
        good.log_in()
        make_topic(good, "s", "t", connections)
        before = counted_memory(broker)
        wires = [opened.enter_context(Wire(broker)) for _ in range(connections)]

        def push(partition_id: int) -> None:
            for number in range(frames):
                payload = number.to_bytes(4, "little") + bytes(1_000_000)
                wires[partition_id].put(send_frame("s", "t", [payload], partition_id))

        with memory_peak(broker) as peak:
            threads = [Thread(target=push, args=(number,)) for number in range(connections)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            for wire in wires:
                assert wire.answers(frames) == [OK] * frames
        # One request of a connection is in work at a time, and one more may be on its way in;
        # the receiver and the owner both touch its pages.
        assert peak() < before + connections * 2 * 2 * MIB + HEAPS_SIZE_MAX
        for partition_id, wire in enumerate(wires):
            wire.put(poll_frame("s", "t", 0, frames, partition_id))
            polled = decode_polled_messages(memoryview(wire.answer().payload))
            numbers = [int.from_bytes(one.payload[:4], "little") for one in polled.messages]
            assert numbers == list(range(frames))


@pytest.mark.slow
def test_frames_that_stop_in_the_middle(broker: BrokerProcess) -> None:
    """Fifty peers declare 10 MB each and send most of it: about what the pools hold."""
    count, declared, present = 50, 10_000_000, 9_000_000
    with (
        Wire(broker, login=False) as good,
        good_neighbour(broker) as neighbour,
        ExitStack() as opened,
    ):
        good.log_in()
        make_topic(good, "s", "t")
        before = counted_memory(broker)
        stuck = [opened.enter_context(Wire(broker)) for _ in range(count)]
        with memory_peak(broker) as peak:
            send_as_far_as_read(stuck, partial_frame(declared, present))
            neighbour.check(rounds_more=20)
            wait_for(lambda: len(good.ask(GetClients())) == GOOD, CLOSED_TIMEOUT_S)
        assert before + 100 * MIB < peak() < before + POOL_SIZE + HEAPS_SIZE_MAX
        send_large(good, "s")
    assert broker.output().count("it did not finish a frame") == count


@pytest.mark.slow
def test_more_frames_than_the_pool_holds(new_broker: NewBroker) -> None:
    """Declared only, not sent: no page is touched, but the budget is gone to the last block.

    Then nothing is read any more beyond a few kilobytes of each connection; no request is answered
    with an error, and it goes on by itself when the frames that stop are closed.
    """
    broker = new_broker(
        IGGY_SYSTEM_MEMORY_POOL_SIZE="512MiB",
        IGGY_SYSTEM_SHARDING_CPU_ALLOCATION="1",
        IGGY_LIMITS_FRAME_TIMEOUT="2s",
        **NO_SHARES,
    )
    workers = broker.workers()
    # The pool's buckets fit without a gap; the receive block has the last MiB.
    declared = [size * MIB - 4 for size in (128, 128, 128, 64, 32, 16, 8, 4, 2, 1)]
    waiting = [128 * MIB - 4, 1 * MIB - 4]
    pings = 600
    with Wire(broker, login=False) as good, ExitStack() as opened:
        good.log_in()
        make_topic(good, "s", "t")
        before = counted_memory(broker)
        with memory_peak(broker) as peak:
            for size in declared + waiting:
                opened.enter_context(Wire(broker)).put(partial_frame(size, 1000))
            # Two receive blocks full, more than is left.
            ping = encode_request(Code.PING, bytes(4000))
            sender = Thread(target=good.put, args=(ping * pings,))
            sender.start()
            assert good.answers(pings) == [OK] * pings
            sender.join()
            assert peak() < before + HEAPS_SIZE_MAX
        send_large(good, "s")
        assert good.is_in_step()
    assert broker.output().count("it did not finish a frame") >= 1
    assert broker.workers() == workers
    assert "fault of ours" not in broker.output()


@pytest.mark.slow
def test_whole_frames_wait_for_the_pool_and_are_then_carried_out(new_broker: NewBroker) -> None:
    """Five sends of 120 MiB each at once, to a shard whose pool holds three of them."""
    count = 5
    broker = new_broker(
        IGGY_SYSTEM_MEMORY_POOL_SIZE="512MiB",
        IGGY_SYSTEM_SHARDING_CPU_ALLOCATION="1",
        **NO_SHARES,
    )
    workers = broker.workers()
    # With an index of zeros: they are received as a whole, but not written.
    size = 120 * MIB
    frame = memoryview(partial_frame(size + CODE_SIZE, size))
    with Wire(broker, login=False) as good, ExitStack() as opened:
        good.log_in()
        make_topic(good, "s", "t")
        before = counted_memory(broker)
        wires = [opened.enter_context(Wire(broker)) for _ in range(count)]
        with memory_peak(broker) as peak:
            threads = [Thread(target=wire.put, args=(frame,)) for wire in wires]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            statuses = [wire.answer().status for wire in wires]
            assert statuses == [InvalidMessagesSize.status] * count
        assert before + 100 * MIB < peak() < before + POOL_SIZE + HEAPS_SIZE_MAX
        assert all(wire.is_in_step() for wire in wires)
        send_large(good, "s")
    assert broker.workers() == workers
    assert "fault of ours" not in broker.output()


def send_as_far_as_read(wires: list[Wire], data: bytes) -> None:
    """Send from all at once; a peer whose frame waits for the pool is left with its rest."""

    def send(wire: Wire) -> None:
        with suppress(Closed):
            wire.put(data)

    threads = [Thread(target=send, args=(wire,)) for wire in wires]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
