"""From a request to a command of the wire, and on to the handler that all doors share.

The functions here read paths and bodies; what may be done is the handler's business. The wire
answers a read of something missing with nothing, HTTP with 404: `missing` says which one.
"""

from collections.abc import Awaitable, Callable
from inspect import iscoroutine
from typing import Any, Final

from borzoi.protocol.codes import Code, LaterCode
from borzoi.protocol.commands.groups import (
    CreateConsumerGroup,
    DeleteConsumerGroup,
    GetConsumerGroup,
    GetConsumerGroups,
)
from borzoi.protocol.commands.messages import FlushUnsavedBuffer
from borzoi.protocol.commands.offsets import (
    DeleteConsumerOffset,
    GetConsumerOffset,
    StoreConsumerOffset,
)
from borzoi.protocol.commands.sessions import (
    CreatePersonalAccessToken,
    DeletePersonalAccessToken,
)
from borzoi.protocol.commands.streams import CreateStream, UpdateStream
from borzoi.protocol.commands.system import (
    DescribeOptions,
    GetClient,
    GetSnapshot,
    OptionScope,
    SnapshotCompression,
    SnapshotType,
)
from borzoi.protocol.commands.topics import (
    CreatePartitions,
    CreateTopic,
    DeletePartitions,
    DeleteSegments,
    GetTopic,
    UpdateTopic,
)
from borzoi.protocol.commands.users import (
    ChangePassword,
    CreateUser,
    UpdatePermissions,
    UpdateUser,
)
from borzoi.protocol.consensus.options import pack_options
from borzoi.protocol.errors import (
    BrokerError,
    InvalidCommand,
    InvalidConsumerGroupName,
    InvalidReplicationFactor,
    InvalidStreamName,
    InvalidTopicName,
    StreamIdNotFound,
    TooManyPartitions,
)
from borzoi.protocol.headers import HeaderField, HeaderKind
from borzoi.protocol.identifiers import NAME_SIZE_MAX, Consumer, ConsumerKind
from borzoi.protocol.permissions import UserStatus
from borzoi.shards.decisions.decide import PARTITIONS_PER_COMMAND_MAX
from borzoi.shards.handlers.table import HANDLERS
from borzoi.shards.metadata.state import State
from borzoi.shards.web_connections.exchange import Exchange, Outcome
from borzoi.shards.web_forms import answers
from borzoi.shards.web_forms.answers import COMPRESSION, new_topic, permissions_of
from borzoi.shards.web_forms.failures import not_found, plain
from borzoi.shards.web_forms.paths import identifier, u32

CODECS: Final = {name: code for code, name in COMPRESSION.items()}
STATUSES: Final = {"active": UserStatus.ACTIVE, "inactive": UserStatus.INACTIVE}
FSYNC: Final = {"true": True, "false": False, "fsync=true": True, "fsync=false": False}
"""The official client of this generation writes the second form."""

SCOPES: Final = {scope.name.lower(): scope for scope in OptionScope}

Make = Callable[[Exchange], Any]
Missing = Callable[[State, Any], object]


def command(
    code: Code | LaterCode,
    make: Make,
    form: Callable[[Any], Any] | None = None,
    missing: Missing | None = None,
) -> Callable[[Exchange], Awaitable[Outcome]]:
    """The function of a route that carries out one command of the wire.

    `form` makes the answer of what the handler returns; without one there is no body. `missing`
    raises the error for a read that found nothing, if it knows a better one than 404.
    """

    async def call(exchange: Exchange) -> Outcome:
        wanted = make(exchange)
        services, caller = exchange.services, exchange.caller
        services.metadata.refresh()
        assert caller.user is not None
        result = HANDLERS[code](services, caller, wanted)
        if iscoroutine(result):
            result = await result
        if form is None:
            return None
        if missing is not None and not result:
            missing(services.metadata.state, wanted)
        if result is None:
            raise not_found()
        return form(result)

    return call


# What is missing.


def stream_is_there(state: State, wanted: Any) -> None:
    """The topics of a stream that does not exist are not found; those of an empty one are none."""
    if state.find_stream(wanted.stream) is None:
        raise not_found()


def topic_is_there(state: State, wanted: Any) -> None:
    """The error of the wire for a missing stream or topic."""
    state.stream(wanted.stream).topic(wanted.topic)


