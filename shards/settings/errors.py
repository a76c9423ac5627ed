"""What is wrong with a configuration, in words: one exception, and the name that was meant.

Raised while loading and checking settings, and by the parts that resolve them against the machine
(CPUs, memory, root account). Always: each problem names what was found and what is needed, and
shows no secret.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class ConfigError(Exception):
    """The broker cannot start with these settings. `problems` has one sentence for each of them."""

    def __init__(self, problems: str | Iterable[str]) -> None:
        self.problems: tuple[str, ...] = (
            (problems,) if isinstance(problems, str) else tuple(problems)
        )
        super().__init__("; ".join(self.problems))


def nearest(name: str, valid: Iterable[str]) -> str:
    """The most similar of `valid`, which must not be empty; alike in every run."""
    return difflib.get_close_matches(name, sorted(valid), n=1, cutoff=0.0)[0]
