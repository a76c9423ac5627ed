"""D8 for compression: kill -9 of everything while segments are sealed and compressed all the time.

    python -m tests.crash.compression_kills --kills 200 [--mode written|fsync] [--seed N]

Tiny segments, every topic compressed, every other life of the broker encrypted; producers and a
reader on both shards. Beside what kill_cycles.py demands (nothing acknowledged is lost, nothing is
there twice, no offset is used again), after each kill and start

    no segment lies there in two ways once its shard serves
    what was not compressed when the broker died is compressed in time, and reads as before
    no temporary and nothing in the trash is left
"""

import argparse
import os
import random
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Final

from tests.broker import wait_for
from tests.crash.kill_cycles import KillCycles, Summary
from tests.crash.ledger import ProducerBook
from tests.crash.load import PARTITIONS, Watcher, read_all
from tests.shard_wires import connect

CODECS: Final = ("gzip", "lz4", "zstd")
TINY: Final = {
    "IGGY_SYSTEM_SEGMENT_SIZE": "5KiB",
    "IGGY_MESSAGE_SAVER_INTERVAL": "100 ms",
    "IGGY_SYSTEM_ENCRYPTION_KEY": "A" * 43 + "=",
}
SMALL_SIZE: Final = 2048
TIMEOUT_S: Final = 120.0


class CompressionKills(KillCycles):
    """Kill cycles in which each start has another codec, every other one encryption.

    Segments keep what they have.
    """

    def __init__(self, data: Path, mode: str, seed: int) -> None:
        super().__init__(data, mode, seed)
        self.unfinished: Counter[str] = Counter()
        self.compressed = 0
        self.broker.settings.update(TINY)
        self._choose_codec()

    def _choose_codec(self) -> None:
        codec = CODECS[self.summary.cycles % len(CODECS)]
        encrypted = self.summary.cycles % 2 == 1
        self.broker.settings["IGGY_SYSTEM_COMPRESSION_DEFAULT_ALGORITHM"] = codec
        self.broker.settings["IGGY_SYSTEM_ENCRYPTION_ENABLED"] = str(encrypted).lower()

    def kill(self) -> None:
        super().kill()
        names = self._names()
        self.unfinished["temporaries"] += sum(name.endswith(".tmp") for name in names)
        self.unfinished["both files"] += sum(
            name.endswith(CODECS) and name.rpartition(".")[0] in names for name in names
        )
        self.unfinished["in the trash"] += len(os.listdir(self.broker.data / "trash"))
        self.unfinished["plain"] += self._plain_count() - PARTITIONS
        self._choose_codec()

    def compare(self, books: list[ProducerBook], watcher: Watcher) -> None:
        super().compare(books, watcher)
        self._wait_all_compressed()
        with connect(self.broker) as wire:
            assert read_all(wire) == self.contents, "compressed, it reads otherwise"
        self.compressed = sum(name.endswith(CODECS) for name in self._names())

    def _wait_all_compressed(self) -> None:
        """As long as something happens: with lowest priority it may take its time."""
        while not self._is_all_compressed():
            left = self._plain_count()

            def goes_on(left: int = left) -> bool:
                return self._plain_count() < left or self._is_all_compressed()

            try:
                wait_for(goes_on, TIMEOUT_S)
            except AssertionError as error:
                log = (self.broker.data / "logs/iggy-server.log").read_text().splitlines()
                said = [line for line in log if "is not compressed" in line]
                error.add_note("\n".join([*said, *self._names()]))
                raise

    def _plain_count(self) -> int:
        return sum(name.endswith(".log") for name in self._names())

    def _names(self) -> list[str]:
        """Paths below the topic, without its directory."""
        topic = self.broker.data / "streams/0/topics/0"
        return [str(path.relative_to(topic)) for path in topic.glob("partitions/*/0*")]

    def _is_all_compressed(self) -> bool:
        for number in range(PARTITIONS):
            directory = self.broker.data / f"streams/0/topics/0/partitions/{number}"
            names = os.listdir(directory) if directory.exists() else []
            logs = sorted(name for name in names if name.endswith(".log"))
            plain = [name[:20] for name in logs]
            packed = [name[:20] for name in names if name.endswith(CODECS)]
            indexes = sorted(name[:20] for name in names if name.endswith(".index"))
            if any(self._is_large(directory / name) for name in logs[:-1]):
                return False
            if any(name.endswith(".tmp") for name in names):
                return False
            if sorted(plain + packed) != indexes:
                return False
        return not os.listdir(self.broker.data / "trash")

    def _is_large(self, path: Path) -> bool:
        """Whether a segment has to shrink. Small ones are sealed because encryption was switched.

        A message or two take a few hundred bytes more when they are compressed.
        """
        try:
            return path.stat().st_size > SMALL_SIZE
        except FileNotFoundError:
            return True


def run(
    data: Path, mode: str, kills: int, seed: int, report: Callable[[str], None] | None = None
) -> CompressionKills:
    """So many kills; AssertionError, naming the seed and the kill, if a promise is broken."""
    experiment = CompressionKills(data, mode, seed)
    summary: Summary = experiment.summary
    try:
        experiment.start()
        while summary.cycles < kills:
            experiment.run_cycle()
            if report is not None and summary.cycles % 10 == 0:
                report(text_of(experiment))
    except BaseException as error:
        error.add_note(f"mode {mode}, seed {seed}, kill {summary.cycles}")
        raise
    finally:
        experiment.broker.close()
    return experiment


def text_of(experiment: CompressionKills) -> str:
    found = ", ".join(f"{count} {what}" for what, count in experiment.unfinished.items())
    return f"{experiment.summary}; found after the kills: {found}"


def main() -> None:
    parser = argparse.ArgumentParser(description="kill -9 while segments are compressed")
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--mode", choices=["written", "fsync"], default="written")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 32))
    arguments = parser.parse_args()
    print(f"seed {arguments.seed}", flush=True)
    with tempfile.TemporaryDirectory(prefix="borzoi-compression-") as directory:
        done = run(
            Path(directory, "data"),
            arguments.mode,
            arguments.kills,
            arguments.seed,
            lambda text: print(text, file=sys.stderr, flush=True),
        )
        print(text_of(done))


if __name__ == "__main__":
    main()
