"""Reads of all sizes against small, odd and changing segments, in a process that may die of it.

    python -m tests.hostile.read_fuzz --partitions 5000 [--first 0] [--plain]

A read of a page behind the end of a mapped file is a SIGBUS, which no test can catch: so the reads
happen in a child, whose exit tells. It notes the number it is at, and a number always makes the
same partition and the same reads: `--first NUMBER --partitions 1` repeats a failure.

A partition is plain, encrypted, compressed or both, has segments of one to many thousands of
messages, and is read while it is appended to, rolled, cut, shortened in secret, recovered, purged
and compressed, with every offset, count, size and time that may be off by one or by 2^64.

The claim: the child lives; a read returns messages that follow each other from where they were
wanted, or says what has to happen first, or raises what a reader may raise.
"""

import argparse
import errno
import os
import random
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Final

from borzoi.protocol.errors import BrokerError
from borzoi.protocol.index_entry import INDEX_ENTRY_SIZE
from borzoi.protocol.loops import PLAIN_LOOPS_VARIABLE
from borzoi.storage.codecs import Codec
from borzoi.storage.files import BUFFERS_PER_WRITE_MAX, Files
from borzoi.storage.index_windows import IndexCaching, IndexWindows
from borzoi.storage.outcome import Doubt, Slices
from borzoi.storage.published import Published
from borzoi.storage.reader import PartitionReader
from tests.storage.ciphers import partition_cipher
from tests.storage.partitions import NOW_US, Partition, begin_next_life, payloads_in

EXTREMES: Final = (0, 1, 2, 2**31 - 1, 2**31, 2**32 - 1, 2**32, 2**63 - 1, 2**63, 2**64 - 1)
COUNT_MAX: Final = 2**32 - 1
"""What fits into a request."""

SEGMENT_SIZES: Final = (1, 500, 4000, 1 << 20)
BATCH_SIZES: Final = (1, 1, 2, 3, 10, 255, 256, 257)
LARGE_BATCHES: Final = (4095, 4096, 4097)  # a window of the index has 4,096 entries
STEPS: Final = 8
READS_PER_STEP: Final = 40


