"""Honest neighbours: five users that behave beside fifty that do not, all kinds at once.

    python -m tests.hostile.neighbours --seconds 300 --alone 100

Three runs on one broker: the honest five alone, then beside the others, then alone again. Their
latencies and throughput of each are printed side by side. The honest ones send ten messages of
1 KB, poll them and commit, without pause; each is a user of its own, on two connections. An error
of an honest one ends the run with its reason.

The others: greedy ones push megabytes as fast as they are taken; slow ones ask for megabytes and
take a kilobyte now and then; broken ones send mutilated frames; silent ones connect, or begin
frames, and say no more; strangers try passwords; clerks change metadata without pause.

Honest and hostile clients are processes of their own, but all share the machine's cores with the
broker: what greedy ones legitimately use is missing to everybody.
"""

import argparse
import json
import multiprocessing
import os
import random
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from multiprocessing.synchronize import Event as SharedEvent
from pathlib import Path
from queue import Queue
from threading import Thread
from typing import Any, Final, NamedTuple

from borzoi.protocol.codes import Code
from borzoi.protocol.commands import LoginUser, StoreConsumerOffset
from borzoi.protocol.commands.sessions import CreatePersonalAccessToken, DeletePersonalAccessToken
from borzoi.protocol.framing import encode_request
from borzoi.protocol.identifiers import Consumer, ConsumerKind
from borzoi.protocol.permissions import ALL_PERMISSIONS
from borzoi.protocol.responses.polled import decode_polled_messages
from tests.broker import BrokerProcess
from tests.hostile.attacks import MAY_SEND, PASSWORD, make_user
from tests.topics import make_topic
from tests.wire import Wire, frame_of, poll_frame, send_frame

HONEST: Final = 5
CONNECTIONS: Final = 2
BATCH: Final = 10
PAYLOAD_SIZE: Final = 1000
KINDS: Final = ("greedy", "slow", "broken", "silent", "stranger", "clerk")
HOSTILE_PROCESSES: Final = 2
STRANGERS_FROM: Final = "127.0.0.9"
COMMON: Final = "common"
# Greedy ones would fill the disk otherwise.
SETTINGS: Final = {
    "IGGY_SYSTEM_SEGMENT_SIZE": "64MiB",
    "IGGY_SYSTEM_TOPIC_MAX_SIZE": "1GiB",
    "IGGY_DATA_MAINTENANCE_MESSAGES_CLEANER_ENABLED": "true",
    "IGGY_DATA_MAINTENANCE_MESSAGES_INTERVAL": "1s",
}


class Place(NamedTuple):
    """Where the broker is, for processes that did not start it."""

    host: str
    port: int


class Figures(NamedTuple):
    """What the honest ones had of one run."""

    rounds: int
    seconds: float
    median_ms: float
    p99_ms: float
    worst_ms: float

    @property
    def rounds_per_s(self) -> float:
        return self.rounds / self.seconds


def run(
    seconds: float,
    hostile: int = 50,
    say: Callable[[str], None] = print,
    alone_s: float | None = None,
) -> list[Figures]:
    """Alone, beside the others, alone again; alone for as long, or for `alone_s`."""
    with tempfile.TemporaryDirectory() as directory:
        broker = BrokerProcess(Path(directory) / "data", SETTINGS)
        broker.start()
        try:
            _set_up(broker, hostile)
            workers = broker.workers()
            found = []
            for title, others in (("alone", 0), (f"beside {hostile}", hostile), ("alone", 0)):
                figures = _measure(broker, seconds if others else alone_s or seconds, others)
                say(
                    f"{title:>10}: {figures.rounds_per_s:8.1f} rounds/s, median "
                    f"{figures.median_ms:.2f} ms, p99 {figures.p99_ms:.2f} ms, worst "
                    f"{figures.worst_ms:.0f} ms"
                )
                found.append(figures)
            assert broker.workers() == workers, broker.output()
            assert "fault of ours" not in broker.output(), broker.output()
            assert broker.stop() == 0, broker.output()
            return found
        finally:
            broker.close()


