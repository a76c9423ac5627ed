"""The nursery: a process that has imported all that a worker needs, and forks workers on order.

A forked worker begins within milliseconds. One that has to import first takes a quarter of a
second, and several times that where no bytecode is kept. Forking is safe here and nowhere else:
this process has one thread, no loop, no log and no file but its channel to the supervisor. The
messages on that are in nursery/process.py.

Workers are children of the supervisor: a process in between forks the worker and ends, and the
supervisor takes in orphans (nursery/link.py). Exit codes, pidfds and the death with the supervisor
are as if it had forked them itself. The end of the nursery harms no worker.

Always: a worker begins only after the supervisor was sent its process id. One that the supervisor
may not know of ends without having touched anything.
"""

import ctypes
import gc
import os
import resource
import signal
import socket
import sys
from pathlib import Path
from typing import Final, NamedTuple

from borzoi.router.fds import ChannelClosed, receive_message, send_message
from borzoi.shards.host.file_limits import raise_file_limit
from borzoi.shards.nursery.process import BORN, NAME, ORDER, READY
from borzoi.shards.orders.spec import WorkerSpec, read_spec
from borzoi.shards.run.worker_process import die_with_parent, run_worker

# Before the descriptors of WorkerSpec.fds(): the specification and the lock.
LEADING_FDS: Final = 2
# The place of arg_end in /proc/PID/stat, counted behind the name of the program.
ARG_END_AT: Final = 46


class Unborn(NamedTuple):
    """A worker before it may begin: its descriptors, and the pipe that says so."""

    fds: list[int]
    go: int


def main() -> None:
    """Serve orders until the supervisor is gone; in a forked process, be that worker.

    The arguments are those that nursery/process.py gives: the channel, and a name.
    """
    channel = _set_up(int(sys.argv[1]))
    unborn = _serve(channel)
    if unborn is None:
        return
    channel.close()
    if not os.read(unborn.go, 1):
        # The nursery ended before the supervisor heard of us.
        os._exit(0)
    os.close(unborn.go)
    spec = worker_spec(unborn.fds)
    name_process(f"shard-{spec.shard:04}")
    die_with_parent(spec.supervisor_pid)
    run_worker(spec)


def _set_up(channel_fd: int) -> socket.socket:
    # If the supervisor is gone already, the channel says so.
    die_with_parent(os.getppid())
    # What the starter of the broker left open is not for workers.
    os.closerange(3, channel_fd)
    os.closerange(channel_fd + 1, resource.getrlimit(resource.RLIMIT_NOFILE)[0])
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    os.umask(0o077)
    raise_file_limit()
    channel = socket.socket(fileno=channel_fd)
    # What is imported stays: a collection in a worker must not copy all its pages.
    gc.freeze()
    gc.enable()
    return channel


def _serve(channel: socket.socket) -> Unborn | None:
    """None at the end of the nursery. Returns as well in every process that is to be a worker."""
    try:
        send_message(channel, READY)
        while True:
            fds = _take_order(channel)
            born = _fork_worker(fds)
            if isinstance(born, Unborn):
                return born
            pid, go = born
            for fd in fds:
                os.close(fd)
            send_message(channel, BORN.pack(pid))
            if pid:
                os.write(go, b"!")
            os.close(go)
    except ChannelClosed:
        return None


def _take_order(channel: socket.socket) -> list[int]:
    payload, fds = receive_message(channel)
    (wanted,) = ORDER.unpack(payload)
    while len(fds) < wanted:
        fds += receive_message(channel)[1]
    return fds


def _fork_worker(fds: list[int]) -> Unborn | tuple[int, int]:
    """In the worker its Unborn; in the nursery its process id, 0 if there is none, and the pipe."""
    assert len(os.listdir("/proc/self/task")) == 1, "a process with threads must not fork"
    wait_go, go = os.pipe()
    hear, tell = os.pipe()
    try:
        between = os.fork()
    except OSError:
        between = -1
    if between == 0:
        os.close(hear)
        os.close(go)
        try:
            pid = os.fork()
        except OSError:
            os._exit(1)
        if pid:
            os.write(tell, BORN.pack(pid))
            os._exit(0)
        os.close(tell)
        return Unborn(fds, wait_go)
    os.close(tell)
    os.close(wait_go)
    born = os.read(hear, BORN.size)
    os.close(hear)
    if between > 0:
        # Only then is the worker a child of the supervisor.
        os.waitpid(between, 0)
    return (BORN.unpack(born)[0] if born else 0), go


def worker_spec(fds: list[int]) -> WorkerSpec:
    """Returns the worker's specification, with the numbers that its descriptors have here."""
    return read_spec(fds[0]).renumbered(fds[LEADING_FDS:])


def name_process(name: str) -> None:
    """Show `name` as the last argument in lists of processes; changes nothing where it cannot.

    There is no call for that: the arguments are overwritten where they lie.
    """
    assert len(name) == len(NAME)
    status = Path("/proc/self/stat").read_text(encoding="utf-8", errors="replace")
    arg_end = int(status.rpartition(")")[2].split()[ARG_END_AT])
    address = arg_end - 1 - len(NAME)
    # Kernels that hide the address tell 0.
    if arg_end and ctypes.string_at(address, len(NAME)) == NAME.encode():
        ctypes.memmove(address, name.encode(), len(NAME))
