"""Where a consumer's messages come from: partitions of its own, or those its group gives it.

A source polls one partition after the other, and knows when all of them had their turn. It does
not commit, except that the server does so with each poll if that is wanted.
"""

from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final, Protocol

from borzoi.client.reading import Reading
from borzoi.client.strategies import FIRST, NEXT
from borzoi.protocol.errors import (
    ConsumerGroupIdNotFound,
    ConsumerGroupMemberNotFound,
    ConsumerGroupNameAlreadyExists,
    PartitionNotFound,
    StreamIdNotFound,
    TopicIdNotFound,
)
from borzoi.protocol.identifiers import ConsumerKind
from borzoi.protocol.responses import PolledMessages

# How old the list of a topic's partitions may be when a consumer reads all of them.
PARTITIONS_AGE_MAX_S: Final = 30.0
UNKNOWN: Final = float("inf")
# The membership has ended before it was left, one way or another.
NOTHING_TO_LEAVE: Final = (
    ConsumerGroupMemberNotFound,
    ConsumerGroupIdNotFound,
    TopicIdNotFound,
    StreamIdNotFound,
)


class Source(Protocol):
    """Where a consumer polls: partitions of its own, or as a member of a group."""

    async def open(self) -> None:
        """Finds the partitions, or joins the group."""

    async def poll_round(self) -> PolledMessages | None:
        """The next messages of the first partition that has some; None when none has."""

    async def close(self) -> None:
        """Leaves the group, if there is one."""


class OwnPartitions:
    """Chosen partitions, or all that the topic has; new ones are noticed after a while."""

    def __init__(
        self, reading: Reading, partitions: Sequence[int] | None, clock_s: Callable[[], float]
    ) -> None:
        self._reading = reading
        self._finds_partitions = partitions is None
        self._turns: deque[int] = deque(partitions or ())
        self._clock_s = clock_s
        self._known_until = 0.0

    async def open(self) -> None:
        """Asks the server for the partitions, unless they were given."""
        if self._finds_partitions:
            await self._find_partitions()

    async def poll_round(self) -> PolledMessages | None:
        """Polls each partition once in turn, until one has messages; None when none has."""
        if self._finds_partitions and self._clock_s() >= self._known_until:
            await self._find_partitions()
        for _ in range(len(self._turns)):
            partition_id = self._turns[0]
            self._turns.rotate(-1)
            try:
                polled = await self._poll(partition_id)
            except PartitionNotFound:
                if not self._finds_partitions:
                    raise
                self._turns.remove(partition_id)
                self._reading.forget(partition_id)
                continue
            if polled.messages:
                return polled
        return None

    async def close(self) -> None:
        """Nothing is held."""

    async def _poll(self, partition_id: int) -> PolledMessages:
        if not self._reading.has_begun(partition_id):
            return await self._reading.begin(partition_id)
        polled = await self._reading.go_on(partition_id)
        if not polled.messages and self._reading.was_purged(polled):
            self._reading.begin_at(partition_id, 0)
        return polled

    async def _find_partitions(self) -> None:
        reading = self._reading
        details = await reading.client.get_topic(reading.stream, reading.topic)
        if details is None:
            place = f"topic {reading.topic} of stream {reading.stream}"
            raise TopicIdNotFound(f"{place} does not exist")
        is_first = not self._known_until
        self._known_until = self._clock_s() + PARTITIONS_AGE_MAX_S
        for partition in details.partitions:
            if partition.id in self._turns:
                continue
            self._turns.append(partition.id)
            if not is_first and reading.start != NEXT:
                # All of it was sent after this consumer had begun, whatever that began with.
                reading.begin_at(partition.id, 0)


