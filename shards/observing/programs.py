"""Programs that a snapshot starts: bounded in time and output, without our environment.

For a thread. Always: a program is gone when run_command() returns, and nothing is raised for one
that is missing, slow or fails; the text says so.
"""

import os
import select
import shutil
import subprocess
import time
from typing import Final

COMMAND_TIME_MAX_S: Final = 5.0
COMMAND_PATH: Final = "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"
# No HOME: a user's own settings make top show whole command lines, which may hold passwords.
COMMAND_ENVIRONMENT: Final = {"PATH": COMMAND_PATH, "LC_ALL": "C", "COLUMNS": "200"}


def run_command(
    arguments: tuple[str, ...],
    deadline: float,
    size_max: int,
    *,
    time_max_s: float = COMMAND_TIME_MAX_S,
) -> bytes:
    """Returns what a program prints, or why there is nothing (more) of it."""
    program = shutil.which(arguments[0], path=COMMAND_PATH)
    if program is None:
        return f"{arguments[0]} is not installed here\n".encode()
    deadline = min(deadline, time.monotonic() + time_max_s)
    process = subprocess.Popen(
        [program, *arguments[1:]],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env=COMMAND_ENVIRONMENT,
        cwd="/",
    )
    assert process.stdout is not None
    try:
        output, ended = _read_until(process.stdout.fileno(), deadline, size_max)
    finally:
        # One that has ended by itself is only waited for by this.
        process.kill()
        process.stdout.close()
        code = process.wait()
    if not ended:
        return output + f"\n... {arguments[0]} was stopped: too slow or too much\n".encode()
    return output if code <= 0 else output + f"{arguments[0]} ended with {code}\n".encode()


def _read_until(fd: int, deadline: float, size_max: int) -> tuple[bytes, bool]:
    """Bytes until the end, the deadline or the bound; whether the end was reached."""
    # Not select(): a broker has descriptors above its limit of 1,024.
    poller = select.poll()
    poller.register(fd, select.POLLIN)
    parts: list[bytes] = []
    size = 0
    while size < size_max:
        left_ms = (deadline - time.monotonic()) * 1000
        if left_ms <= 0 or not poller.poll(left_ms):
            return b"".join(parts), False
        part = os.read(fd, min(65536, size_max - size))
        if not part:
            return b"".join(parts), True
        parts.append(part)
        size += len(part)
    return b"".join(parts), False
