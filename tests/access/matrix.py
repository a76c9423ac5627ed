"""The permission matrix of permission_matrix.txt, and a harmless request for each of its cells.

The file is the truth here: it was written from what clients are promised, not from the broker's
own table, so that the two can disagree.
"""

from collections.abc import Callable, Iterator
from dataclasses import fields
from pathlib import Path
from typing import Final, NamedTuple

from borzoi.protocol import commands
from borzoi.protocol.codes import Code
from borzoi.protocol.commands import Command
from borzoi.protocol.errors import Unauthenticated, Unauthorized
from borzoi.protocol.generations import encode_command
from borzoi.protocol.identifiers import (
    Consumer,
    ConsumerKind,
    PartitionId,
    PollingStrategy,
    StrategyKind,
)
from borzoi.protocol.message import Message
from borzoi.protocol.permissions import (
    GlobalPermissions,
    Permissions,
    StreamPermissions,
    TopicPermissions,
)
from borzoi.protocol.send_messages import encode_send_messages

MATRIX: Final = Path(__file__).with_name("permission_matrix.txt")

NOTHING: Final = "user nothing"
ROOT: Final = "user root"
ANONYMOUS: Final = "user anonymous"
INACTIVE: Final = "user inactive"
BITS: Final = (
    *(f"global {field.name}" for field in fields(GlobalPermissions)),
    *(f"stream {field.name}" for field in fields(StreamPermissions) if field.name != "topics"),
    *(f"topic {field.name}" for field in fields(TopicPermissions)),
)
COLUMNS: Final = (*BITS, NOTHING, ROOT, ANONYMOUS, INACTIVE)

ALLOWED, REFUSED, LOGIN_NEEDED = "+-0"


class Target(NamedTuple):
    """What a command is about: names of a stream and of a topic in it."""

    name: str
    stream: str
    topic: str


# In both streams the topics have the same names and ids.
GRANTED: Final = Target("the granted topic", "granted", "granted")
OTHER_TOPIC: Final = Target("another topic of the granted stream", "granted", "other")
OTHER_STREAM: Final = Target("the topic of that id in another stream", "other", "granted")
TARGETS: Final = {
    "broker": (GRANTED,),
    "stream": (GRANTED, OTHER_STREAM),
    "topic": (GRANTED, OTHER_TOPIC, OTHER_STREAM),
}
GROUP: Final = "group"
VICTIM: Final = "victim"

# Gone when they succeed, so what they removed has to be made again.
DESTRUCTIVE: Final = frozenset({Code.DELETE_STREAM, Code.DELETE_TOPIC, Code.DELETE_CONSUMER_GROUP})


class Row(NamedTuple):
    """A line of the file."""

    code: Code
    scope: str
    cells: dict[str, str]


class Cell(NamedTuple):
    """One request of one user, and what the file says of it."""

    code: Code
    column: str
    target: Target
    sign: str
    payload: bytes

    def fits(self, status: int) -> bool:
        """Whether that is a status the broker may answer with."""
        if self.sign == REFUSED:
            return status == Unauthorized.status
        if self.sign == LOGIN_NEEDED:
            return status == Unauthenticated.status
        return status not in (Unauthorized.status, Unauthenticated.status)


def read_matrix() -> dict[Code, Row]:
    """The file, by command."""
    rows: dict[Code, Row] = {}
    for line in MATRIX.read_text().splitlines():
        if line and not line.startswith("#"):
            name, scope, *groups = line.split()
            signs = "".join(groups)
            assert len(signs) == len(COLUMNS), line
            assert set(signs) <= {ALLOWED, REFUSED, LOGIN_NEEDED}, line
            assert Code[name] not in rows, line
            rows[Code[name]] = Row(Code[name], scope, dict(zip(COLUMNS, signs, strict=True)))
    return rows


def cells_of(row: Row, column: str) -> Iterator[Cell]:
    """The cell, asserted against everything that the command may be about."""
    for target in TARGETS[row.scope]:
        sign = row.cells[column]
        if row.scope != "broker" and _is_elsewhere(column, target):
            sign = REFUSED
        yield Cell(row.code, column, target, sign, REQUESTS[row.code](target))


def permissions_of(column: str, stream_id: int, topic_id: int) -> Permissions | None:
    """The one permission of a column, on that stream or topic."""
    level, _, flag = column.partition(" ")
    if level == "global":
        return Permissions(GlobalPermissions(**{flag: True}))
    if level == "stream":
        flags = {field.name: field.name == flag for field in fields(StreamPermissions)}
        del flags["topics"]
        return Permissions(streams={stream_id: StreamPermissions(**flags)})  # type: ignore[arg-type]  # all but `topics` are flags
    if level == "topic":
        on_topic = TopicPermissions(**{flag: True})
        return Permissions(streams={stream_id: StreamPermissions(topics={topic_id: on_topic})})
    return None


def _is_elsewhere(column: str, target: Target) -> bool:
    level = column.partition(" ")[0]
    if level == "stream":
        return target.stream != GRANTED.stream
    return level == "topic" and target != GRANTED


WHO: Final = Consumer(ConsumerKind.CONSUMER, 7)
FIRST: Final = PollingStrategy(StrategyKind.FIRST)


def _plain(command: Command) -> Callable[[Target], bytes]:
    payload = encode_command(command)
    return lambda _: payload


def _about(make: Callable[[str, str], Command]) -> Callable[[Target], bytes]:
    return lambda target: encode_command(make(target.stream, target.topic))


