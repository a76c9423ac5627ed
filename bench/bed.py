"""A broker of our own with load on it: the set-up all comparisons share.

Every run gets a stream of its own and removes it afterwards. So runs do not see each other's files
and the disk is spared. What a run measures is a Rate.
"""

import tempfile
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final, Self

from borzoi.bench.admin import delete_stream, make_stream
from borzoi.bench.batches import build_send_frames
from borzoi.bench.broker import OwnBroker
from borzoi.bench.cpus import CpuPlan, available_cpus, decide
from borzoi.bench.load import LoadResult, run_load
from borzoi.bench.plans import CLASSIC, ActorPlan, Goal, Role
from borzoi.bench.quantities import MB, NS_PER_S, NS_PER_US, Range
from borzoi.bench.rates import Rate, rate_of
from borzoi.bench.usage import cpu_ns_at, cpu_ns_of
from borzoi.protocol.identifiers import StrategyKind

WARMUP_NS: Final = 200_000_000
STREAM: Final = "bench-bed"
PAGES_TOUCHED: Final = 1200 * MB
SETTLE_TIMEOUT_S: Final = 20.0
SETTLE_LOOK_S: Final = 0.2
SETTLED_SHARE: Final = 0.03


class Bed:
    """A running broker, a connection for orders, and the places of the generators."""

    def __init__(
        self,
        shards: int,
        settings: Mapping[str, str] | None = None,
        *,
        directory: Path | None = None,
        generators: int = 1,
        transport: str = "tcp",
    ) -> None:
        self.cpus: CpuPlan = decide(available_cpus(), shards, generators)
        self.broker = OwnBroker(self.cpus.cpu_allocation, settings, directory, transport=transport)
        try:
            self.admin = self.broker.orders()
        except BaseException:
            self.broker.close()
            raise
        self.directory = self.broker.directory
        self.workers = {f"shard {shard}": pid for shard, pid in self.broker.workers().items()}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.admin.close()
        self.broker.close()

    def stream(self, partitions: int = 1) -> tuple[int, int]:
        """A new, empty stream: its id and its topic's."""
        return make_stream(self.admin, STREAM, partitions)

    def drop_stream(self) -> None:
        """Deletes the stream of the bench."""
        delete_stream(self.admin, STREAM)

    def actor(self, role: Role, number: int, ids: tuple[int, int], goal: Goal) -> ActorPlan:
        """Returns a plan for one actor on this broker."""
        return ActorPlan(
            role=role,
            actor_id=number,
            host=self.broker.host,
            port=self.broker.port,
            credentials=self.broker.credentials,
            goal=goal,
            stream=ids[0],
            topic=ids[1],
            transport=self.broker.transport,
            ca_file=self.broker.ca_file,
        )

    def run(self, actors: list[ActorPlan], *, warmup_ns: int = WARMUP_NS) -> LoadResult:
        """Runs the load of these actors and returns all samples."""
        return run_load(actors, self.cpus.generator_cpus, warmup_ns=warmup_ns, watched=self.workers)

    def rate(self, actors: list[ActorPlan], *, warmup_ns: int = WARMUP_NS) -> Rate:
        """Runs the load of these actors and returns what they reached together."""
        return rate_of(self.run(actors, warmup_ns=warmup_ns), tuple(self.workers))

    def settle(self) -> None:
        """Wait until the workers have nothing left to do behind the scenes, or for long enough."""
        deadline = time.monotonic() + SETTLE_TIMEOUT_S
        while time.monotonic() < deadline:
            before = self._cpu_ns()
            time.sleep(SETTLE_LOOK_S)
            if self._cpu_ns() - before < SETTLED_SHARE * SETTLE_LOOK_S * NS_PER_S:
                return

    def settled_us_per_message(self, actors: list[ActorPlan]) -> float:
        """Returns CPU time per message, with what follows it, such as syncing segments.

        Pages that a virtual machine touches for the first time cost several times as much as
        others, and the first writer pays. So touch_pages() writes to them before the measurement.
        """
        self.touch_pages(PAGES_TOUCHED)
        self.settle()
        result = self.run(actors, warmup_ns=0)
        self.settle()
        began = min(actor.started_ns for actor in result.actors)
        before = sum(cpu_ns_at(result.samples, name, began) for name in self.workers)
        messages = rate_of(result, ()).messages
        return (self._cpu_ns() - before) / NS_PER_US / max(1, messages)

    def touch_pages(self, size: int) -> None:
        """Write a file and remove it: its pages are the next to be used."""
        block = bytes(MB)
        with tempfile.TemporaryFile(dir=self.directory) as file:
            for _ in range(size // MB):
                file.write(block)

    def _cpu_ns(self) -> int:
        return sum(cpu_ns_of(pid) for pid in self.workers.values())

    def producers(
        self,
        ids: tuple[int, int],
        goal: Goal,
        *,
        connections: int,
        partitions: int,
        message_size: int,
        messages_per_batch: int,
    ) -> list[ActorPlan]:
        """Producers on fixed partitions, the partitions taken in turn."""
        return [
            replace(
                self.actor(Role.PRODUCER, number + 1, ids, goal),
                partition_id=number % partitions,
                message_size=Range(message_size, message_size),
                messages_per_batch=Range(messages_per_batch, messages_per_batch),
            )
            for number in range(connections)
        ]

    def produce(
        self,
        duration_ns: int,
        *,
        connections: int = 1,
        partitions: int = 1,
        message_size: int = 1000,
        messages_per_batch: int = 1000,
        generation: str = CLASSIC,
    ) -> Rate:
        """Send for a while to a new stream."""
        ids = self.stream(partitions)
        actors = self.producers(
            ids,
            Goal(duration_ns=duration_ns),
            connections=connections,
            partitions=partitions,
            message_size=message_size,
            messages_per_batch=messages_per_batch,
        )
        try:
            return self.rate([replace(actor, generation=generation) for actor in actors])
        finally:
            self.drop_stream()

    def fill(
        self,
        ids: tuple[int, int],
        message_count: int,
        *,
        partition_id: int = 0,
        message_size: int = 1000,
        messages_per_batch: int = 1000,
    ) -> int:
        """Put at least so many messages into a partition; how many it became."""
        frame = build_send_frames(
            ids[0],
            ids[1],
            partition_id,
            Range(message_size, message_size),
            Range(messages_per_batch, messages_per_batch),
            seed=1,
        )[0]
        sent = 0
        while sent < message_count:
            self.admin.send_raw(frame.frame)
            sent += messages_per_batch
        return sent

    def poll(
        self,
        duration_ns: int,
        *,
        connections: int = 1,
        message_size: int = 1000,
        messages_per_poll: int = 1000,
        filled_messages: int = 200_000,
        strategy: StrategyKind = StrategyKind.OFFSET,
        generation: str = CLASSIC,
    ) -> Rate:
        """Poll a filled partition for a while; by offset, round and round.

        By NEXT each connection is a consumer of its own that commits, and reads to the end once.
        """
        ids = self.stream()
        try:
            last = self.fill(ids, filled_messages, message_size=message_size)
            goal = Goal(duration_ns=duration_ns)
            actors = [
                replace(
                    self.actor(Role.CONSUMER, number, ids, goal),
                    message_size=Range(message_size, message_size),
                    messages_per_batch=Range(messages_per_poll, messages_per_poll),
                    strategy=strategy,
                    wraps_at=last,
                    generation=generation,
                )
                for number in range(1, connections + 1)
            ]
            return self.rate(actors)
        finally:
            self.drop_stream()
