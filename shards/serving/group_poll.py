"""POLL_MESSAGES in the name of a group.

The partition is the client's choice or the next of the round; its owner decides what is returned,
because all members of the group share one offset there. A partition of another member gives
no error, but nothing. By callbacks, and without state: a session has one request in work.
"""

from collections.abc import Callable
from typing import Protocol

from borzoi.protocol.commands.messages import PollMessages
from borzoi.protocol.errors import (
    ConsumerGroupMemberNotFound,
    NotResolvedConsumer,
    PartitionNotFound,
)
from borzoi.protocol.generations import Generation
from borzoi.protocol.identifiers import ConsumerKind
from borzoi.shards.handlers.membership import GroupCaller, membership
from borzoi.shards.handlers.services import Services
from borzoi.shards.metadata.state import Stream, Topic
from borzoi.shards.rings.poll import Poll
from borzoi.shards.rosters.roster import Holding
from borzoi.shards.rosters.share import Share
from borzoi.shards.serving.reply import Messages, Reply
from borzoi.storage.outcome import NO_SLICES, Slices


class GroupPoller(GroupCaller, Protocol):
    """What a poll needs of its session."""

    generation: Generation

    @property
    def reply(self) -> Callable[[Reply], None]:
        """Ends the request in work."""

    @property
    def user(self) -> int:
        """The user that is logged in."""

    def fail_with(self, status: int) -> None:
        """Answer with an error, or close without an answer if the outcome is unknown."""


def begin_group_poll(
    services: Services, poller: GroupPoller, command: PollMessages, stream: Stream, topic: Topic
) -> None:
    """Carry out a poll whose stream, topic and permission have been checked."""
    try:
        share = membership(services, poller, stream, topic, command.consumer.id)
    except ConsumerGroupMemberNotFound:
        if not poller.generation.chooses:
            raise
        # It chose from what it held in a session that has ended: it will ask what it holds now.
        poller.reply(_nothing(poller))
        return
    if command.partition_id is not None:
        holding = share.held.get(command.partition_id)
        if poller.generation.chooses and command.partition_id in share.assignment.leaving:
            holding = None
    else:
        holding = poller.turns.next(share, topic.partitions_count)
    if holding is None or holding.partition >= topic.partitions_count:
        poller.reply(_nothing(poller))
        return
    _poll(services, poller, command, stream, topic, share, holding)


def _nothing(poller: GroupPoller) -> Messages:
    """For a member that has nothing to poll: no partition, offset 0, no messages."""
    return Messages(poller.generation.no_partition, 0, 0, (), 0)


def _poll(
    services: Services,
    poller: GroupPoller,
    command: PollMessages,
    stream: Stream,
    topic: Topic,
    share: Share,
    holding: Holding,
) -> None:
    poller.turns.note_poll(share, holding)
    target = services.metadata.target(stream.id, topic, holding.partition)
    strategy = command.strategy
    poll = Poll(
        strategy.kind,
        strategy.value,
        command.count,
        ConsumerKind.GROUP,
        share.assignment.group.group_id,
        command.auto_commit,
        poller.user,
    )

    def polled(status: int, current: int, slices: Slices | None) -> None:
        if status == 0:
            views, count, _, size = NO_SLICES if slices is None else slices
            poller.reply(Messages(holding.partition, current, count, views, size))
        elif status in (NotResolvedConsumer.status, PartitionNotFound.status):
            # It went to another member, or was purged or deleted, while we were asking.
            poller.reply(_nothing(poller))
        else:
            poller.fail_with(status)

    services.groups.poll(target, poll, share.claim(holding), polled)
