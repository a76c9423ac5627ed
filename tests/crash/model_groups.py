"""Consumer groups beside a broker's.

Which member holds which partition is learned from GET_CONSUMER_GROUP, where each partition has to
be held once and the split to be even, unless a member has polled what it has not committed yet.
Everything else follows from that.
"""

from typing import Any, Final

from borzoi.protocol.commands.groups import (
    CreateConsumerGroup,
    DeleteConsumerGroup,
    GetConsumerGroup,
    GetConsumerGroups,
    JoinConsumerGroup,
    LeaveConsumerGroup,
)
from borzoi.protocol.commands.messages import PollMessages
from borzoi.protocol.commands.offsets import DeleteConsumerOffset, StoreConsumerOffset
from borzoi.protocol.errors import (
    ConsumerGroupMemberNotFound,
    ConsumerGroupNameAlreadyExists,
    NotResolvedConsumer,
)
from borzoi.protocol.identifiers import ConsumerKind
from borzoi.protocol.responses.consumers import ConsumerGroupDetails, ConsumerGroupInfo
from borzoi.protocol.responses.polled import PolledMessages
from tests.crash.model import (
    MessagesModel,
    ModelGroup,
    ModelMember,
    ModelTopic,
    OffsetsModel,
    or_none,
)

NOTHING: Final = PolledMessages(0, 0, ())


class GroupsModel(MessagesModel, OffsetsModel):
    """Groups, their members, and polls and commits in their name."""

    def __init__(self) -> None:
        super().__init__()
        self._moves = 0

    def get_consumer_groups(
        self, command: GetConsumerGroups, _reply: Any
    ) -> list[ConsumerGroupInfo]:
        topic = or_none(lambda: self.topic(command.stream, command.topic))
        if topic is None:
            return []
        return [_info(topic, group) for group in sorted(topic.groups, key=lambda one: one.id)]

    def get_consumer_group(
        self, command: GetConsumerGroup, reply: ConsumerGroupDetails | None
    ) -> ConsumerGroupDetails | None:
        found = or_none(lambda: self.group_of(command.stream, command.topic, command.group))
        if found is None:
            return None
        topic, group = found
        assert reply is not None, f"{command} exists"
        self._learn(topic, group, reply)
        return ConsumerGroupDetails(_info(topic, group), reply.members)

    def create_consumer_group(self, command: CreateConsumerGroup, _reply: Any) -> ConsumerGroupInfo:
        topic = self.topic(command.stream, command.topic)
        if any(group.name == command.name for group in topic.groups):
            raise ConsumerGroupNameAlreadyExists
        topic.groups.append(ModelGroup(topic.group_ids.take(), command.name))
        return _info(topic, topic.groups[-1])

    def delete_consumer_group(self, command: DeleteConsumerGroup, _reply: None) -> None:
        topic, group = self.group_of(command.stream, command.topic, command.group)
        topic.groups.remove(group)
        topic.group_ids.free.append(group.id)
        for partition in topic.partitions:
            partition.offsets.pop(group.consumer, None)

    def join_consumer_group(self, command: JoinConsumerGroup, _reply: None) -> None:
        _, group = self.group_of(command.stream, command.topic, command.group)
        if group.member(self.session) is None:
            id = max((member.id for member in group.members), default=-1) + 1
            group.members.append(ModelMember(id, self.session))

    def leave_consumer_group(self, command: LeaveConsumerGroup, _reply: None) -> None:
        _, group = self.group_of(command.stream, command.topic, command.group)
        group.members.remove(self._member(group))
        for key in [one for one in self.session.polled if one[0] is group]:
            del self.session.polled[key]

    # In the name of a group.

    def poll_messages(self, command: PollMessages, reply: PolledMessages) -> PolledMessages:
        if command.consumer.kind is not ConsumerKind.GROUP:
            return super().poll_messages(command, reply)
        topic = self.topic(command.stream, command.topic)
        group = self.group(topic, command.consumer.id)
        member = self._member(group)
        # Whose turn it is among the partitions of a member, the broker says.
        wanted = reply.partition_id if command.partition_id is None else command.partition_id
        if wanted not in member.held:
            assert command.partition_id is not None or not member.held
            return NOTHING
        self.session.polled[group, wanted] = member.held[wanted]
        polled = self.polled(topic, command, wanted, group.consumer)
        if polled.messages:
            last = polled.messages[-1].offset
            group.highest[wanted] = max(last, group.highest.get(wanted, last))
        return polled

    def store_consumer_offset(self, command: StoreConsumerOffset, reply: None) -> None:
        super().store_consumer_offset(self._claimed(command), reply)

    def delete_consumer_offset(self, command: DeleteConsumerOffset, reply: None) -> None:
        super().delete_consumer_offset(self._claimed(command), reply)

    def waits(self, topic: ModelTopic, group: ModelGroup) -> list[tuple[ModelMember, int]]:
        """What is polled and not committed, and by whom."""
        return [
            (member, partition)
            for member in group.members
            for partition in member.held
            if group.highest.get(partition, -1)
            > topic.partitions[partition].offsets.get(group.consumer, -1)
        ]

    def _claimed(self, command: Any) -> Any:
        """The same command by the number of the group, if it is a group's and its to send."""
        if command.consumer.kind is not ConsumerKind.GROUP:
            return command
        topic = self.topic(command.stream, command.topic)
        group = self.group(topic, command.consumer.id)
        since = self._member(group).held.get(command.partition_id)
        # Lost and had again, it must be polled again before it is committed.
        if since is None or self.session.polled.get((group, command.partition_id), since) != since:
            raise NotResolvedConsumer
        return type(command)(
            group.consumer,
            *(
                getattr(command, name)
                for name in command.__dataclass_fields__
                if name != "consumer"
            ),
        )

    def _member(self, group: ModelGroup) -> ModelMember:
        member = group.member(self.session)
        if member is None:
            raise ConsumerGroupMemberNotFound
        return member

    def _learn(self, topic: ModelTopic, group: ModelGroup, reply: ConsumerGroupDetails) -> None:
        assert [one.id for one in reply.members] == [one.id for one in group.members]
        shares = [one.partitions for one in reply.members]
        held = sorted(partition for share in shares for partition in share)
        assert held == (list(range(len(topic.partitions))) if shares else []), shares
        sizes = [len(share) for share in shares]
        assert not sizes or max(sizes) - min(sizes) <= 1 or self.waits(topic, group), sizes
        self._moves += 1
        for member, share in zip(group.members, shares, strict=True):
            for gained in [one for one in share if one not in member.held]:
                group.highest.pop(gained, None)
            member.held = {one: member.held.get(one, self._moves) for one in share}


def _info(topic: ModelTopic, group: ModelGroup) -> ConsumerGroupInfo:
    return ConsumerGroupInfo(group.id, len(topic.partitions), len(group.members), group.name)
