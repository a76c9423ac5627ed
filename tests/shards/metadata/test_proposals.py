"""Commands on their way to shard 0 arrive as they left, and secrets do not travel."""

from typing import Any

import pytest

from borzoi.protocol.codes import Code
from borzoi.protocol.commands import Command
from borzoi.protocol.commands.sessions import CreatePersonalAccessToken, DeletePersonalAccessToken
from borzoi.protocol.commands.streams import CreateStream
from borzoi.protocol.commands.users import (
    ChangePassword,
    CreateUser,
    DeleteUser,
    UpdatePermissions,
    UpdateUser,
)
from borzoi.protocol.permissions import (
    ALL_PERMISSIONS,
    Permissions,
    StreamPermissions,
    TopicPermissions,
    UserStatus,
)
from borzoi.shards.metadata.commands import CreateHashedUser, CreateToken, SetPasswordHash
from borzoi.shards.metadata.proposals import decode_proposal, encode_proposal

SOME = Permissions(
    streams={3: StreamPermissions(True, topics={0: TopicPermissions(read_topic=True)})}
)


@pytest.mark.parametrize(
    ("command", "code"),
    [
        (CreateStream("orders"), Code.CREATE_STREAM),
        (CreateHashedUser("ann", "h", UserStatus.INACTIVE, SOME), Code.CREATE_USER),
        (CreateHashedUser("ann", "h", UserStatus.ACTIVE, None), Code.CREATE_USER),
        (SetPasswordHash("ann", "new", "old"), Code.CHANGE_PASSWORD),
        (SetPasswordHash(7, "new", "old"), Code.CHANGE_PASSWORD),
        (CreateToken(7, 2**60, "token", "h", 2**63), Code.CREATE_PERSONAL_ACCESS_TOKEN),
        (DeletePersonalAccessToken("token"), Code.DELETE_PERSONAL_ACCESS_TOKEN),
        (UpdateUser(7, "anna", UserStatus.ACTIVE), Code.UPDATE_USER),
        (UpdatePermissions("ann", ALL_PERMISSIONS), Code.UPDATE_PERMISSIONS),
        (DeleteUser("ann"), Code.DELETE_USER),
    ],
)
def test_round_trip(command: Any, code: Code) -> None:
    said, payload = encode_proposal(command)
    assert said == code
    assert decode_proposal(said, payload) == command


@pytest.mark.parametrize(
    "command",
    [
        CreateUser("ann", "secret"),
        ChangePassword("ann", "secret", "secret"),
        CreatePersonalAccessToken("token", 0),
    ],
)
def test_what_holds_a_secret_is_not_taken(command: Command) -> None:
    with pytest.raises(AssertionError):
        encode_proposal(command)
