"""Memory that was freed is used again without asking the kernel for pages."""

import subprocess
import sys

import pytest

from borzoi.shards.host.allocator import keep_freed_memory

ROUNDS = 50
SIZE = 1_100_000
PAGES = SIZE // 4096
PROGRAM = """
import resource
from borzoi.shards.host.allocator import keep_freed_memory
if {keeps}:
    assert keep_freed_memory()
bytearray({size})
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range({rounds}):
    bytearray({size})
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def faults(*, keeps: bool) -> int:
    """How often a new process faulted while it made and freed the same piece again and again."""
    program = PROGRAM.format(keeps=keeps, size=SIZE, rounds=ROUNDS)
    found = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    return int(found.stdout)


def test_a_piece_that_was_freed_is_at_hand() -> None:
    if not keep_freed_memory():
        pytest.skip("this C library has no mallopt")
    kept, given_back = faults(keeps=True), faults(keeps=False)
    # Once for the first of them, not once for each.
    assert kept <= 2 * PAGES
    assert given_back > kept
