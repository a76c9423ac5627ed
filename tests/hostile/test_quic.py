"""Hostile peers of the QUIC door: what they are sent, what is kept for them, who notices."""

import os
import socket
import time
from collections.abc import Iterator

import pytest

from borzoi.protocol.codes import Code
from borzoi.protocol.framing import encode_request
from tests.broker import QUIC, BrokerProcess, standing
from tests.hostile.memory import MIB, counted_memory
from tests.hostile.quic_moves import LOGIN, LONG_POLL, Mover, fill
from tests.quic_socket import Quic
from tests.shard_wires import ONE_SHARD
from tests.ways import At, door_of
from tests.wire import PING, Wire

pytestmark = pytest.mark.slow

OK = bytes(8)
LIMITS = {"IGGY_LIMITS_FRAME_TIMEOUT": "2 s", "IGGY_LIMITS_CONNECTIONS_BEFORE_LOGIN_MAX": "16"}


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with standing(tmp_path_factory.mktemp("q") / "data", {**ONE_SHARD, **QUIC, **LIMITS}) as one:
        yield one


def initial(at: At) -> bytes:
    """The first datagram of a client that shakes hands."""
    quic = Quic(f"{at.host}:{at.port}", 1.0)
    try:
        quic.quic.connect(quic.peer, time.monotonic())
        return bytes(quic.quic.datagrams_to_send(time.monotonic())[0][0])
    finally:
        quic.close()


def received(udp: socket.socket, wait_s: float = 0.5) -> int:
    """How many bytes come until nothing does."""
    udp.settimeout(wait_s)
    size = 0
    while True:
        try:
            size += len(udp.recv(65536))
        except TimeoutError:
            return size


def test_an_unproven_address_is_sent_less_than_it_sends(broker: BrokerProcess) -> None:
    at = door_of(broker, "quic")
    first = initial(at)
    unknown_version = first[:1] + b"\x0a\x0a\x0a\x0a" + first[5:]
    before = counted_memory(broker)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp:
        udp.connect(at)
        for datagram in (first, unknown_version, b"\x40" + os.urandom(99)):
            for _ in range(20):
                udp.send(datagram)
            size = received(udp)
            assert 0 < size < 20 * len(datagram)
        # Too short for a first packet, a token of another process, noise: no answer at all.
        for datagram in (first[:1100], b"\x40" + bytes(20), b"", b"\xc0"):
            udp.send(datagram)
        assert received(udp) == 0
    assert counted_memory(broker) - before < 8 * MIB
    with Wire(broker) as wire:
        assert wire.is_in_step()


def test_noise_ends_nothing(broker: BrokerProcess) -> None:
    quic = Quic(broker.quic_address, 30.0).open()
    first = initial(door_of(broker, "quic"))
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp:
        udp.connect(door_of(broker, "quic"))
        for number in range(1000):
            noise = bytearray(first if number % 2 else os.urandom(number % 1400 + 1))
            noise[number % len(noise)] ^= 0xFF
            udp.send(bytes(noise))
    assert quic.answer(quic.send(PING)) == OK
    quic.close()


def test_half_handshakes_give_way(broker: BrokerProcess) -> None:
    halves = [Quic(broker.quic_address, 30.0) for _ in range(40)]
    for half in halves:
        half.quic.connect(half.peer, time.monotonic())
        # The retry is answered, and then nothing.
        half.flush()
        half.step(1.0)
    good = Quic(broker.quic_address, 30.0).open()
    assert good.answer(good.send(PING)) == OK
    for one in (*halves, good):
        one.udp.close()


def test_a_stream_that_never_ends_its_request_ends_the_connection(broker: BrokerProcess) -> None:
    quic = Quic(broker.quic_address, 30.0).open()
    quic.send(encode_request(Code.PING, bytes(4000))[:3000], ends=False)
    with pytest.raises(ConnectionResetError):
        quic.until(lambda: False)
    quic.close()


def test_what_is_sent_before_the_login_is_not_kept(broker: BrokerProcess) -> None:
    """Large requests on many streams: each is refused by its first bytes, and drained."""
    before = counted_memory(broker)
    quic = Quic(broker.quic_address, 60.0).open()
    frame = encode_request(Code.SEND_MESSAGES, bytes(500_000))
    streams = [quic.send(frame) for _ in range(20)]
    for stream in streams:
        assert quic.answer(stream)[:4] == (40).to_bytes(4, "little")
    assert counted_memory(broker) - before < 8 * MIB
    with Wire(broker) as wire:
        assert wire.is_in_step()
    quic.close()


@pytest.fixture(scope="module")
def filled(broker: BrokerProcess) -> BrokerProcess:
    fill(broker)
    return broker


@pytest.mark.parametrize("waiting", [0, 80])
def test_an_answer_that_is_not_wanted_any_more(filled: BrokerProcess, waiting: int) -> None:
    """In the middle of it, with and without so many requests behind it that events are held."""
    workers = filled.workers()
    quic = Quic(filled.quic_address, 30.0, max_data=200_000, max_stream_data=100_000).open()
    quic.answer(quic.send(LOGIN))
    drain = quic.quic._drain_core
    quic.quic._drain_core = lambda: None  # type: ignore[method-assign]
    unwanted = quic.send(LONG_POLL)
    quic.step(1.0)
    others = [quic.send(encode_request(Code.PING, bytes(3000))) for _ in range(waiting)]
    quic.step(1.0)
    quic.quic.stop_stream(unwanted, 1)
    quic.quic._drain_core = drain  # type: ignore[method-assign]
    assert quic.answer(quic.send(PING)) == OK
    for other in others:
        assert quic.answer(other)
    quic.close()
    assert filled.workers() == workers


def test_moves_at_the_worst_moment_end_no_worker(filled: BrokerProcess) -> None:
    workers = filled.workers()
    for seed in range(25):
        Mover(filled, seed).run()
    assert filled.workers() == workers
    with Wire(filled) as wire:
        assert wire.is_in_step()
