"""The one place where a permission is asked for."""

from borzoi.protocol.codes import Code
from borzoi.protocol.errors import Unauthorized
from borzoi.shards.metadata.permissions import can
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
        raise Unauthorized(f"user {user_id} may not {code.name} on {stream_id}/{topic_id}")
