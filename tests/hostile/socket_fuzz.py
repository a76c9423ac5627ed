"""Mutated frames against a real broker, on several connections at once.

    python -m tests.hostile.socket_fuzz --frames 1000000 [--first 0] [--generation classic]

Each connection holds conversations: it sends a number of frames whose length field is right, in
writes of any size, and counts the answers, which must be exactly as many unless the broker closed
the connection. Among them are runs of polls of one place, with counts and offsets of all sizes:
what is remembered of a place is a way of its own. The last bytes of a conversation are a frame
with a false length or a cut one, then an end of file or a reset. Some connections are logged in
and own a stream.

The claim: the same worker processes live at the end, none has blamed itself, their memory is
bounded, and a good client beside all this has noticed nothing. When the claim is broken, the
conversations of that moment are written to seeds/.
"""

import argparse
import random
import struct
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from threading import Lock, Thread
from typing import Final

from borzoi.protocol.codes import Code, LaterCode
from borzoi.protocol.commands import (
    ChangePassword,
    CreateStream,
    DeleteUser,
    PollMessages,
    UpdatePermissions,
    UpdateUser,
)
from borzoi.protocol.errors import BrokerError
from borzoi.protocol.generations import CLASSIC
from borzoi.protocol.identifiers import Consumer, ConsumerKind, PollingStrategy, StrategyKind
from tests.broker import BrokerProcess
from tests.hostile.dialects import DIALECTS, Dialect
from tests.hostile.memory import MIB, counted_memory, memory_peak
from tests.hostile.mutation import Mutant
from tests.hostile.neighbour import STREAM, Neighbour, good_neighbour
from tests.hostile.seeds import Seed, write_seeds
from tests.topics import topic_of
from tests.wire import Closed, Wire, send_frame

CONNECTIONS: Final = 6  # of which every third is not logged in
FRAMES_PER_CONVERSATION: Final = 100
PIECES: Final = (1, 7, 8, 64, 1000, 65536)
FAULT: Final = "fault of ours"
# A password check takes 20 ms of a worker's one hashing thread, and after a logout nothing is
# reached any more: most of these are dropped.
SESSIONS_KEPT: Final = 0.02
OF_SESSIONS: Final = frozenset(
    {
        Code.LOGIN_USER,
        Code.LOGIN_WITH_PERSONAL_ACCESS_TOKEN,
        Code.LOGOUT_USER,
        LaterCode.LOGIN_REGISTER,
    }
)
# Names and numbers a mutant may hit by chance, and after which no login would succeed any more.
ROOT: Final = (0, "iggy")
OF_USERS: Final = (ChangePassword, DeleteUser, UpdatePermissions, UpdateUser)
HARMLESS: Final = frozenset(
    {Code.GET_STREAM, Code.GET_TOPIC, Code.GET_TOPICS, Code.POLL_MESSAGES, Code.GET_CONSUMER_OFFSET}
)
GROWTH_MAX: Final = 128 * MIB
POLLS: Final = 0.03
"""So often a conversation goes on with a run of polls."""

POLLS_IN_A_RUN: Final = 4
POLL_COUNTS: Final = (0, 0, 1, 1, 2, 2**31, 2**32 - 1)
POLL_VALUES: Final = (0, 0, 0, 1, 2, 3, 2**31, 2**32 - 1, 2**63, 2**64 - 1)


@dataclass
class Tally:
    """What all connections together have seen."""

    frames: int = 0
    conversations: int = 0
    closed_by_broker: int = 0
    statuses: Counter[int] = field(default_factory=Counter)
    errors: list[tuple[BaseException, list[Mutant]]] = field(default_factory=list)
    lock: Lock = field(default_factory=Lock)