class GroupMember:
    """What the group gives this client; the server says from which partition each poll reads.

    The server gives out what follows the group's commit. Messages behind that which were read
    here already are passed over, so they do not come twice when commits lag behind.
    """

    def __init__(self, reading: Reading, *, creates_group: bool) -> None:
        assert reading.consumer.kind == ConsumerKind.GROUP
        self._reading = reading
        self._group = reading.consumer.id
        self._creates_group = creates_group
        self._starts_anywhere = reading.start in (NEXT, FIRST)
        self._seen: set[int] = set()  # partitions whose start was looked at
        # The server must not commit what is polled only to see which partition it is.
        self._commits_polled = reading.auto_commit and not self._starts_anywhere
        if self._commits_polled:
            reading.auto_commit = False
        # For noticing that all partitions had their turn: the server goes round them, and says
        # with each answer which one it was.
        self._polls_count = 0
        self._polled_at: dict[int, int] = {}
        self._round_size: float = UNKNOWN

    async def open(self) -> None:
        """Joins the group; creates it before that, if that is wanted."""
        client, stream, topic = self._reading.client, self._reading.stream, self._reading.topic
        if self._creates_group and isinstance(self._group, str):
            found = await client.get_consumer_group(stream, topic, self._group)
            if found is None:
                with suppress(ConsumerGroupNameAlreadyExists):  # another member was faster
                    await client.create_consumer_group(stream, topic, self._group)
        await self._join()

    async def poll_round(self) -> PolledMessages | None:
        """Polls until there are messages; None after as many empty polls as partitions held."""
        empty_polls = 0
        while True:
            polled = await self._poll()
            if polled.messages:
                if self._commits_polled:
                    await self._commit(polled)
                return polled
            empty_polls += 1
            if empty_polls >= self._round_size:
                return None

    async def close(self) -> None:
        """Leaves the group; fine if it is gone already."""
        with suppress(*NOTHING_TO_LEAVE):
            await self._reading.client.leave_consumer_group(
                self._reading.stream, self._reading.topic, self._group
            )

    async def _join(self) -> None:
        await self._reading.client.join_consumer_group(
            self._reading.stream, self._reading.topic, self._group
        )

    async def _poll(self) -> PolledMessages:
        try:
            polled = await self._reading.poll(None, NEXT)
        except ConsumerGroupMemberNotFound:
            # Dropped for its silence, or the group is a new one of the old name.
            await self._join()
            polled = await self._reading.poll(None, NEXT)
        self._note_turn(polled.partition_id)
        if not self._starts_anywhere and polled.partition_id not in self._seen:
            if not await self._has_committed(polled.partition_id):
                return await self._begin(polled)
            self._seen.add(polled.partition_id)
        given_count = len(polled.messages)
        polled = self._reading.only_new(polled)
        if given_count and not polled.messages:
            return await self._reading.go_on(polled.partition_id)
        return polled

    async def _has_committed(self, partition_id: int) -> bool:
        """Where the group has committed it goes on from there, whatever start is wanted."""
        committed = await self._reading.client.get_consumer_offset(
            self._reading.stream,
            self._reading.topic,
            partition_id,
            consumer=self._reading.consumer,
        )
        return committed is not None

    async def _begin(self, polled: PolledMessages) -> PolledMessages:
        begun = await self._reading.begin(polled.partition_id)
        self._seen.add(polled.partition_id)
        if polled.current_offset and not self._reading.has_begun(polled.partition_id):
            # Nothing that is there now is wanted.
            self._reading.begin_at(polled.partition_id, polled.current_offset + 1)
        return begun

    async def _commit(self, polled: PolledMessages) -> None:
        await self._reading.client.store_consumer_offset(
            self._reading.stream,
            self._reading.topic,
            polled.partition_id,
            polled.messages[-1].offset,
            consumer=self._reading.consumer,
        )

    def _note_turn(self, partition_id: int) -> None:
        """The round is as long as it took this partition to have its turn again."""
        self._polls_count += 1
        last = self._polled_at.get(partition_id)
        self._polled_at[partition_id] = self._polls_count
        self._round_size = UNKNOWN if last is None else self._polls_count - last
