"""What is done with consumer groups, for the machine that compares a broker with its model.

A member that polls commits before the next rule begins: a partition that waits for a commit changes
hands at a moment that no answer tells. The one rule that is about waiting ends with the commit.
"""

from typing import Any, Final

from hypothesis import strategies as st
from hypothesis.stateful import rule

from borzoi.protocol.commands.groups import (
    CreateConsumerGroup,
    DeleteConsumerGroup,
    GetConsumerGroup,
    GetConsumerGroups,
    JoinConsumerGroup,
    LeaveConsumerGroup,
)
from borzoi.protocol.commands.messages import PollMessages
from borzoi.protocol.commands.offsets import (
    DeleteConsumerOffset,
    GetConsumerOffset,
    StoreConsumerOffset,
)
from borzoi.protocol.identifiers import (
    Consumer,
    ConsumerKind,
    Identifier,
    PartitionId,
    PollingStrategy,
    StrategyKind,
)
from borzoi.protocol.message import Message
from tests.crash.model import ModelGroup, ModelMember, ModelStream, ModelTopic
from tests.crash.model_machine import (
    COUNTS,
    GUESTS,
    ON,
    PARTITION_IDS,
    PLACES,
    SHARDS,
    STREAMS,
    TOPICS,
    MessageRules,
    Nth,
)

GROUP_NAMES: Final = st.sampled_from(["g", "h"])
GROUPS: Final = st.sampled_from(["g"] * 6 + ["h", "h", 0, 1, "absent"])
SEAT: Final = st.sampled_from((*SHARDS, *GUESTS))
NEXT: Final = PollingStrategy(StrategyKind.NEXT)


class GroupRules(MessageRules):
    """Groups, their members, and what these poll and commit."""

    @rule(on=ON, stream=STREAMS, topic=TOPICS, name=GROUP_NAMES)
    def create_group(self, on: int, stream: Identifier | Nth, topic: Identifier, name: str) -> None:
        self.step(on, CreateConsumerGroup(self.id_of(stream), topic, name))

    @rule(on=ON, stream=STREAMS, topic=TOPICS, group=GROUPS)
    def delete_group(
        self, on: int, stream: Identifier | Nth, topic: Identifier, group: Identifier
    ) -> None:
        self.step(on, DeleteConsumerGroup(self.id_of(stream), topic, group))

    @rule(
        on=SEAT,
        stream=STREAMS,
        topic=TOPICS,
        group=GROUPS,
        change=st.sampled_from([JoinConsumerGroup] * 3 + [LeaveConsumerGroup]),
    )
    def join_or_leave(
        self, on: int, stream: Identifier | Nth, topic: Identifier, group: Identifier, change: Any
    ) -> None:
        where = self.id_of(stream), topic, group
        self.step(on, change(*where))
        self.step(0, GetConsumerGroup(*where))

    @rule(on=ON, stream=STREAMS, topic=TOPICS, group=GROUPS)
    def read_groups(
        self, on: int, stream: Identifier | Nth, topic: Identifier, group: Identifier
    ) -> None:
        self.step(on, GetConsumerGroups(self.id_of(stream), topic))
        self.step(on, GetConsumerGroup(self.id_of(stream), topic, group))

    @rule(on=SEAT)
    def break_off(self, on: int) -> None:
        """The connection ends, and with it its memberships."""
        self.connect_seat(on)
        self.settle_groups()

    @rule(
        on=SEAT,
        stream=STREAMS,
        topic=TOPICS,
        group=GROUPS,
        partition_id=st.none() | PARTITION_IDS,
        kind=st.sampled_from(StrategyKind),
        value=st.integers(0, 12),
        count=COUNTS,
        auto_commit=st.booleans(),
    )
    def poll_as_member(
        self,
        on: int,
        stream: Identifier | Nth,
        topic: Identifier,
        group: Identifier,
        partition_id: int | None,
        kind: StrategyKind,
        value: int,
        count: int,
        auto_commit: bool,
    ) -> None:
        consumer = Consumer(ConsumerKind.GROUP, group)
        strategy = PollingStrategy(kind, value)
        where = self.id_of(stream), topic, partition_id
        self.step(on, PollMessages(consumer, *where, strategy, count, auto_commit))
        self._commit_everything()

    @rule(on=SEAT, place=PLACES, partition_id=PARTITION_IDS, offset=st.integers(0, 6))
    def commit_as_member(self, on: int, place: int, partition_id: int, offset: int) -> None:
        where = self._some_group(place)
        if where is not None:
            stream, topic, group = where
            at = group.consumer, stream.id, topic.id, partition_id
            self.step(on, StoreConsumerOffset(*at, offset))
            self.step(1 - on % 2, GetConsumerOffset(*at))
            self._commit_everything()

    @rule(on=SEAT, place=PLACES, partition_id=PARTITION_IDS)
    def forget_as_member(self, on: int, place: int, partition_id: int) -> None:
        where = self._some_group(place)
        if where is not None:
            stream, topic, group = where
            at = group.consumer, stream.id, topic.id, partition_id
            self.step(on, DeleteConsumerOffset(*at))
            self._commit_everything()

    @rule(place=PLACES)
    def go_round(self, place: int) -> None:
        """Polls without a partition go round all of a member's."""
        found = self._some_member(place)
        if found is None:
            return
        seat, stream, topic, group, member = found
        seen = [
            self.step(
                seat, PollMessages(group.consumer, stream.id, topic.id, None, NEXT, 1, False)
            ).partition_id
            for _ in member.held
        ]
        assert sorted(seen) == sorted(member.held)
        self._commit_everything()

    @rule(place=PLACES, newcomer=SEAT)
    def join_while_polled(self, place: int, newcomer: int) -> None:
        """What is polled and not committed stays where it is until it is."""
        found = self._some_member(place)
        if found is None:
            return
        seat, stream, topic, group, member = found
        for partition in member.held:
            self.send(0, stream.id, topic.id, PartitionId(partition), [Message(b"polled")])
            command = PollMessages(group.consumer, stream.id, topic.id, partition, NEXT, 1, False)
            self.step(seat, command)
        waits = self.model.waits(topic, group)
        self.step(newcomer, JoinConsumerGroup(stream.id, topic.id, group.id))
        self.step(0, GetConsumerGroup(stream.id, topic.id, group.id))
        assert self.model.waits(topic, group) == waits
        self.counts["waited for"] += len(waits)
        self._commit_everything()

    def _commit_everything(self) -> None:
        for stream, topic in self.model.all_topics():
            for group in topic.groups:
                waits = self.model.waits(topic, group)
                for member, partition in waits:
                    at = group.consumer, stream.id, topic.id, partition
                    self.step(
                        self._seat(member), StoreConsumerOffset(*at, group.highest[partition])
                    )
                if waits:
                    self.settle_groups()

    def _some_group(self, place: int) -> tuple[ModelStream, ModelTopic, ModelGroup] | None:
        found = [
            (stream, topic, group)
            for stream, topic in self.model.all_topics()
            for group in topic.groups
        ]
        return found[place % len(found)] if found else None

    def _some_member(
        self, place: int
    ) -> tuple[int, ModelStream, ModelTopic, ModelGroup, ModelMember] | None:
        """A member of root's: nothing of what it does is refused."""
        found = [
            (self._seat(member), stream, topic, group, member)
            for stream, topic in self.model.all_topics()
            for group in topic.groups
            for member in group.members
            if self._seat(member) in SHARDS
        ]
        return found[place % len(found)] if found else None

    def _seat(self, member: ModelMember) -> int:
        return next(
            seat for seat, session in self.model.sessions.items() if session is member.session
        )
