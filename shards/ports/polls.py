"""Polling: who decides what is returned, and the slices of mapped files that answer it.

Offset, timestamp, first and last without auto-commit are decided here, by the shard of the
connection, from the board. Next, auto-commit, and everything in mode buffered go to the owner
first, as one hop that carries no bytes; the bytes are always sent from here.
"""

from collections.abc import Callable
from typing import Final

from borzoi.protocol.errors import BrokerError, PartitionNotFound
from borzoi.protocol.identifiers import StrategyKind
from borzoi.router.target import Target
from borzoi.shards.partitions.durability import Durability
from borzoi.shards.ports.owners import PartitionOwners
from borzoi.shards.reading.poll_start import current_offset, poll_start
from borzoi.shards.reading.readers import HEALS_MAX, Readers
from borzoi.shards.reading.warm_reads import WARM_TRIES_MAX, WarmReads
from borzoi.shards.rings.poll import Poll
from borzoi.shards.rings.requests import Done
from borzoi.storage.published import Published
from borzoi.storage.reader import Packed, Slices

Polled = Callable[[int, int, Slices | None], None]
"""Told the status, the partition's current offset, and what is to be sent (None = nothing)."""

DECIDED_BY_OWNER: Final = frozenset({int(StrategyKind.NEXT)})


class Polls:
    """Answers polls of this shard's connections."""

    def __init__(
        self,
        readers: Readers,
        owners: PartitionOwners,
        warm_reads: WarmReads,
        durability: Durability,
        response_size_max: int,
    ) -> None:
        self._readers = readers
        self._warm_reads = warm_reads
        self._owners = owners
        self._always_ask = durability is Durability.BUFFERED
        self._response_size_max = response_size_max

    def read_on(
        self, target: Target, offset: int, count: int
    ) -> tuple[int, int, memoryview] | None:
        """What a poll by offset returns if it goes on where the partition was read last.

        Current offset, message count and bytes; None if it is anything else, for `poll` to
        find out.
        """
        if self._always_ask:
            return None
        published = self._readers.published(target.slot)
        if published.birth != target.birth:
            return None
        found = self._readers.reader(target).read_on(
            published, offset, count, self._response_size_max
        )
        if found is None:
            return None
        return published.next_offset - 1, *found

    def poll(
        self,
        target: Target,
        poll: Poll,
        polled: Polled,
        *,
        heals_left: int = HEALS_MAX,
        loads_left: int = WARM_TRIES_MAX,
    ) -> None:
        """Find what a poll returns; `polled` is called once, at once or later."""
        published = self._readers.published(target.slot)
        if (
            poll.auto_commit
            or self._always_ask
            or poll.strategy in DECIDED_BY_OWNER
            or published.birth != target.birth
        ):
            # Another birth on the board: nothing was published of this life yet, ask its owner.
            self._ask_owner(target, poll, polled)
            return
        reader = self._readers.reader(target)
        try:
            start = poll_start(
                poll,
                published,
                None,
                lambda timestamp: reader.find_timestamp(
                    published, timestamp, may_wait=loads_left == 0
                ),
            )
        except Packed as packed:
            self._warm_reads.load(
                packed,
                lambda: self.poll(
                    target, poll, polled, heals_left=heals_left, loads_left=loads_left - 1
                ),
                lambda error: polled(error.status, 0, None),
                user=poll.user,
            )
            return
        except BrokerError as error:
            if heals_left == 0 or not self._readers.heal(
                target, lambda: self.poll(target, poll, polled, heals_left=heals_left - 1)
            ):
                polled(error.status, 0, None)
            return
        current = current_offset(published)
        if start is None:
            polled(0, current, None)
            return

        self._read(target, published, start, poll.count_max, current, polled, user=poll.user)

    def _read(
        self,
        target: Target,
        published: Published,
        start: int,
        count: int,
        current: int,
        polled: Polled,
        *,
        user: int,
        whole: bool = False,
        heals_left: int = HEALS_MAX,
    ) -> None:
        def again() -> None:
            now = self._readers.published(target.slot)
            if now.birth != target.birth:
                polled(PartitionNotFound.status, 0, None)
            else:
                self._read(
                    target, now, start, count, current, polled,
                    user=user, whole=whole, heals_left=heals_left - 1,
                )  # fmt: skip

        def read(slices: Slices | None, error: BrokerError | None) -> None:
            if error is None:
                polled(0, current, slices)
            elif heals_left == 0 or not self._readers.heal(target, again):
                polled(error.status, current, None)

        reader, bytes_max = self._readers.reader(target), self._response_size_max
        self._warm_reads.read(
            reader, published, start, count, bytes_max, read, user=user, whole=whole
        )

    def _ask_owner(self, target: Target, poll: Poll, polled: Polled) -> None:
        self._owners.resolve_poll(target, poll, self.after_owner(target, poll.user, polled))

    def after_owner(self, target: Target, user: int, polled: Polled) -> Done:
        """Reads what the owner of a partition has decided to return."""

        def resolved(status: int, start: int = 0, found: int = 0, current: int = 0) -> None:
            if status or found == 0:
                polled(status, current, None)
                return
            published = self._readers.published(target.slot)
            if published.birth != target.birth:
                # It was purged while it was being polled.
                polled(PartitionNotFound.status, 0, None)
                return

            # What was committed has to be sent, all of it.
            self._read(target, published, start, found, current, polled, user=user, whole=True)

        return resolved
