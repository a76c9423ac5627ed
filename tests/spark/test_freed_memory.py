"""Memory that stays with the process."""

import resource

import numpy as np

from borzoi.spark.freed_memory import keep_freed_memory

SIZE = 4 * 1024 * 1024


def test_memory_that_was_freed_is_not_asked_for_again() -> None:
    assert keep_freed_memory()
    np.ones(SIZE, np.uint8)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(20):
        np.ones(SIZE, np.uint8)
    faults = resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
    # New memory would be 1,024 pages each time.
    assert faults < SIZE // 4096
