"""The commands of the metadata log, as they are stored: MessagePack maps with a `kind`.

A stored command is fully resolved: ids are numbers, server defaults are values, passwords and
tokens are hashes. Applying one needs no clock, no config and no disk. The time and the user are
in the log entry around it.

Old logs stay readable for ever, so: a kind is never renamed or reused, a field never changes its
meaning or becomes required; new fields come with a default, new kinds come at the end. Fields a
reader does not know are skipped; kinds it does not know are refused, because skipping a command
would make copies differ. Permissions are stored as the block of the wire, which is small and
cannot change.

The `flags` of the log entry: bits 0..7 hold FORMAT_VERSION, bit 8 says that the command is
encrypted (sealing.py). The other bits are 0. What is handed in here is in clear.
"""

from typing import Any, Final, TypeAlias, get_args

import msgspec

from borzoi.protocol.payload import PayloadReader
from borzoi.protocol.permissions import Permissions, decode_permissions, pack_permissions
from borzoi.shards.metadata.messagepack import NotPacked, converted, pack, unpacked
from borzoi.storage.wal import WalEntry

FORMAT_VERSION: Final = 1
VERSION_MASK: Final = 0xFF


class UnknownEntry(Exception):
    """The log holds a command that this version cannot apply."""


class Stored(msgspec.Struct, frozen=True, omit_defaults=True, tag_field="kind"):
    """What all stored commands have in common: the way they are encoded."""


class StreamCreated(Stored, frozen=True, tag="stream_created"):
    stream_id: int
    name: str


class StreamUpdated(Stored, frozen=True, tag="stream_updated"):
    stream_id: int
    name: str


class StreamDeleted(Stored, frozen=True, tag="stream_deleted"):
    stream_id: int


class StreamPurged(Stored, frozen=True, tag="stream_purged"):
    stream_id: int


class TopicCreated(Stored, frozen=True, tag="topic_created"):
    stream_id: int
    topic_id: int
    name: str
    partitions_count: int
    compression_algorithm: int
    message_expiry: int
    max_topic_size: int
    replication_factor: int


class TopicUpdated(Stored, frozen=True, tag="topic_updated"):
    stream_id: int
    topic_id: int
    name: str
    compression_algorithm: int
    message_expiry: int
    max_topic_size: int
    replication_factor: int


class TopicDeleted(Stored, frozen=True, tag="topic_deleted"):
    stream_id: int
    topic_id: int


class TopicPurged(Stored, frozen=True, tag="topic_purged"):
    stream_id: int
    topic_id: int


class PartitionsCreated(Stored, frozen=True, tag="partitions_created"):
    stream_id: int
    topic_id: int
    count: int


class PartitionsDeleted(Stored, frozen=True, tag="partitions_deleted"):
    """The `count` highest ids go."""

    stream_id: int
    topic_id: int
    count: int


class GroupCreated(Stored, frozen=True, tag="group_created"):
    stream_id: int
    topic_id: int
    group_id: int
    name: str


class GroupDeleted(Stored, frozen=True, tag="group_deleted"):
    stream_id: int
    topic_id: int
    group_id: int


class UserCreated(Stored, frozen=True, tag="user_created"):
    user_id: int
    username: str
    password_hash: str
    status: int
    permissions: bytes | None = None


class UserUpdated(Stored, frozen=True, tag="user_updated"):
    """None leaves the name or the status as it is."""

    user_id: int
    username: str | None = None
    status: int | None = None


class UserDeleted(Stored, frozen=True, tag="user_deleted"):
    user_id: int


class PermissionsUpdated(Stored, frozen=True, tag="permissions_updated"):
    user_id: int
    permissions: bytes | None = None


class PasswordChanged(Stored, frozen=True, tag="password_changed"):
    user_id: int
    password_hash: str


class TokenCreated(Stored, frozen=True, tag="token_created"):
    user_id: int
    name: str
    hash: str
    expiry_at: int = 0


class TokenDeleted(Stored, frozen=True, tag="token_deleted"):
    user_id: int
    name: str


class ExpiredTokensDeleted(Stored, frozen=True, tag="expired_tokens_deleted"):
    """Of all users, those that had expired at the time of the entry."""


StoredCommand: TypeAlias = (
    StreamCreated
    | StreamUpdated
    | StreamDeleted
    | StreamPurged
    | TopicCreated
    | TopicUpdated
    | TopicDeleted
    | TopicPurged
    | PartitionsCreated
    | PartitionsDeleted
    | GroupCreated
    | GroupDeleted
    | UserCreated
    | UserUpdated
    | UserDeleted
    | PermissionsUpdated
    | PasswordChanged
    | TokenCreated
    | TokenDeleted
    | ExpiredTokensDeleted
)

KINDS: Final[dict[object, Any]] = {
    kind.__struct_config__.tag: kind for kind in get_args(StoredCommand)
}


def new_entry(index: int, timestamp: int, user_id: int, command: StoredCommand) -> WalEntry:
    """The log entry that holds this command."""
    return WalEntry(index, 0, timestamp, user_id, FORMAT_VERSION, pack(command))


def stored_command(entry: WalEntry) -> StoredCommand:
    """The command in a log entry, or UnknownEntry with the reason."""
    version = entry.flags & VERSION_MASK
    if version != FORMAT_VERSION or entry.flags & ~VERSION_MASK:
        raise UnknownEntry(
            f"entry {entry.index} of the metadata log has flags {entry.flags:#x} (format version"
            f" {version}); this borzoi reads version {FORMAT_VERSION}."
            " A newer one wrote it: start that."
        )
    try:
        return _command(unpacked(entry.command))
    except NotPacked as error:
        raise UnknownEntry(
            f"entry {entry.index} of the metadata log (format version {version}) holds a command"
            f" that this borzoi cannot apply: {error}. If a newer one wrote it, start that."
        ) from error


def _command(plain: Any) -> StoredCommand:
    kind = plain.get("kind") if isinstance(plain, dict) else None
    # Looked up here, because msgspec takes ten times as long to choose. Of what is not in the
    # table the union says in which way it is wrong.
    command: StoredCommand = converted(
        plain, KINDS.get(kind if isinstance(kind, str) else None, StoredCommand)
    )
    return command


def permissions_block(permissions: Permissions | None) -> bytes | None:
    """Permissions as a stored command holds them."""
    return None if permissions is None else pack_permissions(permissions)


def permissions_of(block: bytes | None) -> Permissions | None:
    """The permissions in a stored command."""
    return None if block is None else decode_permissions(PayloadReader(memoryview(block)))
