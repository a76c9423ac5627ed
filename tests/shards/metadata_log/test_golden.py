"""The files of the metadata are the same bytes in every version, for the same commands.

tests/golden/metadata-1.tar.gz has the log and both snapshots as a version left them that wrote
MessagePack with another library. It is never made again.
"""

import tarfile
from pathlib import Path
from typing import Final

import pytest

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
from borzoi.protocol.permissions import (
    ALL_PERMISSIONS,
    GlobalPermissions,
    Permissions,
    StreamPermissions,
    TopicPermissions,
    UserStatus,
)
from borzoi.shards.decisions.attaching import AttachingCommand, CreateAttachedTopic
from borzoi.shards.decisions.commands import (
    CreateHashedUser,
    CreateToken,
    DeleteExpiredTokens,
    SetPasswordHash,
)
from borzoi.shards.decisions.decide import MetadataCommand, MetadataSettings
from borzoi.shards.metadata_log.writer import MetadataWriter, open_writer
from borzoi.storage.files import Files

GOLDEN: Final = Path(__file__).parents[2] / "golden" / "metadata-1.tar.gz"
FILES: Final = ("state.messages", "state.snapshot", "state.snapshot.previous")
BEGIN: Final = 1_763_000_000_000_000
U64_MAX: Final = 2**64 - 1

GRANTED: Final = Permissions(
    GlobalPermissions(read_streams=True),
    {
        0: StreamPermissions(send_messages=True, topics={1: TopicPermissions(True)}),
        300: StreamPermissions(manage_stream=True),
    },
)
FIRST: Final[tuple[MetadataCommand, ...]] = (
    CreateHashedUser("root", "$argon2id$hash", UserStatus.ACTIVE, ALL_PERMISSIONS),
    CreateStream("orders"),
    CreateStream("n" * 255),
    CreateStream("Überfälle 訂單"),
    UpdateStream(2, "renamed"),
    CreateTopic("orders", 3, 1, 0, 0, 0, "placed"),
    CreateTopic("orders", 1000, 4, U64_MAX, U64_MAX, 255, "paid"),
    CreateTopic(1, 0, 2, 60_000_000, 1 << 40, 1, "empty"),
    CreatePartitions("orders", "placed", 130),
    CreateConsumerGroup("orders", "placed", "readers"),
    CreateConsumerGroup("orders", "placed", "writers"),
    CreateHashedUser("ann", "h" * 40, UserStatus.INACTIVE, GRANTED),
    CreateHashedUser("bob", "h", UserStatus.ACTIVE, None),
    CreateToken(1, BEGIN + 12, "token", "hash of it", 0),
    CreateToken(0, BEGIN + 1, "short", "hash of another", BEGIN + 18),
    UpdateTopic("orders", "paid", 3, 1, 5_000, 2, "settled"),
)
SECOND: Final[tuple[MetadataCommand, ...]] = (
    PurgeTopic("orders", "placed"),
    DeletePartitions("orders", "placed", 70),
    DeleteConsumerGroup("orders", "placed", "readers"),
    UpdateUser("ann", "anna", UserStatus.ACTIVE),
    UpdateUser("bob", None, UserStatus.INACTIVE),
    UpdatePermissions("bob", GRANTED),
    SetPasswordHash("bob", "h2", "h"),
    DeleteExpiredTokens(),
    DeleteTopic(1, "empty"),
    DeleteStream("renamed"),
    PurgeStream("orders"),
    CreateStream("again"),
    CreateHashedUser("eve", "h", UserStatus.ACTIVE, Permissions()),
    CreateToken(0, BEGIN + 1, "kept", "one more hash", U64_MAX),
    CreateToken(0, BEGIN + 1, "gone", "the last hash", 0),
    DeletePersonalAccessToken("gone"),
    DeleteUser("eve"),
)
THIRD: Final[tuple[MetadataCommand, ...]] = (CreateStream("behind the snapshots"),)


def opened(directory: Path) -> MetadataWriter:
    return open_writer(
        directory / FILES[0], directory / FILES[1], Files(), MetadataSettings(segment_size=4096)
    )


def write(directory: Path) -> None:
    """All commands, with a snapshot after the first and after the second part."""
    writer = opened(directory)
    for part in (FIRST, SECOND, THIRD):
        for command in part:
            timestamp = BEGIN + writer.end.index + 1
            writer.append(writer.prepare(command, user_id=0, timestamp=timestamp))
            writer.applied()
        if part is not THIRD:
            writer.write_snapshot(writer.take_snapshot())
    writer.close()


@pytest.fixture
def golden(tmp_path: Path) -> Path:
    with tarfile.open(GOLDEN) as archive:
        archive.extractall(tmp_path / "golden", filter="data")
    return tmp_path / "golden"


def test_the_same_commands_are_the_same_bytes(golden: Path, tmp_path: Path) -> None:
    now = tmp_path / "now"
    now.mkdir()
    write(now)
    for name in FILES:
        assert (now / name).read_bytes() == (golden / name).read_bytes(), name


@pytest.mark.parametrize("missing", [(), FILES[1:2], FILES[1:]])
def test_the_files_open_with_whatever_snapshots_there_are(
    golden: Path, tmp_path: Path, missing: tuple[str, ...]
) -> None:
    for name in missing:
        (golden / name).unlink()
    now = tmp_path / "now"
    now.mkdir()
    write(now)
    writer, expected = opened(golden), opened(now)
    assert writer.state == expected.state
    assert writer.end.index == len(FIRST + SECOND + THIRD)
    assert list(writer.state.stream_names) == [
        "orders", "n" * 255, "again", "behind the snapshots"
    ]  # fmt: skip
    writer.close()
    expected.close()


def test_every_kind_of_command_of_that_version_is_there() -> None:
    kinds = {type(command) for command in FIRST + SECOND}
    # Those of Liftbridge came later; golden lines of their entries: tests/shards/metadata.
    later = {CreateAttachedTopic, *AttachingCommand.__args__}
    assert kinds == set(MetadataCommand.__args__) - later
