"""Which handler serves which command.

SEND_MESSAGES and POLL_MESSAGES are missing on purpose: the session carries them out without a
task. A known command without a handler is answered with FeatureUnavailable.
"""

from collections.abc import Callable
from typing import Any, Final

from borzoi.protocol.codes import Code
from borzoi.shards.handlers import offsets, sessions, streams, system, topics

Handler = Callable[..., Any]
"""(services, caller, command) -> the reply's value, or a coroutine that gives it."""

HANDLERS: Final[dict[int, Handler]] = {
    Code.PING: system.ping,
    Code.GET_STATS: system.get_stats,
    Code.GET_CLUSTER_METADATA: system.get_cluster_metadata,
    Code.GET_ME: system.get_me,
    Code.GET_CLIENT: system.get_client,
    Code.GET_CLIENTS: system.get_clients,
    Code.LOGIN_USER: sessions.login_user,
    Code.LOGOUT_USER: sessions.logout_user,
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
    Code.DELETE_SEGMENTS: topics.delete_segments,
    Code.FLUSH_UNSAVED_BUFFER: offsets.flush_unsaved_buffer,
    Code.GET_CONSUMER_OFFSET: offsets.get_consumer_offset,
    Code.STORE_CONSUMER_OFFSET: offsets.store_consumer_offset,
    Code.DELETE_CONSUMER_OFFSET: offsets.delete_consumer_offset,
}
