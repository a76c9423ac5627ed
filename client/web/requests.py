"""What each command is over HTTP: one row with method, path, body and what its answer means. Pure.

    {stream}, {topic}, ... in a path are fields of the command

A command without a row has no endpoint. What a member of a group does has rows of its own. A name
that reads as a number cannot be said in a path, where a number is an id: that is InvalidArgument,
before anything is sent.
"""

import re
from base64 import b64encode
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple, TypeAlias
from urllib.parse import quote, urlencode

import msgspec

from borzoi.client.arguments import InvalidArgument
from borzoi.client.web import answers
from borzoi.protocol import commands as c
from borzoi.protocol.commands import Command
from borzoi.protocol.identifiers import (
    U32_MAX,
    Consumer,
    ConsumerKind,
    Identifier,
    MessagesKey,
    PartitionId,
    Partitioning,
)
from borzoi.protocol.permissions import UserStatus

JSON: Final = "application/json"
OCTETS: Final = "application/octet-stream"

STREAM: Final = "/streams/{stream}"
TOPIC: Final = f"{STREAM}/topics/{{topic}}"
MESSAGES: Final = f"{TOPIC}/messages"
OFFSETS: Final = f"{TOPIC}/consumer-offsets"
GROUPS: Final = f"{TOPIC}/consumer-groups"
GROUP: Final = f"{GROUPS}/{{group}}"
MEMBER: Final = f"{GROUP}/members/{{member}}"
USER: Final = "/users/{user}"
TOKENS: Final = "/personal-access-tokens"

FIELD: Final = re.compile(r"\{(\w+)\}")
CODEC_NAMES: Final = {code: name for name, code in answers.CODECS.items()}
STATUS_NAMES: Final = {UserStatus.ACTIVE: "active", UserStatus.INACTIVE: "inactive"}

LEASE: Final = "30s"
"""So long a member may be silent; a heartbeat every few seconds renews it."""

Fields: TypeAlias = dict[str, Any]
Of: TypeAlias = Callable[[Any], Fields]


class HttpAsk(NamedTuple):
    """A request without its token. The path has its query."""

    method: str
    path: str
    body: bytes | memoryview = b""
    content_type: str = JSON
    accept: str = JSON


class EndpointRow(NamedTuple):
    """How a command is asked for. Without `answer` there is nothing in the answer's body.

    `missing` is what a lookup finds where nothing is (404); FAILS: that is an error.
    """

    method: str
    path: str
    body: Of | None = None
    query: Of | None = None
    answer: Callable[[Any], Any] | None = None
    missing: Any = ...


FAILS: Final = ...


def ask_of(row: EndpointRow, command: Command, named: Any = None) -> HttpAsk:
    """The request of a command by its row; `named` has the fields of the path if these differ."""
    path = path_of(row.path, command if named is None else named)
    if row.query is not None:
        given = {name: value for name, value in row.query(command).items() if value is not None}
        path += f"?{urlencode(given)}"
    body = b"" if row.body is None else msgspec.json.encode(row.body(command))
    accept = OCTETS if isinstance(command, c.PollMessages) else JSON
    return HttpAsk(row.method, path, body, JSON, accept)


def ask_to_send(
    stream: Identifier,
    topic: Identifier,
    partitioning: Partitioning,
    count: int,
    messages: memoryview,
) -> HttpAsk:
    """The request that sends whole messages, back to back as they travel everywhere."""
    query: Fields = {"count": count}
    if isinstance(partitioning, PartitionId):
        query["partition_id"] = partitioning.partition_id
    elif isinstance(partitioning, MessagesKey):
        query["key"] = b64encode(partitioning.key).decode("ascii")
    path = path_of(MESSAGES, {"stream": stream, "topic": topic})
    return HttpAsk("POST", f"{path}?{urlencode(query)}", messages, OCTETS)


def path_of(template: str, named: Any) -> str:
    """A path whose fields are attributes of a command, or members of a mapping."""

    def filled(match: re.Match[str]) -> str:
        name = match[1]
        value = named[name] if isinstance(named, Mapping) else getattr(named, name)
        if isinstance(value, Consumer):
            value = consumer_of(value)
        return quote(_text(name, value), safe="")

    return FIELD.sub(filled, template)


