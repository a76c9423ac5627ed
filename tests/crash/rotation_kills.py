"""A9 under D8: kill -9 of everything while the encryption key is exchanged.

    python -m tests.crash.rotation_kills --kills 200 [--mode written|fsync] [--seed N]

Tiny segments, compressed in every other life; producers and a reader on both shards. Each life has
a new key put into the key file and is asked to take it, then killed at a random moment of the
exchange. Beside what kill_cycles.py demands (nothing acknowledged is lost, nothing is there twice,
no offset is used again), after each kill and start

    the broker starts with the keys of the file, whatever step the kill has hit
    the exchange is completed in time, and everything reads as before
    no older key is needed then: they are removed, and no temporary is left
"""

import argparse
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Final

from borzoi.shards.directory.key import read_key_file
from borzoi.shards.keys.key_file import new_key, write_keys_to
from borzoi.shards.rotation.request import ask
from borzoi.storage.encryption_key import EncryptionKey, compare_check
from borzoi.storage.files import Files
from borzoi.storage.layout import DataLayout
from tests.broker import wait_for
from tests.crash.kill_cycles import KillCycles
from tests.crash.ledger import ProducerBook
from tests.crash.load import Watcher, read_all
from tests.shard_wires import connect

TINY: Final = {"IGGY_SYSTEM_SEGMENT_SIZE": "5KiB", "IGGY_MESSAGE_SAVER_INTERVAL": "100 ms"}
KILL_AFTER_S: Final = (0.0, 1.5)
"""The supervisor looks for a request once a second; then the exchange begins."""

TIMEOUT_S: Final = 120.0


class RotationKills(KillCycles):
    """Kill cycles, each in the middle of an exchange of the key."""

    def __init__(self, data: Path, mode: str, seed: int) -> None:
        super().__init__(data, mode, seed)
        self.unfinished: Counter[str] = Counter()
        self.exchanged = 0
        self._key_file = data.parent / f"{data.name}.key"
        self._key_file.touch(0o600)
        write_keys_to(self._key_file, [new_key()])
        self._layout = DataLayout(data)
        self._moments = random.Random(seed)
        self.broker.settings.update(TINY)
        self.broker.settings["IGGY_SYSTEM_ENCRYPTION_ENABLED"] = "true"
        self.broker.settings["IGGY_SYSTEM_ENCRYPTION_KEY_FILE"] = str(self._key_file)
        self._choose_codec()

    def _choose_codec(self) -> None:
        codec = "zstd" if self.summary.cycles % 2 else "none"
        self.broker.settings["IGGY_SYSTEM_COMPRESSION_DEFAULT_ALGORITHM"] = codec

    def kill(self) -> None:
        keys = read_key_file(str(self._key_file))
        write_keys_to(self._key_file, [new_key(), *keys])
        ask(self._layout, Files())
        # Not waiting for a condition: the moment of the kill is the experiment.
        time.sleep(self._moments.uniform(*KILL_AFTER_S))
        super().kill()
        needed = compare_check(self._layout, Files(), read_key_file(str(self._key_file)))
        self.unfinished[f"with {len(needed)} keys"] += 1
        self.unfinished["temporaries"] += len(self._temporaries())
        self._choose_codec()

    def compare(self, books: list[ProducerBook], watcher: Watcher) -> None:
        super().compare(books, watcher)
        wait_for(lambda: len(self._needed()) == 1, TIMEOUT_S)
        with connect(self.broker) as wire:
            assert read_all(wire) == self.contents, "encrypted once more, it reads otherwise"
        wait_for(lambda: not self._temporaries(), TIMEOUT_S)
        assert self._needed() == read_key_file(str(self._key_file))[:1], "the newest key stays"
        write_keys_to(self._key_file, self._needed())
        self.exchanged += 1

    def _needed(self) -> list[EncryptionKey]:
        return compare_check(self._layout, Files(), read_key_file(str(self._key_file)))

    def _temporaries(self) -> list[Path]:
        return list(Path(self._layout.streams).glob("**/0*.tmp"))


def run(
    data: Path, mode: str, kills: int, seed: int, report: Callable[[str], None] | None = None
) -> RotationKills:
    """So many kills; AssertionError, naming the seed and the kill, if a promise is broken."""
    experiment = RotationKills(data, mode, seed)
    summary = experiment.summary
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


def text_of(experiment: RotationKills) -> str:
    found = ", ".join(f"{count} {what}" for what, count in sorted(experiment.unfinished.items()))
    return f"{experiment.summary}; {experiment.exchanged} exchanges; after the kills: {found}"


def main() -> None:
    parser = argparse.ArgumentParser(description="kill -9 while the encryption key is exchanged")
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--mode", choices=["written", "fsync"], default="written")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 32))
    arguments = parser.parse_args()
    print(f"seed {arguments.seed}", flush=True)
    with tempfile.TemporaryDirectory(prefix="borzoi-rotation-") as directory:
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
