"""Killing a process at an exact system call, with strace."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

TRACER_TIMEOUT_S: Final = 90.0


@contextmanager
def killed_at(pid: int, system_calls: str, number: int, trace: Path) -> Iterator[None]:
    """SIGKILL for a process when it enters the nth of these system calls from now on."""
    command = ["strace", "-f", "-p", str(pid), "-o", str(trace), "-e", f"trace={system_calls}"]
    command += ["-e", f"inject={system_calls}:signal=SIGKILL:when={number}"]
    tracer = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    assert tracer.stderr is not None
    try:
        attached = tracer.stderr.readline()
        assert "attached" in attached, attached
        yield
        # It ends with the process that it follows.
        tracer.wait(TRACER_TIMEOUT_S)
    finally:
        tracer.kill()
        tracer.wait()
        tracer.stderr.close()
    assert "killed by SIGKILL" in trace.read_text()


@contextmanager
def failing_calls(
    pid: int, system_calls: str, error: str, when: str, trace: Path
) -> Iterator[None]:
    """These system calls of a process fail: `when` is "3" for the third from now on, "1+" for all.

    Until the end of the block, where the process goes on as if nothing had been.
    """
    command = ["strace", "-f", "-p", str(pid), "-o", str(trace), "-e", f"trace={system_calls}"]
    command += ["-e", f"inject={system_calls}:error={error}:when={when}"]
    tracer = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    assert tracer.stderr is not None
    try:
        attached = tracer.stderr.readline()
        assert "attached" in attached, attached
        yield
    finally:
        tracer.terminate()
        tracer.wait(TRACER_TIMEOUT_S)
        tracer.stderr.close()
