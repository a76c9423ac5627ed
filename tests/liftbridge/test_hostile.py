"""Hostile gRPC clients: memory stays bounded, nothing dies, and others are served meanwhile."""

import asyncio
import base64
import socket
import struct
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from threading import Thread
from typing import Final

import pytest

from borzoi.liftbridge.calls import MESSAGE_SIZE_MAX, PREFIX
from borzoi.liftbridge.schema import CLASSES, StartPosition
from borzoi.protocol.commands.users import CreateUser
from borzoi.protocol.permissions import ALL_PERMISSIONS, UserStatus
from tests.broker import BrokerProcess, wait_for
from tests.hostile.memory import MIB, counted_memory, memory_peak
from tests.liftbridge.client import ANONYMOUS, LiftbridgeClient, publish
from tests.liftbridge.raw_peer import RawPeer, head
from tests.wire import Wire

pytestmark = pytest.mark.slow

PASSWORD: Final = "a password"
VICTIM: Final = {
    "authorization": "Basic " + base64.b64encode(f"victim:{PASSWORD}".encode()).decode()
}
SUBSCRIPTIONS: Final = 2000
PER_CONNECTION: Final = 500
CALL_SIZE: Final = 40 * 1024
"""What an open call may cost, generously."""

SLACK: Final = 48 * MIB
RECEIVED: Final = 65_536


@pytest.fixture(scope="module")
def attacked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """A broker with a stream of 1,000 x 1 KB, and another user than that of the attackers."""
    folder: Path = tmp_path_factory.mktemp("hostile")
    broker = BrokerProcess(folder / "data", ANONYMOUS | {"IGGY_LIMITS_LOGIN_TIMEOUT": "2 s"})
    broker.start()
    asyncio.run(_prepare(broker))
    yield broker
    assert "Traceback" not in broker.output()
    broker.close()


async def _prepare(broker: BrokerProcess) -> None:
    with Wire(broker) as wire:
        wire.ask(CreateUser("victim", PASSWORD, UserStatus.ACTIVE, ALL_PERMISSIONS))
    async with LiftbridgeClient(broker) as client:
        await client.call("CreateStream", name="full", subject="full")
        await client.call("CreateStream", name="victim", subject="victim")
        async with client.publish_async() as opened:
            for _ in range(1000):
                await opened.send_message(publish(stream="full", value=bytes(1024)))
            await opened.end()
            for _ in range(1000):
                await opened.recv_message()


def serves_others(broker: BrokerProcess) -> None:
    """Another user publishes and reads, on connections that land on either shard."""

    async def work() -> None:
        for _ in range(4):
            async with LiftbridgeClient(broker, metadata=VICTIM) as client:
                answer = await client.call("Publish", stream="victim", value=b"v" * 1000)
                (found,) = await client.messages(
                    "victim", 1, startPosition=StartPosition.OFFSET, startOffset=answer.ack.offset
                )
                assert found.value == b"v" * 1000

    asyncio.run(work())


def same_workers(broker: BrokerProcess, attack: Callable[[], None]) -> None:
    before = broker.workers()
    attack()
    serves_others(broker)
    assert broker.workers() == before


