"""Both implementations of the loops over messages, for tests that must hold for either."""

from collections.abc import Iterator
from types import ModuleType

import pytest

from borzoi.protocol import plain_loops
from borzoi.protocol.loops_xxh3 import xxh3_address


@pytest.fixture(scope="module", params=["plain", "compiled", "compiled-hashing-in-python"])
def loops(request: pytest.FixtureRequest) -> Iterator[ModuleType]:
    """One of the twins; compiled also as it runs when the C function cannot be found."""
    if request.param == "plain":
        yield plain_loops
        return
    compiled: ModuleType = pytest.importorskip("borzoi.protocol._loops")
    if request.param == "compiled":
        yield compiled
        return
    compiled.use_hash(0)
    yield compiled
    compiled.use_hash(xxh3_address())