def is_wanted(dialect: Dialect, chance: random.Random, mutated: Mutant) -> bool:
    """Whether a frame may be sent: it must not lock everybody out or hit the good client."""
    code, payload = mutated
    if code in OF_SESSIONS:
        return chance.random() < SESSIONS_KEPT
    decode = dialect.decoder(code)
    if decode is None:
        return True
    try:
        command = decode(memoryview(bytearray(payload)))
    except BrokerError:
        return True
    if isinstance(command, OF_USERS):
        return command.user not in ROOT
    # The good client's stream was made first and has the number 0.
    return getattr(command, "stream", None) not in (0, STREAM) or code in HARMLESS


def conversation(dialect: Dialect, first: int, count: int) -> Iterator[Mutant]:
    """The frames of `count` wanted numbers from `first` on."""
    chance = random.Random(first)
    number = first
    while count > 0:
        if chance.random() < POLLS:
            polls = run_of_polls(dialect, chance)
            count -= len(polls)
            yield from polls
            continue
        # One frame in five is as it should be, so that there is something to be hostile to.
        is_good = chance.random() < 0.2
        mutated = chance.choice(dialect.corpus) if is_good else dialect.mutant(number)
        number += 1
        if is_wanted(dialect, chance, mutated):
            count -= 1
            yield mutated


def run_of_polls(dialect: Dialect, chance: random.Random) -> list[Mutant]:
    """Polls of one place, the first two of which make it a known one."""
    stream = chance.choice(("orders", "orders", "events", STREAM))
    partition = chance.choice((0, 0, 0, 1, 2**32 - 2))
    wanted = [(StrategyKind.OFFSET, 0, 1, False)] * 2
    for _ in range(POLLS_IN_A_RUN):
        kind = chance.choice((StrategyKind.OFFSET, *StrategyKind))
        value, count = chance.choice(POLL_VALUES), chance.choice(POLL_COUNTS)
        wanted.append((kind, value, count, chance.random() < 0.3))
    consumer = Consumer(ConsumerKind.CONSUMER, 1)
    return [
        dialect.request(
            PollMessages(
                consumer, stream, "events", partition, PollingStrategy(kind, value), count, commit
            )
        )
        for kind, value, count, commit in wanted
    ]


def hold(
    broker: BrokerProcess, dialect: Dialect, first: int, helper: Wire | None, tally: Tally
) -> None:
    """One conversation from beginning to end, with a login if there is a helper."""
    chance = random.Random(~first)
    said: list[Mutant] = []
    try:
        said += conversation(dialect, first, FRAMES_PER_CONVERSATION)
        if helper is not None:
            prepare(helper)
        with dialect.connect(broker, login=helper is not None) as wire:
            frames = [dialect.frame(wire, mutated, chance) for mutated in said]
            statuses = _exchange(dialect, wire, frames, chance.choice(PIECES))
            _part(wire, dialect, chance)
    except Exception as error:
        with tally.lock:
            tally.errors.append((error, said))
        return
    with tally.lock:
        tally.conversations += 1
        tally.frames += len(said)
        tally.closed_by_broker += len(statuses) < len(said)
        tally.statuses.update(statuses)


def prepare(wire: Wire) -> None:
    """What the good requests are about, if others have not made or have deleted it."""
    for name in ("orders", "events"):
        wire.answer_to(CreateStream(name))
        wire.answer_to(topic_of("events", 3, name))
    wire.put(send_frame("orders", "events", [bytes(100)] * 3))
    wire.answer()


def _exchange(dialect: Dialect, wire: Wire, frames: Sequence[bytes], piece: int) -> list[int]:
    """Send in pieces; the statuses that came back, fewer than asked for if the broker closed."""
    statuses: list[int] = []
    data = b"".join(frames)
    # Only the beginning in crumbs: each is a system call on both sides.
    crumbs_end = 400 - 400 % piece if piece < 64 else 0
    starts = [*range(0, crumbs_end, piece), *range(crumbs_end, len(data), max(piece, 1000))]
    pieces = [data[start:end] for start, end in pairwise([*starts, len(data)])]
    try:
        for part in pieces:
            wire.put(part)
        for _ in frames:
            statuses.append(wire.answer().status)
    except Closed:
        return statuses
    assert dialect.is_in_step(wire), "an answer too many"
    return statuses


