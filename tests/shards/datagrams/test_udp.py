"""The UDP socket: many datagrams in one call, and answers from the address that was reached."""

import asyncio
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from borzoi.segmented import SEGMENTS_MAX, runs_of
from borzoi.shards.datagrams.udp import Datagrams, Peer, open_datagram_socket
from borzoi.shards.settings.schema import QuicSocket

TIMEOUT_S = 10.0


def sizes_of(*sizes: int) -> list[list[int]]:
    return [[len(one) for one in run] for run in runs_of([bytes(size) for size in sizes])]


def test_runs_are_of_one_size() -> None:
    assert sizes_of() == []
    assert sizes_of(5) == [[5]]
    assert sizes_of(5, 5, 3, 5, 5) == [[5, 5, 3], [5, 5]]
    assert sizes_of(3, 5, 5) == [[3], [5, 5]]
    assert sizes_of(*[1200] * 90) == [[1200] * SEGMENTS_MAX, [1200] * SEGMENTS_MAX, [1200] * 10]
    assert sizes_of(*[30_000] * 3) == [[30_000, 30_000], [30_000]]


class Echo:
    """Sends back what it gets, and notes where that came in."""

    def __init__(self, loop: asyncio.AbstractEventLoop, bound: socket.socket) -> None:
        self.received: list[bytes] = []
        self.reached: list[str | None] = []
        self.turns = 0
        self.datagrams = Datagrams(loop, bound, self.take, self.count)

    def take(self, datagrams: list[bytes], peer: Peer, local: str | None) -> None:
        self.received += datagrams
        self.reached.append(local)
        self.datagrams.send(datagrams, peer, local)

    def count(self) -> None:
        self.turns += 1


@contextmanager
def client_of(bound: socket.socket, host: str) -> Iterator[socket.socket]:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as client:
        client.settimeout(TIMEOUT_S)
        client.connect((host, bound.getsockname()[1]))
        yield client


def exchange(address: str, host: str, sent: list[bytes]) -> tuple[Echo, list[bytes]]:
    """What a client gets back that sends these."""

    async def run() -> tuple[Echo, list[bytes]]:
        loop = asyncio.get_running_loop()
        bound = open_datagram_socket(address, QuicSocket(), shares_port=False)
        echo = Echo(loop, bound)
        try:
            with client_of(bound, host) as client:
                for one in sent:
                    client.send(one)
                receive: Callable[[int], bytes] = client.recv
                back = [await loop.run_in_executor(None, receive, 65536) for _ in sent]
        finally:
            echo.datagrams.close()
        return echo, back

    return asyncio.run(run())


def test_what_is_sent_comes_back_datagram_by_datagram() -> None:
    sent = [bytes((number,)) * (1200 if number % 7 else 900) for number in range(50)]
    echo, back = exchange("127.0.0.1:0", "127.0.0.1", sent)
    assert echo.received == sent
    assert back == sent
    assert set(echo.reached) == {None}
    assert echo.turns > 0


@pytest.mark.parametrize(
    ("address", "host"), [("0.0.0.0:0", "127.0.0.1"), ("0.0.0.0:0", "127.0.0.5"), ("[::]:0", "::1")]
)
def test_an_answer_leaves_from_the_address_that_was_reached(address: str, host: str) -> None:
    # The client's socket is connected: what comes from another address does not get through.
    echo, back = exchange(address, host, [b"there"])
    assert back == [b"there"]
    assert echo.reached == [host]


def test_a_port_in_use_is_refused_unless_it_may_be_shared() -> None:
    options = QuicSocket()
    with open_datagram_socket("127.0.0.1:0", options, shares_port=True) as first:
        address = f"127.0.0.1:{first.getsockname()[1]}"
        with pytest.raises(OSError, match="in use"):
            open_datagram_socket(address, options, shares_port=False)
        open_datagram_socket(address, options, shares_port=True).close()


def test_buffers_are_as_large_as_the_configuration_says() -> None:
    options = QuicSocket(override_defaults=True, recv_buffer_size=50_000, send_buffer_size=60_000)
    with open_datagram_socket("127.0.0.1:0", options, shares_port=False) as bound:
        # The kernel doubles them, for what it needs itself.
        assert bound.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF) == 100_000
        assert bound.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF) == 120_000
