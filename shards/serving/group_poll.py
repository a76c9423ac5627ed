"""POLL_MESSAGES in the name of a group.

The partition is the client's choice or the next of the round; its owner decides what is returned,
because all members of the group share one offset there. A partition of another member gives
no error, but nothing. By callbacks, and without state: a session has one request in work.
"""

# A callback is made for every poll: its types are not looked up each time.
from __future__ import annotations

from collections.abc import Callable
from typing import Final, Protocol, TypeAlias

from borzoi.protocol.errors import (
    ConsumerGroupMemberNotFound,
    NotResolvedConsumer,
    PartitionNotFound,
)
from borzoi.protocol.generations import Generation
from borzoi.protocol.identifiers import ConsumerKind, Identifier
from borzoi.shards.handlers.membership import GroupCaller, require_registered
from borzoi.shards.handlers.services import Services
from borzoi.shards.metadata.effects import GroupRef
from borzoi.shards.metadata.state import Stream, Topic
from borzoi.shards.ports.partitioning import Place
from borzoi.shards.rings.poll import AnswerCut, Poll
from borzoi.shards.rosters.roster import Holding
from borzoi.shards.rosters.share import Share
from borzoi.shards.serving.reply import Messages, Reply
from borzoi.storage.outcome import NO_SLICES, Slices

GROUP: Final = int(ConsumerKind.GROUP)


class GroupPoller(GroupCaller, Protocol):
    """What a poll needs of its session."""

    generation: Generation
    cut: AnswerCut
    """How long an answer its client reads."""

    @property
    def reply(self) -> Callable[[Reply], None]:
        """Ends the request in work."""

    @property
    def user(self) -> int:
        """The user that is logged in."""

    def fail_with(self, status: int) -> None:
        """Answer with an error, or close without an answer if the outcome is unknown."""

    def move_to(self, shard: int) -> None:
        """Go on there, if connections move."""


WantedOfGroup: TypeAlias = tuple[int, int, int, int]
"""The last bytes of a poll: strategy, value, how many messages at most, and whether it commits."""


class GroupRoute:
    """What the first bytes of a group's poll mean, while the metadata does not change.

    `partition_id` is the client's choice, None if the next of the round is wanted.
    """

    __slots__ = (
        "_home",
        "_homed",
        "_metadata",
        "_owner_of",
        "_places",
        "_poll",
        "_topic",
        "_wanted",
        "birth",
        "group",
        "partition_id",
        "partitions_count",
    )

    def __init__(
        self,
        services: Services,
        stream: Stream,
        topic: Topic,
        identifier: Identifier,
        partition_id: int | None,
    ) -> None:
        """The group must exist."""
        group = topic.group(identifier)
        self._metadata = services.metadata
        self._topic = topic
        self._owner_of = services.groups.owners.owner
        self._places: dict[int, Place] = {}
        self._homed: Share | None = None
        self._home: int | None = None
        self.group = GroupRef(stream.id, topic.id, group.id)
        self.birth = group.birth
        self.partition_id = partition_id
        self.partitions_count = topic.partitions_count
        self._wanted: tuple[object, ...] = ()
        self._poll: Poll

    def poll(self, wanted: WantedOfGroup, user: int, cut: AnswerCut) -> Poll:
        """What these last bytes of a request want. Most members ask for the same every time."""
        asked = wanted, user, cut
        if asked != self._wanted:
            strategy, value, count_max, auto_commit = wanted
            group_id, commits = self.group.group_id, auto_commit != 0
            self._poll = Poll(strategy, value, count_max, GROUP, group_id, commits, user, cut)
            self._wanted = asked
        return self._poll

    def place(self, partition_id: int) -> Place:
        """The partition as the metadata has it, and its owner; at most all of a topic are kept."""
        place = self._places.get(partition_id)
        if place is None:
            target = self._metadata.target(self.group.stream_id, self._topic, partition_id)
            place = self._places[partition_id] = target, self._owner_of(target)
        return place

    def home(self, share: Share) -> int | None:
        """The shard that owns all partitions of a member; None if there is no such shard."""
        if self._homed is not share:
            owners = {
                self.place(one.partition)[1]
                for one in share.turns
                if one.partition < self.partitions_count
            }
            self._homed = share
            self._home = owners.pop() if len(owners) == 1 else None
        return self._home


def begin_group_poll(
    services: Services, poller: GroupPoller, route: GroupRoute, wanted: WantedOfGroup
) -> None:
    """Carry out a poll whose stream, topic, permission and group have been checked."""
    require_registered(services, poller)
    share = services.groups.local.find(poller.client_id, route.group, route.birth)
    if share is None:
        if not poller.generation.chooses:
            raise ConsumerGroupMemberNotFound(f"client {poller.client_id} is not in {route.group}")
        # It chose from what it held in a session that has ended: it will ask what it holds now.
        poller.reply(_nothing(poller))
        return
    chosen = route.partition_id
    if chosen is not None:
        holding = share.held.get(chosen)
        if poller.generation.chooses and chosen in share.assignment.leaving:
            holding = None
    else:
        holding = poller.turns.next(share, route.partitions_count)
    if holding is None or holding.partition >= route.partitions_count:
        poller.reply(_nothing(poller))
        return
    _poll(services, poller, route, wanted, share, holding)


def _nothing(poller: GroupPoller) -> Messages:
    """For a member that has nothing to poll: no partition, offset 0, no messages."""
    return Messages(poller.generation.no_partition, 0, 0, (), 0)


def _poll(
    services: Services,
    poller: GroupPoller,
    route: GroupRoute,
    wanted: WantedOfGroup,
    share: Share,
    holding: Holding,
) -> None:
    poller.turns.note_poll(share, holding)
    partition_id = holding.partition
    poll = route.poll(wanted, poller.user, poller.cut)
    groups = services.groups
    target, owner = route.place(partition_id)

    def polled(status: int, current: int, slices: Slices | None) -> None:
        if status == 0:
            views, count, _, size = NO_SLICES if slices is None else slices
            poller.reply(Messages(partition_id, current, count, views, size))
            own = groups.owners.shard
            if owner != own:
                home = route.home(share)
                # Not here: it may have asked for a partition that it is about to lose.
                if home is not None and home != own:
                    # All that it polls is decided there: one hop less for each poll.
                    poller.move_to(home)
        elif status in (NotResolvedConsumer.status, PartitionNotFound.status):
            # It went to another member, or was purged or deleted, while we were asking.
            poller.reply(_nothing(poller))
        else:
            poller.fail_with(status)

    groups.poll(target, owner, poll, share.claim(holding), polled)
