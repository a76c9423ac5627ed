"""Hundreds of sockets that log in under invented names, each with many logins under way.

    python -m tests.hostile.login_flood --address 127.0.0.1:8090 --sockets 800 --pipelined 20

A process of its own, so that it takes nothing from those who measure beside it. Whatever is
answered is followed by another login, and a socket that is closed is opened again, a few of them
a second, until its standard input ends. Then it tells what was answered, as JSON.
"""

import argparse
import itertools
import json
import selectors
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Final

from borzoi.protocol.commands.sessions import LoginUser
from borzoi.protocol.framing import RESPONSE_HEADER
from tests.broker import BrokerProcess
from tests.wire import frame_of

PATIENCE_S: Final = 300.0
REOPENED_PER_S: Final = 100
END_TIMEOUT_S: Final = 60.0


@dataclass
class Flood:
    """What became of it, known at its end."""

    answers: dict[int, int] = field(default_factory=dict)
    closed: int = 0
    refused: int = 0

    @property
    def answered(self) -> int:
        return sum(self.answers.values())


@contextmanager
def login_flood(
    broker: BrokerProcess, *, sockets: int = 800, pipelined: int = 20, source: str = "127.0.0.1"
) -> Iterator[Flood]:
    """Runs the attack from `source`. It has begun when this is entered."""
    flood = Flood()
    process = subprocess.Popen(
        [
            sys.executable, "-m", "tests.hostile.login_flood", "--address", broker.address,
            "--sockets", str(sockets), "--pipelined", str(pipelined), "--source", source,
        ],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )  # fmt: skip
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        assert process.stdout.readline() == b"begun\n"
        yield flood
        process.stdin.close()
        counts = json.loads(process.stdout.read())
        flood.answers = {int(status): count for status, count in counts["answers"].items()}
        flood.closed, flood.refused = counts["closed"], counts["refused"]
        assert process.wait(END_TIMEOUT_S) == 0
    finally:
        process.kill()
        process.wait()
        process.stdin.close()
        process.stdout.close()


class Attacker:
    """All sockets of one process."""

    def __init__(self, address: str, source: str, pipelined: int) -> None:
        host, _, port = address.rpartition(":")
        self._where = host, int(port)
        self._source = source
        self._pipelined = pipelined
        self._names = itertools.count()
        self._selector = selectors.DefaultSelector()
        self.answers: Counter[int] = Counter()
        self.closed = 0
        self.refused = 0

    def open(self) -> None:
        try:
            opened = socket.create_connection(self._where, source_address=(self._source, 0))
            opened.sendall(self._logins(self._pipelined))
        except OSError:
            self.refused += 1
            return
        opened.setblocking(False)
        self._selector.register(opened, selectors.EVENT_READ)

    def answer_all(self, wait_s: float) -> int:
        """One more login for each answer; how many sockets were closed."""
        closed = 0
        for key, _ in self._selector.select(wait_s):
            opened = key.fileobj
            assert isinstance(opened, socket.socket)
            try:
                got = opened.recv(4096)
                # All have no payload; one that is cut in two is counted with the next.
                for start in range(0, len(got) - RESPONSE_HEADER.size + 1, RESPONSE_HEADER.size):
                    status, _ = RESPONSE_HEADER.unpack_from(got, start)
                    self.answers[status] += 1
                if got:
                    opened.sendall(self._logins(len(got) // RESPONSE_HEADER.size))
                    continue
            except BlockingIOError:
                continue
            except OSError:
                pass
            self._selector.unregister(opened)
            opened.close()
            closed += 1
        self.closed += closed
        return closed

    def _logins(self, count: int) -> bytes:
        names = itertools.islice(self._names, count)
        return b"".join(frame_of(LoginUser(f"invented-{name}", "wrong")) for name in names)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--address", required=True)
    parser.add_argument("--source", default="127.0.0.1")
    parser.add_argument("--sockets", type=int, default=800)
    parser.add_argument("--pipelined", type=int, default=20)
    options = parser.parse_args()
    attacker = Attacker(options.address, options.source, options.pipelined)
    for _ in range(options.sockets):
        attacker.open()
    print("begun", flush=True)
    began = time.monotonic()
    missing = 0.0
    with selectors.DefaultSelector() as end:
        end.register(sys.stdin, selectors.EVENT_READ)
        while not end.select(0) and time.monotonic() - began < PATIENCE_S:
            missing += attacker.answer_all(1 / REOPENED_PER_S)
            if missing >= 1:
                missing -= 1
                attacker.open()
    counts = {
        "answers": attacker.answers,
        "closed": attacker.closed,
        "refused": attacker.refused,
    }
    with suppress(BrokenPipeError):
        print(json.dumps(counts))
    return 0


if __name__ == "__main__":
    sys.exit(main())
