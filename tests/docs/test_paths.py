"""The paths in docs/ARCHITECTURE.md are those that requests take."""

import pytest

from borzoi.protocol.loops import LOOPS
from tests.docs.paths import PAGE, table_of, tables_in
from tests.path_walk import REQUESTS, walks


@pytest.mark.slow
def test_the_tables_are_what_a_broker_does() -> None:
    written = tables_in(PAGE.read_text())
    assert written.keys() == REQUESTS.keys()
    found = {name: table_of(walk) for name, walk in walks(list(REQUESTS)).items()}
    hint = "run: python -m tests.docs.paths"
    assert {name: rows(text) for name, text in found.items()} == {
        name: rows(text) for name, text in written.items()
    }, hint


def rows(table: str) -> list[str]:
    """Its rows. A walk sees the plain loops and nothing of the compiled ones."""
    if LOOPS == "compiled":
        return table.splitlines()
    return [row for row in table.splitlines() if not row.startswith("| `protocol/")]
