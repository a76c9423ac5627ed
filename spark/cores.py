"""How many tasks run at once, where that can be known.

Spark tells a source nothing of the kind. But where all of it runs on this machine the processes
that plan are children of ours. So session() writes the number into a file whose name they inherit.
Not the number itself. When a session is stopped its JVM goes on, with the environment it has, and
the next session may have another master.
"""

import atexit
import os
import re
import tempfile
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Final

CORES_FILE: Final = "BORZOI_SPARK_CORES_FILE"
LOCAL_MASTER: Final = re.compile(r"local(?:\[(\d+|\*)(?:,\s*(?:\d+|\*))?\])?")


def local_cores(master: str) -> int | None:
    """Of a Spark with this master; None where tasks run in other processes than its own."""
    found = LOCAL_MASTER.fullmatch(master)
    if found is None:
        return None
    count = found[1] or "1"
    return len(os.sched_getaffinity(0)) if count == "*" else int(count)


def inherited() -> dict[str, str]:
    """What the processes of a Spark have to inherit from this one."""
    return {CORES_FILE: str(_file_of(os.getpid()))}


def tell_master(master: str) -> None:
    """A session with this master runs, and no other one."""
    cores = local_cores(master)
    _file_of(os.getpid()).write_text("" if cores is None else str(cores))


def known_cores(environ: Mapping[str, str]) -> int | None:
    """Returns how many tasks run at once, if the environment names a file that says so."""
    name = environ.get(CORES_FILE, "")
    try:
        text = Path(name).read_text(errors="replace") if name else ""
    except OSError:
        return None  # of a process that has ended, or on another machine
    return int(text) if text.isdecimal() and int(text) > 0 else None


@cache
def _file_of(_process: int) -> Path:
    """One for each process that starts sessions, as long as it lives."""
    handle, name = tempfile.mkstemp(prefix="borzoi-spark-cores-")
    os.close(handle)
    atexit.register(Path(name).unlink, missing_ok=True)
    return Path(name)
