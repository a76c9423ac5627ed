"""What SECURITY.md says of the broker: its surprising sentences are true, and its settings load.

These are no wishes. A test that fails here has found a sentence that has to be rewritten.
"""

import os
import re
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
from click.testing import CliRunner

from borzoi.main import main
from borzoi.protocol.commands.groups import (
    CreateConsumerGroup,
    JoinConsumerGroup,
    LeaveConsumerGroup,
)
from borzoi.protocol.commands.offsets import (
    DeleteConsumerOffset,
    GetConsumerOffset,
    StoreConsumerOffset,
)
from borzoi.protocol.commands.sessions import (
    CreatePersonalAccessToken,
    LoginUser,
    LoginWithPersonalAccessToken,
)
from borzoi.protocol.commands.streams import CreateStream, DeleteStream, GetStream, GetStreams
from borzoi.protocol.commands.system import GetMe
from borzoi.protocol.commands.users import (
    ChangePassword,
    CreateUser,
    DeleteUser,
    UpdatePermissions,
)
from borzoi.protocol.errors import (
    ConsumerGroupMemberNotFound,
    InvalidCredentials,
    StreamIdNotFound,
    Unauthorized,
    UserInactive,
)
from borzoi.protocol.identifiers import Consumer, ConsumerKind
from borzoi.protocol.permissions import Permissions, StreamPermissions, UserStatus
from tests.broker import BrokerProcess
from tests.tidy.repository import ROOT
from tests.wire import Wire

PASSWORD: Final = "password"
BILLING: Final = Consumer(ConsumerKind.CONSUMER, "billing")
SECURITY: Final = (ROOT / "SECURITY.md").read_text()


@pytest.fixture
def reader(standing_broker: BrokerProcess, wire: Wire, topic: str) -> Iterator[Wire]:
    """Logged in as a user who may only poll one stream."""
    stream_id = wire.ask(GetStream(topic)).stream.id
    rights = Permissions(streams={stream_id: StreamPermissions(poll_messages=True)})
    wire.ask(CreateUser("reader", PASSWORD, permissions=rights))
    session = Wire(standing_broker, login=False)
    session.ask(LoginUser("reader", PASSWORD))
    yield session
    wire.ask(DeleteUser("reader"))


def test_a_reader_reads_overwrites_and_deletes_the_offsets_of_others(
    reader: Wire, wire: Wire, topic: str
) -> None:
    assert wire.send(topic, 0, *[b"message"] * 10) == 0
    wire.ask(StoreConsumerOffset(BILLING, topic, topic, 0, 7))
    assert reader.ask(GetConsumerOffset(BILLING, topic, topic, 0)).stored_offset == 7
    reader.ask(StoreConsumerOffset(BILLING, topic, topic, 0, 2))
    assert wire.ask(GetConsumerOffset(BILLING, topic, topic, 0)).stored_offset == 2
    reader.ask(DeleteConsumerOffset(BILLING, topic, topic, 0))
    assert wire.ask(GetConsumerOffset(BILLING, topic, topic, 0)) is None
    # Of a group it reads the offset, and no more.
    wire.ask(CreateConsumerGroup(topic, topic, "group"))
    wire.ask(JoinConsumerGroup(topic, topic, "group"))
    group = Consumer(ConsumerKind.GROUP, "group")
    wire.ask(StoreConsumerOffset(group, topic, topic, 0, 5))
    assert reader.ask(GetConsumerOffset(group, topic, topic, 0)).stored_offset == 5
    for command in (
        JoinConsumerGroup(topic, topic, "group"),
        StoreConsumerOffset(group, topic, topic, 0, 2),
        DeleteConsumerOffset(group, topic, topic, 0),
    ):
        assert reader.status(command) in (Unauthorized.status, ConsumerGroupMemberNotFound.status)
    wire.ask(LeaveConsumerGroup(topic, topic, "group"))
    # And that is all it may.
    assert reader.send(topic, 0, b"message") == Unauthorized.status
    assert reader.status(GetStreams()) == Unauthorized.status


