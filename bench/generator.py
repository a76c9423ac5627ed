"""A generator process: it drives its actors from one epoll loop and measures nothing else.

Started by load.py with a pickled GeneratorPlan on standard input; answers with a pickled
GeneratorResult on standard output. In between it connects, logs in, says so in its progress
words, and waits for one line with the moment to start. It imports neither asyncio nor numpy.

The progress words of generator k lie at k * 4 in a memory file shared with the parent, each
written by this process alone:

    state (0 connecting, 1 ready, 2 warming up, 3 measuring, 4 done) | requests | messages | bytes
"""

import gc
import heapq
import mmap
import os
import pickle
import select
import sys
import time
from typing import Final

from borzoi.bench.actors import Actor, LoadFailed
from borzoi.bench.admin import Admin, join_group, log_in
from borzoi.bench.carriers import Carrier, dialled
from borzoi.bench.consensus_roles import CONSENSUS_CLASSES
from borzoi.bench.http_roles import HTTP_CLASSES
from borzoi.bench.pacing import staggered_start_ns
from borzoi.bench.plans import (
    CLASSIC,
    CONSENSUS,
    HTTP,
    QUIC,
    ActorPlan,
    GeneratorPlan,
    GeneratorResult,
)
from borzoi.bench.quantities import NS_PER_S
from borzoi.bench.roles import CLASSES
from borzoi.bench.sockets import shard_of_connection
from borzoi.protocol.errors import BrokerError

PROGRESS_WORDS: Final = 4
PROGRESS_INTERVAL_NS: Final = 50_000_000
CONNECTING, READY, WARMING_UP, MEASURING, DONE = range(5)

EVENTS_MAX: Final = 64
# Nothing heard for so long, with requests in flight: the server hangs.
SILENCE_MAX_S: Final = 60.0
# The kernel spreads connections over the shards; half of them miss when there are two.
CONNECT_ATTEMPTS_MAX: Final = 64


class Pump:
    """The loop: sockets that are ready, and requests whose moment has come."""

    def __init__(self, progress: memoryview, actor_count: int) -> None:
        self._progress = progress
        self._actor_count = actor_count
        self._epoll = select.epoll()
        self._actors: dict[int, Actor] = {}
        self._waiting: list[tuple[int, int, Actor]] = []
        self._running = 0

    def add(self, plan: ActorPlan, connection: Carrier) -> None:
        """Makes the actor of a plan over its connection."""
        connection.setblocking(False)
        classes = CONSENSUS_CLASSES if plan.generation == CONSENSUS else CLASSES
        if plan.transport in HTTP:
            classes = HTTP_CLASSES
        actor = classes[plan.role](
            plan, connection, self._wait, self._finished, self._watch_writable
        )
        self._actors[connection.fileno()] = actor
        self._epoll.register(connection.fileno(), select.EPOLLIN)

    @property
    def actors(self) -> list[Actor]:
        """All actors, in the order in which they were added."""
        return list(self._actors.values())

    def run(self, start_ns: int, duration_ns: int | None, *, warmup: bool) -> None:
        """One phase, from `start_ns` until every actor has reached its goal."""
        while time.monotonic_ns() < start_ns:
            time.sleep(max(0, start_ns - time.monotonic_ns()) / NS_PER_S)
        until_ns = None if duration_ns is None else start_ns + duration_ns
        self._progress[0] = WARMING_UP if warmup else MEASURING
        self._waiting.clear()
        self._running = len(self._actors)
        for actor in self.actors:
            interval = actor.plan.interval_ns
            number = actor.plan.actor_id - 1
            first_ns = staggered_start_ns(start_ns, interval, number, self._actor_count)
            actor.start(first_ns, time.monotonic_ns(), until_ns, endless=warmup)
        self._turn_until_done()
        self._report_progress()

    def _turn_until_done(self) -> None:
        poll = self._epoll.poll
        actors = self._actors
        waiting = self._waiting
        writable = select.EPOLLOUT
        report_at = 0
        while self._running:
            if waiting:
                self._begin_due()
                if not self._running:
                    break
                events = poll(0, EVENTS_MAX) or self._events_before_due()
            else:
                events = poll(SILENCE_MAX_S, EVENTS_MAX)
                if not events:
                    raise LoadFailed(f"the server said nothing for {SILENCE_MAX_S:.0f} s")
            for descriptor, event in events:
                actor = actors[descriptor]
                if event & writable:
                    actor.flush()
                if event & ~writable:
                    try:
                        actor.receive()
                    except BlockingIOError:
                        continue  # a part of a record, or of a frame
            now = time.monotonic_ns()
            if now >= report_at:
                self._report_progress()
                report_at = now + PROGRESS_INTERVAL_NS

    def _events_before_due(self) -> list[tuple[int, int]]:
        if not self._waiting:
            return []
        # epoll counts in whole milliseconds; select on its descriptor is exact enough.
        left_ns = self._waiting[0][0] - time.monotonic_ns()
        if left_ns > 0:
            select.select([self._epoll], [], [], left_ns / NS_PER_S)
        return self._epoll.poll(0, EVENTS_MAX)

    def _begin_due(self) -> None:
        waiting = self._waiting
        now = time.monotonic_ns()
        while waiting and waiting[0][0] <= now:
            planned, _, actor = heapq.heappop(waiting)
            actor.begin(planned)

    def _wait(self, actor: Actor, planned_ns: int) -> None:
        heapq.heappush(self._waiting, (planned_ns, id(actor), actor))

    def _finished(self, _actor: Actor) -> None:
        self._running -= 1

    def _watch_writable(self, actor: Actor, watch: bool) -> None:
        mask = select.EPOLLIN | select.EPOLLOUT if watch else select.EPOLLIN
        self._epoll.modify(actor.socket.fileno(), mask)

    def _report_progress(self) -> None:
        actors = self._actors.values()
        self._progress[1] = sum(actor.requests_done for actor in actors)
        self._progress[2] = sum(actor.messages_done for actor in actors)
        self._progress[3] = sum(actor.bytes_done for actor in actors)


