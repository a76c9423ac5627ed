"""The supervisor's end of the channel to the nursery (nursery.py): workers are asked for here.

Owns the nursery's process and starts another one when it ends. Waiting until it is ready happens in
the loop, as long as imports take. A fork is waited for in place, which takes milliseconds. So
nothing else of the supervisor changes between a specification and the worker that has it.

Bounds: READY_TIMEOUT_S and STARTS_MAX for a nursery that does not get ready, FORK_TIMEOUT_S for one
that does not answer; it is killed then. Always: after a failed fork there is no worker.
"""

import asyncio
import ctypes
import logging
import os
import signal
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Final

from borzoi.router.fds import FDS_MAX, BadMessage, ChannelClosed, receive_message, send_message
from borzoi.shards.nursery.process import (
    BORN,
    MORE,
    ORDER,
    READY,
    NurseryProcess,
    start_nursery,
)

LOG: Final = logging.getLogger(__name__)

PR_SET_CHILD_SUBREAPER: Final = 36
READY_TIMEOUT_S: Final = 30.0
STARTS_MAX: Final = 3
FORK_TIMEOUT_S: Final = 5.0
# One that ends sooner is replaced when a worker is needed, not at once and again and again.
LIVED_LONG_S: Final = 3.0


class NurseryFailed(Exception):
    """There is no worker, and the nursery that was to fork it has ended."""


class ChildProcess:
    """A worker's process, our child although we did not fork it."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self._exit_code: int | None = None

    def kill(self) -> None:
        """SIGKILL, if it was not waited for yet."""
        if self._exit_code is None:
            os.kill(self.pid, signal.SIGKILL)

    def wait(self) -> int:
        """Its exit code once it has ended, minus the signal if one ended it."""
        if self._exit_code is None:
            self._exit_code = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        return self._exit_code


class Nursery:
    """Where the workers of one run come from. All but the construction happens in a loop."""

    def __init__(self, process: NurseryProcess) -> None:
        """Takes the process over: close ends it."""
        self._process: NurseryProcess | None = process
        self._started_at = time.monotonic()
        # Of the process of now: True once it is ready, False if it ends before.
        self._ready: asyncio.Future[bool] | None = None

    @property
    def pid(self) -> int | None:
        """The process id of the nursery, if one lives."""
        return self._process.pid if self._process is not None else None

    async def wait_ready(self) -> None:
        """Wait until workers can be forked; NurseryFailed if that cannot be reached."""
        for _ in range(STARTS_MAX):
            if self._process is None:
                self._start()
            if self._ready is None:
                self._watch()
            assert self._ready is not None
            with suppress(TimeoutError):
                async with asyncio.timeout(READY_TIMEOUT_S):
                    if await asyncio.shield(self._ready):
                        return
            LOG.error("the nursery of the workers did not get ready")
            self._end()
        raise NurseryFailed(f"{STARTS_MAX} nurseries did not get ready, so there is no worker")

    def fork(self, fds: Sequence[int]) -> ChildProcess:
        """A worker with these descriptors; NurseryFailed if there is none."""
        process = self._process
        if process is None or self._ready is None or not self._ready.done():
            raise NurseryFailed("the nursery has ended")
        channel = process.channel
        try:
            channel.settimeout(FORK_TIMEOUT_S)
            send_message(channel, ORDER.pack(len(fds)), fds[:FDS_MAX])
            for begin in range(FDS_MAX, len(fds), FDS_MAX):
                send_message(channel, MORE, fds[begin : begin + FDS_MAX])
            payload, _ = receive_message(channel)
            channel.setblocking(False)
        except (ChannelClosed, OSError) as error:
            self._end()
            raise NurseryFailed(f"the nursery does not answer: {error}") from error
        (pid,) = BORN.unpack(payload)
        if pid == 0:
            raise NurseryFailed("the nursery cannot fork")
        return ChildProcess(pid)

    def close(self) -> None:
        """End it. May be repeated."""
        self._end()

    def _start(self) -> None:
        self._process = start_nursery()
        self._started_at = time.monotonic()

    def _watch(self) -> None:
        assert self._process is not None
        loop = asyncio.get_running_loop()
        self._ready = loop.create_future()
        self._process.channel.setblocking(False)
        loop.add_reader(self._process.channel.fileno(), self._readable)

    def _readable(self) -> None:
        assert self._process is not None
        assert self._ready is not None
        try:
            payload, _ = receive_message(self._process.channel)
        except BlockingIOError:
            return
        except ChannelClosed:
            self._gone()
            return
        assert payload == READY, f"the nursery says {payload!r} unasked"
        self._ready.set_result(True)

    def _gone(self) -> None:
        """It has ended by itself. A worker that dies later must not wait for the next one."""
        was_ready = self._ready is not None and self._ready.done()
        lived_s = time.monotonic() - self._started_at
        LOG.error("the nursery of the workers ended after %.1f s; all workers live on", lived_s)
        self._end()
        if was_ready and lived_s > LIVED_LONG_S:
            self._start()
            self._watch()

    def _end(self) -> None:
        process, self._process = self._process, None
        ready, self._ready = self._ready, None
        if process is None:
            return
        if ready is not None:
            asyncio.get_running_loop().remove_reader(process.channel.fileno())
            if not ready.done():
                ready.set_result(False)
        process.kill()
        _kill_unknown(process)
        process.end()


def _kill_unknown(process: NurseryProcess) -> None:
    """Kills a worker that the nursery reports after the supervisor stopped waiting for it."""
    process.channel.setblocking(False)
    try:
        while True:
            payload, _ = receive_message(process.channel)
            if payload != READY and (pid := BORN.unpack(payload)[0]):
                late = ChildProcess(pid)
                late.kill()
                late.wait()
    except (ChannelClosed, BadMessage, BlockingIOError):
        return


def take_in_orphans() -> None:
    """Make this process the parent of descendants whose own parent ends: of forked workers."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error))


def reap_orphans(known: set[int]) -> None:
    """Let the kernel forget ended children that are none of `known`.

    What a worker started (a snapshot's commands) becomes ours when the worker is killed.
    """
    with suppress(ChildProcessError):
        while True:
            ended = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            if ended is None or ended.si_pid in known:
                return
            os.waitpid(ended.si_pid, 0)
