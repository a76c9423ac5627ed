"""What group commits have written and synced since the worker started.

Counted once per partition and turn, not per message.
"""

from borzoi.shards.tallies.meters import Times, times_of
from borzoi.shards.tallies.plain_meter import CELLS, SUM_AT
from borzoi.shards.tallies.traffic import Written


class CommitCounts:
    """The counts of one shard, touched by its event loop only."""

    def __init__(self) -> None:
        # Added to where the writes are; they run for every partition and turn.
        self.messages = 0
        self.size_bytes = 0
        self.writes = 0
        self._syncs = [0] * CELLS

    def synced(self, took_ns: int) -> None:
        """One sync of a log has ended."""
        self._syncs[took_ns.bit_length()] += 1
        self._syncs[SUM_AT] += took_ns

    def written(self) -> Written:
        """What was written."""
        return Written(self.messages, self.size_bytes, self.writes)

    def syncs(self) -> Times:
        """How long the syncs took."""
        return times_of(self._syncs)
