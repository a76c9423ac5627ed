"""From the command of a client to the entry of the log: decide(state, command).

Pure: looks at the state, changes nothing, and either raises the BrokerError the client gets or
returns the stored command with everything resolved. Runs on shard 0, just before the append, on a
state that has applied everything.

Permissions are not checked here. Where a handler wants the order "arguments, existence,
permission, rest", it calls check_arguments, then looks up what the command names, then asks
`permissions.can`, then hands the command on; what decide repeats of that costs next to nothing.
"""

from typing import Final, NamedTuple, TypeAlias

from msgspec.structs import replace

from borzoi.protocol.commands.groups import CreateConsumerGroup, DeleteConsumerGroup
from borzoi.protocol.commands.sessions import DeletePersonalAccessToken
from borzoi.protocol.commands.streams import CreateStream, DeleteStream, PurgeStream, UpdateStream
from borzoi.protocol.commands.topics import (
    COMPRESSION_MAX,
    COMPRESSION_MIN,
    KEPT,
    CreatePartitions,
    CreateTopic,
    DeletePartitions,
    DeleteTopic,
    PurgeTopic,
    UpdateTopic,
)
from borzoi.protocol.commands.users import DeleteUser, UpdatePermissions, UpdateUser
from borzoi.protocol.errors import (
    BrokerError,
    CannotChangePermissions,
    CannotCreateConsumerGroupInfo,
    CannotCreateStream,
    CannotCreateTopic,
    CannotDeleteUser,
    ConsumerGroupIdAlreadyExists,
    ConsumerGroupNameAlreadyExists,
    InvalidCommand,
    InvalidConsumerGroupId,
    InvalidCredentials,
    InvalidPartitionsCount,
    InvalidPersonalAccessTokenName,
    InvalidStreamId,
    InvalidTopicId,
    InvalidTopicSize,
    PersonalAccessTokenAlreadyExists,
    PersonalAccessTokensLimitReached,
    ResourceNotFound,
    StreamDirectoryNotFound,
    StreamNameAlreadyExists,
    TooManyPartitions,
    TopicIdAlreadyExists,
    TopicNameAlreadyExists,
    Unauthorized,
    UserAlreadyExists,
    UsersLimitReached,
)
from borzoi.protocol.identifiers import U32_MAX, U64_MAX
from borzoi.router.board import BOARD_SLOTS_MAX
from borzoi.router.placement import PARTITIONS_MAX, STREAMS_MAX, TOPICS_MAX
from borzoi.shards.decisions.attaching import (
    AttachingCommand,
    CreateAttachedTopic,
    FlagPartitions,
    JoinBridgeGroup,
    LeaveBridgeGroup,
    SetCursors,
    decide_attaching,
)
from borzoi.shards.decisions.commands import (
    CreateHashedUser,
    CreateToken,
    DeleteExpiredTokens,
    SetPasswordHash,
)
from borzoi.shards.decisions.topic_options import (
    read_topic_options,
    settings_after,
    settings_of_new,
)
from borzoi.shards.metadata import entries
from borzoi.shards.metadata.entries import Stored, permissions_block
from borzoi.shards.metadata.slots import IdPool
from borzoi.shards.metadata.state import ROOT_USER_ID, State

PARTITIONS_PER_COMMAND_MAX: Final = 1000
TOKEN_NAME_SIZE_MIN: Final = 3
TOKEN_NAME_SIZE_MAX: Final = 30
GROUPS_PER_TOPIC_MAX: Final = 65_536
# The largest u32 means "no user" in the answers about sessions, so that id is never given out.
USERS_MAX: Final = U32_MAX

# 0 in a request.
SERVER_DEFAULT: Final = 0

MetadataCommand: TypeAlias = (
    CreateStream
    | UpdateStream
    | DeleteStream
    | PurgeStream
    | CreateTopic
    | UpdateTopic
    | DeleteTopic
    | PurgeTopic
    | CreatePartitions
    | DeletePartitions
    | CreateConsumerGroup
    | DeleteConsumerGroup
    | CreateHashedUser
    | UpdateUser
    | DeleteUser
    | UpdatePermissions
    | SetPasswordHash
    | CreateToken
    | DeletePersonalAccessToken
    | DeleteExpiredTokens
    | CreateAttachedTopic
    | AttachingCommand
)


class IdErrors(NamedTuple):
    """What a chosen id of one kind is refused with."""

    is_taken: type[BrokerError]
    out_of_range: type[BrokerError]


