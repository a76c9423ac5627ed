"""One life of a partition in the hands of its owner: log, offsets, and who waits for what.

Lives in the worker that owns the partition and is touched by its loop only. A purge does not
change it: it ends it and begins another one with a newer birth. So a thread that still syncs the
old files, or an answer that comes late, can never be taken for the new life.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

from borzoi.protocol.batch import SeenIds
from borzoi.protocol.errors import FeatureUnavailable, InvalidOffset
from borzoi.router.target import Target
from borzoi.shards.partitions.group_cursor import Cursor
from borzoi.shards.rings.requests import Done
from borzoi.storage.log import PartitionLog
from borzoi.storage.offsets import ConsumerOffsets
from borzoi.storage.published import Published

Ended = Callable[[int], None]
"""Called with the status of what it waited for."""


class Delayed(NamedTuple):
    """An append that waits until the window of its partition is known."""

    batch: memoryview
    message_count: int
    resubmitted: bool
    done: Done
    expected: int | None = None


@dataclass(slots=True, eq=False)
class Window:
    """The ids of the last messages, up to the one before `next_offset`."""

    seen: SeenIds
    next_offset: int


@dataclass(slots=True, eq=False)
class OwnedPartition:
    """State of one partition at its owner.

    `published` is what the board says; `log.written` may be ahead of it while a sync runs.
    """

    target: Target
    log: PartitionLog
    offsets: ConsumerOffsets
    published: Published
    appends: list[Ended] = field(default_factory=list)
    sync_waiters: list[Ended] = field(default_factory=list)
    syncing: bool = False
    alive: bool = True
    is_protected: bool = False
    """Whether it takes no messages, because its stream of Liftbridge is read-only."""
    cursors: dict[int, Cursor] = field(default_factory=dict)  # by group
    window: Window | None = None  # None: not known, or there is no deduplication
    delayed: list[Delayed] = field(default_factory=list)

    def check_append(self, expected: int | None) -> None:
        """Raise unless the next message may be appended, and gets the offset that is expected."""
        if self.is_protected:
            raise FeatureUnavailable(f"partition {self.target} is read-only")
        if expected is not None and expected != self.log.staged_end:
            raise InvalidOffset(
                f"offset {expected} expected in partition {self.target}, whose next one is"
                f" {self.log.staged_end}"
            )

    def end(self, status: int) -> None:
        """The partition is gone: all waiters get `status`, and nothing is published any more."""
        self.alive = False
        waiters = [*self.appends, *self.sync_waiters]
        self.appends, self.sync_waiters = [], []
        delayed, self.delayed = self.delayed, []
        for ended in waiters:
            ended(status)
        for one in delayed:
            one.done(status)
