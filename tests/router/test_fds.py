"""Descriptors over a socket pair: whole, bounded, closed when refused, migrated while in use."""

import array
import asyncio
import gc
import os
import socket
from collections.abc import Callable, Coroutine

import pytest
import uvloop

from borzoi.router.fds import (
    FDS_MAX,
    PAYLOAD_MAX,
    QUEUE_MAX,
    BadMessage,
    ChannelClosed,
    ChannelFull,
    FdChannel,
    receive_message,
    send_message,
    socket_pair,
)
from tests.conditions import until

LOOPS = pytest.mark.parametrize(
    "loop_factory", [asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"]
)
LoopFactory = Callable[[], asyncio.AbstractEventLoop]


def run(scenario: Coroutine[None, None, None], loop_factory: LoopFactory) -> None:
    with asyncio.Runner(loop_factory=loop_factory) as runner:
        runner.run(scenario)


def open_fds() -> int:
    # What earlier tests left to the collector must not vanish between two counts.
    gc.collect()
    return len(os.listdir("/proc/self/fd"))


def test_a_message_arrives_whole_with_its_descriptors() -> None:
    left, right = socket_pair()
    with left, right:
        read_end, write_end = os.pipe()
        send_message(left, b"pipe", [write_end, read_end])
        send_message(left, b"none")
        os.close(read_end)
        os.close(write_end)
        payload, (write_end, read_end) = receive_message(right)
        assert payload == b"pipe"
        assert receive_message(right) == (b"none", [])
        os.write(write_end, b"works")
        assert os.read(read_end, 10) == b"works"
        assert not os.get_inheritable(write_end)
        os.close(read_end)
        os.close(write_end)


def test_the_bounds() -> None:
    left, right = socket_pair()
    with left, right:
        before = open_fds()
        send_message(left, b"x" * PAYLOAD_MAX, [left.fileno()] * FDS_MAX)
        payload, fds = receive_message(right)
        assert len(payload) == PAYLOAD_MAX
        assert len(fds) == FDS_MAX
        for fd in fds:
            os.close(fd)
        for payload, count in ((b"", 0), (b"x" * (PAYLOAD_MAX + 1), 0), (b"x", FDS_MAX + 1)):
            with pytest.raises(BadMessage):
                send_message(left, payload, [left.fileno()] * count)
        assert open_fds() == before


def test_a_truncated_message_leaks_nothing() -> None:
    left, right = socket_pair()
    with left, right:
        before = open_fds()
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [0, 1, 2]))]
        left.sendmsg([b"x" * (PAYLOAD_MAX + 1)], rights)
        with pytest.raises(BadMessage):
            receive_message(right)
        left.sendmsg([b""], rights)
        with pytest.raises(BadMessage, match="without a payload"):
            receive_message(right)
        assert open_fds() == before


def test_a_closed_end_is_noticed_on_both_sides() -> None:
    left, right = socket_pair()
    left.close()
    with pytest.raises(ChannelClosed):
        receive_message(right)
    with pytest.raises(ChannelClosed):
        send_message(right, b"anyone?")
    right.close()


def test_nothing_there_yet() -> None:
    left, right = socket_pair()
    with left, right:
        right.setblocking(False)
        with pytest.raises(BlockingIOError):
            receive_message(right)


class Inbox:
    """What a channel delivered."""

    def __init__(self) -> None:
        self.messages: list[tuple[bytes, list[int]]] = []
        self.closed: list[Exception] = []

    def on_message(self, payload: bytes, fds: list[int]) -> None:
        self.messages.append((payload, fds))

    def channel(self, sock: socket.socket) -> FdChannel:
        return FdChannel(asyncio.get_running_loop(), sock, self.on_message, self.closed.append)


