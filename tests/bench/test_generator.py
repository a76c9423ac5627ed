"""The generator against servers that stall, cut their answers, refuse or hang up."""

import socket
import time
from dataclasses import replace

import pytest

from borzoi.bench.actors import LoadFailed
from borzoi.bench.load import LoadResult, run_load
from borzoi.bench.plans import ActorPlan, Goal, Role
from borzoi.bench.quantities import Range
from borzoi.bench.sync_counter import _perf_calls, _strace_calls
from borzoi.bench.usage import (
    DirtyPages,
    Sample,
    Usage,
    busy_ns,
    cpu_ns_between,
    dirty_pages,
    foreign_share,
    usage_of,
)
from borzoi.protocol.framing import OK, RESPONSE_HEADER
from tests.fake_server import requests, serving

MS = 1_000_000
ONE = Range(1, 1)


def producer(port: int, goal: Goal) -> ActorPlan:
    return ActorPlan(
        role=Role.PRODUCER,
        actor_id=1,
        host="127.0.0.1",
        port=port,
        credentials=None,
        goal=goal,
        message_size=ONE,
        messages_per_batch=ONE,
    )


def run(plan: ActorPlan) -> LoadResult:
    return run_load([plan], [()])


def latencies_ms(result: LoadResult) -> list[float]:
    (actor,) = result.actors
    return [value / MS for value in memoryview(actor.latencies).cast("q")]


@pytest.mark.slow
def test_a_stall_is_measured_for_every_request_it_delayed() -> None:
    stall_ms, interval_ms = 200, 10

    def serve(connection: socket.socket) -> None:
        for number, _ in enumerate(requests(connection)):
            if number == 5:
                time.sleep(stall_ms / 1000)
            connection.sendall(OK)

    with serving(serve) as server:
        plan = replace(producer(server.port, Goal(requests=40)), interval_ns=interval_ms * MS)
        found = latencies_ms(run(plan))
    assert len(found) == 40
    # Planned every 10 ms: the stall delays the request that meets it and those planned behind it.
    assert found[5] >= stall_ms
    assert found[10] >= stall_ms - 6 * interval_ms
    assert sum(latency >= interval_ms for latency in found) >= stall_ms // interval_ms - 2


@pytest.mark.slow
def test_answers_may_come_in_pieces() -> None:
    def serve(connection: socket.socket) -> None:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for _ in requests(connection):
            for at in range(len(OK)):
                connection.sendall(OK[at : at + 1])

    with serving(serve) as server:
        result = run(producer(server.port, Goal(requests=20)))
    assert len(latencies_ms(result)) == 20


@pytest.mark.slow
def test_frames_larger_than_socket_buffers_arrive_whole() -> None:
    def serve(connection: socket.socket) -> None:
        for _ in requests(connection):
            connection.sendall(OK)

    with serving(serve) as server:
        plan = replace(
            producer(server.port, Goal(requests=3)), message_size=Range(9_000_000, 9_000_000)
        )
        assert len(latencies_ms(run(plan))) == 3


@pytest.mark.slow
def test_a_refusal_ends_the_run_with_its_name() -> None:
    def serve(connection: socket.socket) -> None:
        for _ in requests(connection):
            connection.sendall(RESPONSE_HEADER.pack(1009, 0))

    with serving(serve) as server, pytest.raises(LoadFailed, match=r"StreamIdNotFound.*1009"):
        run(producer(server.port, Goal(requests=3)))


@pytest.mark.slow
def test_a_server_that_hangs_up() -> None:
    def serve(connection: socket.socket) -> None:
        next(requests(connection))

    with serving(serve) as server, pytest.raises(LoadFailed, match=r"closed the connection|reset"):
        run(producer(server.port, Goal(requests=3)))


def test_cpu_between_two_moments_is_interpolated() -> None:
    def sample(at: int, cpu: int) -> Sample:
        return Sample(at, {"shard 0": Usage(cpu, 0, 0, 0, 0)}, DirtyPages(0, 0))

    samples = [sample(0, 0), sample(100, 50), sample(200, 150)]
    assert cpu_ns_between(samples, "shard 0", 50, 150) == 100 - 25
    assert cpu_ns_between(samples, "shard 0", 0, 999) == 150
    assert cpu_ns_between(samples, "nothing", 0, 100) == 0


def test_what_others_used_is_what_no_watched_thread_did() -> None:
    def sample(at: int, cpu: int, busy: int) -> Sample:
        return Sample(at, {"shard 0": Usage(cpu, 0, 0, 0, 0)}, DirtyPages(0, 0), busy)

    samples = [sample(0, 0, 1000), sample(100, 60, 1160), sample(200, 120, 1320)]
    assert foreign_share(samples, 0, 200) == 1.0
    assert foreign_share(samples, 0, 100) == 1.0
    assert foreign_share([], 0, 100) == 0.0
    assert 0 < busy_ns() <= busy_ns()


def test_write_back_throttles_between_the_thresholds() -> None:
    assert DirtyPages(100, 100).throttled
    assert not DirtyPages(99, 100).throttled
    assert not DirtyPages(5, 0).throttled
    assert dirty_pages().throttle_at > 0


def test_a_process_that_is_gone_uses_nothing() -> None:
    assert usage_of(2**22 - 1) is None


def test_what_the_counters_say() -> None:
    assert _perf_calls("12,,syscalls:sys_enter_fdatasync,145,100.00,,\n") == 12
    assert _perf_calls("<not counted>,,syscalls:sys_enter_fdatasync,0,100.00,,") is None
    said = "% time     seconds  usecs/call     calls    errors syscall\n"
    said += "100.00    0.001000          10        77           fdatasync\n"
    assert _strace_calls(said) == 77
    assert _strace_calls("nothing") is None
