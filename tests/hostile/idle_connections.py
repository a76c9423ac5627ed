"""Connections that say nothing, through three doors: what each costs, and who notices.

    python -m tests.hostile.idle_connections --count 10000 [--tls]

A third each of TCP and WebSocket, logged in with a token, and of HTTP connections that are kept
open behind an answer; all of them with TLS, or none.
"""

import argparse
import resource
import socket
import ssl
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Final, NamedTuple

from borzoi.protocol.commands import CreatePersonalAccessToken, LoginWithPersonalAccessToken
from borzoi.protocol.commands.streams import CreateStream
from tests.broker import HTTP, BrokerProcess, standing
from tests.certificates import Authority
from tests.hostile.memory import counted_memory
from tests.shard_wires import TWO_SHARDS
from tests.topics import topic_of
from tests.ways import client_context, door_of, with_tls
from tests.websocket_frames import as_socket
from tests.wire import Wire

TOPIC: Final = "idle"
ADDRESSES: Final = 20
"""Each has a share of its own: 127.0.0.2 and following."""

REQUEST: Final = b"GET /ping HTTP/1.1\r\nHost: idle\r\n\r\n"
SENDS: Final = 200
BYTES_EACH_MAX: Final = 64 * 1024
TIMEOUT_S: Final = 60.0


class Cost(NamedTuple):
    """What so many connections came to."""

    bytes_each: float
    slowdown: float
    """The median send of another client with them, to that without."""

    lost: int
    """Sessions that were not answered any more. HTTP without a request ends by a timeout."""


def measured(broker: BrokerProcess, count: int, context: ssl.SSLContext | None = None) -> Cost:
    """Open them, look, and ask each session whether it is still there."""
    with Wire(broker) as good:
        good.ask(CreateStream(TOPIC))
        good.ask(topic_of(TOPIC))
        token = good.ask(CreatePersonalAccessToken(TOPIC, 0)).token
        send_s(good)
        before, alone = counted_memory(broker), send_s(good)
        idle = [opened(broker, number, token, context) for number in range(count)]
        try:
            cost, among = counted_memory(broker) - before, send_s(good)
            lost = sum(isinstance(one, Wire) and not one.is_in_step() for one in idle)
        finally:
            for one in idle:
                one.close()
    return Cost(cost / count, among / alone, lost)


def opened(
    broker: BrokerProcess, number: int, token: str, context: ssl.SSLContext | None
) -> Wire | socket.socket:
    """One more, of the kind whose turn it is."""

    def below(connected: socket.socket) -> socket.socket:
        if context is None:
            return connected
        return context.wrap_socket(connected, server_hostname="localhost")

    source = f"127.0.0.{2 + number % ADDRESSES}"
    if number % 3 == 0:
        peer = below(socket.create_connection(door_of(broker, "http"), TIMEOUT_S, (source, 0)))
        peer.sendall(REQUEST)
        assert peer.recv(4096).startswith(b"HTTP/1.1 200")
        return peer
    if number % 3 == 1:
        wire = Wire(door_of(broker, "tcp"), login=False, source=source, through=below)
    else:
        wire = Wire(
            door_of(broker, "ws"),
            login=False,
            source=source,
            through=lambda connected: as_socket(below(connected)),
        )
    wire.ask(LoginWithPersonalAccessToken(token))
    return wire


@contextmanager
def encrypted(
    folder: Path, more: Mapping[str, str], *, with_it: bool = True
) -> Iterator[tuple[BrokerProcess, ssl.SSLContext | None]]:
    """A broker with TLS on its doors, and what its clients trust; or without."""
    authority = Authority()
    settings = {**TWO_SHARDS, **HTTP, **more}
    if not with_it:
        with standing(folder / "data", settings) as broker:
            yield broker, None
        return
    context = client_context(authority.pem)
    with standing(folder / "data", {**settings, **with_tls(authority.issue(folder))}) as broker:
        broker.through = lambda below: context.wrap_socket(below, server_hostname="localhost")
        yield broker, context


def send_s(wire: Wire) -> float:
    """How long a send takes, in the median."""
    taken = []
    for _ in range(SENDS):
        begun = time.perf_counter()
        wire.append(TOPIC, TOPIC, 0, [b"m" * 100])
        taken.append(time.perf_counter() - begun)
    return median(taken)


def main() -> None:
    """Print what so many cost; more than 64 KiB each, or one that was lost, is an error."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--tls", action="store_true")
    arguments = parser.parse_args()
    count = arguments.count
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    with (
        tempfile.TemporaryDirectory() as folder,
        encrypted(Path(folder), {}, with_it=arguments.tls) as (broker, context),
    ):
        cost = measured(broker, count, context)
    print(f"{count} idle connections: {cost.bytes_each / 1024:.1f} KiB each, {cost.lost} lost")
    print(f"median send of another client: {cost.slowdown:.2f} of that without them")
    assert cost.lost == 0
    assert cost.bytes_each < BYTES_EACH_MAX


if __name__ == "__main__":
    main()
