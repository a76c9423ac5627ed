"""What `python -m MODULE --help` prints, for many modules: each in a fork of one warm process.

A bare interpreter takes a second of CPU for what most of these import.
"""

import importlib
import json
import os
import runpy
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from tests.tidy.repository import ROOT

# What most of them import.
WARM: Final = ("tests.crash.kill_cycles", "tests.clients.mixed", "tests.hostile.neighbours")
TIMEOUT_S: Final = 300.0


def helps_of(modules: Iterable[str], directory: Path) -> dict[str, str]:
    """What each prints; the files of it are written to a directory."""
    names = sorted(set(modules))
    command = [sys.executable, "-m", __name__, str(directory), *names]
    done = subprocess.run(
        command, cwd=ROOT, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
        timeout=TIMEOUT_S,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    codes = json.loads(done.stdout)
    said = {name: (directory / name).read_text() for name in names}
    assert {name: (code, said[name]) for name, code in codes.items() if code} == {}
    return said


def _help_of(module: str, file: Path) -> int:
    """The exit code of a child that prints the help of a module into a file."""
    child = os.fork()
    if child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    with file.open("wb") as output:
        os.dup2(output.fileno(), 1)
        os.dup2(output.fileno(), 2)
    sys.argv = [module, "--help"]
    sys.modules.pop(module, None)
    runpy.run_module(module, run_name="__main__", alter_sys=True)
    raise SystemExit(0)


def main() -> None:
    """Print the exit code of each module."""
    directory, *modules = sys.argv[1:]
    for name in WARM:
        importlib.import_module(name)
    print(json.dumps({name: _help_of(name, Path(directory) / name) for name in modules}))


if __name__ == "__main__":
    main()
