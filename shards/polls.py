"""Polling: who decides what is returned, and the slices of mapped files that answer it.

Offset, timestamp, first and last without auto-commit are decided here, by the shard of the
connection, from the board. Next, auto-commit, and everything in mode buffered go to the owner
first, as one hop that carries no bytes; the bytes are always sent from here.
"""

from collections.abc import Callable
from typing import Final

from borzoi.protocol.errors import BrokerError, PartitionNotFound
from borzoi.protocol.identifiers import StrategyKind
from borzoi.shards.durability import Durability
from borzoi.shards.owners import Owners
from borzoi.shards.poll_start import current_offset, poll_start
from borzoi.shards.readers import Readers
from borzoi.shards.target import Target
from borzoi.storage.reader import Slices

Polled = Callable[[int, int, Slices | None], None]
"""Told the status, the partition's current offset, and what is to be sent (None = nothing)."""

DECIDED_BY_OWNER: Final = frozenset({StrategyKind.NEXT})


class Polls:
    """Answers polls of this shard's connections."""

    def __init__(
        self, readers: Readers, owners: Owners, durability: Durability, response_size_max: int
    ) -> None:
        self._readers = readers
        self._owners = owners
        self._always_ask = durability is Durability.BUFFERED
        self._response_size_max = response_size_max

    def poll(
        self,
        target: Target,
        strategy: int,
        value: int,
        count: int,
        consumer_kind: int,
        consumer: int,
        auto_commit: bool,
        polled: Polled,
    ) -> None:
        """Find what a poll returns; `polled` is called once, at once or later."""
        published = self._readers.published(target.slot)
        if (
            auto_commit
            or self._always_ask
            or strategy in DECIDED_BY_OWNER
            or published.birth != target.birth
        ):
            # Another birth on the board: nothing was published of this life yet, ask its owner.
            self._ask_owner(
                target, strategy, value, count, consumer_kind, consumer, auto_commit, polled
            )
            return
        try:
            reader = self._readers.reader(target)
            start = poll_start(
                strategy,
                value,
                count,
                published,
                None,
                lambda timestamp: reader.find_timestamp(published, timestamp),
            )
            slices = None
            if start is not None:
                slices = reader.read(published, start, count, self._response_size_max)
        except BrokerError as error:
            polled(error.status, 0, None)
            return
        polled(0, current_offset(published), slices)

    def _ask_owner(
        self,
        target: Target,
        strategy: int,
        value: int,
        count: int,
        consumer_kind: int,
        consumer: int,
        auto_commit: bool,
        polled: Polled,
    ) -> None:
        def resolved(status: int, start: int, found: int, current: int) -> None:
            if status or found == 0:
                polled(status, current, None)
                return
            try:
                slices = self._read(target, start, found)
            except BrokerError as error:
                polled(error.status, 0, None)
                return
            polled(0, current, slices)

        self._owners.resolve_poll(
            target, strategy, value, count, consumer_kind, consumer, auto_commit, resolved
        )

    def _read(self, target: Target, start: int, found: int) -> Slices:
        published = self._readers.published(target.slot)
        if published.birth != target.birth:
            raise PartitionNotFound(f"{target} was purged while it was being polled")
        return self._readers.reader(target).read(published, start, found, self._response_size_max)
