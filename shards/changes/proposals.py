"""Metadata commands on their way to shard 0: the code of the client's command, and its fields.

The fields are MessagePack by name, in a form of the broker's own: what a client of any generation
may say travels, whether or not another generation has bytes for it. A command that holds a secret
has no row here. What is left of it after hashing travels under the code of the original.

Before them lies the request that the client has numbered, zeros if it has not:

    0   client   16 bytes, as the client chose them
    16  number   u64
"""

import struct
from typing import Any, Final

from borzoi.messagepack import NotPacked, pack, unpack
from borzoi.protocol.codes import Code
from borzoi.protocol.commands.groups import CreateConsumerGroup, DeleteConsumerGroup
from borzoi.protocol.commands.sessions import DeletePersonalAccessToken
from borzoi.protocol.commands.streams import CreateStream, DeleteStream, PurgeStream, UpdateStream
from borzoi.protocol.commands.topics import (
    CreatePartitions,
    CreateTopic,
    DeletePartitions,
    DeleteTopic,
    PurgeTopic,
    UpdateTopic,
)
from borzoi.protocol.commands.users import DeleteUser, UpdatePermissions, UpdateUser
from borzoi.protocol.errors import InvalidCommand
from borzoi.shards.decisions.attaching import (
    CreateAttachedTopic,
    FlagPartitions,
    JoinBridgeGroup,
    LeaveBridgeGroup,
    SetCursors,
)
from borzoi.shards.decisions.commands import CreateHashedUser, CreateToken, SetPasswordHash
from borzoi.shards.metadata.requests import RequestKey

NUMBERED: Final = struct.Struct("<16sQ")
NOT_NUMBERED: Final = bytes(NUMBERED.size)

COMMANDS: Final[dict[int, type[Any]]] = {
    Code.CREATE_STREAM: CreateStream,
    Code.UPDATE_STREAM: UpdateStream,
    Code.DELETE_STREAM: DeleteStream,
    Code.PURGE_STREAM: PurgeStream,
    Code.CREATE_TOPIC: CreateTopic,
    Code.UPDATE_TOPIC: UpdateTopic,
    Code.DELETE_TOPIC: DeleteTopic,
    Code.PURGE_TOPIC: PurgeTopic,
    Code.CREATE_PARTITIONS: CreatePartitions,
    Code.DELETE_PARTITIONS: DeletePartitions,
    Code.CREATE_CONSUMER_GROUP: CreateConsumerGroup,
    Code.DELETE_CONSUMER_GROUP: DeleteConsumerGroup,
    Code.CREATE_USER: CreateHashedUser,
    Code.UPDATE_USER: UpdateUser,
    Code.DELETE_USER: DeleteUser,
    Code.UPDATE_PERMISSIONS: UpdatePermissions,
    Code.CHANGE_PASSWORD: SetPasswordHash,
    Code.CREATE_PERSONAL_ACCESS_TOKEN: CreateToken,
    Code.DELETE_PERSONAL_ACCESS_TOKEN: DeletePersonalAccessToken,
    # Of Liftbridge: no client of Iggy sends these, so the numbers lie above all codes.
    0x1_0001: CreateAttachedTopic,
    0x1_0002: FlagPartitions,
    0x1_0003: SetCursors,
    0x1_0004: JoinBridgeGroup,
    0x1_0005: LeaveBridgeGroup,
}
CODES: Final = {command: code for code, command in COMMANDS.items()}


def proposal_code(command: Any) -> int:
    """The code of the client's command that a command for the metadata log comes from."""
    code = CODES.get(type(command))
    assert code is not None, f"{type(command).__name__} is not proposed: it may hold a secret"
    return code


def encode_proposal(command: Any) -> tuple[int, bytes]:
    """Code and bytes of a command for the metadata log."""
    return proposal_code(command), pack(command)


def decode_proposal(code: int, payload: bytes) -> Any:
    """The command that another shard proposes; InvalidCommand if these bytes hold none."""
    command = COMMANDS.get(code)
    if command is None:
        raise InvalidCommand(f"code {code} is no command of the metadata log")
    try:
        return unpack(payload, command)
    except NotPacked as error:
        raise InvalidCommand(f"a proposal of {command.__name__}: {error}") from error


def behind_request(payload: bytes, request: RequestKey | None) -> bytes:
    """The bytes of a command behind those of its request."""
    return (NOT_NUMBERED if request is None else NUMBERED.pack(*request)) + payload


def request_before(lent: bytes) -> tuple[RequestKey | None, bytes]:
    """The request that a proposal comes from, None if it has no number; and its command."""
    if len(lent) < NUMBERED.size:
        raise InvalidCommand(f"a proposal of {len(lent)} bytes, {NUMBERED.size} come first")
    command = lent[NUMBERED.size :]
    if lent.startswith(NOT_NUMBERED):
        return None, command
    return RequestKey(*NUMBERED.unpack_from(lent)), command
