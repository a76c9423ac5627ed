"""HTTP as a way into the broker for tests that say what may be done: no session, a token each.

The requests are those of the client of this project (client/web/requests.py): a row per command.
"""

import http.client
import json
from collections.abc import Callable, Sequence
from typing import Final, Protocol

from borzoi.client.web.requests import JOIN, LEAVE, ROWS, HttpAsk, ask_of, ask_to_send
from borzoi.protocol.codes import Code
from borzoi.protocol.commands import (
    Command,
    DeletePartitions,
    GetMe,
    JoinConsumerGroup,
    LeaveConsumerGroup,
    SendMessages,
)
from borzoi.protocol.errors import Unauthenticated
from borzoi.protocol.generations import CLASSIC
from tests.broker import BrokerProcess

TIMEOUT_S: Final = 60.0
TRIES_MAX: Final = 100
NO_ENDPOINT: Final = -2
"""For a command that cannot be said: who is asked for has a session, and there is none."""

WITHOUT_ENDPOINT: Final = frozenset({Code.GET_ME})
NO_MEMBER: Final = "none"
PARTITIONS_MAX: Final = 1000


class Request(Protocol):
    """A code and its payload."""

    @property
    def code(self) -> Code: ...

    @property
    def payload(self) -> bytes: ...


def ask_for(command: Command) -> HttpAsk:
    """The request that a command is over HTTP."""
    if isinstance(command, SendMessages):
        place = command.stream, command.topic, command.partitioning
        return ask_to_send(*place, command.message_count, command.batch)
    if isinstance(command, DeletePartitions):
        # More are too many for HTTP, before it is asked who may.
        command = DeletePartitions(command.stream, command.topic, PARTITIONS_MAX)
    if isinstance(command, JoinConsumerGroup):
        return ask_of(JOIN, command)
    if isinstance(command, LeaveConsumerGroup):
        named = {"stream": command.stream, "topic": command.topic, "group": command.group}
        return ask_of(LEAVE, command, {**named, "member": NO_MEMBER})
    return ask_of(ROWS[type(command)], command)


def status_of(status: int, content_type: str, body: bytes) -> int:
    """The status that a binary door would have answered with; that of HTTP where it is none."""
    if 200 <= status < 300:
        return 0
    if status == 401 and not body:
        return Unauthenticated.status
    return int(json.loads(body)["id"]) if content_type.startswith("application/json") else status


class HttpChannel:
    """Requests of one user to one shard."""

    def __init__(
        self,
        broker: BrokerProcess,
        shard: int,
        shard_of: Callable[[int], int | None],
        kept: dict[int, http.client.HTTPConnection],
    ) -> None:
        """`shard_of` says which shard holds the other end of a port of ours.

        `kept` has the connection to each shard, which all channels share: who asks is said by the
        token of a request.
        """
        self._address = broker.http_address
        self._shard = shard
        self._shard_of = shard_of
        self._kept = kept
        self._token = ""

    def login(self, username: str, password: str) -> int:
        """Log in; the status."""
        body = json.dumps({"username": username, "password": password}).encode()
        connection = self._connection()
        connection.request("POST", "/users/login", body, {"Content-Type": "application/json"})
        answer = connection.getresponse()
        found = answer.read()
        if answer.status == 200:
            self._token = json.loads(found)["access_token"]["token"]
        return status_of(answer.status, answer.headers["Content-Type"], found)

    def statuses(self, requests: Sequence[Request]) -> list[int]:
        """Send one after the other."""
        return [self._status(one) for one in requests]

    def close(self) -> None:
        """End the connection; the next channel makes another."""
        if connection := self._kept.pop(self._shard, None):
            connection.close()

    def _status(self, request: Request) -> int:
        command = CLASSIC.requests[request.code](memoryview(request.payload))
        if isinstance(command, GetMe):
            return NO_ENDPOINT
        asked = ask_for(command)
        headers = {"Accept": asked.accept, "Content-Type": asked.content_type}
        if self._token:
            headers["Authorization"] = f"Bearer {self._token}"
        connection = self._connection()
        connection.request(asked.method, asked.path, bytes(asked.body), headers)
        answer = connection.getresponse()
        return status_of(answer.status, answer.headers.get("Content-Type", ""), answer.read())

    def _connection(self) -> http.client.HTTPConnection:
        connection = self._kept.get(self._shard)
        if connection is None or connection.sock is None:
            connection = self._kept[self._shard] = self._connected()
        return connection

    def _connected(self) -> http.client.HTTPConnection:
        for _ in range(TRIES_MAX):
            connection = http.client.HTTPConnection(self._address, timeout=TIMEOUT_S)
            connection.connect()
            if self._shard_of(connection.sock.getsockname()[1]) == self._shard:
                return connection
            connection.close()
        raise AssertionError(f"{TRIES_MAX} connections missed shard {self._shard}")