# 1011 is the status of a taken id for clients that choose ids, and of another fault for others.
STREAM_IDS: Final = IdErrors(StreamDirectoryNotFound, InvalidStreamId)
TOPIC_IDS: Final = IdErrors(TopicIdAlreadyExists, InvalidTopicId)
GROUP_IDS: Final = IdErrors(ConsumerGroupIdAlreadyExists, InvalidConsumerGroupId)


class MetadataSettings(NamedTuple):
    """What the config says about metadata. Shard 0 alone needs it: the log holds results."""

    segment_size: int
    message_expiry: int = U64_MAX
    max_topic_size: int = U64_MAX
    max_tokens_per_user: int = 100
    slots_max: int = BOARD_SLOTS_MAX
    groups_per_topic_max: int = GROUPS_PER_TOPIC_MAX
    users_max: int = USERS_MAX


def check_arguments(command: MetadataCommand) -> None:
    """The checks that need no state and come before existence and permission."""
    match command:
        case CreateTopic():
            _check_count(command.partitions_count, 0, PARTITIONS_PER_COMMAND_MAX)
            _check_compression(command.compression_algorithm)
            read_topic_options(command.options)
        case CreateAttachedTopic():
            check_arguments(command.creating)
        case UpdateTopic():
            if command.compression_algorithm != KEPT:
                _check_compression(command.compression_algorithm)
            read_topic_options(command.options, update=True)
        case CreatePartitions():
            _check_count(command.partitions_count, 1, PARTITIONS_PER_COMMAND_MAX)
        case DeletePartitions():
            _check_count(command.partitions_count, 1, U32_MAX)
        case CreateToken():
            size = len(command.name.encode())
            if not TOKEN_NAME_SIZE_MIN <= size <= TOKEN_NAME_SIZE_MAX:
                raise InvalidPersonalAccessTokenName(
                    f"a token name of {size} bytes,"
                    f" {TOKEN_NAME_SIZE_MIN} to {TOKEN_NAME_SIZE_MAX} are allowed"
                )


def decide(  # noqa: C901, PLR0911, PLR0912 - a table: one case for each command
    state: State,
    command: MetadataCommand,
    *,
    user_id: int,
    timestamp: int,
    settings: MetadataSettings,
) -> Stored:
    """What to log for this command of this user at this time, or the error to answer."""
    check_arguments(command)
    match command:
        case CreateStream():
            return _create_stream(state, command)
        case UpdateStream():
            return _update_stream(state, command)
        case DeleteStream():
            return entries.StreamDeleted(state.stream(command.stream).id)
        case PurgeStream():
            return entries.StreamPurged(state.stream(command.stream).id)
        case CreateTopic():
            return _create_topic(state, command, settings)
        case UpdateTopic():
            return _update_topic(state, command, settings)
        case DeleteTopic():
            stream = state.stream(command.stream)
            return entries.TopicDeleted(stream.id, stream.topic(command.topic).id)
        case PurgeTopic():
            stream = state.stream(command.stream)
            return entries.TopicPurged(stream.id, stream.topic(command.topic).id)
        case CreatePartitions():
            return _create_partitions(state, command, settings)
        case DeletePartitions():
            return _delete_partitions(state, command)
        case CreateConsumerGroup():
            return _create_group(state, command, settings)
        case DeleteConsumerGroup():
            stream = state.stream(command.stream)
            topic = stream.topic(command.topic)
            return entries.GroupDeleted(stream.id, topic.id, topic.group(command.group).id)
        case CreateHashedUser():
            return _create_user(state, command, settings)
        case UpdateUser():
            return _update_user(state, command)
        case DeleteUser():
            id = state.user(command.user).id
            if id == ROOT_USER_ID:
                raise CannotDeleteUser("the root user stays")
            return entries.UserDeleted(id)
        case UpdatePermissions():
            id = state.user(command.user).id
            if id == ROOT_USER_ID:
                raise CannotChangePermissions("the root user keeps its permissions")
            return entries.PermissionsUpdated(id, permissions_block(command.permissions))
        case SetPasswordHash():
            return _set_password(state, command)
        case CreateToken():
            return _create_token(state, command, timestamp, settings)
        case DeletePersonalAccessToken():
            user = state.user(user_id)
            if command.name not in user.tokens:
                raise ResourceNotFound(f"user {user.id} has no token {command.name!r}")
            return entries.TokenDeleted(user.id, command.name)
        case DeleteExpiredTokens():
            return entries.ExpiredTokensDeleted()
        case CreateAttachedTopic():
            created = _create_topic(state, command.creating, settings)
            return replace(created, attachment=command.attachment)
        case FlagPartitions() | SetCursors() | JoinBridgeGroup() | LeaveBridgeGroup():
            return decide_attaching(state, command)
        case _:
            # Not assert_never alone: commands with raw passwords come from places mypy does not
            # see.
            raise TypeError(f"{type(command).__name__} is no command of the metadata log")


