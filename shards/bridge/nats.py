"""NATS on one shard: the partitions that it owns listen on their subjects.

The owner of a partition subscribes, and no other shard: messages are stored once, in the order of
NATS, without a hop. When a worker dies, the kernel closes its connection, and its successor
subscribes before its doors open. What NATS has meanwhile for its partitions is lost, as NATS keeps
nothing; what was acked is in the log.

Which subscriptions there should be follows from the metadata alone (`_wanted`), so every change is
the same step: compare, and subscribe or unsubscribe what differs. A stream that was made is
answered when the servers know its subscriptions, on every shard (`settle_everywhere`).
"""

import asyncio
import logging
from functools import partial
from typing import Final, NamedTuple

from borzoi.liftbridge.intake import Feed, Intake
from borzoi.liftbridge.nats_link import Interest, NatsLink
from borzoi.liftbridge.ports import PortError
from borzoi.liftbridge.publishing import Publishing
from borzoi.liftbridge.subjects import partition_subject
from borzoi.protocol.errors import BrokerError
from borzoi.router.target import Target
from borzoi.shards.loop.tasks import Tasks
from borzoi.shards.metrics.shard_figures import NatsFigures
from borzoi.shards.ports.owners import PartitionOwners
from borzoi.shards.rings.gather import answers
from borzoi.shards.rings.peers import Peers
from borzoi.shards.rings.requests import DeathRule, Done, Request, Serve

LOG: Final = logging.getLogger(__name__)

SETTLE_TIME_MAX_S: Final = 2.0
"""So long a change of streams waits for the NATS servers; then it is answered without them."""

DRAIN_TIME_MAX_S: Final = 1.0


class SettleNats(Request):
    """Subscribe to what the metadata says, and answer when the NATS server knows it."""

    KIND = 78
    RULE = DeathRule.COMPLETE


class Listening(NamedTuple):
    """A partition and where it listens."""

    stream: str
    partition: int
    subject: str
    group: str


class NatsPartitions:
    """The subscriptions of one shard."""

    def __init__(
        self,
        owners: PartitionOwners,
        publishing: Publishing,
        link: NatsLink,
        intake: Intake,
        peers: Peers,
        tasks: Tasks,
    ) -> None:
        self.link = link
        self.intake = intake
        self._owners = owners
        self._bridge = publishing.bridge
        self._peers = peers
        self._tasks = tasks
        self._interests: dict[Listening, Interest] = {}
        self._comparing = asyncio.Lock()
        self._is_due = False

    def start(self) -> None:
        """Connect, and subscribe."""
        self.link.start()
        self.changed()

    async def stop(self) -> None:
        """Take no more messages; store and ack what has come, and go."""
        for interest in list(self._interests.values()):
            await self.link.unsubscribe(interest)
        self._interests.clear()
        try:
            async with asyncio.timeout(DRAIN_TIME_MAX_S):
                await self.intake.drain()
        except TimeoutError:
            LOG.warning("NATS: messages that came last are stored, and not acked")
        await self.link.stop()

    def changed(self) -> None:
        """Look soon, once for all streams that change now."""
        if not self._is_due:
            self._is_due = True
            self._tasks.start(self._compare())

    async def settle(self) -> None:
        """Be subscribed to what is due alone; returns when the server knows it, or has no time."""
        await self._compare()
        is_due = bool(self._interests) or self.link.counts.is_connected
        if is_due and not await self.link.settle(SETTLE_TIME_MAX_S):
            LOG.warning("NATS: no server has confirmed the subscriptions; they come with the next")

    async def settle_everywhere(self) -> None:
        """The same on all shards."""
        await asyncio.gather(self.settle(), self._settle_others())

    def figures(self) -> NatsFigures:
        """For metrics."""
        counts, link = self.intake.counts, self.link.counts
        return NatsFigures(
            connected=link.is_connected,
            subscriptions=len(self._interests),
            pending_bytes=self.intake.pending_size,
            disconnects=link.disconnects,
            received_messages=counts.received + link.unreadable,
            stored_messages=counts.stored,
            enveloped_messages=counts.enveloped,
            malformed_envelopes=counts.malformed,
            acks=counts.acked,
            unsent_acks=counts.unacked,
            overflowed=counts.overflowed,
            refused=counts.refused,
            failed=counts.failed,
            unreadable=link.unreadable,
        )

    @property
    def ring_table(self) -> dict[type[Request], Serve]:
        """What other shards may ask of this one."""
        return {SettleNats: self.serve}

    def serve(self, _shard: int, _request: SettleNats, _lent: memoryview, done: Done) -> None:
        """A peer has made a stream."""

        async def settle() -> None:
            await self.settle()
            done(0)

        self._tasks.start(settle())

    async def _settle_others(self) -> None:
        try:
            await answers(self._peers, SettleNats())
        except BrokerError as error:
            LOG.warning("NATS: another shard subscribes late: %s", error)

    async def _compare(self) -> None:
        async with self._comparing:
            self._is_due = False
            wanted = self._wanted()
            for listening in self._interests.keys() - wanted:
                await self.link.unsubscribe(self._interests.pop(listening))
            for listening in sorted(wanted - self._interests.keys()):
                feed = Feed(listening.stream, listening.partition)
                take = partial(self.intake.take, feed)
                interest = await self.link.subscribe(listening.subject, listening.group, take)
                self._interests[listening] = interest

    def _wanted(self) -> set[Listening]:
        found = set()
        for view in self._bridge.streams().values():
            for number in range(view.partitions):
                if number not in view.paused and self._is_own(view.name, number):
                    subject = partition_subject(view.subject, number)
                    found.add(Listening(view.name, number, subject, view.group))
        return found

    def _is_own(self, stream: str, partition: int) -> bool:
        try:
            place = self._bridge.route(stream, partition).place
        except PortError:
            return False
        return isinstance(place, Target) and self._owners.owner(place) == self._owners.shard
