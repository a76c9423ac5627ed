"""Which handler serves which command.

SEND_MESSAGES and POLL_MESSAGES are missing on purpose: the session carries them out without a
task. A known command without a handler is answered with FeatureUnavailable.
"""

from collections.abc import Callable
from typing import Any, Final

from borzoi.protocol.codes import Code, LaterCode
from borzoi.shards.handlers import (
    groups,
    offsets,
    sessions,
    streams,
    system,
    tokens,
    topics,
    users,
)

Handler = Callable[..., Any]
"""(services, caller, command) -> the reply's value, or a coroutine that gives it."""

HANDLERS: Final[dict[int, Handler]] = {
    Code.PING: system.ping,
    Code.GET_STATS: system.get_stats,
    Code.GET_SNAPSHOT: system.get_snapshot,
    Code.GET_CLUSTER_METADATA: system.get_cluster_metadata,
    Code.GET_ME: system.get_me,
    Code.GET_CLIENT: system.get_client,
    Code.GET_CLIENTS: system.get_clients,
    Code.GET_USER: users.get_user,
    Code.GET_USERS: users.get_users,
    Code.CREATE_USER: users.create_user,
    Code.DELETE_USER: users.delete_user,
    Code.UPDATE_USER: users.update_user,
    Code.UPDATE_PERMISSIONS: users.update_permissions,
    Code.CHANGE_PASSWORD: users.change_password,
    Code.LOGIN_USER: sessions.login_user,
    Code.LOGOUT_USER: sessions.logout_user,
    Code.GET_PERSONAL_ACCESS_TOKENS: tokens.get_personal_access_tokens,
    Code.CREATE_PERSONAL_ACCESS_TOKEN: tokens.create_personal_access_token,
    Code.DELETE_PERSONAL_ACCESS_TOKEN: tokens.delete_personal_access_token,
    Code.LOGIN_WITH_PERSONAL_ACCESS_TOKEN: sessions.login_with_personal_access_token,
    LaterCode.LOGIN_REGISTER: sessions.register,
    LaterCode.DESCRIBE_OPTIONS: system.describe_options,
    LaterCode.SYNC_CONSUMER_GROUP: groups.sync_consumer_group,
    Code.GET_STREAM: streams.get_stream,
    Code.GET_STREAMS: streams.get_streams,
    Code.CREATE_STREAM: streams.create_stream,
    Code.UPDATE_STREAM: streams.update_stream,
    Code.DELETE_STREAM: streams.delete_stream,
    Code.PURGE_STREAM: streams.purge_stream,
    Code.GET_TOPIC: topics.get_topic,
    Code.GET_TOPICS: topics.get_topics,
    Code.CREATE_TOPIC: topics.create_topic,
    Code.UPDATE_TOPIC: topics.update_topic,
    Code.DELETE_TOPIC: topics.delete_topic,
    Code.PURGE_TOPIC: topics.purge_topic,
    Code.CREATE_PARTITIONS: topics.create_partitions,
    Code.DELETE_PARTITIONS: topics.delete_partitions,
    Code.GET_CONSUMER_GROUP: groups.get_consumer_group,
    Code.GET_CONSUMER_GROUPS: groups.get_consumer_groups,
    Code.CREATE_CONSUMER_GROUP: groups.create_consumer_group,
    Code.DELETE_CONSUMER_GROUP: groups.delete_consumer_group,
    Code.JOIN_CONSUMER_GROUP: groups.join_consumer_group,
    Code.LEAVE_CONSUMER_GROUP: groups.leave_consumer_group,
    Code.DELETE_SEGMENTS: topics.delete_segments,
    Code.FLUSH_UNSAVED_BUFFER: offsets.flush_unsaved_buffer,
    Code.GET_CONSUMER_OFFSET: offsets.get_consumer_offset,
    Code.STORE_CONSUMER_OFFSET: offsets.store_consumer_offset,
    Code.DELETE_CONSUMER_OFFSET: offsets.delete_consumer_offset,
}
