"""Counts the fdatasync calls of a process from outside, for a while.

With perf, which costs the process next to nothing. Without perf it uses strace, which stops the
process at every call and so makes groups larger than they are by themselves. The note says which
one it was. Neither there, or not allowed: SyncCounterMissing.
"""

import re
import shutil
import signal
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Final

STOP_TIMEOUT_S: Final = 10.0
PERF_EVENT: Final = "syscalls:sys_enter_fdatasync"


class SyncCounterMissing(Exception):
    """Nothing on this machine can count the calls; the text says what to install."""


@dataclass(frozen=True, slots=True)
class SyncCount:
    """How many calls were counted, and by which program."""

    calls: int
    counted_with: str


class SyncCounter:
    """Counts from construction to request_stop()."""

    def __init__(self, pid: int) -> None:
        self._name, command = _command(pid)
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            env={"LC_ALL": "C", "PATH": "/usr/sbin:/usr/bin:/sbin:/bin:/usr/local/bin"},
        )

    def request_stop(self) -> None:
        """Ends the counting; the process writes its figures then."""
        self._process.send_signal(signal.SIGINT)

    def result(self) -> SyncCount:
        """What was counted, once the counter has ended."""
        _, said = self._process.communicate(timeout=STOP_TIMEOUT_S)
        calls = _perf_calls(said) if self._name == "perf" else _strace_calls(said)
        if calls is None:
            raise SyncCounterMissing(f"{self._name} counted nothing: {said.strip()[-300:]}")
        return SyncCount(calls, self._name)


def _command(pid: int) -> tuple[str, list[str]]:
    if shutil.which("perf") and _perf_works():
        return "perf", ["perf", "stat", "-x", ",", "-e", PERF_EVENT, "-p", str(pid)]
    if shutil.which("strace"):
        return "strace", ["strace", "-f", "-c", "-e", "trace=fdatasync", "-p", str(pid)]
    raise SyncCounterMissing("neither perf nor strace can be used: install one of them")


def _perf_works() -> bool:
    """Whether this kernel lets us count that event at all."""
    event = Path("/sys/kernel/tracing/events/syscalls/sys_enter_fdatasync")
    command = ["perf", "stat", "-x", ",", "-e", PERF_EVENT, "true"]
    done = subprocess.run(command, capture_output=True, check=False, timeout=STOP_TIMEOUT_S)
    return done.returncode == 0 and b"not supported" not in done.stderr and event.exists()


def _perf_calls(said: str) -> int | None:
    """`12,,syscalls:sys_enter_fdatasync,...`; the count is first."""
    for line in said.splitlines():
        count, _, rest = line.partition(",")
        if PERF_EVENT in rest and count.isdigit():
            return int(count)
    return None


def _strace_calls(said: str) -> int | None:
    """`% time  seconds  usecs/call  calls  errors  syscall`; errors may be missing."""
    match = re.search(r"^\s*[\d.]+\s+[\d.]+\s+\d+\s+(\d+)(?:\s+\d+)?\s+fdatasync", said, re.M)
    return int(match[1]) if match else None
