"""Which loops over messages run in this process: compiled ones, or the same in plain Python.

Decided once, at import, for all of them. The compiled modules are there when they could be built
at installation. They are passed over when one is missing or older than the sources around it, and
on machines that are not little-endian. BORZOI_PLAIN_LOOPS=1 in the environment rules them out, for
when something looks wrong. Reading that is the only thing in this package that looks at the world
outside.
"""

import os
import sys
from typing import Final

from borzoi.protocol.loops_xxh3 import xxh3_address

# Raised with every change of what a loop takes, does or returns: a compiled module of another
# version, left over from an older checkout, is not used. _messages.pxd has it as well.
LOOPS_VERSION: Final = 15

PLAIN_LOOPS_VARIABLE: Final = "BORZOI_PLAIN_LOOPS"


def compiled_loops_can_run() -> bool:
    """Whether all compiled modules are there, of this version, and not ruled out."""
    if os.environ.get(PLAIN_LOOPS_VARIABLE) == "1" or sys.byteorder != "little":
        return False
    try:
        from borzoi.protocol import (
            _arriving,
            _client,
            _heads,
            _leaving,
            _log,
            _requests,
            _seals,
            _seen_ids,
            _websocket,
        )
    except ImportError:
        return False
    modules = (
        *(_arriving, _client, _heads, _leaving, _log),
        *(_requests, _seals, _seen_ids, _websocket),
    )
    if any(module.LOOPS_VERSION != LOOPS_VERSION for module in modules):
        return False
    _log.use_hash(xxh3_address())
    return True


LOOPS: Final = "compiled" if compiled_loops_can_run() else "plain"
