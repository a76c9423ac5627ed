"""What stops the boot because of the configuration: one exception, with every problem in words.

Raised while loading and checking settings, and by the parts that resolve them against the machine
(CPUs, memory, root account). Always: each problem names what was found and what is needed, and
shows no secret.
"""

from __future__ import annotations

from collections.abc import Iterable


class ConfigError(Exception):
    """The broker cannot start with these settings. `problems` has one sentence for each of them."""

    def __init__(self, problems: str | Iterable[str]) -> None:
        self.problems: tuple[str, ...] = (
            (problems,) if isinstance(problems, str) else tuple(problems)
        )
        super().__init__("; ".join(self.problems))
