"""Sending and polling, request by request. Producer and Consumer stand on these."""

from collections.abc import Iterable

from borzoi.client.arguments import InvalidArgument, check_identifier, check_partitioning
from borzoi.client.calls.calling import Calling
from borzoi.client.calls.offsets import DEFAULT_CONSUMER, as_consumer
from borzoi.client.link import OutgoingBatch
from borzoi.client.outgoing import Outgoing, check_batch_size, prepare_outgoing
from borzoi.protocol import commands
from borzoi.protocol.identifiers import (
    Balanced,
    Consumer,
    Identifier,
    MessagesKey,
    PartitionId,
    Partitioning,
    PollingStrategy,
)
from borzoi.protocol.responses import PolledMessages
from borzoi.protocol.send_messages import PreparedBatch


def choose_partitioning(partition_id: int | None, key: bytes | str | None) -> Partitioning:
    """Returns how a batch is partitioned: by id, by key, or by the server in turn."""
    if partition_id is not None and key is not None:
        raise InvalidArgument("partition_id and key are both given; at most one can be")
    if partition_id is not None:
        return PartitionId(partition_id)
    if key is not None:
        return MessagesKey(key.encode() if isinstance(key, str) else key)
    return Balanced()


class MessageCalls(Calling):
    """The calls of a client that send and poll messages."""

    async def send_messages(
        self,
        stream: Identifier,
        topic: Identifier,
        messages: Iterable[Outgoing],
        *,
        partition_id: int | None = None,
        key: bytes | str | None = None,
        resend: bool = False,
    ) -> None:
        """All messages land in one partition: the given one, the key's, or the server's choice.

        Returns when the server has acknowledged them. When the connection breaks before that, the
        outcome is not known. Without `resend` ConnectionClosed is raised and they are there once or
        not at all. With it they are sent again, so they are there once or several times.
        """
        partitioning = choose_partitioning(partition_id, key)
        prepared = prepare_outgoing(messages, self._clock_us())
        await self.send_prepared(stream, topic, prepared, partitioning, resend=resend)

    async def send_prepared(
        self,
        stream: Identifier,
        topic: Identifier,
        prepared: PreparedBatch,
        partitioning: Partitioning,
        *,
        resend: bool = False,
    ) -> None:
        """A batch that was encoded before; it may be sent any number of times."""
        check_identifier("stream", stream)
        check_identifier("topic", topic)
        check_partitioning(partitioning)
        check_batch_size(len(prepared.index_and_messages))
        await self._session.send(
            OutgoingBatch(stream, topic, partitioning, prepared), resend=resend
        )

    async def poll_messages(
        self,
        stream: Identifier,
        topic: Identifier,
        partition_id: int | None,
        *,
        strategy: PollingStrategy,
        count: int,
        consumer: Consumer | Identifier = DEFAULT_CONSUMER,
        auto_commit: bool = False,
    ) -> PolledMessages:
        """At most `count` messages. Without a partition it is 0, or for a group its choice."""
        command = commands.PollMessages(
            consumer=as_consumer(consumer),
            stream=stream,
            topic=topic,
            partition_id=partition_id,
            strategy=strategy,
            count=count,
            auto_commit=auto_commit,
        )
        polled: PolledMessages = await self._ask(command)
        return polled

    async def flush_unsaved_buffer(
        self, stream: Identifier, topic: Identifier, partition_id: int, *, fsync: bool = False
    ) -> None:
        """Returns when the server has written the partition; with `fsync`, synced."""
        await self._ask(commands.FlushUnsavedBuffer(stream, topic, partition_id, fsync))
