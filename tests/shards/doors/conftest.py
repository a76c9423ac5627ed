"""A connected bench for the tests of a connection."""

from collections.abc import Iterator

import pytest

from borzoi.router.pool import MIB
from tests.shards.doors.hand_bench import Bench, new_memory


@pytest.fixture
def bench() -> Iterator[Bench]:
    """A connected one; it ends with the test."""
    with new_memory(2 * MIB) as memory:
        made = Bench(memory.pool, memory.receive).connect()
        yield made
        made.transport.lose()
        made.loop.settle()
        if made.session.waiting is not None:
            made.session.finish()
