"""Much data through one broker: whether memory grows, descriptors leak, and the disk brakes.

Produces and reads back piece by piece and looks at every worker while it does. Memory is RssAnon +
RssShmem; RssFile, the page cache seen through maps, is reported apart. The peak of each piece is
compared with the peak of the first one: what a worker takes to warm up is not growth.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from borzoi.bench.bed import Bed
from borzoi.bench.load import LoadResult
from borzoi.bench.plans import Goal, Role
from borzoi.bench.quantities import GB, MB
from borzoi.bench.rates import rate_of

PIECE: Final = GB
GROWTH_MAX: Final = 0.05
DESCRIPTORS_GROWN_MAX: Final = 4  # a segment being rolled or synced at the moment of a look
MESSAGE_SIZE: Final = 1_000


@dataclass(frozen=True, slots=True)
class Piece:
    """After so many bytes: the peaks of the worst worker in this piece, and how fast it went."""

    produced: int
    memory_peak: int
    file_peak: int
    descriptors_peak: int
    produced_mb_s: float
    polled_mb_s: float
    throttled_share: float


@dataclass(frozen=True, slots=True)
class Soak:
    """All pieces. `growth` is relative, from the first piece to the highest behind it."""

    pieces: tuple[Piece, ...]

    @property
    def growth(self) -> float:
        """How much more memory a later piece took than the first, relatively."""
        first, *rest = (piece.memory_peak for piece in self.pieces)
        return max(rest, default=first) / first - 1.0

    @property
    def descriptors_grown(self) -> int:
        """How many descriptors more a later piece had than the first."""
        first, *rest = (piece.descriptors_peak for piece in self.pieces)
        return max(rest, default=first) - first

    @property
    def met(self) -> bool:
        """Whether memory and descriptors stayed within the bounds."""
        return self.growth < GROWTH_MAX and self.descriptors_grown <= DESCRIPTORS_GROWN_MAX


def soak(
    total_bytes: int,
    directory: Path | None,
    show: Callable[[Piece], None],
    piece_bytes: int = PIECE,
) -> Soak:
    """`total_bytes` of user data through one partition of one shard, and back."""
    with Bed(1, directory=directory) as bed:
        ids = bed.stream()
        pieces: list[Piece] = []
        for piece in _pieces(bed, ids, total_bytes, piece_bytes):
            pieces.append(piece)
            show(piece)
    return Soak(tuple(pieces))


def _pieces(bed: Bed, ids: tuple[int, int], total_bytes: int, piece_bytes: int) -> Iterator[Piece]:
    produced = 0
    while produced < total_bytes:
        goal = Goal(user_bytes=min(piece_bytes, total_bytes - produced))
        sent = bed.run([bed.actor(Role.PRODUCER, 1, ids, goal)], warmup_ns=0)
        start = produced // MESSAGE_SIZE
        polled = bed.run(
            [replace(bed.actor(Role.CONSUMER, 1, ids, goal), value=start)], warmup_ns=0
        )
        rates = [rate_of(result, tuple(bed.workers)) for result in (sent, polled)]
        produced += rates[0].user_bytes
        yield Piece(
            produced=produced,
            memory_peak=_peak(bed, (sent, polled), "memory"),
            file_peak=_peak(bed, (sent, polled), "rss_file"),
            descriptors_peak=_peak(bed, (sent, polled), "descriptors"),
            produced_mb_s=rates[0].bytes_per_s / MB,
            polled_mb_s=rates[1].bytes_per_s / MB,
            throttled_share=_throttled_share(sent),
        )


def _peak(bed: Bed, results: tuple[LoadResult, ...], what: str) -> int:
    """Of all workers, the highest; None of them may grow."""
    return max(
        int(getattr(sample.processes[name], what))
        for result in results
        for sample in result.samples
        for name in bed.workers
        if name in sample.processes
    )


def _throttled_share(result: LoadResult) -> float:
    return sum(sample.dirty.throttled for sample in result.samples) / max(1, len(result.samples))
