"""The process of a worker, as the nursery has forked it (nursery.py).

Pins itself, sets up its log and its loop, runs the worker, and leaves with the right exit code.
That is 0 after an order to stop, and INCOMPLETE if not everything reached the disk then. It is
CANNOT_BOOT when starting again would not help, and BROKEN when one of our own invariants does not
hold. If the supervisor dies, the kernel kills us.
"""

import asyncio
import ctypes
import logging
import os
import signal
from pathlib import Path
from typing import Final, NoReturn

import uvloop

from borzoi.shards.config import from_json
from borzoi.shards.directory.log_lines import LineHandler, set_up_logging, shard_speaker
from borzoi.shards.faults.crash_reports import trace_into
from borzoi.shards.host.allocator import keep_freed_memory
from borzoi.shards.host.cpus import pin_to_cpu, set_memory_policy
from borzoi.shards.orders.spec import BROKEN, CANNOT_BOOT, Event, WorkerSpec
from borzoi.shards.run.worker import Worker
from borzoi.shards.wiring.cannot_boot import CannotBoot

LOG: Final = logging.getLogger(__name__)

PR_SET_PDEATHSIG: Final = 1


def run_worker(spec: WorkerSpec) -> NoReturn:
    """The process: set up, run, and leave with the right exit code."""
    trace_into(spec.trace_fd)
    # The supervisor gives the order to stop; a terminal's Ctrl-C or end reaches the whole group.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    keep_freed_memory()
    warnings = [pin_to_cpu(spec.cpu), set_memory_policy(spec.node)]
    config = from_json(bytes(spec.config))
    handler = set_up_logging(
        config.system.logging,
        Path(config.system.path),
        shard_speaker(spec.shard),
        {"RUST_LOG": spec.rust_log},
    )
    for warning in warnings:
        if warning is not None:
            LOG.warning("%s", warning)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.get_loop().set_exception_handler(_broken_in_callback)
        code = runner.run(_run(spec, handler))
    # Threads that still wait for a disk must not keep a stopped worker alive.
    logging.shutdown()
    os._exit(code)


async def _run(spec: WorkerSpec, handler: LineHandler) -> int:
    loop = asyncio.get_running_loop()
    worker = Worker(spec, loop, handler, die)
    try:
        return await worker.run()
    except CannotBoot as error:
        LOG.error("cannot start: %s", error)
        worker.tell(Event("cannot_boot", reason=str(error)))
        os._exit(CANNOT_BOOT)
    except Exception as error:
        die(error)


def _broken_in_callback(_loop: asyncio.AbstractEventLoop, context: dict[str, object]) -> None:
    error = context.get("exception")
    if isinstance(error, OSError):
        LOG.warning("%s: %s", context.get("message"), error)
        return
    die(error if isinstance(error, BaseException) else RuntimeError(str(context.get("message"))))


def die(error: BaseException) -> NoReturn:
    """A broken invariant: end loudly; recovery is what the supervisor's restart is tested for."""
    LOG.critical("a fault of ours, this worker ends", exc_info=error)
    logging.shutdown()
    os._exit(BROKEN)


def die_with_parent(supervisor_pid: int) -> None:
    """Let the kernel kill this process when its parent dies; ends it if that is so already."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    # Not "is it process 1": in a container that is the supervisor itself.
    if os.getppid() != supervisor_pid:
        # It died before the kernel took note.
        os._exit(0)
