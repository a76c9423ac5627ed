"""A batch that is sent again, because its worker died before it was answered: what of it is stored.

The worker had noted where the batch goes, and the next offset there. If it was written, it was
within the turns that followed, so it lies a little behind that offset: ids are looked for from
there on. Clients that number their requests give each message an id of its own, and the same when
they send it again. A killed write may have stored the first messages only.

The owner writes first what it has in memory, so that all of it can be seen from here.
"""

import asyncio
from collections.abc import Mapping
from typing import Final, NamedTuple

from borzoi.protocol.errors import RequestAlreadyApplied
from borzoi.protocol.message import ID_AT, OFFSET_AT
from borzoi.protocol.payload import U64
from borzoi.protocol.plain_log import end_of_message
from borzoi.router.request_entry import Hint
from borzoi.router.target import Target
from borzoi.shards.partitions.durability import Durability
from borzoi.shards.partitions.partition import OwnedPartition
from borzoi.shards.ports.owners import PartitionOwners
from borzoi.shards.ports.requests import Flush
from borzoi.shards.reading.readers import PartitionReaders
from borzoi.storage.published import Published

LOOK_SIZE_MAX: Final = 64 * 1024 * 1024
"""So many bytes behind the noted offset are looked through: other producers may have written there
between the note and the batch, in the same few turns."""

PIECE_SIZE: Final = 1024 * 1024
PIECE_MESSAGES: Final = 1 << 20
ID_SIZE: Final = 16


class StoredPart(NamedTuple):
    """How many messages of a batch are stored, the first ones; and the offset of its first."""

    message_count: int
    first_offset: int


NOTHING_STORED: Final = StoredPart(0, 0)


class DoubtfulSends:
    """Finds batches in the log of their partition."""

    def __init__(
        self,
        owners: PartitionOwners,
        own: Mapping[int, OwnedPartition],
        readers: PartitionReaders,
        durability: Durability,
        look_size_max: int = LOOK_SIZE_MAX,
        piece_size: int = PIECE_SIZE,
    ) -> None:
        """`own` are the partitions of this shard, by namespace."""
        self._owners = owners
        self.own = own
        self._readers = readers
        self._durability = durability
        self._look_size_max = look_size_max
        self._piece_size = piece_size

    def next_offset(self, target: Target) -> int:
        """What to note before a batch goes to this partition: it will lie there or behind."""
        own = self.own.get(target.namespace)
        if own is not None and own.target.birth == target.birth:
            # The same picture, without a look at the board.
            return own.published.next_offset
        published = self._readers.published(target.slot)
        return published.next_offset if published.birth == target.birth else 0

    async def stored(
        self, target: Target, batch: memoryview, message_count: int, hint: Hint
    ) -> StoredPart:
        """What of the batch is stored, as durable as an acknowledged one. Errors are raised."""
        if (hint.namespace, hint.birth) != (target.namespace, target.birth):
            # That life of the partition is over, and whatever was stored went with it.
            return NOTHING_STORED
        await self._owners.ask(Flush(target, self._durability is Durability.FSYNC))
        published = self._readers.published(target.slot)
        if published.birth != target.birth or published.next_offset <= hint.next_offset:
            return NOTHING_STORED
        if published.first_offset > hint.next_offset:
            raise RequestAlreadyApplied(
                f"partition {target} begins with offset {published.first_offset} by now:"
                f" what was sent at {hint.next_offset} may be stored and deleted"
            )
        return await self._look(published, target, _Search(batch, message_count), hint.next_offset)

    async def _look(
        self, published: Published, target: Target, search: "_Search", start: int
    ) -> StoredPart:
        reader = self._readers.reader(target)
        left = self._look_size_max
        while start < published.next_offset and left > 0 and not search.is_over:
            found = reader.read(published, start, PIECE_MESSAGES, self._piece_size)
            if not found.message_count:
                break
            piece = b"".join(found.views)
            search.look_through(piece)
            start += found.message_count
            left -= len(piece)
            # Others have a turn between two pieces.
            await asyncio.sleep(0)
        return StoredPart(search.found, search.first_offset)


class _Search:
    """The messages of a batch, in their order, in a log."""

    def __init__(self, batch: memoryview, message_count: int) -> None:
        self._batch = batch
        self._message_count = message_count
        self._at = 0
        self._wanted = _id_at(batch, 0)
        self.found = 0
        self.first_offset = 0

    @property
    def is_over(self) -> bool:
        """Whether all messages were found."""
        return self.found == self._message_count

    def look_through(self, piece: bytes) -> None:
        """Find more of them in whole messages of the log."""
        view = memoryview(piece)
        at = 0
        # Most pieces hold nothing of the batch.
        while not self.is_over and piece.find(self._wanted, at) >= 0:
            while _id_at(view, at) != self._wanted:
                at = end_of_message(view, at)
                if at >= len(piece):
                    return  # it was in a payload
            self._take(view, at)
            at = end_of_message(view, at)

    def _take(self, stored: memoryview, at: int) -> None:
        if self.found == 0:
            self.first_offset = U64.unpack_from(stored, at + OFFSET_AT)[0]
        self.found += 1
        self._at = end_of_message(self._batch, self._at)
        if not self.is_over:
            self._wanted = _id_at(self._batch, self._at)


def _id_at(messages: memoryview, at: int) -> bytes:
    return bytes(messages[at + ID_AT : at + ID_AT + ID_SIZE])