def _part(wire: Wire, dialect: Dialect, chance: random.Random) -> None:
    """Leave in one of several impolite ways."""
    frame = bytearray(dialect.frame(wire, dialect.mutant(chance.getrandbits(32)), chance))
    way = chance.randrange(4)
    if way < 2:
        size = chance.choice((0, 3, 2**31, 2**32 - 1) if way else (1_000, 100_000, 10**7))
        struct.pack_into("<I", frame, dialect.size_at, size)
    elif way == 2:
        del frame[chance.randint(1, len(frame) - 1) :]
    else:
        frame[:] = chance.randbytes(chance.randint(1, 100))
    with suppress(Closed):
        wire.put(bytes(frame))
    if chance.random() < 0.5:
        wire.reset()


def run(
    broker: BrokerProcess, first: int, frames: int, dialect: Dialect = DIALECTS[CLASSIC.name]
) -> tuple[Tally, Neighbour, int]:
    """Fuzz a started broker and check the claim; what was seen, and the growth of its memory."""
    tally = Tally()
    workers = broker.workers()
    conversations = range(first, first + frames * 2, FRAMES_PER_CONVERSATION * 2)
    with good_neighbour(broker) as neighbour, memory_peak(broker) as peak:
        neighbour.check()
        before = counted_memory(broker)

        def connection(number: int) -> None:
            with Wire(broker) as helper:
                for start in conversations[number::CONNECTIONS]:
                    hold(broker, dialect, start, helper if number % 3 else None, tally)
                    if tally.errors or neighbour.error is not None:
                        return

        threads = [Thread(target=connection, args=(number,)) for number in range(CONNECTIONS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        growth = peak() - before
        _judge(broker, workers, tally, neighbour, growth, first)
    return tally, neighbour, growth


def _judge(
    broker: BrokerProcess,
    workers: dict[int, int],
    tally: Tally,
    neighbour: Neighbour,
    growth: int,
    first: int,
) -> None:
    problems = [f"{type(error).__name__}: {error}" for error, _ in tally.errors]
    if neighbour.error is not None:
        problems.append(f"the good client: {neighbour.error!r}")
    if broker.workers() != workers:
        problems.append("a worker died")
    if FAULT in broker.output():
        problems.append("a worker blames itself")
    if growth > GROWTH_MAX:
        problems.append(f"the memory grew by {growth} bytes")
    if problems:
        reason = "; ".join(problems)
        seeds = [Seed("request", one) for _, said in tally.errors for one in said]
        path = write_seeds(f"socket-{first}", reason, seeds)
        raise AssertionError(f"{reason}, see {path.name}:\n{broker.output()[-10_000:]}")


def main() -> None:
    parser = argparse.ArgumentParser(description="Mutated frames against a real broker.")
    parser.add_argument("--frames", type=int, default=100_000)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--generation", choices=sorted(DIALECTS), default=CLASSIC.name)
    arguments = parser.parse_args()
    dialect = DIALECTS[arguments.generation]
    with tempfile.TemporaryDirectory() as directory:
        broker = BrokerProcess(Path(directory) / "data", {"IGGY_SYSTEM_MEMORY_POOL_SIZE": "512MiB"})
        broker.start()
        try:
            began = time.monotonic()
            tally, neighbour, growth = run(broker, arguments.first, arguments.frames, dialect)
            took_s = time.monotonic() - began
        finally:
            broker.close()
    print(
        f"{tally.frames} frames ({dialect.generation.name}) in {tally.conversations} conversations "
        f"and {took_s:.0f} s, "
        f"{tally.closed_by_broker} closed by the broker, memory grew by {growth // MIB} MiB\n"
        f"statuses: {dict(tally.statuses.most_common(20))}\n"
        f"a good client beside: {neighbour.rounds} rounds of ping, send and poll, "
        f"p50 {neighbour.percentile_ms(50):.1f} ms, p99 {neighbour.percentile_ms(99):.1f} ms"
    )


if __name__ == "__main__":
    main()
