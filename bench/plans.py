"""What the parent tells a generator process: plain values, sent pickled through a pipe.

Nothing here opens a socket. An ActorPlan is one connection with one request in flight; a
GeneratorPlan is all actors of one process. Times are those of the monotonic clock, which all
processes of a machine share.
"""

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from borzoi.bench.quantities import Range
from borzoi.protocol.identifiers import Identifier, StrategyKind

CLASSIC: Final = "classic"
CONSENSUS: Final = "0.9"
HTTP_JSON: Final = "http-json"
HTTP: Final = frozenset({"http", HTTP_JSON})
QUIC: Final = "quic"
TRANSPORTS: Final = ("tcp", "tls", "ws", "wss", QUIC, "http", HTTP_JSON)
"""What carries the requests of an actor; over `http` messages are bytes."""

ONE_THOUSAND: Final = Range(1000, 1000)


class Role(StrEnum):
    """What an actor does with its connection."""

    PRODUCER = "producer"
    CONSUMER = "consumer"
    PAIR = "producing_consumer"
    ECHO = "echo"
    IDLE = "idle"


@dataclass(frozen=True, slots=True)
class Goal:
    """When an actor has done enough: at most one of the three counts, and a time limit."""

    requests: int | None = None
    messages: int | None = None
    user_bytes: int | None = None
    duration_ns: int | None = None


@dataclass(frozen=True, slots=True)
class Credentials:
    """A username and a password, which repr() does not show."""

    username: str
    password: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class ActorPlan:
    """One actor.

    partition_id         None lets the server choose (producers) or the group (consumers)
    partition_count      above 1: a producer takes turns over partitions 0 to this
    group                polls as a member of this group: next messages, committed at once
    strategy, value      where a consumer starts; by offset it goes on behind what it got, and
                         what it gets by NEXT is committed at once
    wraps_at             a consumer that reached this offset begins at `value` again
    latency_from_origin  latency is the age of the first message, not the round trip
    idle_stop_ns         a consumer that got nothing for so long is done
    credentials          None: the other side is no broker and wants no login
    server_pid           only a connection that this process holds the other end of will do
    generation           of clients, in whose bytes the actor speaks
    transport, ca_file   what carries them, and who signs the server's certificate
    in_pieces            length, code and body leave in writes of their own, with Nagle's algorithm
                         on, as the official clients write
    """

    role: Role
    actor_id: int
    host: str
    port: int
    credentials: Credentials | None
    goal: Goal
    message_size: Range = ONE_THOUSAND
    messages_per_batch: Range = ONE_THOUSAND
    stream: Identifier = 0
    topic: Identifier = 0
    partition_id: int | None = 0
    partition_count: int = 1
    group: Identifier | None = None
    strategy: StrategyKind = StrategyKind.OFFSET
    value: int = 0
    wraps_at: int | None = None
    interval_ns: int = 0
    latency_from_origin: bool = False
    idle_stop_ns: int | None = None
    echo_size: int = 64
    server_pid: int | None = None
    generation: str = CLASSIC
    transport: str = "tcp"
    ca_file: str = ""
    in_pieces: bool = False


@dataclass(frozen=True, slots=True)
class GeneratorPlan:
    """All actors of one process, and the CPUs it may use (none: wherever the kernel likes)."""

    number: int
    actors: tuple[ActorPlan, ...]
    actor_count: int
    cpus: tuple[int, ...]
    warmup_ns: int
    progress_fd: int


@dataclass(frozen=True, slots=True)
class ActorResult:
    """What one actor measured: four arrays of signed 64-bit words, one entry per request.

    `ends` is when each answer was complete.
    """

    role: Role
    actor_id: int
    started_ns: int
    ended_ns: int
    ends: bytes
    latencies: bytes
    messages: bytes
    user_bytes: bytes
    empty_polls: int


@dataclass(frozen=True, slots=True)
class GeneratorResult:
    """All actors of one process, and what the process itself used while it measured."""

    number: int
    actors: tuple[ActorResult, ...]
    cpu_ns: int
    elapsed_ns: int
    error: str | None = None
