"""The map in README leads to files that exist."""

import re

from tests.tidy.repository import PACKAGES, ROOT

PATHS = re.compile(r"\b(?:" + "|".join((*PACKAGES, "tests")) + r")/[\w/]+\.(?:py|pyx)\b")


def test_the_map_names_real_files() -> None:
    named = set(PATHS.findall((ROOT / "README.md").read_text()))
    assert len(named) >= 5, "README.md has no map of the code"
    assert sorted(path for path in named if not (ROOT / path).is_file()) == []


def test_the_licence_is_there_in_full() -> None:
    text = (ROOT / "LICENSE").read_text()
    assert "Apache License" in text
    assert "END OF TERMS AND CONDITIONS" in text
