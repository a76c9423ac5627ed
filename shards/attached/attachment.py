"""The subjects of topics, the states of their partitions, cursors and consumer groups. Pure.

A topic with an Attachment is a stream of Liftbridge. Groups are
lists of members with the names of their streams; which member has which partition follows from
that (liftbridge/groups.py).
"""

from collections.abc import Iterable, Mapping

import msgspec
from msgspec.structs import replace

from borzoi.protocol.errors import ConsumerGroupMemberNotFound


class EventTimes(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """When something happened first and last, in microseconds."""

    first: int
    latest: int


class Attachment(msgspec.Struct, frozen=True):
    """The subject of a topic, its settings as they were given, and the states of its partitions."""

    subject: str
    group: str = ""
    settings: dict[str, int] = {}
    paused: tuple[int, ...] = ()
    resume_all: bool = False
    readonly: tuple[int, ...] = ()
    pause_times: dict[int, EventTimes] = {}
    readonly_times: dict[int, EventTimes] = {}

    def with_paused(
        self, partitions: Iterable[int], is_set: bool, resume_all: bool, now: int
    ) -> "Attachment":
        """The same, with partitions paused or resumed."""
        return replace(
            self,
            paused=_changed(self.paused, partitions, is_set),
            resume_all=resume_all,
            pause_times=_happened(self.pause_times, partitions, now)
            if is_set
            else self.pause_times,
        )

    def with_readonly(self, partitions: Iterable[int], is_set: bool, now: int) -> "Attachment":
        """The same, with partitions that take messages, or do not."""
        times = self.readonly_times
        return replace(
            self,
            readonly=_changed(self.readonly, partitions, is_set),
            readonly_times=_happened(times, partitions, now) if is_set else times,
        )

    def within(self, count: int) -> "Attachment":
        """The same, of the partitions below `count`."""
        return replace(
            self,
            paused=tuple(one for one in self.paused if one < count),
            readonly=tuple(one for one in self.readonly if one < count),
            pause_times={one: at for one, at in self.pause_times.items() if one < count},
            readonly_times={one: at for one, at in self.readonly_times.items() if one < count},
        )


class BridgeGroup(msgspec.Struct, frozen=True):
    """A consumer group of Liftbridge: the streams of each member, and how often that changed."""

    epoch: int
    members: dict[str, tuple[str, ...]]

    def without(self, member: str) -> "BridgeGroup | None":
        """The group when a member has left, None if it was the last one."""
        if member not in self.members:
            raise ConsumerGroupMemberNotFound(f"{member!r} is no member")
        left = {name: streams for name, streams in self.members.items() if name != member}
        return BridgeGroup(self.epoch + 1, left) if left else None

    def without_stream(self, stream: str) -> "BridgeGroup":
        """The group when a stream is gone."""
        if not any(stream in streams for streams in self.members.values()):
            return self
        kept = {
            name: tuple(one for one in streams if one != stream)
            for name, streams in self.members.items()
        }
        return BridgeGroup(self.epoch + 1, kept)


class BridgeState(msgspec.Struct):
    """Cursors by their keys, and groups by their ids."""

    cursors: dict[str, int] = {}
    groups: dict[str, BridgeGroup] = {}

    def stream_gone(self, stream: str) -> None:
        """A topic with an attachment was deleted."""
        for id, group in self.groups.items():
            self.groups[id] = group.without_stream(stream)


def _changed(before: tuple[int, ...], partitions: Iterable[int], is_set: bool) -> tuple[int, ...]:
    named = set(partitions)
    return tuple(sorted(set(before) | named if is_set else set(before) - named))


def _happened(
    before: Mapping[int, EventTimes], partitions: Iterable[int], now: int
) -> dict[int, EventTimes]:
    after = dict(before)
    for partition in partitions:
        known = after.get(partition)
        after[partition] = EventTimes(now if known is None else known.first, now)
    return after
