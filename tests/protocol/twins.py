"""The loops over messages, compiled and plain, each as one bundle of their modules' names."""

from importlib import import_module
from types import SimpleNamespace
from typing import Any, Final

import pytest

MODULES: Final = ("arriving", "client", "heads", "leaving", "log", "requests", "seals")


def bundle(prefix: str) -> Any:
    names: dict[str, Any] = {}
    for module in MODULES:
        names |= vars(import_module(f"borzoi.protocol.{prefix}{module}"))
    return SimpleNamespace(**names)


def compiled_loops() -> Any:
    """Skips the test, or the module that calls this, where they could not be built."""
    for module in MODULES:
        pytest.importorskip(f"borzoi.protocol._{module}")
    return bundle("_")


plain_loops: Final = bundle("plain_")