def test_subscribers_that_never_read_cost_nothing_but_their_calls(attacked: BrokerProcess) -> None:
    """Each would like to have a megabyte, and takes 64 KiB of it per connection."""

    def attack() -> None:
        before = counted_memory(attacked)
        request = CLASSES["SubscribeRequest"](stream="full", startPosition=StartPosition.EARLIEST)
        with ExitStack() as stack, memory_peak(attacked) as peak:
            for _ in range(SUBSCRIPTIONS // PER_CONNECTION):
                peer = stack.enter_context(RawPeer(attacked))
                for _ in range(PER_CONNECTION):
                    peer.send(peer.open("Subscribe"), request, end=True)
                peer.flush()
            serves_others(attacked)
            assert peak() - before < SUBSCRIPTIONS * CALL_SIZE + SLACK

    same_workers(attacked, attack)


def test_messages_that_are_never_finished_are_bounded(attacked: BrokerProcess) -> None:
    """60 calls would like to hold 240 MB; the user has half of 256 MiB on a shard."""

    def attack() -> None:
        unfinished = PREFIX.pack(0, MESSAGE_SIZE_MAX) + bytes(MESSAGE_SIZE_MAX - 1)
        before = counted_memory(attacked)
        with RawPeer(attacked) as peer, memory_peak(attacked) as peak:
            calls = [peer.open("PublishAsync") for _ in range(60)]
            peer.flush()
            sent = dict.fromkeys(calls, 0)
            for call in calls:
                # Until the broker takes no more.
                while sent[call] < len(unfinished) and _sends(peer, call, unfinished, sent):
                    pass
            assert sum(sent.values()) > 100 * MIB
            serves_others(attacked)
            assert peak() - before < (128 + 4) * MIB + SLACK

    same_workers(attacked, attack)


def _sends(peer: RawPeer, call: int, data: bytes, sent: dict[int, int]) -> bool:
    some = peer.send_some(call, data[sent[call] :])
    sent[call] += some
    peer.take(0.0 if some else 0.1)
    return some > 0 or peer.http.local_flow_control_window(call) > 0


def test_answers_that_are_never_taken_are_bounded(attacked: BrokerProcess) -> None:
    """A request of a few bytes has an answer of a hundred."""

    def attack() -> None:
        nameless = struct.pack(">BI", 0, 0) * 12_000
        before = counted_memory(attacked)
        with ExitStack() as stack, memory_peak(attacked) as peak:
            for _ in range(2):
                peer = stack.enter_context(RawPeer(attacked, window=0))
                calls = [peer.open("PublishAsync") for _ in range(200)]
                peer.flush()
                for _ in range(20):
                    for call in calls:
                        peer.send_some(call, nameless)
                    peer.take(0.05)
            serves_others(attacked)
            assert peak() - before < 512 * MIB

    same_workers(attacked, attack)


def test_calls_that_are_reset_at_once(attacked: BrokerProcess) -> None:
    """The connection is lost; a client that cancels a subscription now and then is not."""

    def attack() -> None:
        before = counted_memory(attacked)
        with RawPeer(attacked) as peer:
            with suppress(OSError):
                for _ in range(20_000):
                    peer.http.reset_stream(peer.open("Subscribe"))
                    peer.flush()
                    peer.take()
            wait_for(lambda: peer.is_over(0.1))
        assert counted_memory(attacked) - before < SLACK

    same_workers(attacked, attack)


def test_heads_that_never_end(attacked: BrokerProcess) -> None:
    """HEADERS without an end, and a flood of CONTINUATION."""

    def attack() -> None:
        with RawPeer(attacked) as slow, RawPeer(attacked) as flood:
            slow.socket.sendall(frame(1, 0, 1, b"\x82"))
            flood.socket.sendall(frame(1, 0, 1, b"\x82"))
            with suppress(OSError):
                for _ in range(10_000):
                    flood.socket.sendall(frame(9, 0, 1, b"\x82" * 1000))
            wait_for(lambda: flood.is_over(0.1))
            wait_for(lambda: slow.is_over(0.1))

    same_workers(attacked, attack)


def frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    return struct.pack(">I", len(payload))[1:] + struct.pack(">BBI", kind, flags, stream) + payload


def test_pings_whose_answers_are_never_read(attacked: BrokerProcess) -> None:
    def attack() -> None:
        before = counted_memory(attacked)
        pings = frame(6, 0, 0, bytes(8)) * 1000
        with RawPeer(attacked) as peer:
            peer.socket.settimeout(2.0)
            with pytest.raises(OSError):  # noqa: PT011 - a timeout, or the connection is gone
                _send_again_and_again(peer, pings)
            assert counted_memory(attacked) - before < SLACK

    same_workers(attacked, attack)


def _send_again_and_again(peer: RawPeer, data: bytes) -> None:
    for _ in range(10_000):
        peer.socket.sendall(data)


def test_floods_of_frames_that_say_nothing(attacked: BrokerProcess) -> None:
    """Each costs the broker work and its sender nine bytes: others are served, the flood is not."""

    def attack() -> None:
        with ExitStack() as stack:
            peers = [stack.enter_context(RawPeer(attacked)) for _ in range(6)]
            floods = [
                frame(6, 1, 0, bytes(8)),  # answers to pings that were never sent
                frame(8, 0, 0, struct.pack(">I", 1)),
                frame(4, 0, 0, b""),
                frame(0x2A, 0, 0, b""),
                frame(0, 0, peers[4].open("PublishAsync"), b""),
                b"".join(
                    frame(1, 5, call, calls_without_a_login(peers[5])) for call in range(1, 6000, 2)
                ),
            ]
            peers[4].flush()
            running = [
                stack.enter_context(background(peer, data * (RECEIVED // len(data) + 1)))
                for peer, data in zip(peers, floods, strict=True)
            ]
            serves_others(attacked)
            for one in running:
                one.join(60)
                assert not one.is_alive()

    same_workers(attacked, attack)


def calls_without_a_login(peer: RawPeer) -> bytes:
    """The head of a call whose token is none, as the same bytes for each call."""
    peer.http.encoder.header_table_size = 0
    return bytes(peer.http.encoder.encode(head("FetchMetadata", ("authorization", "Bearer x"))))


@contextmanager
def background(peer: RawPeer, data: bytes) -> Iterator[Thread]:
    """Send it again and again until the connection is gone."""

    def flood() -> None:
        with suppress(OSError):
            _send_again_and_again(peer, data)

    thread = Thread(target=flood)
    thread.start()
    try:
        yield thread
    finally:
        with suppress(OSError):
            peer.socket.shutdown(socket.SHUT_RDWR)
        thread.join()


def test_frames_and_headers_that_are_unknown(attacked: BrokerProcess) -> None:
    def attack() -> None:
        with RawPeer(attacked) as peer:
            # RFC 9113, 5.5: a frame of an unknown type is ignored.
            peer.socket.sendall(frame(0x2A, 0xFF, 0, b"whatever"))
            call = peer.open("FetchMetadata")
            peer.send(call, CLASSES["FetchMetadataRequest"](), end=True)
            peer.flush()
            assert peer.status_of(call) == "0"
            peer.http.config.validate_outbound_headers = False
            peer.http.send_headers(7, [(":path", "/é"), (":method", "POST")])
            peer.flush()
            assert peer.is_over(20.0) or peer.is_over(20.0)

    same_workers(attacked, attack)


def test_a_connection_with_short_calls_stays(attacked: BrokerProcess) -> None:
    """Also when none is open whenever the broker looks; one without a login goes."""

    async def work() -> None:
        host, _, port = attacked.liftbridge_address.rpartition(":")
        with socket.create_connection((host, int(port)), timeout=60) as silent:
            async with LiftbridgeClient(attacked) as client:
                await client.call("FetchMetadata", streams=["full"])
                connection = client.channel._protocol
                silent.setblocking(False)
                loop = asyncio.get_running_loop()
                async with asyncio.timeout(60):
                    while await loop.sock_recv(silent, RECEIVED):
                        pass
                # Twice the time in which one has to log in.
                for _ in range(20):
                    await client.call("FetchMetadata", streams=["full"])
                    await asyncio.sleep(0.1)
                assert client.channel._protocol is connection

    asyncio.run(work())
