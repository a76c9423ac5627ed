"""Commands about streams."""

from borzoi.protocol.codes import Code
from borzoi.protocol.commands.streams import (
    CreateStream,
    DeleteStream,
    GetStream,
    GetStreams,
    PurgeStream,
    UpdateStream,
)
from borzoi.protocol.responses.streams import StreamDetails, StreamInfo
from borzoi.shards.handlers.caller import Caller
from borzoi.shards.handlers.journals import show_journals
from borzoi.shards.handlers.options import refuse_options
from borzoi.shards.handlers.services import Services
from borzoi.shards.metadata.access import require


async def get_stream(
    services: Services, caller: Caller, command: GetStream
) -> StreamDetails | None:
    """A stream with its topics, or nothing."""
    await show_journals(services)
    state = services.metadata.refresh()
    stream = state.find_stream(command.stream)
    if stream is None:
        return None
    require(state, caller.user, Code.GET_STREAM, stream.id)
    return services.describer.stream_details(stream, caller.knows_all_codecs)


async def get_streams(services: Services, caller: Caller, _command: GetStreams) -> list[StreamInfo]:
    """All streams by id."""
    await show_journals(services)
    state = services.metadata.refresh()
    require(state, caller.user, Code.GET_STREAMS)
    return [services.describer.stream(state.streams[key]) for key in sorted(state.streams)]


async def create_stream(services: Services, caller: Caller, command: CreateStream) -> StreamInfo:
    """Make an empty stream."""
    refuse_options(caller, "streams", command.options)
    require(services.metadata.refresh(), caller.user, Code.CREATE_STREAM)
    change = await services.metadata.change(command, caller.user, caller.request)
    return services.describer.stream(services.metadata.state.stream(change.new_id))


async def update_stream(services: Services, caller: Caller, command: UpdateStream) -> None:
    """Rename a stream."""
    refuse_options(caller, "streams", command.options)
    await _change(services, caller, Code.UPDATE_STREAM, command)


async def delete_stream(services: Services, caller: Caller, command: DeleteStream) -> None:
    """Remove a stream with everything in it, on every shard."""
    await _change(services, caller, Code.DELETE_STREAM, command)


async def purge_stream(services: Services, caller: Caller, command: PurgeStream) -> None:
    """Empty all topics of a stream."""
    await _change(services, caller, Code.PURGE_STREAM, command)


async def _change(
    services: Services,
    caller: Caller,
    code: Code,
    command: UpdateStream | DeleteStream | PurgeStream,
) -> None:
    state = services.metadata.refresh()
    stream = state.stream(command.stream)
    require(state, caller.user, code, stream.id)
    await services.metadata.change(command, caller.user, caller.request)
