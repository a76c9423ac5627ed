"""Python's garbage collector, while much is made that stays.

A full collection looks at every object that may be part of a cycle. With thousands of partitions
that takes a worker 50 to 80 ms, and it finds nothing: partitions stay until their topic goes. So it
is off while they are recovered, and does not look at them later.

Always: what was made meanwhile is still freed by its last reference. Only a cycle among these
objects would stay.
"""

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def made_to_stay() -> Iterator[None]:
    """Have the collector never look at what is made until the end of the block."""
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()
