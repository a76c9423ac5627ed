"""What a log entry means beyond the state: work for those who own files, sessions or group members.

Made by `apply`, one per entry, in log order. Owners go through them in that order and compare
births, so doing one twice, or doing it for data that never existed here, changes nothing.
"""

from dataclasses import dataclass, field
from typing import NamedTuple

from borzoi.shards.metadata.state import Run


class RunRemoved(NamedTuple):
    """These partitions, in this life, are gone: unlink what is there of them."""

    stream_id: int
    topic_id: int
    run: Run


class RunPurged(NamedTuple):
    """These partitions go on empty under a new birth. Ids and slots stay."""

    stream_id: int
    topic_id: int
    old: Run
    new: Run


class TopicRef(NamedTuple):
    """A topic, by its ids."""

    stream_id: int
    topic_id: int


class GroupRef(NamedTuple):
    """A consumer group, by its ids."""

    stream_id: int
    topic_id: int
    group_id: int


class Protection(NamedTuple):
    """These partitions take no messages, or take them again."""

    stream_id: int
    topic_id: int
    partitions: tuple[int, ...]
    is_set: bool


@dataclass(slots=True)
class Effects:
    """The consequences of entry `index`."""

    index: int
    removed: list[RunRemoved] = field(default_factory=list)
    purged: list[RunPurged] = field(default_factory=list)
    topics_removed: list[TopicRef] = field(default_factory=list)
    streams_removed: list[int] = field(default_factory=list)
    groups_removed: list[GroupRef] = field(default_factory=list)
    # Another partitions_count, so the groups of the topic must be assigned again.
    topics_resized: list[TopicRef] = field(default_factory=list)
    # Gone, and made inactive: their sessions end. Ids of users are given out again, too.
    users_removed: list[int] = field(default_factory=list)
    users_disabled: list[int] = field(default_factory=list)
    passwords_changed: list[int] = field(default_factory=list)
    protected: list[Protection] = field(default_factory=list)
    # A stream of Liftbridge came, went, or is in another state.
    attachments_changed: bool = False

    @property
    def needs_barrier(self) -> bool:
        """Whether the reply must wait until every shard has done its part."""
        return bool(
            self.removed
            or self.purged
            or self.topics_removed
            or self.streams_removed
            or self.groups_removed
        )

    def __bool__(self) -> bool:
        """Whether there is anything to do at all."""
        return bool(
            self.needs_barrier
            or self.topics_resized
            or self.users_removed
            or self.users_disabled
            or self.passwords_changed
            or self.protected
            or self.attachments_changed
        )
