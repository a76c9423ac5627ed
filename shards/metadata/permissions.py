"""Who may do what: one table, one row per command code.

A command is allowed if any flag of its row is set, on any level: global, on that stream, on that
topic. A flag that is not set on a narrower level takes nothing away. A command without a row does
not exist: the table covers the codes completely, and a test sees to it.

Not in the table, because it depends on the arguments: everybody may read their own user record
and change their own password.
"""

from typing import Final, NamedTuple

from borzoi.protocol.codes import Code
from borzoi.protocol.permissions import GlobalPermissions, StreamPermissions, TopicPermissions
from borzoi.shards.metadata.state import State


class PermissionRule(NamedTuple):
    """Flags of which one is enough, by level, as they are called in the permissions of a user."""

    globals: tuple[str, ...] = ()
    stream: tuple[str, ...] = ()
    topic: tuple[str, ...] = ()
    anyone: bool = False
    logged_in: bool = False


ANYONE: Final = PermissionRule(anyone=True, logged_in=True)
LOGGED_IN: Final = PermissionRule(logged_in=True)

READ_SERVERS: Final = PermissionRule(("manage_servers", "read_servers"))
READ_USERS: Final = PermissionRule(("manage_users", "read_users"))
MANAGE_USERS: Final = PermissionRule(("manage_users",))
LIST_STREAMS: Final = PermissionRule(("manage_streams", "read_streams"))
READ_STREAM: Final = PermissionRule(
    ("manage_streams", "read_streams"), ("manage_stream", "read_stream")
)
CREATE_STREAM: Final = PermissionRule(("manage_streams",))
MANAGE_STREAM: Final = PermissionRule(("manage_streams",), ("manage_stream",))
LIST_TOPICS: Final = PermissionRule(
    ("manage_streams", "read_streams", "manage_topics", "read_topics"),
    ("manage_stream", "read_stream", "manage_topics", "read_topics"),
)
READ_TOPIC: Final = LIST_TOPICS._replace(topic=("manage_topic", "read_topic"))
CREATE_TOPIC: Final = PermissionRule(
    ("manage_streams", "manage_topics"),
    ("manage_stream", "manage_topics"),
)
MANAGE_TOPIC: Final = CREATE_TOPIC._replace(topic=("manage_topic",))
POLL: Final = PermissionRule(
    ("poll_messages", "read_topics", "manage_topics", "read_streams", "manage_streams"),
    ("poll_messages", "manage_stream", "read_stream", "manage_topics", "read_topics"),
    ("poll_messages", "manage_topic", "read_topic"),
)
SEND: Final = PermissionRule(
    ("send_messages", "manage_streams", "manage_topics"),
    ("send_messages", "manage_stream", "manage_topics"),
    ("send_messages", "manage_topic"),
)

RULES: Final[dict[Code, PermissionRule]] = {
    Code.PING: ANYONE,
    Code.LOGIN_USER: ANYONE,
    Code.LOGIN_WITH_PERSONAL_ACCESS_TOKEN: ANYONE,
    Code.LOGOUT_USER: LOGGED_IN,
    Code.GET_ME: LOGGED_IN,
    Code.GET_CLUSTER_METADATA: LOGGED_IN,
    Code.GET_PERSONAL_ACCESS_TOKENS: LOGGED_IN,
    Code.CREATE_PERSONAL_ACCESS_TOKEN: LOGGED_IN,
    Code.DELETE_PERSONAL_ACCESS_TOKEN: LOGGED_IN,
    Code.GET_STATS: READ_SERVERS,
    Code.GET_CLIENT: READ_SERVERS,
    Code.GET_CLIENTS: READ_SERVERS,
    # Ours: the archive tells more about the machine than GET_STATS does, so it needs as much.
    Code.GET_SNAPSHOT: READ_SERVERS,
    Code.GET_USER: READ_USERS,
    Code.GET_USERS: READ_USERS,
    Code.CREATE_USER: MANAGE_USERS,
    Code.UPDATE_USER: MANAGE_USERS,
    Code.DELETE_USER: MANAGE_USERS,
    Code.UPDATE_PERMISSIONS: MANAGE_USERS,
    Code.CHANGE_PASSWORD: MANAGE_USERS,
    Code.GET_STREAMS: LIST_STREAMS,
    Code.GET_STREAM: READ_STREAM,
    Code.CREATE_STREAM: CREATE_STREAM,
    Code.UPDATE_STREAM: MANAGE_STREAM,
    Code.DELETE_STREAM: MANAGE_STREAM,
    Code.PURGE_STREAM: MANAGE_STREAM,
    Code.GET_TOPICS: LIST_TOPICS,
    Code.GET_TOPIC: READ_TOPIC,
    Code.CREATE_TOPIC: CREATE_TOPIC,
    Code.UPDATE_TOPIC: MANAGE_TOPIC,
    Code.DELETE_TOPIC: MANAGE_TOPIC,
    Code.PURGE_TOPIC: MANAGE_TOPIC,
    Code.CREATE_PARTITIONS: MANAGE_TOPIC,
    Code.DELETE_PARTITIONS: MANAGE_TOPIC,
    Code.DELETE_SEGMENTS: MANAGE_TOPIC,
    Code.GET_CONSUMER_GROUP: READ_TOPIC,
    Code.GET_CONSUMER_GROUPS: READ_TOPIC,
    Code.CREATE_CONSUMER_GROUP: READ_TOPIC,
    Code.DELETE_CONSUMER_GROUP: READ_TOPIC,
    Code.JOIN_CONSUMER_GROUP: READ_TOPIC,
    Code.LEAVE_CONSUMER_GROUP: READ_TOPIC,
    Code.POLL_MESSAGES: POLL,
    Code.GET_CONSUMER_OFFSET: POLL,
    Code.STORE_CONSUMER_OFFSET: POLL,
    Code.DELETE_CONSUMER_OFFSET: POLL,
    Code.SEND_MESSAGES: SEND,
    Code.FLUSH_UNSAVED_BUFFER: SEND,
}


def enough_for(code: Code) -> tuple[str, ...]:
    """The flags of which any one is enough, on whatever level, in the order of the table."""
    rule = RULES[code]
    return tuple(dict.fromkeys((*rule.globals, *rule.stream, *rule.topic)))


def can(
    state: State,
    user_id: int,
    code: Code,
    stream_id: int | None = None,
    topic_id: int | None = None,
) -> bool:
    """Whether a logged-in user may send this command, for that stream and that topic.

    Give the ids the command is about. A user that does not exist (any more) may do nothing that
    needs a flag.
    """
    rule = RULES[code]
    if rule.logged_in:
        return True
    user = state.users.get(user_id)
    if user is None or user.permissions is None:
        return False
    permissions = user.permissions
    if _any(permissions.global_permissions, rule.globals):
        return True
    on_stream = None if stream_id is None else permissions.streams.get(stream_id)
    if on_stream is None:
        return False
    if _any(on_stream, rule.stream):
        return True
    on_topic = None if topic_id is None else on_stream.topics.get(topic_id)
    return on_topic is not None and _any(on_topic, rule.topic)


def _any(
    granted: GlobalPermissions | StreamPermissions | TopicPermissions, flags: tuple[str, ...]
) -> bool:
    # A loop and no generator: this runs for every balanced send and every poll of a group.
    for flag in flags:  # noqa: SIM110 - see above
        if getattr(granted, flag):
            return True
    return False
