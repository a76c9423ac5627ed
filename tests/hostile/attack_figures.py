"""How long a victim waits with each attack running, beside how long without: figures for people.

    python -m tests.hostile.attack_figures --rounds 300

For each attack a broker of its own. The victim is root: a round is a send and a poll, of the size
that the attack is about. The same rounds are made before the attack begins and while it runs.
"""

import argparse
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Final, NamedTuple

from borzoi.protocol.commands import StoreConsumerOffset
from borzoi.protocol.identifiers import Consumer, ConsumerKind
from tests.broker import BrokerProcess
from tests.hostile.attacks import (
    MAY_POLL,
    MAY_SEND,
    invent_consumers,
    make_user,
    slow_readers,
    unfinished_sends,
)
from tests.hostile.login_flood import login_flood
from tests.hostile.memory import MIB
from tests.topics import make_topic
from tests.wire import Wire, poll_frame, send_frame

KEY: Final = "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="
SMALL_POOL: Final = {"IGGY_SYSTEM_MEMORY_POOL_SIZE": "512MiB"}
ENCRYPTED: Final = {
    "IGGY_SYSTEM_ENCRYPTION_ENABLED": "true",
    "IGGY_SYSTEM_ENCRYPTION_KEY": KEY,
}

Round = Callable[[BrokerProcess, Wire], None]


class Attack(NamedTuple):
    """An attack, and what the victim does meanwhile."""

    name: str
    settings: dict[str, str]
    begin: Callable[[BrokerProcess], AbstractContextManager[object]]
    victim: Round


def unfinished(user: str) -> Callable[[BrokerProcess], AbstractContextManager[object]]:
    return lambda broker: unfinished_sends(broker, user, "s", "t", connections=24, size=60 * MIB)


def slow(broker: BrokerProcess) -> AbstractContextManager[object]:
    return slow_readers(broker, "poller", "s", "t", connections=12, count=60_000)


@contextmanager
def invented(broker: BrokerProcess) -> Iterator[None]:
    invent_consumers(broker, "poller", "s", "t", 10_000)
    yield


def send_and_poll(count: int, size: int) -> Round:
    def victim(_broker: BrokerProcess, wire: Wire) -> None:
        wire.put(send_frame("root", "t", [bytes(size)] * count))
        assert wire.answer().status == 0
        wire.put(poll_frame("root", "t", 0, count))
        assert wire.answer().status == 0

    return victim


def commit(_broker: BrokerProcess, wire: Wire) -> None:
    consumer = Consumer(ConsumerKind.CONSUMER, 1)
    assert wire.answer_to(StoreConsumerOffset(consumer, "s", "t", 0, 0)).status == 0


def log_in(broker: BrokerProcess, _wire: Wire) -> None:
    with Wire(broker, login=False, source="127.0.0.2") as other:
        other.log_in()


ATTACKS: Final = (
    Attack("unfinished sends, may send", SMALL_POOL, unfinished("sender"), send_and_poll(1, MIB)),
    Attack("unfinished sends, may not", SMALL_POOL, unfinished("poller"), send_and_poll(1, MIB)),
    Attack("slow readers, encrypted", ENCRYPTED, slow, send_and_poll(1000, 1000)),
    Attack("invented consumers", {}, invented, commit),
    Attack("login flood: sends", {}, login_flood, send_and_poll(10, 1000)),
    Attack("login flood: logins", {}, login_flood, log_in),
)


def measure(attack: Attack, rounds: int) -> None:
    """Print one row."""
    with tempfile.TemporaryDirectory() as directory:
        broker = BrokerProcess(Path(directory) / "data", attack.settings)
        broker.start()
        try:
            with Wire(broker) as root:
                make_topic(root, "root", "t")
                make_topic(root, "s", "t")
                make_user(root, "poller", MAY_POLL)
                make_user(root, "sender", MAY_SEND)
                for _ in range(60 if attack.begin is slow else 1):
                    root.put(send_frame("s", "t", [bytes(1000)] * 1000))
                    assert root.answer().status == 0
                without = times(attack.victim, broker, root, rounds)
                with attack.begin(broker):
                    beside = times(attack.victim, broker, root, rounds)
            print(
                f"{attack.name:28} without {row(without)}   with {row(beside)}"
                f"   {beside[len(beside) // 2] / without[len(without) // 2]:.2f} x"
            )
        finally:
            broker.close()


def times(victim: Round, broker: BrokerProcess, wire: Wire, rounds: int) -> list[float]:
    """Seconds of each round, sorted."""
    found = []
    for _ in range(rounds):
        began = time.perf_counter()
        victim(broker, wire)
        found.append(time.perf_counter() - began)
    return sorted(found)


def row(found: Sequence[float]) -> str:
    p99 = found[min(len(found) - 1, int(len(found) * 0.99))]
    return f"{found[len(found) // 2] * 1000:7.2f} ms (p99 {p99 * 1000:7.2f})"


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.hostile.attack_figures")
    parser.add_argument("--rounds", type=int, default=300)
    options = parser.parse_args(arguments)
    for attack in ATTACKS:
        rounds = min(options.rounds, 60) if attack.victim is log_in else options.rounds
        measure(attack, rounds)


if __name__ == "__main__":
    main(sys.argv[1:])
