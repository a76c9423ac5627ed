"""Guessing a password as fast as the broker answers, from one address or from many.

    python -m tests.access.brute_force --tries 10000 --addresses 100

Beside it a client with the right password logs in again and again, from another address.
What counts is how many guesses were looked at: each costs a hash, and each is in the log.
"""

import argparse
import math
import re
import statistics
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from borzoi.protocol.codes import Code
from borzoi.protocol.commands.sessions import LoginUser
from borzoi.protocol.commands.users import CreateUser
from borzoi.protocol.errors import InvalidCredentials
from borzoi.protocol.framing import encode_request
from borzoi.protocol.generations import encode_command
from tests.broker import BrokerProcess
from tests.shard_wires import TWO_SHARDS
from tests.wire import Wire

TARGET: Final = "target"
PASSWORD: Final = "what no guess will hit"
GOOD_SOURCE: Final = "127.0.0.9"
FREE: Final = 5
SHARDS: Final = 2
PER_WRITE: Final = 25
# A connection without a login would be closed in the middle of it.
PATIENT: Final = {**TWO_SHARDS, "IGGY_LIMITS_LOGIN_TIMEOUT": "10m"}

FAILURE: Final = re.compile(r"login of '(\w+)' from ([\d.]+) failed: wrong name or password")


@dataclass
class Summary:
    """What became of an attack."""

    tries: int = 0
    statuses: Counter[int] = field(default_factory=Counter)
    looked_at: Counter[str] = field(default_factory=Counter)
    seconds: float = 0.0
    good_logins: list[float] = field(default_factory=list)

    def __str__(self) -> str:
        good = sorted(self.good_logins)
        return (
            f"{self.tries} guesses from {len(self.looked_at)} addresses in {self.seconds:.1f} s,"
            f" {sum(self.looked_at.values())} looked at; {len(good)} good logins meanwhile,"
            f" median {statistics.median(good) * 1000:.0f} ms, longest {good[-1] * 1000:.0f} ms"
        )


def looked_at_max(seconds: float) -> int:
    """How many guesses of one address may be looked at in that time: five, then 1 s, 2 s, 4 s ..

    One more per further shard: its guess may have been under way when the note of the last
    failure came.
    """
    return FREE + math.floor(math.log2(seconds + 1)) + (SHARDS - 1) + 1


def attack(broker: BrokerProcess, sources: list[str], tries: int) -> Summary:
    """Guess on one connection per address, all at once, and log in properly in between."""
    summary = Summary(tries=tries)
    connections = [Wire(broker, login=False, source=source) for source in sources]
    each = math.ceil(tries / len(sources))
    guesses = [
        encode_request(Code.LOGIN_USER, encode_command(LoginUser(TARGET, f"guess {number}")))
        for number in range(each)
    ]
    began = time.monotonic()
    for start in range(0, each, PER_WRITE):
        part = guesses[start : start + PER_WRITE]
        for connection in connections:
            connection.put(b"".join(part))
        summary.good_logins.append(_good_login(broker))
        for connection in connections:
            summary.statuses.update(connection.answer()[0] for _ in part)
    summary.seconds = time.monotonic() - began
    summary.tries = each * len(sources)
    log = (broker.data / "logs" / "iggy-server.log").read_text()
    for name, source in FAILURE.findall(log):
        if name == TARGET and source in sources:
            summary.looked_at[source] += 1
    for connection in connections:
        connection.close()
    return summary


def check(summary: Summary, sources: list[str]) -> None:
    """Nothing was let in, hardly anything was looked at, and everybody else was served."""
    assert summary.statuses == {InvalidCredentials.status: summary.tries}
    assert set(summary.looked_at) == set(sources)
    allowed = looked_at_max(summary.seconds)
    assert max(summary.looked_at.values()) <= allowed, (summary.looked_at, allowed)
    assert min(summary.looked_at.values()) >= FREE
    assert summary.good_logins


def _good_login(broker: BrokerProcess) -> float:
    began = time.monotonic()
    connection = Wire(broker, login=False, source=GOOD_SOURCE)
    assert connection.status(LoginUser("good", PASSWORD)) == 0
    connection.close()
    return time.monotonic() - began


def prepare(broker: BrokerProcess) -> None:
    """The user who is attacked, and one who is not."""
    wire = Wire(broker)
    for name in (TARGET, "good"):
        wire.ask(CreateUser(name, PASSWORD))
    wire.close()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--tries", type=int, default=10_000)
    parser.add_argument("--addresses", type=int, default=1)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        broker = BrokerProcess(Path(directory) / "data", PATIENT)
        broker.start()
        try:
            prepare(broker)
            sources = [f"127.0.1.{number + 1}" for number in range(options.addresses)]
            summary = attack(broker, sources, options.tries)
            print(summary)
            check(summary, sources)
        finally:
            broker.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
