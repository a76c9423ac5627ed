"""The valid name that a mistyped one probably meant. Pure."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def nearest(name: str, valid: Iterable[str]) -> str:
    """The most similar of `valid`, which must not be empty; alike in every run."""
    return difflib.get_close_matches(name, sorted(valid), n=1, cutoff=0.0)[0]
