"""Second processes for the tests of shared memory: started, awaited, and always ended by id."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

CHILD = Path(__file__).with_name("child.py")
ROOT = Path(__file__).resolve().parents[2]

StartChild = Callable[..., subprocess.Popen[bytes]]


@pytest.fixture
def start_child() -> Iterator[StartChild]:
    """Starts child.py in a role, with numbers as arguments and the descriptors of `fds`."""
    children: list[subprocess.Popen[bytes]] = []

    def start(role: str, *numbers: int, fds: Sequence[int] = ()) -> subprocess.Popen[bytes]:
        search = os.pathsep.join([str(ROOT), str(ROOT / "src")])
        child = subprocess.Popen(
            [sys.executable, str(CHILD), role, *map(str, numbers)],
            pass_fds=list(fds),
            env={**os.environ, "PYTHONPATH": search},
        )
        children.append(child)
        return child

    yield start
    for child in children:
        child.kill()
        child.wait()
