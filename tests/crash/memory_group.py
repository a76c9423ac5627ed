"""A memory cgroup of a test's own: processes that are started in it get no more than a limit.

Needs root and a cgroup file system that may be written, version 1 or 2; Unavailable says why not.
Sockets count: version 2 does that by itself, of version 1 it is asked for.
"""

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.crash.mounts import Unavailable

VERSION_1: Final = Path("/sys/fs/cgroup/memory")
VERSION_2: Final = Path("/sys/fs/cgroup")
REMOVE_TIMEOUT_S: Final = 30.0

ENTER: Final = 'echo $$ > "$0/cgroup.procs" && exec "$@"'


@dataclass(frozen=True)
class MemoryGroup:
    """One group, and what the kernel has noted about it."""

    directory: Path

    @property
    def wrapper(self) -> tuple[str, ...]:
        """In front of a command: it and all its children are in the group."""
        return ("sh", "-c", ENTER, str(self.directory))

    def kills(self) -> int:
        """How many processes the kernel has killed because the group had no memory left."""
        for name in ("memory.oom_control", "memory.events"):
            path = self.directory / name
            if path.exists():
                fields = dict(line.split() for line in path.read_text().splitlines())
                return int(fields["oom_kill"])
        raise AssertionError(f"{self.directory} does not tell of kills")


@contextmanager
def memory_group(limit: int) -> Iterator[MemoryGroup]:
    """Until the end, by when everything that was started in it has to be gone."""
    if os.geteuid() != 0:
        raise Unavailable("a cgroup needs root")
    group = MemoryGroup(_top() / f"borzoi-test-{os.getpid()}-{time.monotonic_ns()}")
    try:
        group.directory.mkdir()
        _limit(group.directory, limit)
    except OSError as error:
        with suppress(OSError):
            group.directory.rmdir()
        raise Unavailable(f"no memory cgroup can be made: {error}") from error
    try:
        yield group
    finally:
        _remove(group.directory)


def _top() -> Path:
    if (VERSION_1 / "memory.limit_in_bytes").exists():
        return VERSION_1
    controlled = VERSION_2 / "cgroup.subtree_control"
    if controlled.exists() and "memory" in controlled.read_text().split():
        return VERSION_2
    raise Unavailable("there is no cgroup file system with a memory controller")


def _limit(directory: Path, limit: int) -> None:
    if directory.parent == VERSION_2:
        (directory / "memory.max").write_text(str(limit))
        with suppress(FileNotFoundError):
            (directory / "memory.swap.max").write_text("0")
    else:
        (directory / "memory.limit_in_bytes").write_text(str(limit))
        (directory / "memory.kmem.tcp.limit_in_bytes").write_text(str(limit))
        # Not there without swap.
        with suppress(FileNotFoundError):
            (directory / "memory.memsw.limit_in_bytes").write_text(str(limit))


def _remove(directory: Path) -> None:
    """The kernel lets go of the last process a moment after it is gone."""
    deadline = time.monotonic() + REMOVE_TIMEOUT_S
    while True:
        try:
            return directory.rmdir()
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)