def group_is_there(state: State, wanted: GetConsumerGroup) -> None:
    """The error of the wire for a missing stream, topic or group."""
    state.stream(wanted.stream).topic(wanted.topic).group(wanted.group)


# Commands.


def of_stream(make: Callable[..., Any]) -> Make:
    """A command whose only field is the stream."""
    return lambda one: make(one.stream)


def of_topic(make: Callable[..., Any]) -> Make:
    """A command whose fields are stream and topic."""
    return lambda one: make(one.stream, one.topic)


def of_user(make: Callable[..., Any]) -> Make:
    """A command whose only field is the user."""
    return lambda one: make(one.id("user_id"))


def create_stream(one: Exchange) -> CreateStream:
    """A new stream."""
    return CreateStream(_name(one.body.name, InvalidStreamName), _options(one))


def update_stream(one: Exchange) -> UpdateStream:
    """A new name for a stream."""
    name = _name(one.body.name, InvalidStreamName)
    return UpdateStream(one.stream, name, _options(one))


def create_topic(one: Exchange) -> CreateTopic:
    """A new topic."""
    body = one.body
    if body.replication_factor == 0:
        raise InvalidReplicationFactor("a replication factor of 0: needs at least 1")
    return CreateTopic(
        one.stream,
        body.partitions_count,
        CODECS[body.compression_algorithm],
        body.message_expiry,
        body.max_topic_size,
        body.replication_factor or 1,
        _name(body.name, InvalidTopicName),
        _options(one),
    )


async def create_topic_or_not_found(exchange: Exchange) -> Outcome:
    """Over HTTP a topic for a missing stream is plainly not found."""
    try:
        return await command(Code.CREATE_TOPIC, create_topic, new_topic)(exchange)
    except StreamIdNotFound:
        raise not_found() from None


async def attachment(one: Exchange) -> Outcome:
    """What Liftbridge knows of a topic that this user may see."""
    await command(Code.GET_TOPIC, of_topic(GetTopic), bool)(one)
    state = one.services.metadata.state
    return answers.attachment(state.stream(one.stream).topic(one.topic).attached)


def update_topic(one: Exchange) -> UpdateTopic:
    """New settings for a topic; what the body leaves out stays."""
    body = one.body
    if body.replication_factor == 0:
        raise InvalidReplicationFactor("a replication factor of 0: needs at least 1")
    name = _name(body.name, InvalidTopicName)
    now = one.services.metadata.refresh().stream(one.stream).topic(one.topic)
    codec = body.compression_algorithm
    return UpdateTopic(
        one.stream,
        one.topic,
        now.compression_algorithm if codec is None else CODECS[codec],
        now.message_expiry if body.message_expiry is None else body.message_expiry,
        now.max_topic_size if body.max_topic_size is None else body.max_topic_size,
        body.replication_factor or now.replication_factor,
        name,
        _options(one),
    )


def create_partitions(one: Exchange) -> CreatePartitions:
    """More partitions."""
    return CreatePartitions(one.stream, one.topic, one.body.partitions_count)


def delete_partitions(one: Exchange) -> DeletePartitions:
    """Fewer partitions."""
    count = one.query.partitions_count
    if count > PARTITIONS_PER_COMMAND_MAX:
        raise TooManyPartitions(f"{count} where {PARTITIONS_PER_COMMAND_MAX} are allowed")
    return DeletePartitions(one.stream, one.topic, count)


def delete_segments(one: Exchange) -> DeleteSegments:
    """Forget the oldest segments of a partition."""
    partition_id = u32(one.path["partition_id"], "partition_id")
    return DeleteSegments(one.stream, one.topic, partition_id, one.query.segments_count)


def flush(one: Exchange) -> FlushUnsavedBuffer:
    """Write what a partition holds in memory."""
    partition_id = u32(one.path["partition_id"], "partition_id")
    fsync = FSYNC.get(one.path["fsync"])
    if fsync is None:
        raise plain(400, f"fsync is {one.path['fsync']!r}: needs true or false")
    return FlushUnsavedBuffer(one.stream, one.topic, partition_id, fsync)


def get_offset(one: Exchange) -> GetConsumerOffset:
    """Where a consumer stands."""
    kind = ConsumerKind[one.query.kind.upper()]
    consumer = Consumer(kind, identifier(one.query.consumer_id))
    return GetConsumerOffset(consumer, one.stream, one.topic, one.query.partition_id)


