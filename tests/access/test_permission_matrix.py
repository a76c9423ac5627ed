"""Every command as every kind of user, on every shard, through every door.

The users are made once, each has a session on each shard (over HTTP a token), and all cells of a
user go through its session back to back. What a cell may be answered with is in
permission_matrix.txt.
"""

from collections.abc import Iterator

import pytest

from borzoi.protocol.codes import Code
from borzoi.protocol.commands.groups import CreateConsumerGroup, GetConsumerGroup
from borzoi.protocol.commands.streams import CreateStream, GetStream
from borzoi.protocol.commands.topics import GetTopic
from borzoi.protocol.commands.users import CreateUser, UpdatePermissions, UpdateUser
from borzoi.protocol.errors import FeatureUnavailable
from borzoi.protocol.older.codecs import UNKNOWN
from borzoi.protocol.permissions import UserStatus
from borzoi.shards.handlers.table import HANDLERS
from tests.access.doors import DOORS, NOT_IN_GENERATION, Channel
from tests.access.http_channel import NO_ENDPOINT, WITHOUT_ENDPOINT
from tests.access.matrix import (
    ALLOWED,
    ANONYMOUS,
    BITS,
    COLUMNS,
    DESTRUCTIVE,
    GRANTED,
    GROUP,
    INACTIVE,
    LOGIN_NEEDED,
    NOTHING,
    OTHER_STREAM,
    OTHER_TOPIC,
    REFUSED,
    REQUESTS,
    ROOT,
    VICTIM,
    Cell,
    cells_of,
    permissions_of,
    read_matrix,
)
from tests.broker import HTTP, QUIC, BrokerProcess
from tests.certificates import Authority
from tests.shard_wires import TWO_SHARDS
from tests.topics import topic_of
from tests.ways import client_context, with_tls
from tests.wire import Wire

PASSWORD = "password"
ROWS = read_matrix()
WITHOUT_HANDLER = set(Code) - set(HANDLERS) - {Code.SEND_MESSAGES, Code.POLL_MESSAGES}

Answers = dict[tuple[int, Cell], int]


class World:
    """Two streams with two topics and a group each, and a user for each column."""

    def __init__(self, broker: BrokerProcess) -> None:
        self.wire = Wire(broker)
        # The granted ids are not the first ones, which a mistake would hit by accident.
        self.wire.ask(CreateStream("filler"))
        self._make_missing()
        self._ids = self._granted_ids()
        self.wire.ask(CreateUser(VICTIM, PASSWORD))
        for column in (*BITS, NOTHING, INACTIVE):
            permissions = permissions_of(column, *self._ids)
            self.wire.ask(CreateUser(column, PASSWORD, permissions=permissions))

    def repair(self) -> None:
        """Make what a command has removed again, under the same ids, with the same grants."""
        self._make_missing()
        assert self._granted_ids() == self._ids
        for column in BITS:
            if not column.startswith("global"):
                self.wire.ask(UpdatePermissions(column, permissions_of(column, *self._ids)))

    def _make_missing(self) -> None:
        for stream in (GRANTED.stream, OTHER_STREAM.stream):
            if self.wire.ask(GetStream(stream)) is None:
                self.wire.ask(CreateStream(stream))
            for topic in (GRANTED.topic, OTHER_TOPIC.topic):
                if self.wire.ask(GetTopic(stream, topic)) is None:
                    self.wire.ask(topic_of(topic, stream=stream))
                if (
                    Code.CREATE_CONSUMER_GROUP in HANDLERS
                    and self.wire.ask(GetConsumerGroup(stream, topic, GROUP)) is None
                ):
                    self.wire.ask(CreateConsumerGroup(stream, topic, GROUP))

    def _granted_ids(self) -> tuple[int, int]:
        stream = self.wire.ask(GetStream(GRANTED.stream)).stream.id
        topic = self.wire.ask(GetTopic(GRANTED.stream, GRANTED.topic)).topic.id
        return stream, topic


