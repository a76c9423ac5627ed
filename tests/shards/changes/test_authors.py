"""Whether the author of a command may still have it carried out."""

from typing import Any

import pytest

from borzoi.protocol.commands.groups import CreateConsumerGroup
from borzoi.protocol.commands.sessions import DeletePersonalAccessToken
from borzoi.protocol.commands.streams import CreateStream, DeleteStream, UpdateStream
from borzoi.protocol.commands.topics import DeleteTopic
from borzoi.protocol.commands.users import DeleteUser
from borzoi.protocol.errors import (
    StreamIdNotFound,
    TopicIdNotFound,
    Unauthenticated,
    Unauthorized,
)
from borzoi.protocol.permissions import (
    ALL_PERMISSIONS,
    Permissions,
    StreamPermissions,
    TopicPermissions,
    UserStatus,
)
from borzoi.shards.changes.authors import Author, author_of, check_author
from borzoi.shards.decisions.commands import CreateToken, DeleteExpiredTokens, SetPasswordHash
from borzoi.shards.metadata.state import State, Stream, Topic, User

ANN = Author(1, 77)
ON_STREAM = Permissions(streams={4: StreamPermissions(manage_stream=True)})
ON_TOPIC = Permissions(streams={4: StreamPermissions(topics={0: TopicPermissions(True)})})


def world(permissions: Permissions | None, status: UserStatus = UserStatus.ACTIVE) -> State:
    topic = Topic(0, "t", 0, 1, 0, 0, 1)
    streams = {
        id: Stream(id, name, 0, topics={0: topic}, topic_names={"t": 0})
        for id, name in ((4, "mine"), (5, "other"))
    }
    users = {
        0: User(0, "root", "hash", UserStatus.ACTIVE, 1, ALL_PERMISSIONS),
        1: User(1, "ann", "hash", status, 77, permissions),
    }
    return State(
        streams=streams, stream_names={"mine": 4, "other": 5},
        users=users, usernames={"root": 0, "ann": 1},
    )  # fmt: skip


@pytest.mark.parametrize(
    ("permissions", "command"),
    [
        (ALL_PERMISSIONS, CreateStream("new")),
        (ALL_PERMISSIONS, DeleteUser(0)),
        (ON_STREAM, UpdateStream("mine", "name")),
        (ON_STREAM, DeleteTopic(4, 0)),
        (ON_TOPIC, DeleteTopic("mine", "t")),
        (ON_TOPIC, CreateConsumerGroup("mine", "t", "g")),
        (None, DeletePersonalAccessToken("token")),
        (None, CreateToken(1, 77, "token", "hash", 0)),
        (None, SetPasswordHash("ann", "new", "hash")),
    ],
)
def test_who_may_may_still(permissions: Permissions | None, command: Any) -> None:
    state = world(permissions)
    assert author_of(state, 1) == ANN
    check_author(state, ANN, command)
    with pytest.raises(Unauthorized):
        check_author(state, ANN._replace(created_at=78), command)
    with pytest.raises(Unauthenticated):
        check_author(world(permissions, UserStatus.INACTIVE), ANN, command)
    del state.users[1]
    with pytest.raises(Unauthorized):
        check_author(state, ANN, command)
    with pytest.raises(Unauthorized):
        author_of(state, 1)


@pytest.mark.parametrize(
    ("permissions", "command"),
    [
        (None, CreateStream("new")),
        (ON_STREAM, CreateStream("new")),
        (ON_STREAM, DeleteStream("other")),
        (ON_TOPIC, DeleteTopic("other", "t")),
        (ON_TOPIC, DeleteStream("mine")),
        (ON_STREAM, DeleteUser("ann")),
        (ON_STREAM, SetPasswordHash("root", "new", "hash")),
    ],
)
def test_who_may_not_may_not_any_more(permissions: Permissions | None, command: Any) -> None:
    with pytest.raises(Unauthorized):
        check_author(world(permissions), ANN, command)


def test_what_is_gone_meanwhile_is_not_found() -> None:
    with pytest.raises(StreamIdNotFound):
        check_author(world(ON_STREAM), ANN, DeleteStream("gone"))
    with pytest.raises(TopicIdNotFound):
        check_author(world(ON_STREAM), ANN, DeleteTopic("mine", "gone"))


def test_the_broker_clears_tokens_away_whatever_root_is() -> None:
    state = world(None)
    state.users[0].status = UserStatus.INACTIVE
    check_author(state, Author(0, 1), DeleteExpiredTokens())
