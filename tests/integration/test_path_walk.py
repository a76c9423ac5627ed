"""The paths of a message stay short: the files that a warmed-up request passes, and their lines."""

from typing import Final

import pytest

from tests.path_walk import REQUESTS, lines_of, walks

FILES_MAX: Final = {"send": 12, "offset": 10, "next": 14}
LINES_MAX: Final = 4_800
"""Of all these files together."""


@pytest.mark.slow
def test_no_request_passes_more_than_it_did() -> None:
    found = walks(list(REQUESTS))
    for name, walk in found.items():
        assert walk.files[0] == "shards/doors/tcp.py", name
        assert len(walk.files) <= FILES_MAX[name], walk.files
    together = {file for walk in found.values() for file in walk.files}
    assert lines_of(sorted(together)) <= LINES_MAX, sorted(together)
