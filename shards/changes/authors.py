"""Who proposes a change, and whether that one still may, when its turn has come. Pure.

A handler checks a permission on its own shard. When shard 0 gets to the command, the permission
may be withdrawn, the user removed, or its id given to another user; a name may lead to another
stream. So shard 0 asks again, on the state that the command is decided on: nothing of
a user follows in the log after the entry that has taken its right away.
"""

from typing import Any, NamedTuple

from borzoi.protocol.codes import Code
from borzoi.protocol.errors import Unauthenticated, Unauthorized
from borzoi.protocol.permissions import UserStatus
from borzoi.shards.changes.proposals import proposal_code
from borzoi.shards.decisions.attaching import OF_THE_BROKER, asked_as
from borzoi.shards.decisions.commands import DeleteExpiredTokens, SetPasswordHash
from borzoi.shards.metadata.access import require
from borzoi.shards.metadata.requests import RequestKey
from borzoi.shards.metadata.state import State


class Author(NamedTuple):
    """A user in one life of its id, and the request it makes, if its client numbers them."""

    user_id: int
    created_at: int
    request: RequestKey | None = None


def author_of(state: State, user_id: int, request: RequestKey | None = None) -> Author:
    """The user of that id as it is now; Unauthorized if there is none."""
    user = state.users.get(user_id)
    if user is None:
        raise Unauthorized(f"user {user_id} was removed")
    return Author(user_id, user.created_at, request)


def check_author(state: State, author: Author, command: Any) -> None:
    """Raise unless the author may have this command carried out now."""
    if isinstance(command, (DeleteExpiredTokens, *OF_THE_BROKER)):
        # The broker's own. It stands in root's name, who may be inactive.
        return
    user = state.users.get(author.user_id)
    if user is None or user.created_at != author.created_at:
        raise Unauthorized(f"user {author.user_id} was removed meanwhile")
    if user.status != UserStatus.ACTIVE:
        raise Unauthenticated(f"user {author.user_id} was made inactive meanwhile")
    if isinstance(command, SetPasswordHash) and state.find_user(command.user) is user:
        # Everybody's right, and in no table.
        return
    code = asked_as(command) or Code(proposal_code(command))
    require(state, user.id, code, *_place(state, command))


def _place(state: State, command: Any) -> tuple[int | None, int | None]:
    """The stream and the topic that a command is about, as far as it is about one."""
    if not hasattr(command, "stream"):
        return None, None
    stream = state.stream(command.stream)
    if not hasattr(command, "topic"):
        return stream.id, None
    return stream.id, stream.topic(command.topic).id
