"""How many tasks run at once, where that can be known.

Spark tells a source nothing of the kind. But where all of it runs on this machine the processes
that plan are children of ours: session() leaves the number in their environment.
"""

import os
import re
from collections.abc import Mapping
from typing import Final

CORES: Final = "BORZOI_SPARK_CORES"
LOCAL_MASTER: Final = re.compile(r"local(?:\[(\d+|\*)(?:,\s*(?:\d+|\*))?\])?")


def local_cores(master: str) -> int | None:
    """Of a Spark with this master; None where tasks run in other processes than its own."""
    found = LOCAL_MASTER.fullmatch(master)
    if found is None:
        return None
    count = found[1] or "1"
    return len(os.sched_getaffinity(0)) if count == "*" else int(count)


def environment_of(master: str) -> dict[str, str]:
    """What the processes of such a Spark have to inherit."""
    cores = local_cores(master)
    return {CORES: "" if cores is None else str(cores)}


def known_cores(environ: Mapping[str, str]) -> int | None:
    text = environ.get(CORES, "")
    return int(text) if text.isdecimal() and int(text) > 0 else None