class Fuzzed:
    """One partition, made and read as its number says."""

    def __init__(self, root: Path, number: int) -> None:
        self._chance = chance = random.Random(number)
        self._cipher = partition_cipher() if chance.random() < 0.4 else None
        self._codec = chance.choice((None, None, Codec.LZ4, Codec.ZSTD))
        self.partition = Partition(
            root, segment_size_max=chance.choice(SEGMENT_SIZES), cipher=self._cipher
        )
        self.payloads: list[bytes] = []
        self._lives = {self.partition.birth: self.payloads}
        self.published = [self.partition.log.written]
        self._reader = self._new_reader()
        # Lives whose files were touched by another process than their owner.
        self._damaged: set[int] = set()
        self.outcomes: Counter[str] = Counter()

    @property
    def _is_sound(self) -> bool:
        return self.partition.birth not in self._damaged

    def _new_reader(self) -> PartitionReader:
        windows = self.partition.new_windows()
        return PartitionReader(
            self.partition.directory,
            windows,
            Files(),
            validate_checksum=self._chance.random() < 0.1,
            newest=lambda: self.partition.log.written,
            index_windows=IndexWindows(self._chance.choice(list(IndexCaching)), windows),
            cipher=self._cipher,
        )

    def run(self) -> None:
        for _ in range(STEPS):
            self._chance.choice(
                (
                    self._append,
                    self._append,
                    self._append_large,
                    self._compress,
                    self._delete_oldest,
                    self._recover,
                    self._cut_back,
                    self._shorten,
                    self._purge,
                )
            )()
            for _ in range(READS_PER_STEP):
                self._read_somehow()

    # What happens to the partition.

    def _append(self) -> None:
        self._append_batch(self._chance.choice(BATCH_SIZES), self._chance.choice((0, 1, 30, 5000)))

    def _append_large(self) -> None:
        if self._chance.random() < 0.1:
            self._append_batch(self._chance.choice(LARGE_BATCHES), 0)

    def _append_batch(self, count: int, size: int) -> None:
        if not self._is_sound:
            return
        self.partition.now_us += self._chance.choice((0, 1, 10**6))
        payloads = [self._chance.randbytes(size) for _ in range(count)]
        self.partition.append(*payloads)
        self.payloads += payloads
        self._note()

    def _note(self) -> None:
        self.published = [*self.published[-3:], self.partition.log.written]

    def _compress(self) -> None:
        if self._codec is not None and self._is_sound:
            self.partition.compress(self._codec)

    def _delete_oldest(self) -> None:
        if self._is_sound and self.payloads:
            self.partition.delete_oldest(self._chance.choice((1, 1, 2, 100)))
            self._note()

    def _recover(self) -> None:
        """The worker died; its successor may have the board."""
        if not self._is_sound:
            return
        board = self.partition.log.written if self._chance.random() < 0.7 else None
        self.partition.log.sync()
        self.partition.reopen(board=board)
        if board is None:
            # With another board no reader of before lives.
            self._reader = self._new_reader()
            self.published = []
        self._note()

    def _cut_back(self) -> None:
        """A write that got half way, and was taken back as after a full disk."""
        if not self._is_sound or self.partition.log.written.next_offset == 0:
            return
        end = self.partition.log.written
        paths = (
            self.partition.log_file(end.active_segment),
            self.partition.index_file(end.active_segment),
        )
        for path in paths:
            if path.exists():
                size = path.stat().st_size
                with path.open("r+b") as file:
                    file.seek(size)
                    file.write(self._chance.randbytes(self._chance.choice((1, 16, 5000, 70_000))))
                    file.flush()
                    self._read_somehow()
                    file.truncate(size)

    def _shorten(self) -> None:
        """A file is shorter than it was published: the disk lost it before anybody looked."""
        paths = sorted(Path(self.partition.directory).glob("*.[li][on][gd]*"))
        if not paths or self._chance.random() < 0.5:
            return
        path = self._chance.choice(paths)
        size = path.stat().st_size
        less = self._chance.choice((1, 16, 64, INDEX_ENTRY_SIZE * 300, size))
        with path.open("r+b") as file:
            file.truncate(max(0, size - less))
        self._damaged.add(self.partition.birth)
        self._reader = self._new_reader()

    def _purge(self) -> None:
        if self._chance.random() < 0.3:
            begin_next_life(self.partition, self.partition.birth + 1)
            self.payloads = self._lives[self.partition.birth] = []
            if self._chance.random() < 0.5:
                self.published = []
            self._note()

    # Reads.

    def _offset(self) -> int:
        end = len(self.payloads)
        active = self.published[-1].active_segment
        near = self._chance.choice((0, end, end, active, self.published[-1].first_offset))
        if self._chance.random() < 0.8:
            return max(0, near + self._chance.randint(-3, 3))
        return self._chance.choice((*EXTREMES, self._chance.randint(0, end)))

    def _count(self) -> int:
        end = len(self.payloads)
        wanted = self._chance.choice((0, 0, 1, 1, 2, 10, 256, end, end + 1, *EXTREMES))
        return min(wanted, COUNT_MAX)

    def _read_somehow(self) -> None:
        published = self.published[-1]
        if self._chance.random() < 0.1:
            published = self._chance.choice(self.published)
        try:
            match self._chance.randrange(8):
                case 0:
                    self._find_timestamp(published)
                case 1:
                    self._locate(published)
                case 2 | 3 | 4:
                    self._read_on(published)
                case 5:
                    self._measure(published, self._offset(), self._count())
                case _:
                    self._read(published, self._offset(), self._count())
            self.outcomes["answered"] += 1
        except BrokerError as error:
            self.outcomes[type(error).__name__] += 1

    def _read(self, published: Published, offset: int, count: int) -> None:
        bytes_max = self._chance.choice((0, 1, 63, 64, 65, 100_000, 1 << 27))
        found = self._reader.attempt(
            published, offset, count, bytes_max, may_wait=self._chance.random() < 0.8,
            copied_max=self._chance.choice((None, None, None, None, 1 << 62)),
        )  # fmt: skip
        if isinstance(found, Slices):
            self._check(found, published, offset, count)
        else:
            self._note_outcome(found)

    def _note_outcome(self, found: object) -> None:
        self.outcomes[type(found.error if isinstance(found, Doubt) else found).__name__] += 1

    def _measure(self, published: Published, offset: int, count: int) -> None:
        """What the index promises is what a read of as many messages returns.

        The segment may have been compressed since the reader looked: then more fit into an answer.
        """
        bytes_max = self._chance.choice((0, 1, 63, 64, 65, 100_000, 1 << 27))
        extent = self._reader.measure(
            published, offset, count, bytes_max, for_commit=self._chance.random() < 0.5
        )
        if extent is None or published.birth in self._damaged:
            return
        assert 0 < extent.message_count <= count
        found = self._reader.attempt(
            published, offset, extent.message_count, bytes_max, may_wait=True, copied_max=1 << 62
        )
        if isinstance(found, Slices) and published.birth == self.partition.birth:
            assert (found.first_offset, found.message_count) == extent
            self.outcomes["measured"] += 1

    def _read_on(self, published: Published) -> None:
        """As a poll of a place that is remembered: read there, then read on with any count."""
        offset = self._offset()
        self._read(published, offset, 1)
        for wanted in (offset, offset + 1, self._offset()):
            count = self._count()
            found = self._reader.read_on(published, wanted, count, 1 << 27)
            if found is not None:
                assert 1 <= found[0] <= count
                slices = Slices([found[1]], found[0], wanted, found[1].nbytes)
                self._check(slices, published, wanted, count)

    def _locate(self, published: Published) -> None:
        hot = self._reader._segments.hot
        if hot is not None:
            place = hot.locate(published, self._offset(), self._count(), 1 << 27)
            assert place is None or place[1] < place[2]

    def _find_timestamp(self, published: Published) -> None:
        now_us = self.partition.now_us
        wanted = self._chance.choice(
            (*EXTREMES, NOW_US - 1, NOW_US, NOW_US + 1, now_us - 1, now_us, now_us + 1)
        )
        may_wait = self._chance.random() < 0.8
        found = self._reader.attempt_timestamp(published, wanted, may_wait=may_wait)
        if not isinstance(found, int):
            self._note_outcome(found)
            return
        assert 0 <= found <= max(published.next_offset, self.partition.log.written.next_offset)

    def _check(self, found: Slices, published: Published, offset: int, count: int) -> None:
        assert found.message_count <= count
        if published.birth in self._damaged:
            # As an answer is sent: by the kernel, which does not die of a page that is gone.
            with tempfile.TemporaryFile() as sink:
                try:
                    os.writev(sink.fileno(), found.views[:BUFFERS_PER_WRITE_MAX])
                except OSError as error:
                    if error.errno != errno.EFAULT:
                        raise
                    self.outcomes["half sent"] += 1
            return
        payloads = payloads_in(found)
        assert found.first_offset >= offset or not payloads
        first = found.first_offset
        assert payloads == self._lives[published.birth][first : first + len(payloads)]


