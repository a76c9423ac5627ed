"""The kinds of entries that Liftbridge adds to the metadata log. The rules of entries.py hold."""

from borzoi.shards.attached.attachment import BridgeGroup
from borzoi.shards.metadata.effects import Effects, Protection
from borzoi.shards.metadata.entries import OfTopic, Stored
from borzoi.shards.metadata.state import State


class PartitionsPaused(OfTopic, frozen=True, tag="partitions_paused"):
    """Partitions of a stream are paused, or go on."""

    partitions: tuple[int, ...]
    is_set: bool
    resume_all: bool = False

    def apply(self, state: State, timestamp: int, effects: Effects) -> None:
        """Note it in the attachment of the topic."""
        topic = state.topic(self.stream_id, self.topic_id)
        attached = topic.attached
        topic.attachment = attached.with_paused(
            self.partitions, self.is_set, self.resume_all, timestamp
        )
        effects.attachments_changed = True


class PartitionsProtected(OfTopic, frozen=True, tag="partitions_protected"):
    """Partitions of a stream take no messages, or take them again."""

    partitions: tuple[int, ...]
    is_set: bool

    def apply(self, state: State, timestamp: int, effects: Effects) -> None:
        """Note it in the attachment of the topic; the owners of the partitions follow."""
        topic = state.topic(self.stream_id, self.topic_id)
        topic.attachment = topic.attached.with_readonly(self.partitions, self.is_set, timestamp)
        effects.attachments_changed = True
        effects.protected.append(
            Protection(self.stream_id, self.topic_id, self.partitions, self.is_set)
        )


class CursorsSet(Stored, frozen=True, tag="cursors_set"):
    """Cursors have these offsets."""

    cursors: dict[str, int]

    def apply(self, state: State, _timestamp: int, _effects: Effects) -> None:
        """Replace those of the same key."""
        state.make_bridge().cursors.update(self.cursors)


class BridgeMemberJoined(Stored, frozen=True, tag="bridge_member_joined"):
    """A consumer is a member of a group; the first one makes it."""

    group: str
    member: str
    streams: tuple[str, ...]

    def apply(self, state: State, _timestamp: int, _effects: Effects) -> None:
        """Add it; the epoch of a new group is 0."""
        groups = state.make_bridge().groups
        known = groups.get(self.group)
        members = {} if known is None else known.members
        assert self.member not in members
        epoch = 0 if known is None else known.epoch + 1
        groups[self.group] = BridgeGroup(epoch, {**members, self.member: self.streams})


class BridgeMemberLeft(Stored, frozen=True, tag="bridge_member_left"):
    """A consumer is no member any more; the last one takes the group with it."""

    group: str
    member: str
    expired: bool = False

    def apply(self, state: State, _timestamp: int, _effects: Effects) -> None:
        """Remove it."""
        groups = state.make_bridge().groups
        left = groups[self.group].without(self.member)
        if left is None:
            del groups[self.group]
        else:
            groups[self.group] = left
