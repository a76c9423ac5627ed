"""How far consumers and groups have come."""

from typing import Final

from borzoi.client.calls.calling import Calling
from borzoi.protocol import commands
from borzoi.protocol.identifiers import Consumer, ConsumerKind, Identifier
from borzoi.protocol.responses import ConsumerOffsetInfo

DEFAULT_CONSUMER: Final = 0  # the official clients poll as this one when nothing is said


def as_consumer(consumer: Consumer | Identifier) -> Consumer:
    """Returns the consumer; an id or a name stands for a single consumer."""
    return consumer if isinstance(consumer, Consumer) else Consumer(ConsumerKind.CONSUMER, consumer)


class OffsetCalls(Calling):
    """The calls of a client that are about committed offsets."""

    async def get_consumer_offset(
        self,
        stream: Identifier,
        topic: Identifier,
        partition_id: int | None,
        *,
        consumer: Consumer | Identifier = DEFAULT_CONSUMER,
    ) -> ConsumerOffsetInfo | None:
        """Returns the committed offset and the end of the partition; None if there is none."""
        command = commands.GetConsumerOffset(as_consumer(consumer), stream, topic, partition_id)
        info: ConsumerOffsetInfo | None = await self._ask(command)
        return info

    async def store_consumer_offset(
        self,
        stream: Identifier,
        topic: Identifier,
        partition_id: int | None,
        offset: int,
        *,
        consumer: Consumer | Identifier = DEFAULT_CONSUMER,
    ) -> None:
        """`offset` is that of the last message dealt with; going back is allowed."""
        who = as_consumer(consumer)
        await self._ask(commands.StoreConsumerOffset(who, stream, topic, partition_id, offset))

    async def delete_consumer_offset(
        self,
        stream: Identifier,
        topic: Identifier,
        partition_id: int | None,
        *,
        consumer: Consumer | Identifier = DEFAULT_CONSUMER,
    ) -> None:
        """Deletes the committed offset of a consumer or group."""
        who = as_consumer(consumer)
        await self._ask(commands.DeleteConsumerOffset(who, stream, topic, partition_id))
