"""What the recovery of a partition directory has found so far: its segments, its end, a report.

Filled in by recovery.py, segment by segment, and read by the log that is opened with it.
"""

from dataclasses import dataclass, field
from typing import Final

from borzoi.storage.encrypted import PartitionCipher
from borzoi.storage.index_check import lost_text
from borzoi.storage.layout import segment_name
from borzoi.storage.scan import Rebuilt
from borzoi.storage.segment import LogEnd, SealedSegment

EMPTY: Final = LogEnd(0, 0, 0, 0, 0)


@dataclass(slots=True)
class Recovered:
    """What was found. `report` has a line for everything that was not as it should be."""

    end: LogEnd = EMPTY
    sealed: list[SealedSegment] = field(default_factory=list)
    has_directory: bool = False
    has_active_files: bool = False
    trusted_from: int = 0
    # These and the active segment may be on the disk, or only in the cache.
    unsynced: list[int] = field(default_factory=list)
    is_synced: bool = True
    scanned_bytes: int = 0
    cut_bytes: int = 0
    report: list[str] = field(default_factory=list)
    cipher: PartitionCipher | None = None

    def note_rebuilt(self, segment: int, rebuilt: Rebuilt) -> None:
        """Report an index that was made from the log, and what the log had lost."""
        self.report.append(f"{segment_name(segment)}: index rebuilt from the log")
        self.report += [lost_text(segment, first, end) for first, end in rebuilt.lost]
