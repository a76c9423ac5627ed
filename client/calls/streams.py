"""Streams, the outermost things that hold messages."""

from borzoi.client.calls.calling import Calling
from borzoi.protocol import commands
from borzoi.protocol.identifiers import Identifier
from borzoi.protocol.responses import StreamDetails, StreamInfo


class StreamCalls(Calling):
    """The calls of a client that are about streams."""

    async def create_stream(self, name: str) -> StreamInfo:
        """Creates a stream without topics."""
        stream: StreamInfo = await self._ask(commands.CreateStream(name))
        return stream

    async def get_stream(self, stream: Identifier) -> StreamDetails | None:
        """Returns a stream with its topics; None if there is none."""
        details: StreamDetails | None = await self._ask(commands.GetStream(stream))
        return details

    async def get_streams(self) -> tuple[StreamInfo, ...]:
        """Returns all streams."""
        streams: tuple[StreamInfo, ...] = await self._ask(commands.GetStreams())
        return streams

    async def update_stream(self, stream: Identifier, name: str) -> None:
        """Renames a stream."""
        await self._ask(commands.UpdateStream(stream, name))

    async def delete_stream(self, stream: Identifier) -> None:
        """Deletes a stream with all its topics and messages."""
        await self._ask(commands.DeleteStream(stream))

    async def purge_stream(self, stream: Identifier) -> None:
        """Deletes the messages of all topics of a stream; offsets start at 0 again."""
        await self._ask(commands.PurgeStream(stream))
