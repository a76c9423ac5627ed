"""Stored commands: their bytes are a promise to every later version."""

import msgspec
import pytest

from borzoi.protocol.permissions import (
    ALL_PERMISSIONS,
    GlobalPermissions,
    Permissions,
    StreamPermissions,
    TopicPermissions,
)
from borzoi.shards.attached.attachment import Attachment
from borzoi.shards.metadata import attachment_entries, entries
from borzoi.shards.metadata.entries import Stored, permissions_block, permissions_of
from borzoi.shards.metadata.entry_form import KINDS, UnknownEntry, new_entry, stored_command
from borzoi.storage.wal import WalEntry

U64_MAX = 2**64 - 1

# Never change a line here: these maps are in people's logs.
GOLDEN: list[tuple[Stored, dict[str, object]]] = [
    (entries.StreamCreated(3, "a"), {"kind": "stream_created", "stream_id": 3, "name": "a"}),
    (
        entries.StreamCreated(3, "a", is_chosen=True),
        {"kind": "stream_created", "stream_id": 3, "name": "a", "is_chosen": True},
    ),
    (entries.StreamUpdated(3, "b"), {"kind": "stream_updated", "stream_id": 3, "name": "b"}),
    (entries.StreamDeleted(3), {"kind": "stream_deleted", "stream_id": 3}),
    (entries.StreamPurged(3), {"kind": "stream_purged", "stream_id": 3}),
    (
        entries.TopicCreated(3, 4, "t", 1000, 1, U64_MAX, U64_MAX, 1),
        {
            "kind": "topic_created",
            "stream_id": 3,
            "topic_id": 4,
            "name": "t",
            "partitions_count": 1000,
            "compression_algorithm": 1,
            "message_expiry": U64_MAX,
            "max_topic_size": U64_MAX,
            "replication_factor": 1,
        },
    ),
    (
        entries.TopicUpdated(3, 4, "t", 4, 1, 2, 255),
        {
            "kind": "topic_updated",
            "stream_id": 3,
            "topic_id": 4,
            "name": "t",
            "compression_algorithm": 4,
            "message_expiry": 1,
            "max_topic_size": 2,
            "replication_factor": 255,
        },
    ),
    (entries.TopicDeleted(3, 4), {"kind": "topic_deleted", "stream_id": 3, "topic_id": 4}),
    (entries.TopicPurged(3, 4), {"kind": "topic_purged", "stream_id": 3, "topic_id": 4}),
    (
        entries.PartitionsCreated(3, 4, 5),
        {"kind": "partitions_created", "stream_id": 3, "topic_id": 4, "count": 5},
    ),
    (
        entries.PartitionsDeleted(3, 4, 5),
        {"kind": "partitions_deleted", "stream_id": 3, "topic_id": 4, "count": 5},
    ),
    (
        entries.GroupCreated(3, 4, 5, "g"),
        {"kind": "group_created", "stream_id": 3, "topic_id": 4, "group_id": 5, "name": "g"},
    ),
    (
        entries.GroupCreated(3, 4, 5, "g", is_chosen=True),
        {
            "kind": "group_created",
            "stream_id": 3,
            "topic_id": 4,
            "group_id": 5,
            "name": "g",
            "is_chosen": True,
        },
    ),
    (
        entries.GroupDeleted(3, 4, 5),
        {"kind": "group_deleted", "stream_id": 3, "topic_id": 4, "group_id": 5},
    ),
    (
        entries.UserCreated(0, "root", "h", 1, permissions_block(ALL_PERMISSIONS)),
        {
            "kind": "user_created",
            "user_id": 0,
            "username": "root",
            "password_hash": "h",
            "status": 1,
            "permissions": bytes.fromhex("0b00000001010101010101010101" + "00"),
        },
    ),
    (entries.UserUpdated(1, None, 2), {"kind": "user_updated", "user_id": 1, "status": 2}),
    (entries.UserUpdated(1, "u"), {"kind": "user_updated", "user_id": 1, "username": "u"}),
    (entries.UserDeleted(1), {"kind": "user_deleted", "user_id": 1}),
    (entries.PermissionsUpdated(1), {"kind": "permissions_updated", "user_id": 1}),
    (
        entries.PasswordChanged(1, "h"),
        {"kind": "password_changed", "user_id": 1, "password_hash": "h"},
    ),
    (
        entries.TokenCreated(1, "tok", "h", 9),
        {"kind": "token_created", "user_id": 1, "name": "tok", "hash": "h", "expiry_at": 9},
    ),
    (
        entries.TokenDeleted(1, "tok"),
        {"kind": "token_deleted", "user_id": 1, "name": "tok"},
    ),
    (entries.ExpiredTokensDeleted(), {"kind": "expired_tokens_deleted"}),
    (
        entries.TopicCreated(
            3, 4, "t", 1, 1, 0, 0, 1, attachment=Attachment("foo", "g", {"minIsr": 1})
        ),
        {
            "kind": "topic_created",
            "stream_id": 3,
            "topic_id": 4,
            "name": "t",
            "partitions_count": 1,
            "compression_algorithm": 1,
            "message_expiry": 0,
            "max_topic_size": 0,
            "replication_factor": 1,
            "attachment": {
                "subject": "foo",
                "group": "g",
                "settings": {"minIsr": 1},
                "paused": [],
                "resume_all": False,
                "readonly": [],
                "pause_times": {},
                "readonly_times": {},
            },
        },
    ),
    (
        attachment_entries.PartitionsPaused(3, 4, (0, 2), True, True),
        {
            "kind": "partitions_paused",
            "stream_id": 3,
            "topic_id": 4,
            "partitions": [0, 2],
            "is_set": True,
            "resume_all": True,
        },
    ),
    (
        attachment_entries.PartitionsProtected(3, 4, (1,), False),
        {
            "kind": "partitions_protected",
            "stream_id": 3,
            "topic_id": 4,
            "partitions": [1],
            "is_set": False,
        },
    ),
    (
        attachment_entries.CursorsSet({"c,s,0": 7}),
        {"kind": "cursors_set", "cursors": {"c,s,0": 7}},
    ),
    (
        attachment_entries.BridgeMemberJoined("g", "m", ("s",)),
        {"kind": "bridge_member_joined", "group": "g", "member": "m", "streams": ["s"]},
    ),
    (
        attachment_entries.BridgeMemberLeft("g", "m", expired=True),
        {"kind": "bridge_member_left", "group": "g", "member": "m", "expired": True},
    ),
]


