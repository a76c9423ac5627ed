"""Streams, the outermost things that hold messages."""

from borzoi.client.calls.calling import Calling
from borzoi.protocol import commands
from borzoi.protocol.identifiers import Identifier
from borzoi.protocol.responses import StreamDetails, StreamInfo


class StreamCalls(Calling):
    async def create_stream(self, name: str) -> StreamInfo:
        stream: StreamInfo = await self._ask(commands.CreateStream(name))
        return stream

    async def get_stream(self, stream: Identifier) -> StreamDetails | None:
        details: StreamDetails | None = await self._ask(commands.GetStream(stream))
        return details

    async def get_streams(self) -> tuple[StreamInfo, ...]:
        streams: tuple[StreamInfo, ...] = await self._ask(commands.GetStreams())
        return streams

    async def update_stream(self, stream: Identifier, name: str) -> None:
        await self._ask(commands.UpdateStream(stream, name))

    async def delete_stream(self, stream: Identifier) -> None:
        await self._ask(commands.DeleteStream(stream))

    async def purge_stream(self, stream: Identifier) -> None:
        await self._ask(commands.PurgeStream(stream))
