"""Both implementations of the loops over messages, for tests that must hold for either."""

from collections.abc import Iterator
from typing import Any

import pytest

from borzoi.protocol.loops_xxh3 import xxh3_address
from tests.protocol.twins import compiled_loops, plain_loops


@pytest.fixture(scope="module", params=["plain", "compiled", "compiled-hashing-in-python"])
def loops(request: pytest.FixtureRequest) -> Iterator[Any]:
    """One of the twins; compiled also as it runs when the C function cannot be found."""
    if request.param == "plain":
        yield plain_loops
        return
    compiled = compiled_loops()
    if request.param == "compiled":
        yield compiled
        return
    compiled.use_hash(0)
    yield compiled
    compiled.use_hash(xxh3_address())