@pytest.mark.parametrize(("command", "stored"), GOLDEN)
def test_golden_both_ways(command: Stored, stored: dict[str, object]) -> None:
    entry = new_entry(12, 34, 56, command)
    assert entry == WalEntry(12, 0, 34, 56, 1, entry.command)
    assert msgspec.msgpack.decode(entry.command) == stored
    assert stored_command(entry) == command
    # A later version may add fields that this one does not know.
    longer = msgspec.msgpack.encode({**stored, "added_later": [1, {"x": 2}]})
    assert stored_command(WalEntry(12, 0, 34, 56, 1, longer)) == command


def test_every_kind_has_a_golden_line() -> None:
    assert set(KINDS.values()) == {type(command) for command, _ in GOLDEN}
    assert len(KINDS) == 25
    assert all("apply" in vars(kind) for kind in KINDS.values())


def test_an_unknown_kind_names_the_entry_and_the_version() -> None:
    command = msgspec.msgpack.encode({"kind": "moon_created", "moon_id": 1})
    with pytest.raises(UnknownEntry, match=r"entry 17 .*version 1.*moon_created"):
        stored_command(WalEntry(17, 0, 0, 0, 1, command))


def test_an_unknown_version_names_the_entry_and_the_version() -> None:
    command = new_entry(1, 0, 0, entries.StreamDeleted(1)).command
    with pytest.raises(UnknownEntry, match=r"entry 17 .*format version 2.*reads version 1"):
        stored_command(WalEntry(17, 0, 0, 0, 2, command))
    with pytest.raises(UnknownEntry, match=r"entry 18 .*flags 0x101"):
        stored_command(WalEntry(18, 0, 0, 0, 0x101, command))


@pytest.mark.parametrize(
    "command",
    [
        b"",
        b"\xc1",
        b"\x80",
        msgspec.msgpack.encode({"kind": "stream_deleted"}),
        msgspec.msgpack.encode({"kind": "stream_deleted", "stream_id": "x"}),
        b"\x82\xa4kind\xaestream_deleted\xa9stream_id\xa2\xff\xff",
    ],
)
def test_rubbish_is_an_unknown_entry(command: bytes) -> None:
    with pytest.raises(UnknownEntry, match="entry 9"):
        stored_command(WalEntry(9, 0, 0, 0, 1, command))


def test_permissions_go_through_their_block() -> None:
    permissions = Permissions(
        GlobalPermissions(read_streams=True),
        {
            7: StreamPermissions(send_messages=True, topics={2: TopicPermissions(True)}),
            9: StreamPermissions(manage_stream=True),
        },
    )
    assert permissions_of(permissions_block(permissions)) == permissions
    assert permissions_of(permissions_block(None)) is None
