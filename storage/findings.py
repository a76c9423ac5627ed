"""What a check of stopped data finds, how bad it is, and what was done about it.

Every finding says how bad it is:

    note       worth knowing, nothing is wrong
    mendable   wrong, but nothing is lost: a repair puts it right, and so does the next start
    damaged    bytes that were good once are not any more, or are gone

Always: nothing is changed unless a repair was asked for, and then only by the `mend` of a
mendable finding, which says what it did.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import IntEnum


class Level(IntEnum):
    """How bad a finding is."""

    NOTE = 0
    MENDABLE = 1
    DAMAGED = 2


@dataclass(slots=True)
class Finding:
    """One thing that the check found in one file."""

    level: Level
    path: str
    text: str
    mended: str = ""  # what the repair did, empty if nothing


@dataclass(slots=True)
class Counts:
    """What was looked at and is as it should be."""

    partitions: int = 0
    segments: int = 0
    messages: int = 0
    message_bytes: int = 0
    index_entries: int = 0
    metadata_entries: int = 0
    metadata_snapshots: int = 0
    births: int = 0
    recovery_points: int = 0
    offset_files: int = 0
    clean_stop_records: int = 0


@dataclass(slots=True)
class Findings:
    """The report of one check."""

    repair: bool = False
    found: list[Finding] = field(default_factory=list)
    counts: Counts = field(default_factory=Counts)

    @property
    def worst(self) -> Level:
        """Of what is still so, now that the repair is over."""
        return max((one.level for one in self.found if not one.mended), default=Level.NOTE)

    def note(self, path: str, text: str) -> None:
        """Adds a finding that is no damage."""
        self.found.append(Finding(Level.NOTE, path, text))

    def damaged(self, path: str, text: str) -> None:
        """Adds a finding that no repair can mend."""
        self.found.append(Finding(Level.DAMAGED, path, text))

    def mendable(self, path: str, text: str, mend: Callable[[], str]) -> None:
        """`mend` changes the files, durably, and says what it did."""
        finding = Finding(Level.MENDABLE, path, text)
        self.found.append(finding)
        if not self.repair:
            return
        try:
            finding.mended = mend()
        except OSError as error:
            finding.text += f" (the repair failed: {error})"
