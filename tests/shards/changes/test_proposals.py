"""Commands on their way to shard 0 arrive as they left, and secrets do not travel."""

from contextlib import suppress
from dataclasses import make_dataclass
from typing import Any, get_args

import msgpack
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from borzoi.messagepack import pack, unpack
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
from borzoi.protocol.errors import InvalidCommand
from borzoi.protocol.permissions import (
    ALL_PERMISSIONS,
    Permissions,
    StreamPermissions,
    TopicPermissions,
    UserStatus,
)
from borzoi.shards.changes.proposals import (
    COMMANDS,
    behind_request,
    decode_proposal,
    encode_proposal,
    request_before,
)
from borzoi.shards.decisions.commands import (
    CreateHashedUser,
    CreateToken,
    DeleteExpiredTokens,
    SetPasswordHash,
)
from borzoi.shards.decisions.decide import MetadataCommand
from borzoi.shards.metadata.requests import RequestKey
from tests.shards.metadata.drawn import drawn

SOME = Permissions(
    streams={3: StreamPermissions(True, topics={0: TopicPermissions(read_topic=True)})}
)


@pytest.mark.parametrize(
    ("command", "code"),
    [
        (CreateStream("orders"), Code.CREATE_STREAM),
        (CreateStream("orders", wanted_id=4), Code.CREATE_STREAM),
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


def test_every_command_of_a_client_has_a_code() -> None:
    # Shard 0 alone clears expired tokens away: that command does not travel.
    assert set(COMMANDS.values()) == set(get_args(MetadataCommand)) - {DeleteExpiredTokens}


@settings(max_examples=200)
@given(data=st.data(), code=st.sampled_from(sorted(COMMANDS)))
def test_any_value_arrives_as_it_left(data: st.DataObject, code: int) -> None:
    command = data.draw(drawn(COMMANDS[code]))
    assert decode_proposal(*encode_proposal(command)) == command


def test_a_field_that_only_a_newer_generation_has_travels() -> None:
    newer: Any = make_dataclass(
        "CreateStream", [("name", str), ("labels", dict[str, bytes]), ("paused", bool, False)]
    )
    command = newer("orders", {"region": b"\x00\xff"}, True)
    assert unpack(pack(command), newer) == command
    # And a shard that does not know them takes the rest.
    assert decode_proposal(Code.CREATE_STREAM, pack(command)) == CreateStream("orders")


@pytest.mark.parametrize(
    ("code", "payload"),
    [
        (Code.CREATE_STREAM, b""),
        (Code.CREATE_STREAM, b"\xc1"),
        (Code.CREATE_STREAM, msgpack.packb({})),
        (Code.CREATE_STREAM, msgpack.packb({"name": 7})),
        (Code.CREATE_STREAM, msgpack.packb(["orders"])),
        (Code.DELETE_STREAM, msgpack.packb({"stream": 1.5})),
        (Code.UPDATE_USER, msgpack.packb({"user": 1, "username": None, "status": 3})),
        (Code.PING, b"\x80"),
        (2**64 - 1, b"\x80"),
    ],
)
def test_what_is_no_proposal_is_an_invalid_command(code: int, payload: bytes) -> None:
    with pytest.raises(InvalidCommand):
        decode_proposal(code, payload)


@settings(max_examples=300)
@given(payload=st.binary(max_size=64), code=st.sampled_from(sorted(COMMANDS)))
def test_rubbish_is_an_invalid_command_or_nothing_else(payload: bytes, code: int) -> None:
    with suppress(InvalidCommand):
        decode_proposal(code, payload)


@pytest.mark.parametrize("request_", [None, RequestKey(bytes(range(16)), 2**64 - 1)])
def test_a_command_travels_behind_its_request(request_: RequestKey | None) -> None:
    assert request_before(behind_request(b"command", request_)) == (request_, b"command")


def test_what_is_too_short_for_a_request_is_an_invalid_command() -> None:
    with pytest.raises(InvalidCommand, match="23 bytes, 24 come first"):
        request_before(bytes(23))
