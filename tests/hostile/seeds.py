"""What once went wrong, kept as bytes in seeds/*.txt and replayed by every run of the suite.

One frame a line: `request` or `answer`, the code, the payload in hex; or the name of a generation,
0, and a whole frame as its clients make it. A line that begins with `#`
says what it was. The file of a conversation over a socket holds its requests in their order.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import Final, NamedTuple

from borzoi.protocol.generations import GENERATIONS
from tests.hostile.mutation import Mutant

SEEDS: Final = Path(__file__).with_name("seeds")


class Seed(NamedTuple):
    kind: str
    mutant: Mutant


def write_seeds(name: str, reason: str, seeds: Iterable[Seed], folder: Path = SEEDS) -> Path:
    """Keep frames for ever; the file to check in."""
    path = folder / f"{name}.txt"
    lines = [f"# {' '.join(reason.split())}"]
    for kind, (code, payload) in seeds:
        lines.append(f"{kind} {code} {payload.hex() or '-'}")
    path.write_text("\n".join(lines) + "\n")
    return path


def read_seeds(path: Path) -> list[Seed]:
    found = []
    for line in path.read_text().splitlines():
        if line.startswith("#"):
            continue
        kind, code, payload = line.split()
        assert kind in ("request", "answer", *GENERATIONS), f"{path.name}: {kind}"
        found.append(Seed(kind, Mutant(int(code), bytes.fromhex(payload.removeprefix("-")))))
    return found


def seed_files(folder: Path = SEEDS) -> list[Path]:
    return sorted(folder.glob("*.txt"))