def _create_stream(state: State, command: CreateStream) -> Stored:
    if command.name in state.stream_names:
        raise StreamNameAlreadyExists(f"there is a stream {command.name!r} already")
    id = state.stream_ids.peek()
    if id >= STREAMS_MAX:
        raise CannotCreateStream(f"there are {STREAMS_MAX} streams, no more fit the id space")
    if command.wanted_id is None:
        return entries.StreamCreated(id, command.name)
    id = _wanted(command.wanted_id, state.stream_ids, STREAMS_MAX, STREAM_IDS)
    return entries.StreamCreated(id, command.name, is_chosen=True)


def _update_stream(state: State, command: UpdateStream) -> Stored:
    stream = state.stream(command.stream)
    if state.stream_names.get(command.name, stream.id) != stream.id:
        raise StreamNameAlreadyExists(f"there is another stream {command.name!r}")
    return entries.StreamUpdated(stream.id, command.name)


def _create_topic(
    state: State, command: CreateTopic, settings: MetadataSettings
) -> entries.TopicCreated:
    stream = state.stream(command.stream)
    wanted = settings_of_new(command)
    max_topic_size = _topic_size(wanted.max_topic_size, wanted.segment_size, settings)
    if command.name in stream.topic_names:
        raise TopicNameAlreadyExists(f"stream {stream.id} has a topic {command.name!r} already")
    id = stream.topic_ids.peek()
    if id >= TOPICS_MAX:
        raise CannotCreateTopic(
            f"stream {stream.id} has {TOPICS_MAX} topics, no more fit the id space"
        )
    if command.wanted_id is not None:
        id = _wanted(command.wanted_id, stream.topic_ids, TOPICS_MAX, TOPIC_IDS)
    _check_slots(state, command.partitions_count, settings)
    return entries.TopicCreated(
        stream_id=stream.id,
        topic_id=id,
        name=command.name,
        partitions_count=command.partitions_count,
        compression_algorithm=wanted.compression_algorithm,
        message_expiry=_expiry(wanted.message_expiry, settings),
        max_topic_size=max_topic_size,
        replication_factor=command.replication_factor or 1,
        options=wanted.options,
        is_chosen=command.wanted_id is not None,
    )


def _update_topic(state: State, command: UpdateTopic, settings: MetadataSettings) -> Stored:
    stream = state.stream(command.stream)
    topic = stream.topic(command.topic)
    if stream.topic_names.get(command.name, topic.id) != topic.id:
        raise TopicNameAlreadyExists(f"stream {stream.id} has another topic {command.name!r}")
    wanted = settings_after(
        command,
        topic.compression_algorithm,
        topic.message_expiry,
        topic.max_topic_size,
        topic.options,
    )
    kept = command.replication_factor == KEPT
    return entries.TopicUpdated(
        stream_id=stream.id,
        topic_id=topic.id,
        name=command.name,
        compression_algorithm=wanted.compression_algorithm,
        message_expiry=_expiry(wanted.message_expiry, settings),
        max_topic_size=_default_size(wanted.max_topic_size, settings),
        replication_factor=topic.replication_factor if kept else command.replication_factor or 1,
        options=wanted.options,
    )


def _create_partitions(
    state: State, command: CreatePartitions, settings: MetadataSettings
) -> Stored:
    stream = state.stream(command.stream)
    topic = stream.topic(command.topic)
    if topic.partitions_count + command.partitions_count > PARTITIONS_MAX:
        raise TooManyPartitions(
            f"topic {topic.name!r} has {topic.partitions_count} partitions,"
            f" {PARTITIONS_MAX} is the most"
        )
    _check_slots(state, command.partitions_count, settings)
    return entries.PartitionsCreated(stream.id, topic.id, command.partitions_count)


def _delete_partitions(state: State, command: DeletePartitions) -> Stored:
    stream = state.stream(command.stream)
    topic = stream.topic(command.topic)
    if command.partitions_count > topic.partitions_count:
        raise InvalidPartitionsCount(
            f"topic {topic.id} has {topic.partitions_count} partitions,"
            f" {command.partitions_count} cannot be deleted"
        )
    return entries.PartitionsDeleted(stream.id, topic.id, command.partitions_count)


