"""The cast of a run: options and streams to the plans of its actors.

Pure. Actors are counted from 1; producer i and consumer i get stream i, from the first again
when there are fewer streams than actors.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from borzoi.bench.options import Options
from borzoi.bench.pacing import interval_ns
from borzoi.bench.plans import ActorPlan, Goal, Role
from borzoi.bench.quantities import NS_PER_S

# A consumer that cannot know how much will come is done when nothing came for so long.
IDLE_STOP_NS: Final = 2 * NS_PER_S
# One that knows, and is still kept waiting, would wait for ever.
STARVED_NS: Final = 30 * NS_PER_S


@dataclass(frozen=True, slots=True)
class BenchStream:
    """A stream of the run: its id and its topic's, its groups, and what lies in partition 0."""

    stream_id: int
    topic_id: int
    group_ids: tuple[int, ...] = ()
    message_count: int = 0


def cast(options: Options, host: str, port: int, streams: Sequence[BenchStream]) -> list[ActorPlan]:
    """The actors of a run, producers first."""
    casting = _Casting(options, host, port, streams)
    if options.kind.pairs:
        return [casting.pair(number) for number in range(1, options.actor_count + 1)]
    producers = [casting.producer(number) for number in range(1, options.producers + 1)]
    consumers = [casting.consumer(number) for number in range(1, options.consumers + 1)]
    return [*producers, *consumers]


class _Casting:
    def __init__(
        self, options: Options, host: str, port: int, streams: Sequence[BenchStream]
    ) -> None:
        self._options = options
        self._host = host
        self._port = port
        self._streams = streams

    def producer(self, number: int) -> ActorPlan:
        options = self._options
        return self._plan(
            Role.PRODUCER,
            number,
            self._stream(number),
            goal=self._goal(options.producers),
            interval=interval_ns(options.rate_limit, options.producers, options.batch_bytes),
        )

    def consumer(self, number: int) -> ActorPlan:
        options = self._options
        both = options.kind.produces
        rate = options.rate_limit
        if rate is not None and both:
            rate = int(rate * options.read_amplification)
        stream, group = self._membership(number)
        goal = self._consumer_goal(stream) if both else self._goal(options.consumers)
        endless = goal == Goal()
        return self._plan(
            Role.CONSUMER,
            number,
            stream,
            goal=goal,
            interval=interval_ns(rate, options.consumers, options.batch_bytes),
            group=group,
            latency_from_origin=both,
            wraps_at=None if both or group is not None else stream.message_count,
            idle_stop_ns=IDLE_STOP_NS if endless or group is not None else STARVED_NS,
        )

    def pair(self, number: int) -> ActorPlan:
        options = self._options
        stream, group = self._membership(number)
        if options.kind.groups and number > options.producers:
            role = Role.CONSUMER
        elif options.kind.groups and number > options.consumers:
            role, group = Role.PRODUCER, None
        else:
            role = Role.PAIR
        return self._plan(
            role,
            number,
            stream,
            goal=self._goal(options.actor_count),
            interval=interval_ns(options.rate_limit, options.actor_count, options.batch_bytes),
            group=group,
            latency_from_origin=True,
            value=stream.message_count,
            idle_stop_ns=IDLE_STOP_NS,
        )

    def _plan(
        self,
        role: Role,
        number: int,
        stream: BenchStream,
        *,
        goal: Goal,
        interval: int,
        group: int | None = None,
        latency_from_origin: bool = False,
        wraps_at: int | None = None,
        value: int = 0,
        idle_stop_ns: int | None = None,
    ) -> ActorPlan:
        options = self._options
        balanced = role is not Role.CONSUMER and options.partitions != 1
        return ActorPlan(
            role=role,
            actor_id=number,
            host=self._host,
            port=self._port,
            credentials=options.credentials,
            goal=goal,
            message_size=options.message_size,
            messages_per_batch=options.messages_per_batch,
            stream=stream.stream_id,
            topic=stream.topic_id,
            partition_id=None if balanced else 0,
            group=group,
            value=value,
            wraps_at=wraps_at,
            interval_ns=interval,
            latency_from_origin=latency_from_origin,
            idle_stop_ns=idle_stop_ns,
            generation=options.generation,
            transport=options.transport,
            ca_file=options.ca_file,
        )

    def _stream(self, number: int) -> BenchStream:
        return self._streams[(number - 1) % len(self._streams)]

    def _membership(self, number: int) -> tuple[BenchStream, int | None]:
        """The stream of a consumer and its group: groups are spread over the streams."""
        groups = self._options.groups
        if not groups:
            return self._stream(number), None
        place = (number - 1) % groups
        stream = self._streams[place % len(self._streams)]
        return stream, stream.group_ids[place // len(self._streams)]

    def _goal(self, sharing: int) -> Goal:
        options = self._options
        if options.duration_ns is not None:
            return Goal(duration_ns=options.duration_ns)
        if options.total_data is not None:
            return Goal(user_bytes=max(1, options.total_data // sharing))
        return Goal(requests=options.message_batches)

    def _consumer_goal(self, stream: BenchStream) -> Goal:
        """What the producers of this stream will have sent, where that is known beforehand."""
        options = self._options
        if options.duration_ns is not None:
            return Goal(duration_ns=options.duration_ns)
        fixed = options.messages_per_batch.is_fixed
        if options.message_batches is None or not fixed or options.groups:
            return Goal()
        place = self._streams.index(stream)
        producers = len(range(place, options.producers, len(self._streams)))
        batches = producers * options.message_batches
        return Goal(messages=batches * options.messages_per_batch.first)