@LOOPS
def test_a_channel_delivers_in_order_and_queues_when_the_socket_is_full(
    loop_factory: LoopFactory,
) -> None:
    async def scenario() -> None:
        before = open_fds()
        left, right = socket_pair()
        sender_box, box = Inbox(), Inbox()
        sender = sender_box.channel(left)
        count = 60
        for number in range(count):
            read_end, write_end = os.pipe()
            sender.send(number.to_bytes(4, "big") * 8192, [read_end])
            os.close(read_end)
            os.write(write_end, number.to_bytes(4, "big"))
            os.close(write_end)
        assert sender.queued > 0
        receiver = box.channel(right)
        await until(lambda: len(box.messages) == count)
        assert sender.queued == 0
        for number, (payload, (fd,)) in enumerate(box.messages):
            assert payload == number.to_bytes(4, "big") * 8192
            assert os.read(fd, 4) == number.to_bytes(4, "big")
            os.close(fd)
        receiver.send(b"back")
        await until(lambda: sender_box.messages == [(b"back", [])])
        sender.close()
        sender.close()
        await until(lambda: receiver.closed)
        assert [type(reason) for reason in box.closed] == [ChannelClosed]
        assert sender_box.closed == []
        with pytest.raises(ChannelClosed):
            receiver.send(b"late")
        assert open_fds() == before

    run(scenario(), loop_factory)


@LOOPS
def test_the_queue_is_bounded_and_closing_it_leaks_nothing(loop_factory: LoopFactory) -> None:
    async def scenario() -> None:
        left, right = socket_pair()
        sender = Inbox().channel(left)
        before = open_fds()
        payload = b"x" * 32768
        while not sender.queued:
            sender.send(payload)
        for _ in range(QUEUE_MAX - 1):
            sender.send(b"y")
        with pytest.raises(ChannelFull):
            sender.send(b"y", [0])
        assert sender.queued == QUEUE_MAX
        assert open_fds() == before
        sender.close()
        right.close()

    run(scenario(), loop_factory)


@LOOPS
def test_descriptors_of_waiting_messages_are_closed_with_the_channel(
    loop_factory: LoopFactory,
) -> None:
    async def scenario() -> None:
        left, right = socket_pair()
        box = Inbox()
        sender = box.channel(left)
        before = open_fds()
        while not sender.queued:
            sender.send(b"x" * 32768)
        sender.send(b"with", [0, 1, 2])
        assert open_fds() == before + 3
        right.close()
        await until(lambda: sender.closed)
        assert len(box.closed) == 1
        assert open_fds() == before - 2

    run(scenario(), loop_factory)


@LOOPS
def test_a_bad_message_ends_the_channel(loop_factory: LoopFactory) -> None:
    async def scenario() -> None:
        left, right = socket_pair()
        box = Inbox()
        channel = box.channel(right)
        left.send(b"x" * (PAYLOAD_MAX + 1))
        await until(lambda: channel.closed)
        assert [type(reason) for reason in box.closed] == [BadMessage]
        left.close()

    run(scenario(), loop_factory)


@LOOPS
def test_a_live_connection_moves_and_its_client_notices_nothing(loop_factory: LoopFactory) -> None:
    """One end accepts and answers, the other end gets the socket and goes on."""

    async def scenario() -> None:
        listener = socket.create_server(("127.0.0.1", 0))
        client = socket.create_connection(listener.getsockname())
        accepted, _ = listener.accept()
        client.sendall(b"one")
        assert accepted.recv(10) == b"one"
        accepted.sendall(b"ONE")

        left, right = socket_pair()
        box = Inbox()
        old_shard, new_shard = Inbox().channel(left), box.channel(right)
        old_shard.send(b"session of client 7", [accepted.fileno()])
        accepted.close()
        client.sendall(b"two")
        await until(lambda: bool(box.messages))
        payload, (fd,) = box.messages[0]
        assert payload == b"session of client 7"
        moved = socket.socket(fileno=fd)
        moved.setblocking(True)
        assert moved.recv(10) == b"two"
        moved.sendall(b"TWO")
        assert client.recv(6, socket.MSG_WAITALL) == b"ONETWO"
        for open_socket in (moved, client, listener):
            open_socket.close()
        old_shard.close()
        new_shard.close()

    run(scenario(), loop_factory)
