"""The broker does what its OpenAPI document says: a bounded run of schemathesis."""

from pathlib import Path

import pytest

from tests.http.described import violations


@pytest.mark.slow
def test_nothing_differs_from_the_document(tmp_path: Path) -> None:
    found = violations(tmp_path, "--phases", "coverage", "--seed", "1")
    assert found == "", found
