"""A client of the QUIC door that does what it may at the worst moment, in an order of chance.

    python -m tests.hostile.quic_moves --seconds 60

runs it for so many seconds against a broker of its own.
"""

import argparse
import random
import socket
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from qh3.quic.connection import QuicConnectionError

from borzoi.protocol.codes import Code
from borzoi.protocol.commands import LoginUser, PollMessages
from borzoi.protocol.commands.streams import CreateStream
from borzoi.protocol.framing import encode_request
from borzoi.protocol.generations import encode_command
from tests.broker import QUIC, BrokerProcess, standing
from tests.quic_socket import Quic
from tests.shard_wires import ONE_SHARD
from tests.topics import topic_of
from tests.wire import ANYBODY, FIRST, PING, Wire

TOPIC: Final = "moves"
MOVES_MAX: Final = 60
STREAMS_MAX: Final = 90
LOGIN: Final = encode_request(Code.LOGIN_USER, encode_command(LoginUser("iggy", "iggy")))
LONG_POLL: Final = encode_request(
    Code.POLL_MESSAGES, encode_command(PollMessages(ANYBODY, TOPIC, TOPIC, 0, FIRST, 5000, False))
)
FILLING: Final = encode_request(Code.PING, bytes(3000))
BROKEN: Final = encode_request(Code.PING, bytes(40_000))[:20_000]


def fill(broker: BrokerProcess) -> None:
    """A topic from which an answer is larger than every window."""
    with Wire(broker) as wire:
        wire.ask(CreateStream(TOPIC))
        wire.ask(topic_of(TOPIC))
        for _ in range(5):
            wire.append(TOPIC, TOPIC, 0, [b"m" * 1000] * 1000)


class Mover:
    """One connection, and what it does next. It reads nothing while `is_deaf`."""

    def __init__(self, broker: BrokerProcess, seed: int) -> None:
        self.chance = random.Random(seed)
        window = self.chance.choice([20_000, 200_000, 1 << 20])
        self.quic = Quic(broker.quic_address, 30.0, max_data=window, max_stream_data=window).open()
        self.begun: list[int] = []
        self.is_deaf = False
        self._drain = self.quic.quic._drain_core
        if self.chance.random() < 0.8:
            self.quic.answer(self.quic.send(LOGIN))

    def run(self) -> None:
        """A number of moves, and an end of one kind or another."""
        moves: list[Callable[[], object]] = [
            lambda: self.ask(LONG_POLL),
            lambda: self.ask(FILLING, times=self.chance.randrange(50)),
            lambda: self.ask(PING),
            lambda: self.ask(BROKEN, ends=False),
            lambda: self.on_one(self.quic.quic.stop_stream),
            lambda: self.on_one(self.quic.quic.reset_stream),
            self.listen_or_not,
            self.move_away,
            self.quic.quic.change_connection_id,
            self.quic.quic.request_key_update,
            lambda: self.quic.quic.send_ping(1),
        ]
        for _ in range(self.chance.randrange(MOVES_MAX)):
            try:
                self.chance.choice(moves)()
                self.quic.step(self.chance.random() * 0.01)
            except (QuicConnectionError, ValueError, AssertionError):
                # What its own library does not let it do.
                continue
            if self.quic.closed is not None:
                break
        if self.chance.random() < 0.5:
            self.quic.close()
        self.quic.udp.close()

    def ask(self, request: bytes, *, ends: bool = True, times: int = 1) -> None:
        for _ in range(min(times, STREAMS_MAX - len(self.begun))):
            self.begun.append(self.quic.send(request, ends=ends))

    def on_one(self, do: Callable[[int, int], None]) -> None:
        if self.begun:
            do(self.chance.choice(self.begun), 1)

    def listen_or_not(self) -> None:
        self.is_deaf = not self.is_deaf
        # Above this it acknowledges, and gives no credit.
        self.quic.quic._drain_core = (lambda: None) if self.is_deaf else self._drain  # type: ignore[method-assign]

    def move_away(self) -> None:
        """Go on from another port."""
        old, self.quic.udp = self.quic.udp, socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.quic.udp.connect(self.quic.peer)
        old.close()


def main() -> None:
    """Until the time is over; a worker that dies is an error when the broker stops."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    ends, seed = time.monotonic() + options.seconds, options.seed
    with (
        tempfile.TemporaryDirectory() as folder,
        standing(Path(folder) / "data", {**ONE_SHARD, **QUIC}) as broker,
    ):
        fill(broker)
        before = broker.workers()
        while time.monotonic() < ends and broker.workers() == before:
            Mover(broker, seed).run()
            seed += 1
        print(f"seeds up to {seed}")


if __name__ == "__main__":
    main()
