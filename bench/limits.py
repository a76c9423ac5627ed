"""Measures the bare limits of this machine, with the same generator that loads the broker.

Each figure is the best of the variants of its program (bare.py), because a limit is what can be
reached at all. The program runs where shard 0 would, the generator where it always runs. Files
lie in the directory of the broker's data, so that both meet the same disk.
"""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from borzoi.bench.batches import build_send_frames
from borzoi.bench.cpus import CpuPlan
from borzoi.bench.load import run_load
from borzoi.bench.plans import ActorPlan, Goal, Role
from borzoi.bench.quantities import MB, NS_PER_S, Range
from borzoi.bench.rates import Rate, rate_of

STOP_TIMEOUT_S: Final = 10.0
ECHO_CONNECTIONS: Final = 32
ECHO_SIZE: Final = 64
SLICED_FILE_SIZE: Final = 256 * MB
SLOTS_MAX: Final = 4096
SYNC_BLOCK: Final = bytes(4096)
WARMUP_NS: Final = 100_000_000
APPENDING: Final = ("append-loop", "append-uvloop")
SLICING: Final = ("slices-loop", "slices-uvloop")


@dataclass(frozen=True, slots=True)
class Limits:
    """The bare limits of one machine for one message size and batch size."""

    append: Rate
    slices: Rate
    echo: Rate
    fdatasyncs_per_s: float

    def as_json(self) -> dict[str, object]:
        """Returns the members of a JSON object."""
        return {
            "append": self.append.as_json(),
            "slices": self.slices.as_json(),
            "echo": self.echo.as_json(),
            "fdatasyncs_per_s": self.fdatasyncs_per_s,
        }


def measure_limits(
    cpus: CpuPlan, message_size: int, messages_per_batch: int, duration_ns: int, directory: Path
) -> Limits:
    """All four, one after the other."""
    return Limits(
        append=append_limit(cpus, message_size, messages_per_batch, duration_ns, directory),
        slices=slices_limit(cpus, message_size, messages_per_batch, duration_ns, directory),
        echo=echo_limit(cpus, duration_ns),
        fdatasyncs_per_s=sync_limit(duration_ns, directory),
    )


def append_limit(
    cpus: CpuPlan,
    message_size: int,
    messages_per_batch: int,
    duration_ns: int,
    directory: Path,
    variants: Sequence[str] = APPENDING,
) -> Rate:
    """Receive frames of this shape and append them to a file, on one connection."""
    sizes, counts = Range(message_size, message_size), Range(messages_per_batch, messages_per_batch)
    frame = build_send_frames(0, 0, 0, sizes, counts, seed=1)[0]
    rates = []
    for variant in variants:
        with (
            tempfile.NamedTemporaryFile(dir=directory) as file,
            _bare(variant, cpus, len(frame.frame), 1, Path(file.name)) as (port, pid),
        ):
            actor = _actor(Role.PRODUCER, 1, port, duration_ns, sizes, counts)
            rates.append(_rate([actor], cpus, pid, variant))
    return max(rates, key=lambda rate: rate.bytes_per_s)


def slices_limit(
    cpus: CpuPlan,
    message_size: int,
    messages_per_batch: int,
    duration_ns: int,
    directory: Path,
    variants: Sequence[str] = SLICING,
) -> Rate:
    """Answer polls of this shape with slices of a mapped file, on one connection."""
    sizes, counts = Range(message_size, message_size), Range(messages_per_batch, messages_per_batch)
    frame = build_send_frames(0, 0, 0, sizes, counts, seed=1)[0]
    batch = bytes(memoryview(frame.frame)[-frame.total_bytes :])
    rates = []
    with tempfile.NamedTemporaryFile(dir=directory) as file:
        slots = min(SLOTS_MAX, max(1, SLICED_FILE_SIZE // len(batch)))
        for number in range(slots):
            file.write(_stamped(batch, number * messages_per_batch))
        file.flush()
        last = slots * messages_per_batch
        for variant in variants:
            path = Path(file.name)
            with _bare(variant, cpus, len(batch), messages_per_batch, path) as (port, pid):
                actor = _actor(Role.CONSUMER, 1, port, duration_ns, sizes, counts, wraps_at=last)
                rates.append(_rate([actor], cpus, pid, variant))
    return max(rates, key=lambda rate: rate.bytes_per_s)


def echo_limit(cpus: CpuPlan, duration_ns: int, size: int = ECHO_SIZE) -> Rate:
    """Small frames there and back through uvloop, on many connections."""
    one = Range(1, 1)
    with _bare("echo", cpus, size, 1, Path(os.devnull)) as (port, pid):
        actors = [
            _actor(Role.ECHO, number, port, duration_ns, one, one, echo_size=size)
            for number in range(1, ECHO_CONNECTIONS + 1)
        ]
        return _rate(actors, cpus, pid, "echo")


def sync_limit(duration_ns: int, directory: Path) -> float:
    """How often per second a small write can be brought to the disk."""
    with tempfile.NamedTemporaryFile(dir=directory) as file:
        began = time.monotonic_ns()
        count = 0
        while time.monotonic_ns() - began < duration_ns:
            os.pwrite(file.fileno(), SYNC_BLOCK, count * len(SYNC_BLOCK))
            os.fdatasync(file.fileno())
            count += 1
        return count * NS_PER_S / (time.monotonic_ns() - began)


def _rate(actors: list[ActorPlan], cpus: CpuPlan, pid: int, variant: str) -> Rate:
    result = run_load(actors, cpus.generator_cpus[:1], warmup_ns=WARMUP_NS, watched={variant: pid})
    return rate_of(result, (variant,), variant)


def _actor(
    role: Role,
    number: int,
    port: int,
    duration_ns: int,
    sizes: Range,
    counts: Range,
    *,
    wraps_at: int | None = None,
    echo_size: int = ECHO_SIZE,
) -> ActorPlan:
    return ActorPlan(
        role=role,
        actor_id=number,
        host="127.0.0.1",
        port=port,
        credentials=None,
        goal=Goal(duration_ns=duration_ns),
        message_size=sizes,
        messages_per_batch=counts,
        wraps_at=wraps_at,
        echo_size=echo_size,
    )


def _stamped(batch: bytes, offset: int) -> bytes:
    """The batch with the offset of its first message set, which the consumer looks at."""
    return batch[:24] + offset.to_bytes(8, "little") + batch[32:]


@contextmanager
def _bare(
    variant: str, cpus: CpuPlan, size: int, count: int, path: Path
) -> Iterator[tuple[int, int]]:
    """A bare program while it is needed: its port and its process id."""
    cpu = str(cpus.shard_cpus[0]) if cpus.shard_cpus and not cpus.shared else "-"
    process = subprocess.Popen(
        [sys.executable, "-m", "borzoi.bench.bare", variant, cpu, str(size), str(count), str(path)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        yield int(process.stdout.readline()), process.pid
    finally:
        process.kill()
        process.wait(STOP_TIMEOUT_S)
        assert process.stdout is not None
        process.stdout.close()