def test_rights_go_with_their_stream(reader: Wire, wire: Wire) -> None:
    """The next stream of the id is another one."""
    stream = wire.ask(CreateStream("first")).id
    rights = Permissions(streams={stream: StreamPermissions(read_stream=True)})
    wire.ask(UpdatePermissions("reader", rights))
    assert reader.ask(GetStream("first")).stream.id == stream
    wire.ask(DeleteStream("first"))
    assert wire.ask(CreateStream("second")).id == stream
    assert reader.status(GetStream("second")) == Unauthorized.status
    wire.ask(DeleteStream("second"))


def test_missing_and_forbidden_differ(reader: Wire, wire: Wire, topic: str) -> None:
    wire.ask(CreateStream("other"))
    try:
        assert reader.status(GetStream("other")) == Unauthorized.status
        assert reader.ask(GetStream("missing")) is None
        assert reader.status(DeleteStream("other")) == Unauthorized.status
        assert reader.status(DeleteStream("missing")) == StreamIdNotFound.status
    finally:
        wire.ask(DeleteStream("other"))


def test_an_inactive_account_is_revealed_without_its_password(
    standing_broker: BrokerProcess, wire: Wire
) -> None:
    wire.ask(CreateUser("idle", PASSWORD, UserStatus.INACTIVE))
    session = Wire(standing_broker, login=False)
    assert session.status(LoginUser("idle", "wrong")) == UserInactive.status
    assert session.status(LoginUser("absent", "wrong")) == InvalidCredentials.status
    wire.ask(DeleteUser("idle"))


def test_a_new_password_ends_neither_sessions_nor_tokens(
    standing_broker: BrokerProcess, wire: Wire
) -> None:
    user = wire.ask(CreateUser("ann", PASSWORD)).user.id
    session, other = (Wire(standing_broker, login=False) for _ in range(2))
    session.ask(LoginUser("ann", PASSWORD))
    token = session.ask(CreatePersonalAccessToken("token", 0)).token
    wire.ask(ChangePassword("ann", PASSWORD, "new password"))
    assert other.status(LoginUser("ann", PASSWORD)) == InvalidCredentials.status
    assert session.ask(GetMe()).client.user_id == user
    assert other.ask(LoginWithPersonalAccessToken(token)).user_id == user
    # What does: deleting the user.
    wire.ask(DeleteUser("ann"))
    for one in (session, other):
        assert one.send("nowhere", 0, b"message") == Unauthorized.status


def test_files_are_for_their_owner_alone(standing_broker: BrokerProcess, topic: str) -> None:
    found = 0
    for directory, _, names in os.walk(standing_broker.data):
        assert stat.S_IMODE(os.stat(directory).st_mode) == 0o700, directory
        for name in names:
            mode = stat.S_IMODE(os.stat(os.path.join(directory, name)).st_mode)
            assert mode == (0o600 if "logs" not in directory else mode & 0o640), name
            found += 1
    assert found > 3


@pytest.mark.parametrize("number", range(len(re.findall(r"```toml\n", SECURITY)) or 1))
def test_the_settings_load(tmp_path: Path, number: int) -> None:
    blocks = re.findall(r"```toml\n(.*?)```", SECURITY, re.DOTALL)
    file = tmp_path / "config.toml"
    file.write_text(blocks[number])
    result = CliRunner().invoke(main, ["config", "check", str(file)])
    assert result.exit_code == 0, result.output
    # A line that says nothing new would say so only to those who know the defaults.
    assert len(re.findall(r"^\w+ = ", blocks[number], re.MULTILINE)) > 10


def test_every_setting_that_is_named_exists() -> None:
    """In `code`, with a table in front."""
    shown = CliRunner().invoke(main, ["config", "show"]).stdout
    tables: dict[str, set[str]] = {}
    table = ""
    for line in shown.splitlines():
        if line.startswith("["):
            table = line.strip("[]")
        elif " = " in line:
            tables.setdefault(table, set()).add(line.partition(" = ")[0])
    named = re.findall(r"`((?:limits|system|metrics|tcp|heartbeat)\.[a-z_.]+)`", SECURITY)
    assert len(named) > 10
    unknown = [
        name
        for name in named
        if name.rpartition(".")[2] not in tables.get(name.rpartition(".")[0], ())
    ]
    assert unknown == []
