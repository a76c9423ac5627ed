"""Consumer groups. The members of a group share the partitions of its topic among them."""

from borzoi.client.calls.calling import Calling
from borzoi.protocol import commands
from borzoi.protocol.identifiers import Identifier
from borzoi.protocol.responses import ConsumerGroupDetails, ConsumerGroupInfo


class GroupCalls(Calling):
    """The calls of a client that are about consumer groups."""

    async def create_consumer_group(
        self, stream: Identifier, topic: Identifier, name: str
    ) -> ConsumerGroupInfo:
        """Creates a group without members."""
        group: ConsumerGroupInfo = await self._ask(
            commands.CreateConsumerGroup(stream, topic, name)
        )
        return group

    async def get_consumer_group(
        self, stream: Identifier, topic: Identifier, group: Identifier
    ) -> ConsumerGroupDetails | None:
        """Returns a group with its members; None if there is none."""
        details: ConsumerGroupDetails | None = await self._ask(
            commands.GetConsumerGroup(stream, topic, group)
        )
        return details

    async def get_consumer_groups(
        self, stream: Identifier, topic: Identifier
    ) -> tuple[ConsumerGroupInfo, ...]:
        """Returns all groups of a topic."""
        groups: tuple[ConsumerGroupInfo, ...] = await self._ask(
            commands.GetConsumerGroups(stream, topic)
        )
        return groups

    async def delete_consumer_group(
        self, stream: Identifier, topic: Identifier, group: Identifier
    ) -> None:
        """The group, the memberships in it and its offsets."""
        await self._ask(commands.DeleteConsumerGroup(stream, topic, group))

    async def join_consumer_group(
        self, stream: Identifier, topic: Identifier, group: Identifier
    ) -> None:
        """Make this session a member; after a lost connection this happens again by itself."""
        await self._ask(commands.JoinConsumerGroup(stream, topic, group))

    async def leave_consumer_group(
        self, stream: Identifier, topic: Identifier, group: Identifier
    ) -> None:
        """Ends the membership; the partitions go to the other members."""
        await self._ask(commands.LeaveConsumerGroup(stream, topic, group))