def _set_up(broker: BrokerProcess, hostile: int) -> None:
    with Wire(broker) as root:
        make_topic(root, COMMON, "t", 4)
        for number in range(HONEST):
            make_user(root, f"honest-{number}", ALL_PERMISSIONS)
            make_topic(root, f"honest-{number}", "t")
        for number in range(hostile):
            make_user(root, f"hostile-{number}", MAY_SEND)
        for partition in range(4):
            for _ in range(8):
                root.put(send_frame(COMMON, "t", [bytes(1000)] * 1000, partition))
                assert root.answer().status == 0


def _measure(broker: BrokerProcess, seconds: float, hostile: int) -> Figures:
    context = multiprocessing.get_context("spawn")
    place = Place(broker.host, broker.port)
    ended = context.Event()
    outcomes: Any = context.Queue()
    attackers = [
        context.Process(
            target=_attack, args=(place, range(number, hostile, HOSTILE_PROCESSES), ended)
        )
        for number in range(HOSTILE_PROCESSES if hostile else 0)
    ]
    honest = context.Process(target=_live, args=(place, seconds, outcomes))
    try:
        for process in attackers:
            process.start()
        if attackers:
            time.sleep(min(5.0, seconds / 4))  # until all of them are at it
        honest.start()
        outcome = json.loads(outcomes.get(timeout=seconds + 120))
    finally:
        ended.set()
        for process in [honest, *attackers]:
            if process.pid is not None:
                process.join(60)
                if process.is_alive():
                    process.kill()
                    process.join()
    if "error" in outcome:
        raise AssertionError(f"an honest user was disturbed: {outcome['error']}")
    latencies = sorted(outcome["latencies"])
    return Figures(
        len(latencies),
        outcome["seconds"],
        latencies[len(latencies) // 2] * 1000,
        latencies[int(len(latencies) * 0.99)] * 1000,
        latencies[-1] * 1000,
    )


# The honest.


def _live(place: Place, seconds: float, outcomes: Any) -> None:
    latencies: list[float] = []
    errors: Queue[str] = Queue()
    began = time.monotonic()
    threads = [
        Thread(target=_live_one, args=(place, number, began + seconds, latencies, errors))
        for number in range(HONEST)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    outcome: dict[str, object] = {"latencies": latencies, "seconds": time.monotonic() - began}
    if not errors.empty():
        outcome["error"] = errors.get()
    outcomes.put(json.dumps(outcome))


def _live_one(
    place: Place, number: int, deadline: float, latencies: list[float], errors: "Queue[str]"
) -> None:
    stream = f"honest-{number}"
    payloads = [bytes((number,)) * PAYLOAD_SIZE] * BATCH
    try:
        wires = [_connect(place).log_in(stream, PASSWORD) for _ in range(CONNECTIONS)]
        offset = _next_offset(wires[0], stream)
        consumer = Consumer(ConsumerKind.CONSUMER, 1)
        rounds = 0
        while time.monotonic() < deadline:
            wire = wires[rounds % CONNECTIONS]
            began = time.perf_counter()
            wire.put(send_frame(stream, "t", payloads))
            status = wire.answer().status
            assert status == 0, f"the send failed with {status}"
            wire.put(poll_frame(stream, "t", offset, BATCH))
            answer = wire.answer()
            assert answer.status == 0, f"the poll failed with {answer.status}"
            polled = decode_polled_messages(memoryview(answer.payload)).messages
            assert [message.payload for message in polled] == payloads, "other messages came"
            offset += BATCH
            stored = StoreConsumerOffset(consumer, stream, "t", 0, offset - 1)
            assert wire.answer_to(stored).status == 0, "the commit failed"
            latencies.append(time.perf_counter() - began)
            rounds += 1
        for wire in wires:
            wire.close()
    except Exception as error:
        errors.put(f"{stream}: {error!r}")


def _next_offset(wire: Wire, stream: str) -> int:
    wire.put(poll_frame(stream, "t", 0, 1))
    polled = decode_polled_messages(memoryview(wire.answer().payload))
    return polled.current_offset + 1 if polled.messages else 0


# The others.


def _attack(place: Place, numbers: Sequence[int], ended: SharedEvent) -> None:
    os.nice(5)
    threads = [Thread(target=_attack_one, args=(place, number, ended)) for number in numbers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def _attack_one(place: Place, number: int, ended: SharedEvent) -> None:
    kind = KINDS[number % len(KINDS)]
    while not ended.is_set():
        # Closed, refused or timed out: it begins again.
        with suppress(OSError):
            ATTACKS[kind](place, f"hostile-{number}", ended)
        ended.wait(0.1)


def _greedy(place: Place, user: str, ended: SharedEvent) -> None:
    frame = send_frame(COMMON, "t", [bytes(1_000_000)], random.randrange(4))
    with _connect(place).log_in(user, PASSWORD) as wire:
        while not ended.is_set():
            wire.put(frame)
            wire.answer()
            # It would fill the disk; a pause of its own length keeps it greedy enough.
            ended.wait(0.02)


def _slow(place: Place, user: str, ended: SharedEvent) -> None:
    with _connect(place).log_in(user, PASSWORD) as wire:
        wire.put(poll_frame(COMMON, "t", 0, 8000, random.randrange(4)))
        while not ended.wait(0.5):
            wire.read_some(1000)


def _broken(place: Place, user: str, ended: SharedEvent) -> None:
    with _connect(place).log_in(user, PASSWORD) as wire:
        frame = bytearray(send_frame(COMMON, "t", [b"x" * 100] * 10))
        while not ended.is_set():
            mutilated = bytearray(frame)
            for _ in range(3):
                # Not the length: the byte stream could not be cut any more, and all would wait.
                mutilated[random.randrange(8, len(frame))] = random.randrange(256)
            wire.put(bytes(mutilated))
            wire.answer()
            wire.request(random.randrange(1000), random.randbytes(50))
            ended.wait(0.005)


def _silent(place: Place, user: str, ended: SharedEvent) -> None:
    with _connect(place) as mute, _connect(place).log_in(user, PASSWORD) as wire:
        mute.put(encode_request(Code.LOGIN_USER, bytes(100))[:10])
        frame = send_frame(COMMON, "t", [bytes(60_000_000)])
        wire.socket.settimeout(1.0)
        with suppress(TimeoutError):
            wire.socket.sendall(frame[:-1000])
        ended.wait(20)


def _stranger(place: Place, user: str, ended: SharedEvent) -> None:
    with _connect(place, STRANGERS_FROM) as wire:
        while not ended.is_set():
            names = [f"{user}-{random.randrange(10**9)}" for _ in range(20)]
            frames = [frame_of(LoginUser(name, "guess", "0.10.0", "")) for name in names]
            wire.put(b"".join(frames))
            wire.answers(len(frames))


def _clerk(place: Place, user: str, ended: SharedEvent) -> None:
    with _connect(place).log_in(user, PASSWORD) as wire:
        while not ended.is_set():
            wire.answer_to(CreatePersonalAccessToken("again", 0))
            wire.answer_to(DeletePersonalAccessToken("again"))


ATTACKS: Final = {
    "greedy": _greedy,
    "slow": _slow,
    "broken": _broken,
    "silent": _silent,
    "stranger": _stranger,
    "clerk": _clerk,
}


def _connect(place: Place, source: str | None = None) -> Wire:
    return Wire(place, login=False, source=source)


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.hostile.neighbours")
    parser.add_argument("--seconds", type=float, default=300.0, help="beside the others")
    parser.add_argument("--alone", type=float, default=100.0, help="seconds before and after that")
    parser.add_argument("--hostile", type=int, default=50, help="how many do not behave")
    options = parser.parse_args(arguments)
    run(options.seconds, options.hostile, alone_s=options.alone)


if __name__ == "__main__":
    main(sys.argv[1:])