def consumer_of(consumer: Consumer) -> Identifier:
    """A single consumer, as bodies and queries name it."""
    if consumer.kind != ConsumerKind.CONSUMER:
        raise InvalidArgument(
            "over HTTP an offset of a group is stored and deleted by its members only, which"
            " join the group first"
        )
    return consumer.id if isinstance(consumer.id, int) else _text("consumer", consumer.id)


def _text(name: str, value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    # The token of a path is never an id.
    if name != "name" and value.isascii() and value.isdigit() and int(value[:11]) <= U32_MAX:
        raise InvalidArgument(
            f"{name} is the name {value!r}, which is an id in a path of HTTP; use its id, or"
            " another transport"
        )
    return str(value)


def _topic_settings(command: Any) -> Fields:
    return {
        "name": command.name,
        "compression_algorithm": CODEC_NAMES[command.compression_algorithm],
        "message_expiry": command.message_expiry,
        "max_topic_size": command.max_topic_size,
        # 0 is the server's default, which HTTP says by leaving it out.
        "replication_factor": command.replication_factor or None,
    }


def _new_topic(command: c.CreateTopic) -> Fields:
    return {**_topic_settings(command), "partitions_count": command.partitions_count}


def _named(command: Any) -> Fields:
    return {"name": command.name}


def _login(command: c.LoginUser) -> Fields:
    return {
        "username": command.username,
        "password": command.password,
        "version": command.version,
        "context": command.context,
    }


def _new_user(command: c.CreateUser) -> Fields:
    return {
        "username": command.username,
        "password": command.password,
        "status": STATUS_NAMES[command.status],
        "permissions": answers.permissions_body(command.permissions),
    }


def _user_update(command: c.UpdateUser) -> Fields:
    status = None if command.status is None else STATUS_NAMES[command.status]
    return {"username": command.username, "status": status}


def _poll(command: c.PollMessages) -> Fields:
    return {"consumer_id": consumer_of(command.consumer), **_start(command)}


def _start(command: c.PollMessages) -> Fields:
    return {
        "partition_id": command.partition_id,
        "kind": command.strategy.kind.name.lower(),
        "value": command.strategy.value,
        "count": command.count,
        "auto_commit": "true" if command.auto_commit else "false",
    }


def _offset(command: c.StoreConsumerOffset) -> Fields:
    return {
        "consumer_id": consumer_of(command.consumer),
        "partition_id": command.partition_id,
        "offset": command.offset,
    }


def _whose_offset(command: c.GetConsumerOffset) -> Fields:
    consumer = command.consumer
    if consumer.kind == ConsumerKind.GROUP:
        named: Any = _text("group", consumer.id)
        return {"consumer_id": named, "partition_id": command.partition_id, "kind": "group"}
    return {"consumer_id": consumer_of(consumer), "partition_id": command.partition_id}


def _snapshot(command: c.GetSnapshot) -> Fields:
    return {
        "compression": command.compression.name.title(),
        "snapshot_types": [one.name.title().replace("_", "") for one in command.types],
    }


ROWS: Final[Mapping[type[Command], EndpointRow]] = {
    c.Ping: EndpointRow("GET", "/ping"),
    c.GetStats: EndpointRow("GET", "/stats", answer=answers.stats),
    c.GetClusterMetadata: EndpointRow("GET", "/cluster/metadata", answer=answers.cluster),
    c.GetClients: EndpointRow("GET", "/clients", answer=answers.clients),
    c.GetClient: EndpointRow(
        "GET", "/clients/{client_id}", answer=answers.client_details, missing=None
    ),
    c.GetSnapshot: EndpointRow("POST", "/snapshot", _snapshot, answer=bytes),
    c.LoginUser: EndpointRow("POST", "/users/login", _login, answer=answers.identity),
    c.LoginWithPersonalAccessToken: EndpointRow(
        "POST", f"{TOKENS}/login", lambda one: {"token": one.token}, answer=answers.identity
    ),
    c.LogoutUser: EndpointRow("DELETE", "/users/logout"),
    c.GetUsers: EndpointRow("GET", "/users", answer=answers.users),
    c.GetUser: EndpointRow("GET", USER, answer=answers.user_details, missing=None),
    c.CreateUser: EndpointRow("POST", "/users", _new_user, answer=answers.user_details),
    c.UpdateUser: EndpointRow("PUT", USER, _user_update),
    c.DeleteUser: EndpointRow("DELETE", USER),
    c.UpdatePermissions: EndpointRow(
        "PUT",
        f"{USER}/permissions",
        lambda one: {"permissions": answers.permissions_body(one.permissions)},
    ),
    c.ChangePassword: EndpointRow(
        "PUT",
        f"{USER}/password",
        lambda one: {
            "current_password": one.current_password,
            "new_password": one.new_password,
        },
    ),
    c.GetPersonalAccessTokens: EndpointRow("GET", TOKENS, answer=answers.tokens),
    c.CreatePersonalAccessToken: EndpointRow(
        "POST",
        TOKENS,
        lambda one: {"name": one.name, "expiry": one.expiry},
        answer=answers.raw_token,
    ),
    c.DeletePersonalAccessToken: EndpointRow("DELETE", f"{TOKENS}/{{name}}"),
    c.GetStreams: EndpointRow("GET", "/streams", answer=answers.streams),
    c.GetStream: EndpointRow("GET", STREAM, answer=answers.stream_details, missing=None),
    c.CreateStream: EndpointRow("POST", "/streams", _named, answer=answers.stream),
    c.UpdateStream: EndpointRow("PUT", STREAM, _named),
    c.DeleteStream: EndpointRow("DELETE", STREAM),
    c.PurgeStream: EndpointRow("DELETE", f"{STREAM}/purge"),
    c.GetTopics: EndpointRow("GET", f"{STREAM}/topics", answer=answers.topics, missing=()),
    c.GetTopic: EndpointRow("GET", TOPIC, answer=answers.topic_details, missing=None),
    c.CreateTopic: EndpointRow(
        "POST", f"{STREAM}/topics", _new_topic, answer=answers.topic_details
    ),
    c.UpdateTopic: EndpointRow("PUT", TOPIC, _topic_settings),
    c.DeleteTopic: EndpointRow("DELETE", TOPIC),
    c.PurgeTopic: EndpointRow("DELETE", f"{TOPIC}/purge"),
    c.CreatePartitions: EndpointRow(
        "POST", f"{TOPIC}/partitions", lambda one: {"partitions_count": one.partitions_count}
    ),
    c.DeletePartitions: EndpointRow(
        "DELETE",
        f"{TOPIC}/partitions",
        query=lambda one: {"partitions_count": one.partitions_count},
    ),
    c.DeleteSegments: EndpointRow(
        "DELETE",
        f"{TOPIC}/partitions/{{partition_id}}",
        query=lambda one: {"segments_count": one.segments_count},
    ),
    c.PollMessages: EndpointRow("GET", MESSAGES, query=_poll),
    c.FlushUnsavedBuffer: EndpointRow("GET", f"{MESSAGES}/flush/{{partition_id}}/{{fsync}}"),
    c.GetConsumerOffset: EndpointRow(
        "GET", OFFSETS, query=_whose_offset, answer=answers.offset, missing=None
    ),
    c.StoreConsumerOffset: EndpointRow("PUT", OFFSETS, _offset),
    c.DeleteConsumerOffset: EndpointRow(
        "DELETE",
        f"{OFFSETS}/{{consumer}}",
        query=lambda one: {"partition_id": one.partition_id},
    ),
    c.GetConsumerGroups: EndpointRow("GET", GROUPS, answer=answers.groups, missing=()),
    c.GetConsumerGroup: EndpointRow("GET", GROUP, answer=answers.group_details, missing=None),
    c.CreateConsumerGroup: EndpointRow("POST", GROUPS, _named, answer=answers.group),
    c.DeleteConsumerGroup: EndpointRow("DELETE", GROUP),
}

JOIN: Final = EndpointRow("POST", f"{GROUP}/members", lambda _: {"lease": LEASE})
RENEW: Final = EndpointRow("PUT", MEMBER)
LEAVE: Final = EndpointRow("DELETE", MEMBER)

AS_MEMBER: Final[Mapping[type[Command], EndpointRow]] = {
    c.PollMessages: EndpointRow("GET", f"{MEMBER}/messages", query=_start),
    c.StoreConsumerOffset: EndpointRow(
        "PUT",
        f"{MEMBER}/offsets",
        lambda one: {"partition_id": one.partition_id, "offset": one.offset},
    ),
    c.DeleteConsumerOffset: EndpointRow(
        "DELETE",
        f"{MEMBER}/offsets",
        query=lambda one: {"partition_id": one.partition_id},
    ),
}
"""What is asked for in the name of a group, by a client that has joined it."""
