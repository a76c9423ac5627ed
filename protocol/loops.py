"""Which loops over messages run in this process: compiled ones, or the same in plain Python.

Decided once, at import, for all of them. The compiled modules are there when they could be built
at installation. They are passed over when one is missing or older than the sources around it, or
when the environment says BORZOI_PLAIN_LOOPS=1, which is how to rule them out when something looks
wrong. Reading that is the only thing in this package that looks at the world outside.
"""

import os
from typing import Final

from borzoi.protocol.loops_xxh3 import xxh3_address
from borzoi.protocol.plain_loops import LOOPS_VERSION

PLAIN_LOOPS_VARIABLE: Final = "BORZOI_PLAIN_LOOPS"


def compiled_loops_can_run() -> bool:
    if os.environ.get(PLAIN_LOOPS_VARIABLE) == "1":
        return False
    try:
        from borzoi.protocol import _loops, _seen_ids
    except ImportError:
        return False
    if {_loops.LOOPS_VERSION, _seen_ids.LOOPS_VERSION} != {LOOPS_VERSION}:
        return False
    _loops.use_hash(xxh3_address())
    return True


LOOPS: Final = "compiled" if compiled_loops_can_run() else "plain"
