"""What the owner of a partition publishes about it for all shards: eight numbers.

They lie on the board, so any process can read messages without asking the owner. Whatever they
describe is in the files when they are published, and stays there until the birth changes or
first_offset moves past it.
"""

from typing import NamedTuple


class Published(NamedTuple):
    """A consistent picture of a partition's log.

    The active segment holds next_offset - active_segment messages; one index entry each.
    """

    birth: int  # the metadata entry that created or last purged the partition
    first_offset: int  # oldest one still there
    next_offset: int  # what the next message will get
    active_segment: int  # its first offset, which is also its file name
    end_position: int  # bytes of the active segment's .log
    size_bytes: int  # message bytes of all segments
    segment_count: int
    trusted_from: int  # from this offset on, this run has written or verified every byte

    @property
    def current_offset(self) -> int:
        """The offset of the last message, 0 while there has been none."""
        return self.next_offset - 1 if self.next_offset else 0

    @classmethod
    def empty(cls, birth: int) -> "Published":
        """A partition nothing was ever appended to. It has no files yet."""
        return cls(birth, 0, 0, 0, 0, 0, 1, 0)
