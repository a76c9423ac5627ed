"""How the data directory of some broker is laid out, for commands that only read it."""

import tomllib
from pathlib import Path
from typing import Final

from borzoi.storage.layout import CURRENT_CONFIG_FILE, DataLayout

DIRECTORY_NAMES: Final = ("stream", "topic", "partition")


def layout_of(root: Path) -> DataLayout:
    """The layout as the last run had configured it, or the usual one."""
    try:
        config = tomllib.loads((root / "runtime" / CURRENT_CONFIG_FILE).read_text())
        return DataLayout(root, *(config["system"][name]["path"] for name in DIRECTORY_NAMES))
    except (OSError, ValueError, KeyError, TypeError):
        # Only a note about names that are hardly ever changed: what it hides will be unknown files.
        return DataLayout(root)