def store_offset(one: Exchange) -> StoreConsumerOffset:
    """Commit an offset."""
    body = one.body
    consumer = _consumer(body.consumer_id)
    return StoreConsumerOffset(consumer, one.stream, one.topic, body.partition_id, body.offset)


def delete_offset(one: Exchange) -> DeleteConsumerOffset:
    """Forget a committed offset."""
    consumer = _consumer(one.path["consumer_id"])
    return DeleteConsumerOffset(consumer, one.stream, one.topic, one.query.partition_id)


def create_group(one: Exchange) -> CreateConsumerGroup:
    """A new consumer group."""
    name = _name(one.body.name, InvalidConsumerGroupName)
    return CreateConsumerGroup(one.stream, one.topic, name)


def get_group(one: Exchange) -> GetConsumerGroup:
    """A consumer group with its members."""
    return GetConsumerGroup(one.stream, one.topic, one.id("group_id"))


def get_groups(one: Exchange) -> GetConsumerGroups:
    """The consumer groups of a topic."""
    return GetConsumerGroups(one.stream, one.topic)


def delete_group(one: Exchange) -> DeleteConsumerGroup:
    """Remove a consumer group."""
    return DeleteConsumerGroup(one.stream, one.topic, one.id("group_id"))


def create_user(one: Exchange) -> CreateUser:
    """A new user."""
    body = one.body
    permissions = permissions_of(body.permissions)
    status = STATUSES[body.status]
    return CreateUser(body.username, body.password, status, permissions, _options(one))


def update_user(one: Exchange) -> UpdateUser:
    """A new name or status for a user."""
    status = None if one.body.status is None else STATUSES[one.body.status]
    return UpdateUser(one.id("user_id"), one.body.username, status, _options(one))


def update_permissions(one: Exchange) -> UpdatePermissions:
    """Replace all permissions of a user."""
    return UpdatePermissions(one.id("user_id"), permissions_of(one.body.permissions))


def change_password(one: Exchange) -> ChangePassword:
    """A new password."""
    return ChangePassword(one.id("user_id"), one.body.current_password, one.body.new_password)


def create_token(one: Exchange) -> CreatePersonalAccessToken:
    """A new personal access token."""
    return CreatePersonalAccessToken(one.body.name, one.body.expiry)


def delete_token(one: Exchange) -> DeletePersonalAccessToken:
    """Withdraw a personal access token. Its name may be all digits."""
    return DeletePersonalAccessToken(one.path["name"])


def get_client(one: Exchange) -> GetClient:
    """A connected client."""
    return GetClient(u32(one.path["client_id"], "client_id"))


def describe_options(one: Exchange) -> DescribeOptions:
    """The options of topics, streams or users."""
    scope = SCOPES.get(one.path["scope"])
    if scope is None:
        raise plain(400, f"scope is {one.path['scope']!r}: needs one of {', '.join(SCOPES)}")
    return DescribeOptions(scope)


def get_snapshot(one: Exchange) -> GetSnapshot:
    """An archive that describes the broker."""
    types = tuple(SnapshotType[_upper(name)] for name in one.body.snapshot_types)
    if SnapshotType.ALL in types and len(types) > 1:
        raise InvalidCommand("a snapshot of everything has no other parts")
    return GetSnapshot(SnapshotCompression[one.body.compression.upper()], types)


def _options(one: Exchange) -> bytes:
    """Options as the wire has them: each value as text, which every key accepts."""
    given = one.body.options or {}
    return pack_options(
        {key: HeaderField(HeaderKind.STRING, value.encode()) for key, value in given.items()}
    )


def _consumer(given: str | int) -> Consumer:
    return Consumer(ConsumerKind.CONSUMER, identifier(given))


def _name(text: str, error: type[BrokerError]) -> str:
    size = len(text.encode())
    if not 1 <= size <= NAME_SIZE_MAX:
        raise error(f"a name of {size} bytes where 1 to {NAME_SIZE_MAX} fit")
    return text


def _upper(name: str) -> str:
    """ServerLogs is SERVER_LOGS."""
    return "".join(f"_{each}" if each.isupper() else each for each in name).lstrip("_").upper()
