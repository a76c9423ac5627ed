"""Reading encrypted segments: a copy, in memory that is bounded, made by a thread if it is large.

A read of a partition may touch encrypted and plain segments. As soon as one is encrypted, all of
it is copied into one piece of memory (copy_memory.py says how much at a time).
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

from borzoi.protocol.batch import MESSAGE_HEADER_SIZE, scan_log
from borzoi.protocol.errors import BrokerError, CannotDecryptData, InvalidMessageChecksum
from borzoi.storage.encrypted import SegmentCipher
from borzoi.storage.outcome import Doubt, Slices
from borzoi.storage.segment_form import ENCRYPTED_MARK, seal_place

INLINE_SIZE_MAX: Final = 1280 * 1024
"""Up to this the loop decrypts itself: 1 MiB takes it 0.2 ms, a thread that is woken 0.3 ms."""


class StoredRun(NamedTuple):
    """Consecutive messages of one segment as they lie in its file, from the start of a seal on."""

    segment: int
    path: str
    cipher: SegmentCipher | None  # None: they are plain
    views: list[memoryview]
    first_offset: int  # of the first message that is wanted
    message_count: int  # that are wanted
    size: int  # of these, as stored
    skipped: int = 0  # messages before them, because these are in the same seal


class Encrypted:
    """What is wanted has to be decrypted, which takes time and memory: `size` bytes of it."""

    __slots__ = ("_runs", "size")

    def __init__(self, runs: Sequence[StoredRun]) -> None:
        self._runs = runs
        # As stored, which is more than is needed: how many messages there are, only the index
        # says, and it may be damaged.
        self.size = sum(run.size for run in runs)

    def decrypt(self, memory: memoryview) -> Slices | Doubt:
        """All messages up to the first that does not open, or why not even one does.

        A thread may call it, once.
        """
        at = count = 0
        for run in self._runs:
            stored = run.views[0] if len(run.views) == 1 else memoryview(b"".join(run.views))
            if run.cipher is None:
                memory[at : at + stored.nbytes] = stored
                at += stored.nbytes
                count += run.message_count
                continue
            opened = run.cipher.decrypt(
                stored,
                run.first_offset - run.skipped,
                run.skipped,
                run.message_count,
                memory[at : at + run.size],
            )
            at += opened.size
            count += opened.message_count
            if opened.message_count < run.message_count:
                if count == 0:
                    return Doubt(run.segment, _why_not(run, stored[opened.end :]))
                break
        return Slices([memory[:at]], count, self._runs[0].first_offset, at)


def _why_not(run: StoredRun, stored: memoryview) -> BrokerError:
    """Returns why a seal cannot be decrypted; the checksums of the stored bytes find damage."""
    place = f"{run.path}: offset {run.first_offset}"
    first = run.first_offset - run.skipped | ENCRYPTED_MARK
    sound = scan_log(stored, first, segment_first_offset=first, position=0).message_count
    if stored.nbytes < MESSAGE_HEADER_SIZE or sound < seal_place(stored).message_count:
        return InvalidMessageChecksum(f"{place} is damaged")
    return CannotDecryptData(f"{place} was changed, or encrypted with another key")
