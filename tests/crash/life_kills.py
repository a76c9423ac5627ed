"""D8 for purge and delete: kill -9 while a topic is purged, or deleted and made again.

    python -m tests.crash.life_kills --kills 200 [--end purge|delete] [--seed N]

As lives.py, where kills come by chance; here each life is ended under a kill, of one worker or of
everything, within moments of the command. After it nothing of the old life is back, and the new
one has everything that was acknowledged in it.
"""

import random
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.crash.experiment import kill_command
from tests.crash.lives import Lives, Summary
from tests.crash.load import JOIN_TIMEOUT_S, Worker

KILL_AFTER_S: Final = (0.0, 0.02)
ENDS: Final = ("purge", "delete")


@dataclass
class KillSummary(Summary):
    end: str = ENDS[0]
    inside: int = 0

    @property
    def kills(self) -> int:
        return self.worker_kills + self.group_kills

    def __str__(self) -> str:
        return f"{self.end}, {self.inside} kills before it was answered; {super().__str__()}"


class Killer(Worker):
    """Kills once, after a moment."""

    def __init__(self, lives: "LifeKills", whom: str, after_s: float) -> None:
        super().__init__("killer")
        self.killed_at = 0.0
        self._lives = lives
        self._whom = whom
        self._after_s = after_s

    def work(self) -> None:
        # Not waiting for a condition: the moment of the kill is the experiment.
        time.sleep(self._after_s)
        self.killed_at = time.monotonic()
        self._lives.kill(self._whom)


class LifeKills(Lives):
    """One topic whose lives end while processes of the broker are killed."""

    def __init__(self, data: Path, end: str, seed: int) -> None:
        super().__init__(data, seed, {})
        self.summary: KillSummary = KillSummary(seed, end=end)

    def run_kill(self) -> None:
        """End the life that is, kill meanwhile, and look into the next one."""
        choice = random.Random(f"{self.summary.seed}/{self.summary.kills}")
        killer = Killer(self, choice.choice(("worker", "group")), choice.uniform(*KILL_AFTER_S))
        killer.start()
        ended_at = self.purge() if self.summary.end == "purge" else self.delete_and_create()
        begun_at = time.monotonic()
        killer.join(JOIN_TIMEOUT_S)
        killer.finish()
        self.summary.inside += killer.killed_at < begun_at
        self.wait_for_sends(begun_at)
        self.look(ended_at, begun_at)
        self.summary.lives += 1


def main() -> None:
    kill_command("kill -9 while a topic's life ends", LifeKills, ENDS, "--end")


if __name__ == "__main__":
    main()
