"""The codecs of the client generation that says 0.10.x at login: all 47 commands, one row each.

A row holds both directions of the request and both directions of its success answer. The
server uses the decoder and the answer's encoder, clients use the other two.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from borzoi.protocol import commands
from borzoi.protocol.codes import Code
from borzoi.protocol.commands import (
    groups,
    messages,
    offsets,
    sessions,
    streams,
    system,
    topics,
    users,
)
from borzoi.protocol.responses import clients as clients_replies
from borzoi.protocol.responses import cluster as cluster_replies
from borzoi.protocol.responses import consumers as consumers_replies
from borzoi.protocol.responses import polled as polled_replies
from borzoi.protocol.responses import stats as stats_replies
from borzoi.protocol.responses import streams as streams_replies
from borzoi.protocol.responses import topics as topics_replies
from borzoi.protocol.responses import users as users_replies
from borzoi.protocol.send_messages import (
    SendMessages,
    decode_send_messages,
    encode_prepared_messages,
    prepare_batch,
)


class CommandCodec(NamedTuple):
    """How one command travels. Any: each row is consistent in itself, the table cannot say so."""

    command: type[commands.Command]
    decode: Callable[[memoryview], commands.Command]
    encode: Callable[[Any], bytes]
    encode_reply: Callable[[Any], bytes]
    decode_reply: Callable[[memoryview], Any]


def or_empty(encode: Callable[[Any], bytes]) -> Callable[[Any], bytes]:
    """What was looked for and does not exist is a success without payload."""

    def encode_or_empty(value: Any) -> bytes:
        return b"" if value is None else encode(value)

    return encode_or_empty


def or_none(decode: Callable[[memoryview], Any]) -> Callable[[memoryview], Any]:
    def decode_or_none(payload: memoryview) -> Any:
        return decode(payload) if payload else None

    return decode_or_none


def encode_nothing(value: None) -> bytes:
    assert value is None, "this command is answered without a payload"
    return b""


def decode_nothing(_payload: memoryview) -> None:
    return None


def encode_sent_messages(command: SendMessages) -> bytes:
    batch = prepare_batch(command.batch, command.message_count)
    return encode_prepared_messages(command.stream, command.topic, command.partitioning, batch)


CODECS: Final[Mapping[int, CommandCodec]] = {
    Code.PING: CommandCodec(
        system.Ping, system.decode_ping, system.encode_ping, encode_nothing, decode_nothing
    ),
    Code.GET_STATS: CommandCodec(
        system.GetStats,
        system.decode_get_stats,
        system.encode_get_stats,
        stats_replies.encode_stats,
        stats_replies.decode_stats,
    ),
    Code.GET_SNAPSHOT: CommandCodec(
        system.GetSnapshot, system.decode_get_snapshot, system.encode_get_snapshot, bytes, bytes
    ),
    Code.GET_CLUSTER_METADATA: CommandCodec(
        system.GetClusterMetadata,
        system.decode_get_cluster_metadata,
        system.encode_get_cluster_metadata,
        cluster_replies.encode_cluster_metadata,
        cluster_replies.decode_cluster_metadata,
    ),
    Code.GET_ME: CommandCodec(
        system.GetMe,
        system.decode_get_me,
        system.encode_get_me,
        clients_replies.encode_client_details,
        clients_replies.decode_client_details,
    ),
    Code.GET_CLIENT: CommandCodec(
        system.GetClient,
        system.decode_get_client,
        system.encode_get_client,
        or_empty(clients_replies.encode_client_details),
        or_none(clients_replies.decode_client_details),
    ),
    Code.GET_CLIENTS: CommandCodec(
        system.GetClients,
        system.decode_get_clients,
        system.encode_get_clients,
        clients_replies.encode_clients,
        clients_replies.decode_clients,
    ),
    Code.GET_USER: CommandCodec(
        users.GetUser,
        users.decode_get_user,
        users.encode_get_user,
        or_empty(users_replies.encode_user_details),
        or_none(users_replies.decode_user_details),
    ),
    Code.GET_USERS: CommandCodec(
        users.GetUsers,
        users.decode_get_users,
        users.encode_get_users,
        users_replies.encode_users,
        users_replies.decode_users,
    ),
    Code.CREATE_USER: CommandCodec(
        users.CreateUser,
        users.decode_create_user,
        users.encode_create_user,
        users_replies.encode_user_details,
        users_replies.decode_user_details,
    ),
    Code.DELETE_USER: CommandCodec(
        users.DeleteUser,
        users.decode_delete_user,
        users.encode_delete_user,
        encode_nothing,
        decode_nothing,
    ),
    Code.UPDATE_USER: CommandCodec(
        users.UpdateUser,
        users.decode_update_user,
        users.encode_update_user,
        encode_nothing,
        decode_nothing,
    ),
    Code.UPDATE_PERMISSIONS: CommandCodec(
        users.UpdatePermissions,
        users.decode_update_permissions,
        users.encode_update_permissions,
        encode_nothing,
        decode_nothing,
    ),
    Code.CHANGE_PASSWORD: CommandCodec(
        users.ChangePassword,
        users.decode_change_password,
        users.encode_change_password,
        encode_nothing,
        decode_nothing,
    ),
    Code.LOGIN_USER: CommandCodec(
        sessions.LoginUser,
        sessions.decode_login_user,
        sessions.encode_login_user,
        users_replies.encode_identity,
        users_replies.decode_identity,
    ),
    Code.LOGOUT_USER: CommandCodec(
        sessions.LogoutUser,
        sessions.decode_logout_user,
        sessions.encode_logout_user,
        encode_nothing,
        decode_nothing,
    ),
    Code.GET_PERSONAL_ACCESS_TOKENS: CommandCodec(
        sessions.GetPersonalAccessTokens,
        sessions.decode_get_personal_access_tokens,
        sessions.encode_get_personal_access_tokens,
        users_replies.encode_tokens,
        users_replies.decode_tokens,
    ),
    Code.CREATE_PERSONAL_ACCESS_TOKEN: CommandCodec(
        sessions.CreatePersonalAccessToken,
        sessions.decode_create_personal_access_token,
        sessions.encode_create_personal_access_token,
        users_replies.encode_raw_token,
        users_replies.decode_raw_token,
    ),
    Code.DELETE_PERSONAL_ACCESS_TOKEN: CommandCodec(
        sessions.DeletePersonalAccessToken,
        sessions.decode_delete_personal_access_token,
        sessions.encode_delete_personal_access_token,
        encode_nothing,
        decode_nothing,
    ),
    Code.LOGIN_WITH_PERSONAL_ACCESS_TOKEN: CommandCodec(
        sessions.LoginWithPersonalAccessToken,
        sessions.decode_login_with_personal_access_token,
        sessions.encode_login_with_personal_access_token,
        users_replies.encode_identity,
        users_replies.decode_identity,
    ),
    Code.POLL_MESSAGES: CommandCodec(
        messages.PollMessages,
        messages.decode_poll_messages,
        messages.encode_poll_messages,
        polled_replies.encode_polled_messages,
        polled_replies.decode_polled_messages,
    ),
    Code.SEND_MESSAGES: CommandCodec(
        commands.SendMessages,
        decode_send_messages,
        encode_sent_messages,
        encode_nothing,
        decode_nothing,
    ),
    Code.FLUSH_UNSAVED_BUFFER: CommandCodec(
        messages.FlushUnsavedBuffer,
        messages.decode_flush_unsaved_buffer,
        messages.encode_flush_unsaved_buffer,
        encode_nothing,
        decode_nothing,
    ),
    Code.GET_CONSUMER_OFFSET: CommandCodec(
        offsets.GetConsumerOffset,
        offsets.decode_get_consumer_offset,
        offsets.encode_get_consumer_offset,
        or_empty(consumers_replies.encode_consumer_offset),
        or_none(consumers_replies.decode_consumer_offset),
    ),
    Code.STORE_CONSUMER_OFFSET: CommandCodec(
        offsets.StoreConsumerOffset,
        offsets.decode_store_consumer_offset,
        offsets.encode_store_consumer_offset,
        encode_nothing,
        decode_nothing,
    ),
    Code.DELETE_CONSUMER_OFFSET: CommandCodec(
        offsets.DeleteConsumerOffset,
        offsets.decode_delete_consumer_offset,
        offsets.encode_delete_consumer_offset,
        encode_nothing,
        decode_nothing,
    ),
    Code.GET_STREAM: CommandCodec(
        streams.GetStream,
        streams.decode_get_stream,
        streams.encode_get_stream,
        or_empty(streams_replies.encode_stream_details),
        or_none(streams_replies.decode_stream_details),
    ),
    Code.GET_STREAMS: CommandCodec(
        streams.GetStreams,
        streams.decode_get_streams,
        streams.encode_get_streams,
        streams_replies.encode_streams,
        streams_replies.decode_streams,
    ),
    Code.CREATE_STREAM: CommandCodec(
        streams.CreateStream,
        streams.decode_create_stream,
        streams.encode_create_stream,
        streams_replies.encode_stream,
        streams_replies.decode_stream,
    ),
    Code.DELETE_STREAM: CommandCodec(
        streams.DeleteStream,
        streams.decode_delete_stream,
        streams.encode_delete_stream,
        encode_nothing,
        decode_nothing,
    ),
    Code.UPDATE_STREAM: CommandCodec(
        streams.UpdateStream,
        streams.decode_update_stream,
        streams.encode_update_stream,
        encode_nothing,
        decode_nothing,
    ),
    Code.PURGE_STREAM: CommandCodec(
        streams.PurgeStream,
        streams.decode_purge_stream,
        streams.encode_purge_stream,
        encode_nothing,
        decode_nothing,
    ),
    Code.GET_TOPIC: CommandCodec(
        topics.GetTopic,
        topics.decode_get_topic,
        topics.encode_get_topic,
        or_empty(topics_replies.encode_topic_details),
        or_none(topics_replies.decode_topic_details),
    ),
    Code.GET_TOPICS: CommandCodec(
        topics.GetTopics,
        topics.decode_get_topics,
        topics.encode_get_topics,
        or_empty(topics_replies.encode_topics),
        topics_replies.decode_topics,
    ),
    Code.CREATE_TOPIC: CommandCodec(
        topics.CreateTopic,
        topics.decode_create_topic,
        topics.encode_create_topic,
        topics_replies.encode_topic_details,
        topics_replies.decode_topic_details,
    ),
    Code.DELETE_TOPIC: CommandCodec(
        topics.DeleteTopic,
        topics.decode_delete_topic,
        topics.encode_delete_topic,
        encode_nothing,
        decode_nothing,
    ),
    Code.UPDATE_TOPIC: CommandCodec(
        topics.UpdateTopic,
        topics.decode_update_topic,
        topics.encode_update_topic,
        encode_nothing,
        decode_nothing,
    ),
    Code.PURGE_TOPIC: CommandCodec(
        topics.PurgeTopic,
        topics.decode_purge_topic,
        topics.encode_purge_topic,
        encode_nothing,
        decode_nothing,
    ),
    Code.CREATE_PARTITIONS: CommandCodec(
        topics.CreatePartitions,
        topics.decode_create_partitions,
        topics.encode_create_partitions,
        encode_nothing,
        decode_nothing,
    ),
    Code.DELETE_PARTITIONS: CommandCodec(
        topics.DeletePartitions,
        topics.decode_delete_partitions,
        topics.encode_delete_partitions,
        encode_nothing,
        decode_nothing,
    ),
    Code.DELETE_SEGMENTS: CommandCodec(
        topics.DeleteSegments,
        topics.decode_delete_segments,
        topics.encode_delete_segments,
        encode_nothing,
        decode_nothing,
    ),
    Code.GET_CONSUMER_GROUP: CommandCodec(
        groups.GetConsumerGroup,
        groups.decode_get_consumer_group,
        groups.encode_get_consumer_group,
        or_empty(consumers_replies.encode_consumer_group_details),
        or_none(consumers_replies.decode_consumer_group_details),
    ),
    Code.GET_CONSUMER_GROUPS: CommandCodec(
        groups.GetConsumerGroups,
        groups.decode_get_consumer_groups,
        groups.encode_get_consumer_groups,
        or_empty(consumers_replies.encode_consumer_groups),
        consumers_replies.decode_consumer_groups,
    ),
    Code.CREATE_CONSUMER_GROUP: CommandCodec(
        groups.CreateConsumerGroup,
        groups.decode_create_consumer_group,
        groups.encode_create_consumer_group,
        consumers_replies.encode_consumer_group,
        consumers_replies.decode_consumer_group,
    ),
    Code.DELETE_CONSUMER_GROUP: CommandCodec(
        groups.DeleteConsumerGroup,
        groups.decode_delete_consumer_group,
        groups.encode_delete_consumer_group,
        encode_nothing,
        decode_nothing,
    ),
    Code.JOIN_CONSUMER_GROUP: CommandCodec(
        groups.JoinConsumerGroup,
        groups.decode_join_consumer_group,
        groups.encode_join_consumer_group,
        encode_nothing,
        decode_nothing,
    ),
    Code.LEAVE_CONSUMER_GROUP: CommandCodec(
        groups.LeaveConsumerGroup,
        groups.decode_leave_consumer_group,
        groups.encode_leave_consumer_group,
        encode_nothing,
        decode_nothing,
    ),
}
