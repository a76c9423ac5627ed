"""The log of a partition whose messages are committed elsewhere before they are written here.

What is staged is taken as a group, and written once it is committed. Several groups may wait, each
behind the one before. They are written in the order in which they were taken; write() is not used.

Always: `written` speaks of committed messages only.
"""

from typing import Any

from borzoi.protocol.errors import CannotSaveMessagesToSegment
from borzoi.storage.encrypted_staging import new_group
from borzoi.storage.log import PartitionLog
from borzoi.storage.segment import LogEnd
from borzoi.storage.staging import StagedGroup


class ReplicatedLog(PartitionLog):
    """A partition that follows its lane."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._taken_end: LogEnd = self._end

    @property
    def has_staged(self) -> bool:
        """Whether take_staged() would return anything: messages, or the end of a segment."""
        return bool(self._staged.message_count or self._staged.sealed)

    def take_staged(self) -> StagedGroup:
        """What is staged, to be written by write_taken() later; what comes goes behind it."""
        taken = self._staged
        self._taken_end = taken.end
        self._staged = new_group(
            taken.end, self.settings.segment_size_max, self._random_bytes, self.cipher
        )
        self._staged.on_large_batch = taken.on_large_batch
        return taken

    def drop_staged(self) -> None:
        """Nothing of what is staged is ever written; what was taken before stays."""
        self._staged.dropped(self._taken_end)

    def seal_staged(self) -> None:
        """Seal the active segment behind what is staged, unless it is empty."""
        if self._staged.next_offset > self._staged.segment:
            self._staged.seal()

    def write_taken(self, taken: StagedGroup) -> None:
        """Append a group that was taken, all of it, or CannotSaveMessagesToSegment.

        With the kernel when it returns, durable only after sync().
        """
        try:
            self._check_writable()
            self._write_parts(taken)
        except OSError as error:
            self._must_cut = True
            self._try_to_cut_back()
            # Groups behind it would leave a gap.
            self.refuse_writes()
            raise CannotSaveMessagesToSegment(f"{self.directory}: {error}") from error
        self._sync.is_synced = False
        self._end = taken.end
