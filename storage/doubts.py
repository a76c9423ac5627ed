"""When an index is to blame: which segments are suspected, and which their owner has looked at.

An index may be short or wrong while its log is sound; only the owner of a partition may replace
it. A read that an index may have led astray returns a Doubt. Once the owner has looked, the
segment is accepted as it is.
"""

import os
from typing import Final

from borzoi.protocol.errors import CannotReadMessage, InvalidMessageChecksum
from borzoi.storage.compressed_file import Replaced
from borzoi.storage.layout import INDEX_SUFFIX, LOG_SUFFIX, is_segment_name
from borzoi.storage.outcome import Doubt
from borzoi.storage.segment_view import SegmentView, Stale

ACCEPTED_MAX: Final = 1024
"""Of so many segments a reader remembers that their owner has looked at their indexes."""


class Doubts:
    """What one reader suspects."""

    def __init__(self) -> None:
        self._accepted: set[int] = set()

    def accept(self, segment: int) -> None:
        """The owner has looked at the index of a segment: as it is now, it is."""
        if len(self._accepted) >= ACCEPTED_MAX:
            self._accepted.clear()
        self._accepted.add(segment)

    def is_accepted(self, segment: SegmentView) -> bool:
        """Whether the owner has looked at its index."""
        return segment.first_offset in self._accepted

    def of_shortness(self, segment: SegmentView, offset: int) -> Doubt | None:
        """None if the index may well have no entry for an offset."""
        if not segment.lacks(offset) or self.is_accepted(segment):
            return None
        text = f"{segment.index.path} has no entry for offset {offset}"
        return Doubt(segment.first_offset, CannotReadMessage(text))

    def of_time(self, segment: SegmentView, offset: int) -> Doubt | None:
        """None if the owner knows that the index has another time than the message."""
        if self.is_accepted(segment):
            return None
        text = f"{segment.index.path}: wrong time at offset {offset}"
        return Doubt(segment.first_offset, InvalidMessageChecksum(text))


def doubt_of_damage(segment: SegmentView, offset: int) -> Doubt:
    """A message that is not sound where the index says it begins."""
    text = f"{segment.log.path}: offset {offset} is damaged"
    return Doubt(segment.first_offset, InvalidMessageChecksum(text))


def suspected_by(error: Stale | Replaced | FileNotFoundError) -> int | None:
    """The segment whose index is missing or too short, if that is what is wrong."""
    if isinstance(error, Stale):
        return error.segment
    if isinstance(error, Replaced):
        return None
    stem, suffix = os.path.splitext(os.path.basename(error.filename or ""))
    return int(stem) if suffix == INDEX_SUFFIX and is_segment_name(stem) else None


def swapped_file(error: Stale | Replaced | FileNotFoundError) -> str | None:
    """The path of a plain log that is gone or of a file that is another one, if that is it."""
    if isinstance(error, Stale):
        return error.replaced
    if isinstance(error, Replaced):
        return error.path
    path = str(error.filename or "")
    return path if path.endswith(LOG_SUFFIX) else None
