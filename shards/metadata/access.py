"""The one place where a permission is asked for."""

from borzoi.protocol.codes import Code
from borzoi.protocol.errors import Unauthorized
from borzoi.shards.metadata.permissions import can, enough_for
from borzoi.shards.metadata.state import State


def require(
    state: State,
    user_id: int,
    code: Code,
    stream_id: int | None = None,
    topic_id: int | None = None,
) -> None:
    """Raise Unauthorized unless the user may do this there."""
    if not can(state, user_id, code, stream_id, topic_id):
        user = state.users.get(user_id)
        name = f"user {user_id}" if user is None else repr(user.username)
        action = code.name.lower().replace("_", " ") + _place(state, stream_id, topic_id)
        raise Unauthorized(
            f"{name} lacks the permission to {action}: needs one of {', '.join(enough_for(code))}"
        )


def _place(state: State, stream_id: int | None, topic_id: int | None) -> str:
    stream = None if stream_id is None else state.streams.get(stream_id)
    if stream is None:
        return ""
    topic = None if topic_id is None else stream.topics.get(topic_id)
    return f" in {stream.name!r}" if topic is None else f" in {stream.name}/{topic.name}"
