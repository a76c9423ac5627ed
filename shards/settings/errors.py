"""What is wrong with a configuration, in words: one exception, and the name that was meant.

Raised while loading and checking settings, and by the parts that resolve them against the machine
(CPUs, memory, root account). Always: each problem names what was found and what is needed, and
shows no secret.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable
from typing import Final

PROTECTIONS: Final = frozenset({"tls", "encryption"})
WORDS: Final = re.compile(r"[^a-z]+")
ALIKE_MIN: Final = 0.85
"""So similar a mistyped name is to the one that was meant: IGGY_TCP_TLS_ENABLE has 0.97."""


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


def asks_for_protection(name: str, guess: str) -> bool:
    """Whether an unknown name is nearly that of a setting which protects something."""
    meant = PROTECTIONS.intersection(WORDS.split(guess.lower()))
    return bool(meant) and difflib.SequenceMatcher(None, name, guess).ratio() >= ALIKE_MIN