# Where a success would leave something behind, the request is one that fails for another reason,
# after the permission was asked for.
REQUESTS: Final[dict[Code, Callable[[Target], bytes]]] = {
    Code.PING: _plain(commands.Ping()),
    Code.GET_STATS: _plain(commands.GetStats()),
    Code.GET_SNAPSHOT: _plain(
        commands.GetSnapshot(commands.SnapshotCompression.DEFLATED, (commands.SnapshotType.TEST,))
    ),
    Code.GET_CLUSTER_METADATA: _plain(commands.GetClusterMetadata()),
    Code.GET_ME: _plain(commands.GetMe()),
    Code.GET_CLIENT: _plain(commands.GetClient(1)),
    Code.GET_CLIENTS: _plain(commands.GetClients()),
    Code.GET_USER: _plain(commands.GetUser(VICTIM)),
    Code.GET_USERS: _plain(commands.GetUsers()),
    Code.CREATE_USER: _plain(commands.CreateUser(VICTIM, "password")),
    Code.DELETE_USER: _plain(commands.DeleteUser(0)),
    Code.UPDATE_USER: _plain(commands.UpdateUser(VICTIM, "iggy")),
    Code.UPDATE_PERMISSIONS: _plain(commands.UpdatePermissions(0, None)),
    Code.CHANGE_PASSWORD: _plain(commands.ChangePassword(VICTIM, "not this", "password")),
    Code.LOGIN_USER: _plain(commands.LoginUser("iggy", "no")),
    Code.LOGOUT_USER: _plain(commands.LogoutUser()),
    Code.GET_PERSONAL_ACCESS_TOKENS: _plain(commands.GetPersonalAccessTokens()),
    Code.CREATE_PERSONAL_ACCESS_TOKEN: _plain(commands.CreatePersonalAccessToken("no", 0)),
    Code.DELETE_PERSONAL_ACCESS_TOKEN: _plain(commands.DeletePersonalAccessToken("none")),
    Code.LOGIN_WITH_PERSONAL_ACCESS_TOKEN: _plain(commands.LoginWithPersonalAccessToken("none")),
    Code.POLL_MESSAGES: _about(
        lambda stream, topic: commands.PollMessages(WHO, stream, topic, 0, FIRST, 1, False)
    ),
    Code.SEND_MESSAGES: lambda target: encode_send_messages(
        target.stream, target.topic, PartitionId(0), [Message(b"x")]
    ),
    Code.FLUSH_UNSAVED_BUFFER: _about(
        lambda stream, topic: commands.FlushUnsavedBuffer(stream, topic, 0, False)
    ),
    Code.GET_CONSUMER_OFFSET: _about(
        lambda stream, topic: commands.GetConsumerOffset(WHO, stream, topic, 0)
    ),
    Code.STORE_CONSUMER_OFFSET: _about(
        lambda stream, topic: commands.StoreConsumerOffset(WHO, stream, topic, 0, 0)
    ),
    Code.DELETE_CONSUMER_OFFSET: _about(
        lambda stream, topic: commands.DeleteConsumerOffset(WHO, stream, topic, 0)
    ),
    Code.GET_STREAM: _about(lambda stream, _: commands.GetStream(stream)),
    Code.GET_STREAMS: _plain(commands.GetStreams()),
    Code.CREATE_STREAM: _plain(commands.CreateStream(GRANTED.stream)),
    Code.DELETE_STREAM: _about(lambda stream, _: commands.DeleteStream(stream)),
    Code.UPDATE_STREAM: _about(lambda stream, _: commands.UpdateStream(stream, stream)),
    Code.PURGE_STREAM: _about(lambda stream, _: commands.PurgeStream(stream)),
    Code.GET_TOPIC: _about(commands.GetTopic),
    Code.GET_TOPICS: _about(lambda stream, _: commands.GetTopics(stream)),
    Code.CREATE_TOPIC: _about(
        lambda stream, topic: commands.CreateTopic(stream, 1, 1, 0, 0, 1, topic)
    ),
    Code.DELETE_TOPIC: _about(commands.DeleteTopic),
    Code.UPDATE_TOPIC: _about(
        lambda stream, topic: commands.UpdateTopic(stream, topic, 1, 0, 0, 1, topic)
    ),
    Code.PURGE_TOPIC: _about(commands.PurgeTopic),
    Code.CREATE_PARTITIONS: _about(
        lambda stream, topic: commands.CreatePartitions(stream, topic, 1)
    ),
    Code.DELETE_PARTITIONS: _about(
        lambda stream, topic: commands.DeletePartitions(stream, topic, 1_000_000)
    ),
    Code.DELETE_SEGMENTS: _about(
        lambda stream, topic: commands.DeleteSegments(stream, topic, 0, 1)
    ),
    Code.GET_CONSUMER_GROUP: _about(
        lambda stream, topic: commands.GetConsumerGroup(stream, topic, GROUP)
    ),
    Code.GET_CONSUMER_GROUPS: _about(commands.GetConsumerGroups),
    Code.CREATE_CONSUMER_GROUP: _about(
        lambda stream, topic: commands.CreateConsumerGroup(stream, topic, GROUP)
    ),
    Code.DELETE_CONSUMER_GROUP: _about(
        lambda stream, topic: commands.DeleteConsumerGroup(stream, topic, GROUP)
    ),
    Code.JOIN_CONSUMER_GROUP: _about(
        lambda stream, topic: commands.JoinConsumerGroup(stream, topic, GROUP)
    ),
    Code.LEAVE_CONSUMER_GROUP: _about(
        lambda stream, topic: commands.LeaveConsumerGroup(stream, topic, GROUP)
    ),
}