@pytest.fixture(scope="module", params=DOORS)
def answers(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Answers]:
    """The status of every cell, by shard."""
    # Sockets must stay on the shard they were put on; those without a login wait for their turn.
    settings = {
        **TWO_SHARDS,
        **QUIC,
        **HTTP,
        "IGGY_TCP_SOCKET_MIGRATION": "false",
        "IGGY_LIMITS_LOGIN_TIMEOUT": "10m",
        "IGGY_QUIC_MAX_IDLE_TIMEOUT": "10m",
    }
    folder = tmp_path_factory.mktemp("matrix")
    door = DOORS[request.param]
    authority = Authority()
    if door.is_encrypted:
        settings |= with_tls(authority.issue(folder))
    broker = BrokerProcess(folder / "data", settings)
    broker.start()
    if door.is_encrypted:
        context = client_context(authority.pem)
        broker.through = lambda below: context.wrap_socket(below, server_hostname="localhost")
    try:
        world = World(broker)
        sessions = {
            (shard, column): channel
            for shard, channels in door.channels(broker, len(COLUMNS)).items()
            for column, channel in zip(COLUMNS, channels, strict=True)
        }
        for (_, column), channel in sessions.items():
            if column != ANONYMOUS:
                name, password = ("iggy", "iggy") if column == ROOT else (column, PASSWORD)
                assert channel.login(name, password) == 0
        world.wire.ask(UpdateUser(INACTIVE, status=UserStatus.INACTIVE))
        assert {shard for shard, _ in sessions} == set(door.shards)
        found: Answers = {}
        for (shard, column), channel in sessions.items():
            for cell, status in ask_all(world, channel, column):
                found[shard, cell] = status
            channel.close()
        world.wire.close()
        assert "fault of ours" not in broker.output()
        assert broker.stop() == 0
        yield found
    finally:
        broker.close()


def ask_all(world: World, channel: Channel, column: str) -> Iterator[tuple[Cell, int]]:
    """All cells of a column. A logout comes last."""
    cells = [cell for row in ROWS.values() for cell in cells_of(row, column)]
    last = [cell for cell in cells if cell.code == Code.LOGOUT_USER]
    risky = [cell for cell in cells if cell.code in DESTRUCTIVE and cell.sign == ALLOWED]
    safe = [cell for cell in cells if cell not in risky and cell not in last]
    yield from zip(safe, channel.statuses(safe), strict=True)
    for cell in risky:
        (status,) = channel.statuses([cell])
        yield cell, status
        world.repair()
    yield from zip(last, channel.statuses(last), strict=True)


def test_every_command_has_a_row_and_a_request() -> None:
    assert set(ROWS) == set(REQUESTS) == set(Code)
    assert len(COLUMNS) == 24
    for row in ROWS.values():
        assert row.cells[ROOT] == ALLOWED
        anybody = row.cells[ANONYMOUS] == ALLOWED
        assert row.cells[INACTIVE] == row.cells[ANONYMOUS] == (ALLOWED if anybody else LOGIN_NEEDED)


@pytest.mark.parametrize("code", Code, ids=lambda code: code.name)
def test_row(answers: Answers, code: Code) -> None:
    asked = {key: status for key, status in answers.items() if key[1].code == code}
    expected = [cell for column in COLUMNS for cell in cells_of(ROWS[code], column)]
    shards = {shard for shard, _ in answers}
    assert {(shard, cell) for shard in shards for cell in expected} == set(asked)
    wrong = [
        f"shard {shard}, {cell.column}, {cell.target.name}: {status} instead of {cell.sign}"
        for (shard, cell), status in asked.items()
        if not (is_not_served(cell, status) or cell.fits(status))
    ]
    assert wrong == []


def test_nothing_is_granted_elsewhere(answers: Answers) -> None:
    """A permission on one stream or topic allows nothing that is about another one."""
    elsewhere = {
        cell: status
        for (_, cell), status in answers.items()
        if (cell.column.startswith("stream ") and cell.target is OTHER_STREAM)
        or (cell.column.startswith("topic ") and cell.target in (OTHER_STREAM, OTHER_TOPIC))
    }
    assert len(elsewhere) > 300
    for cell, status in elsewhere.items():
        assert cell.sign == REFUSED
        assert is_not_served(cell, status) or cell.fits(status), (cell, status)


def is_not_served(cell: Cell, status: int) -> bool:
    """A command without a handler does nothing for anybody who is logged in.

    One that came after a generation does nothing for any client of that.
    """
    if status == NOT_IN_GENERATION:
        return cell.code in UNKNOWN
    if status == NO_ENDPOINT:
        return cell.code in WITHOUT_ENDPOINT
    served = cell.code not in WITHOUT_HANDLER or cell.sign == LOGIN_NEEDED
    return not served and status == FeatureUnavailable.status