def connect(plan: ActorPlan) -> Carrier:
    """A connection of this actor, held by the process it wants at the other end."""
    for _ in range(CONNECT_ATTEMPTS_MAX):
        connection = connect_once(plan)
        if plan.server_pid is None or plan.transport == QUIC:
            return connection
        client_port = connection.getsockname()[1]
        if shard_of_connection({0: plan.server_pid}, plan.port, client_port) is not None:
            return connection
        connection.close()
    raise LoadFailed(f"no connection out of {CONNECT_ATTEMPTS_MAX} came to the wanted shard")


def connect_once(plan: ActorPlan) -> Carrier:
    """Connected, logged in, and a member of its group if it has one."""
    door = plan.host, plan.port, plan.transport, plan.ca_file
    connection = dialled(*door, SILENCE_MAX_S, nodelay=not plan.in_pieces)
    # Actors of another generation, or of HTTP, log in by themselves, in their bytes.
    is_classic = plan.generation == CLASSIC and plan.transport not in HTTP
    if plan.credentials is not None and is_classic:
        admin = Admin(connection)
        log_in(admin, plan.credentials)
        if plan.group is not None:
            join_group(admin, plan.stream, plan.topic, plan.group)
    return connection


def generate(plan: GeneratorPlan, progress: memoryview) -> GeneratorResult:
    """Runs the actors of one plan: connects, warms up, waits for the start, measures."""
    if plan.cpus:
        os.sched_setaffinity(0, plan.cpus)
    pump = Pump(progress, plan.actor_count)
    for actor in plan.actors:
        pump.add(actor, connect(actor))
    progress[0] = READY
    start_ns = int(sys.stdin.buffer.readline())
    # What is alive now stays alive; a collection in the middle of a run would be a pause.
    gc.collect()
    gc.freeze()
    gc.disable()
    if plan.warmup_ns:
        pump.run(start_ns, plan.warmup_ns, warmup=True)
        start_ns = time.monotonic_ns()
    durations = {actor.goal.duration_ns for actor in plan.actors}
    cpu_before = time.process_time_ns()
    began = max(start_ns, time.monotonic_ns())
    pump.run(start_ns, durations.pop() if len(durations) == 1 else None, warmup=False)
    ended = time.monotonic_ns()
    cpu_ns = time.process_time_ns() - cpu_before
    results = tuple(actor.result(ended) for actor in pump.actors)
    return GeneratorResult(plan.number, results, cpu_ns, ended - began)


def main() -> None:
    """Reads a plan from standard input and writes the result to standard output."""
    plan: GeneratorPlan = pickle.load(sys.stdin.buffer)
    words = memoryview(mmap.mmap(plan.progress_fd, 0)).cast("Q")
    mine = words[plan.number * PROGRESS_WORDS : (plan.number + 1) * PROGRESS_WORDS]
    try:
        result = generate(plan, mine)
    except (LoadFailed, BrokerError, OSError) as error:
        text = str(error) or type(error).__name__
        result = GeneratorResult(plan.number, (), 0, 0, error=text)
    mine[0] = DONE
    pickle.dump(result, sys.stdout.buffer)
    sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
