"""Killing a process at an exact system call, or letting calls fail or take long, with strace.

Calls are chosen by the path they concern, not by their number: strace counts separately for each
thread and for each system call, and the threads of a worker share the work as it comes. A file is
meant by its name or by a descriptor of it; of a rename only the old name counts (strace 6.1).

What is to be hit must not begin before the block does: on a busy machine strace may need longer to
attach than the worker needs for everything.
"""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from os import PathLike
from pathlib import Path
from typing import Final

import psutil

TRACER_TIMEOUT_S: Final = 60.0
LETTING_GO_S: Final = 20.0

RENAMES: Final = "rename,renameat,renameat2"
UNLINKS: Final = "unlink,unlinkat"


@contextmanager
def killed_at(
    pid: int, system_calls: str, trace: Path, *paths: str | PathLike[str]
) -> Iterator[None]:
    """SIGKILL for a process when any thread of it enters one of these system calls.

    Only calls for one of the paths count; without paths, all do.
    """
    with _traced(pid, system_calls, "signal=SIGKILL", trace, paths) as tracer:
        yield
        try:
            # It ends with the process that it follows.
            tracer.wait(TRACER_TIMEOUT_S)
        except subprocess.TimeoutExpired as error:
            error.add_note(f"no {system_calls} of {paths} came:\n{trace.read_text()}")
            raise
    traced = trace.read_text()
    assert "killed by SIGKILL" in traced, traced
    # By us, that is: it was entered and never returned from.
    assert "(" in traced, traced
    assert "= 0" not in traced, traced


@contextmanager
def failing_calls(
    pid: int, system_calls: str, error: str, when: str, trace: Path, *paths: str | PathLike[str]
) -> Iterator[None]:
    """These system calls of a process fail until the end of the block.

    `when` is "3" for the third from now on of each thread, "1+" for all. Afterwards the process
    goes on as if nothing had been.
    """
    with _traced(pid, system_calls, f"error={error}:when={when}", trace, paths):
        yield


@contextmanager
def slow_calls(pid: int, system_calls: str, delay_ms: int, trace: Path) -> Iterator[None]:
    """Each of these system calls of a process begins so much later, until the end of the block."""
    with _traced(pid, system_calls, f"delay_enter={delay_ms * 1000}", trace, ()):
        yield


@contextmanager
def _traced(
    pid: int, system_calls: str, fault: str, trace: Path, paths: tuple[str | PathLike[str], ...]
) -> Iterator[subprocess.Popen[str]]:
    command = ["strace", "-f", "-p", str(pid), "-o", str(trace), "-e", f"trace={system_calls}"]
    for path in paths:
        command += ["-P", str(path)]
    command += ["-e", f"inject={system_calls}:{fault}"]
    tracer = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    assert tracer.stderr is not None
    try:
        attached = tracer.stderr.readline()
        assert "attached" in attached, attached
        yield tracer
    finally:
        _end(tracer, pid)
        tracer.stderr.close()


def _end(tracer: subprocess.Popen[str], pid: int) -> None:
    """End the tracer, which lets go of the process first.

    strace 6.1 can wait for ever for a process that was killed while it delayed a call of it: there
    is nothing to let go of then.
    """
    tracer.terminate()
    try:
        tracer.wait(LETTING_GO_S)
    except subprocess.TimeoutExpired:
        if not _is_dead(pid):
            raise
        tracer.kill()
        tracer.wait(TRACER_TIMEOUT_S)


def _is_dead(pid: int) -> bool:
    try:
        return bool(psutil.Process(pid).status() == psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return True