def _create_group(state: State, command: CreateConsumerGroup, settings: MetadataSettings) -> Stored:
    stream = state.stream(command.stream)
    topic = stream.topic(command.topic)
    if command.name in topic.group_names:
        raise ConsumerGroupNameAlreadyExists(
            f"topic {topic.id} has a group {command.name!r} already"
        )
    if len(topic.groups) >= settings.groups_per_topic_max:
        raise CannotCreateConsumerGroupInfo(
            f"topic {topic.id} has {len(topic.groups)} groups, no more are allowed"
        )
    if command.wanted_id is None:
        return entries.GroupCreated(stream.id, topic.id, topic.group_ids.peek(), command.name)
    id = _wanted(command.wanted_id, topic.group_ids, settings.groups_per_topic_max, GROUP_IDS)
    return entries.GroupCreated(stream.id, topic.id, id, command.name, is_chosen=True)


def _create_user(state: State, command: CreateHashedUser, settings: MetadataSettings) -> Stored:
    if command.username in state.usernames:
        raise UserAlreadyExists(f"there is a user {command.username!r} already")
    id = state.user_ids.peek()
    if id >= settings.users_max:
        raise UsersLimitReached(f"there are {id} users, no more are allowed")
    return entries.UserCreated(
        user_id=id,
        username=command.username,
        password_hash=command.password_hash,
        status=int(command.status),
        permissions=permissions_block(command.permissions),
    )


def _update_user(state: State, command: UpdateUser) -> Stored:
    user = state.user(command.user)
    name = command.username
    if name is not None and state.usernames.get(name, user.id) != user.id:
        raise UserAlreadyExists(f"there is another user {name!r}")
    status = None if command.status is None else int(command.status)
    return entries.UserUpdated(user.id, name, status)


def _set_password(state: State, command: SetPasswordHash) -> Stored:
    user = state.user(command.user)
    if user.password_hash != command.checked_hash:
        raise InvalidCredentials("the password was changed meanwhile")
    return entries.PasswordChanged(user.id, command.password_hash)


def _create_token(
    state: State, command: CreateToken, timestamp: int, settings: MetadataSettings
) -> Stored:
    user = state.users.get(command.user_id)
    if user is None or user.created_at != command.user_created_at:
        raise Unauthorized(f"user {command.user_id} was removed meanwhile")
    # Expired ones go when this entry is applied, so they are in the way of none.
    names = [token.name for token in user.tokens.values() if not token.expired(timestamp)]
    if command.name in names or command.hash in state.token_owners:
        raise PersonalAccessTokenAlreadyExists(
            f"user {user.id} has a token {command.name!r} already"
        )
    if len(names) >= settings.max_tokens_per_user:
        raise PersonalAccessTokensLimitReached(f"user {user.id} has {len(names)} tokens")
    return entries.TokenCreated(user.id, command.name, command.hash, command.expiry_at)


def _wanted(id: int, ids: IdPool, ids_max: int, errors: IdErrors) -> int:
    """The id that the client has chosen, if it is free."""
    if not 0 <= id < ids_max:
        raise errors.out_of_range(f"id {id}, counted from 0: {ids_max - 1} is the highest")
    if not ids.is_free(id):
        raise errors.is_taken(f"id {id}, counted from 0, is taken")
    return id


def _check_count(count: int, least: int, most: int) -> None:
    if not least <= count <= most:
        raise TooManyPartitions(f"{count} partitions in one command, {least} to {most} are allowed")


def _check_compression(code: int) -> None:
    if not COMPRESSION_MIN <= code <= COMPRESSION_MAX:
        raise InvalidCommand(f"there is no compression algorithm {code}")


def _check_slots(state: State, count: int, settings: MetadataSettings) -> None:
    if not state.slots.fits(count, settings.slots_max):
        raise TooManyPartitions(f"the board has no room for {count} more partitions")


def _topic_size(requested: int, segment_size: int | None, settings: MetadataSettings) -> int:
    """The size of a new topic, at least one segment: of the size it asks for, or the usual one.

    An update may go below: a topic may be older than the segment size that is configured now, and
    a new name must not need a new size.
    """
    segment_size = segment_size or settings.segment_size
    if requested != SERVER_DEFAULT and requested < segment_size:
        raise InvalidTopicSize(
            f"a topic of {requested} bytes cannot hold one segment of {segment_size}"
        )
    return _default_size(requested, settings)


def _default_size(requested: int, settings: MetadataSettings) -> int:
    return settings.max_topic_size if requested == SERVER_DEFAULT else requested


def _expiry(requested: int, settings: MetadataSettings) -> int:
    return settings.message_expiry if requested == SERVER_DEFAULT else requested
