"""Requests to shard 0 about the members of groups: what each carries, how it is carried out."""

from typing import Final

from borzoi.shards.groups.coordinator import Coordinator
from borzoi.shards.metadata.effects import GroupRef
from borzoi.shards.rings.requests import DeathRule, Done, Request


class OfMember(Request):
    """A request that shard 0 carries out with its Coordinator."""

    def carry_out(self, at: Coordinator, shard: int, done: Done) -> None:
        """Do it for a session of `shard`."""
        raise NotImplementedError


class OfMembership(OfMember):
    """About one session in one life of a group."""

    stream_id: int
    topic_id: int
    group_id: int
    birth: int
    client_id: int

    @property
    def group(self) -> GroupRef:
        """The group."""
        return GroupRef(self.stream_id, self.topic_id, self.group_id)


class Join(OfMembership):
    """A session becomes a member."""

    KIND = 15

    def carry_out(self, at: Coordinator, shard: int, done: Done) -> None:
        """Answered when all shards know."""
        at.join(self.group, self.birth, self.client_id, shard, done)


class Leave(OfMembership):
    """A session is a member no longer."""

    KIND = 16

    def carry_out(self, at: Coordinator, _shard: int, done: Done) -> None:
        """Answered when all shards know."""
        at.leave(self.group, self.birth, self.client_id, done)


class Arrived(OfMembership):
    """A member's socket has moved to the asking shard."""

    KIND = 17
    RULE = DeathRule.COMPLETE

    def carry_out(self, at: Coordinator, shard: int, done: Done) -> None:
        """Answered at once."""
        at.arrived(self.group, self.birth, self.client_id, shard)
        done(0)


class Moving(OfMember):
    """The socket of a session is on its way to another shard."""

    KIND = 18
    RULE = DeathRule.COMPLETE

    client_id: int
    to_shard: int

    def carry_out(self, at: Coordinator, _shard: int, done: Done) -> None:
        """Answered at once."""
        at.moving(self.client_id, self.to_shard)
        done(0)


class Gone(OfMember):
    """A session has ended. If shard 0 dies meanwhile, its successor hears of those who are left."""

    KIND = 19
    RULE = DeathRule.COMPLETE

    client_id: int

    def carry_out(self, at: Coordinator, shard: int, done: Done) -> None:
        """Answered at once."""
        at.gone(self.client_id, shard)
        done(0)


class Released(OfMember):
    """From the owner of a partition: it is closed to its holder."""

    KIND = 20
    RULE = DeathRule.COMPLETE

    stream_id: int
    topic_id: int
    partition_id: int
    group_id: int
    birth: int
    ticket: int

    def carry_out(self, at: Coordinator, _shard: int, done: Done) -> None:
        """Answered at once."""
        group = GroupRef(self.stream_id, self.topic_id, self.group_id)
        at.released(group, self.birth, self.partition_id, self.ticket)
        done(0)


class TellMembers(Request):
    """Write the members of a group, or the counts of all groups, into the lent buffer."""

    KIND = 21
    RULE = DeathRule.REREAD
    LENDS = True

    stream_id: int
    topic_id: int
    group_id: int
    birth: int
    position: int
    length: int


OF_MEMBERS: Final[tuple[type[OfMember], ...]] = (Join, Leave, Arrived, Moving, Gone, Released)