def fuzz(numbers: range, progress: Path) -> Counter[str]:
    """In the child."""
    outcomes: Counter[str] = Counter()
    with closing(os.fdopen(os.open(progress, os.O_WRONLY | os.O_CREAT), "wb", buffering=0)) as note:
        for number in numbers:
            os.pwrite(note.fileno(), b"%020d" % number, 0)
            if number < 0:
                # Not a partition, but what a bad one would do: to see that it is noticed.
                os.kill(os.getpid(), signal.SIGBUS)
            with tempfile.TemporaryDirectory() as root:
                fuzzed = Fuzzed(Path(root), number)
                fuzzed.run()
                fuzzed.partition.open_files.close()
                outcomes += fuzzed.outcomes
    return outcomes


class Died(AssertionError):
    """A child has ended as it should not."""


def run(numbers: range, directory: Path, *, plain: bool) -> str:
    """Fuzz in a child; what it says. Died if it did not live to the end."""
    progress = directory / f"progress-{os.getpid()}-{plain}"
    child = subprocess.run(
        [
            sys.executable, "-m", "tests.hostile.read_fuzz", "--child", str(progress),
            "--first", str(numbers.start), "--partitions", str(len(numbers)),
        ],
        env={**os.environ, PLAIN_LOOPS_VARIABLE: "1" if plain else "0"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )  # fmt: skip
    if child.returncode != 0:
        number = int(progress.read_bytes()) if progress.exists() else None
        raise Died(f"code {child.returncode} at number {number}:\n{child.stderr[-5000:]}")
    return child.stdout


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="Reads against odd segments.")
    parser.add_argument("--partitions", type=int, default=1000)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--plain", action="store_true", help="the loops in plain Python")
    parser.add_argument("--child", type=Path, default=None, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    numbers = range(options.first, options.first + options.partitions)
    if options.child is not None:
        print(dict(fuzz(numbers, options.child).most_common()))
        return
    with tempfile.TemporaryDirectory() as directory:
        print(run(numbers, Path(directory), plain=options.plain), end="")


if __name__ == "__main__":
    main()
