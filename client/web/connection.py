"""One connection to a broker by HTTP, encrypted or not: commands go out, their values come back.

Owns the socket, the access token of its login, and the groups it has joined. Requests take turns,
as on other transports. A token is refreshed before it ends; one that the server does not take any
more is a StaleClient, and the session logs in again.

Messages travel as bytes, never as base64. A group is joined with a lease, which every request of
the member and every heartbeat renews.
"""

import asyncio
import time
from collections.abc import Callable
from http import HTTPStatus
from typing import Any, Final, NamedTuple, Self

import msgspec

from borzoi.client.address import TlsOptions
from borzoi.client.connection import (
    RESPONSE_SIZE_MAX,
    TIMEOUT_S,
    RequestTimeout,
    cause_of,
    tls_context,
)
from borzoi.client.link import OutgoingBatch
from borzoi.client.web.reader import HttpReader, HttpReply
from borzoi.client.web.requests import (
    AS_MEMBER,
    FAILS,
    JOIN,
    LEAVE,
    OCTETS,
    RENEW,
    ROWS,
    EndpointRow,
    HttpAsk,
    ask_of,
    ask_to_send,
)
from borzoi.protocol import commands as c
from borzoi.protocol.batch import INDEX_ENTRY_SIZE, decode_batch
from borzoi.protocol.commands import Command
from borzoi.protocol.errors import (
    BrokerError,
    CannotEstablishConnection,
    ConnectionClosed,
    ConsumerGroupMemberNotFound,
    FeatureUnavailable,
    HttpResponseError,
    InvalidFormat,
    StaleClient,
    Unauthenticated,
    Unauthorized,
    error_class,
)
from borzoi.protocol.identifiers import ConsumerKind
from borzoi.protocol.responses import PolledMessages

REFRESH: Final = "/users/refresh-token"
REFRESH_SHARE: Final = 0.75
"""So much of its life a token is used before a later one is asked for."""

TEXT_SHOWN_MAX: Final = 300
UNREADABLE: Final = (KeyError, TypeError, ValueError, AttributeError, msgspec.DecodeError)

Group = tuple[Any, Any, Any]


class HeldToken(NamedTuple):
    """The token of a login, and when it is to be exchanged for a later one."""

    text: str
    refresh_at: float


class WebConnection:
    """Made by open(). Not logged in; that is a request like any other."""

    def __init__(
        self,
        reader: HttpReader,
        authority: str,
        timeout_s: float,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._reader = reader
        self._authority = authority
        self._timeout_s = timeout_s
        self._clock = clock
        self._turn = asyncio.Lock()  # wakes its waiters first come, first served
        self._token: HeldToken | None = None
        self._members: dict[Group, str] = {}

    @classmethod
    async def open(
        cls,
        host: str,
        port: int,
        timeout_s: float = TIMEOUT_S,
        *,
        response_size_max: int = RESPONSE_SIZE_MAX,
        tls: TlsOptions | None = None,
    ) -> Self:
        """Connect; `timeout_s` is for this and then for each request once it has its turn."""
        loop = asyncio.get_running_loop()
        reader = HttpReader(loop, response_size_max)
        try:
            async with asyncio.timeout(timeout_s):
                await loop.create_connection(
                    lambda: reader,
                    host,
                    port,
                    ssl=None if tls is None else tls_context(tls),
                    server_hostname=None if tls is None else tls.domain or host,
                )
        except OSError as error:  # TimeoutError is one, and says nothing itself
            cause = cause_of(error) or f"no answer within {timeout_s} s"
            raise CannotEstablishConnection(f"cannot connect to {host}:{port}: {cause}") from error
        return cls(reader, f"[{host}]:{port}" if ":" in host else f"{host}:{port}", timeout_s)

    @property
    def is_open(self) -> bool:
        """Whether requests can still be sent."""
        return self._reader.is_open

    async def request(self, command: Command) -> Any:
        """The value a command is answered with; None where it has none or found nothing.

        Raises the BrokerError of the answer, FeatureUnavailable for a command without an endpoint,
        ConnectionClosed when the server went away, RequestTimeout and ResponseTooBig.
        """
        async with self._turn:
            await self._keep_token()
            return await self._carry_out(command)

    async def send_batch(self, batch: OutgoingBatch) -> None:
        """Returns when the batch is acknowledged."""
        stream, topic, partitioning, (count, index_and_messages) = batch
        messages = memoryview(index_and_messages)[count * INDEX_ENTRY_SIZE :]
        async with self._turn:
            await self._keep_token()
            reply = await self._ask(ask_to_send(stream, topic, partitioning, count, messages))
            self._check(reply)

    async def close(self) -> None:
        """Close at once; a request that is still unanswered fails. May be called twice."""
        self._reader.end(ConnectionClosed("it was closed on this side"))
        await self._reader.wait_lost()

    # Commands. The caller has the turn.

    async def _carry_out(self, command: Command) -> Any:
        match command:
            case c.LoginUser() | c.LoginWithPersonalAccessToken():
                return await self._log_in(command)
            case c.LogoutUser():
                await self._do(ROWS[c.LogoutUser], command)
                self._token = None
            case c.JoinConsumerGroup():
                await self._join(command)
            case c.LeaveConsumerGroup(stream, topic, group):
                await self._as_member(LEAVE, command, (stream, topic, group))
                del self._members[stream, topic, group]
            case c.Ping():
                await self._beat(command)
            case c.PollMessages() | c.StoreConsumerOffset() | c.DeleteConsumerOffset() if (
                command.consumer.kind == ConsumerKind.GROUP
            ):
                group_of = command.stream, command.topic, command.consumer.id
                return await self._as_member(AS_MEMBER[type(command)], command, group_of)
            case _:
                return await self._do(_row_of(command), command)
        return None

    async def _log_in(self, command: c.LoginUser | c.LoginWithPersonalAccessToken) -> Any:
        self._token = None  # of an earlier login, which ends with this one
        row = _row_of(command)
        reply = await self._ask(ask_of(row, command))
        self._check(reply)
        found = _json(reply)
        self._hold(found)
        return _valued(row, found)

    async def _join(self, command: c.JoinConsumerGroup) -> None:
        group = command.stream, command.topic, command.group
        if group in self._members:
            try:
                await self._as_member(RENEW, command, group)
                return
            except ConsumerGroupMemberNotFound:
                del self._members[group]
        reply = await self._ask(ask_of(JOIN, command))
        self._check(reply)
        try:
            self._members[group] = str(_json(reply)["id"])
        except UNREADABLE as error:
            raise _unreadable(error) from error

    async def _beat(self, command: c.Ping) -> None:
        """A sign of life; one of each membership, if there are any."""
        if not self._members:
            await self._do(ROWS[c.Ping], command)
        for group in list(self._members):
            try:
                await self._as_member(RENEW, command, group)
            except ConsumerGroupMemberNotFound:
                # The member's next request hears of it, and joins again.
                self._members.pop(group, None)

    async def _as_member(self, row: EndpointRow, command: Command, group: Group) -> Any:
        member = self._members.get(group)
        if member is None:
            raise ConsumerGroupMemberNotFound(f"this client is no member of group {group[2]!r}")
        named = dict(zip(("stream", "topic", "group", "member"), (*group, member), strict=True))
        return await self._do(row, command, named)

    async def _do(self, row: EndpointRow, command: Command, named: Any = None) -> Any:
        reply = await self._ask(ask_of(row, command, named))
        if reply.status == HTTPStatus.NOT_FOUND and row.missing is not FAILS:
            return row.missing
        self._check(reply)
        if isinstance(command, c.PollMessages):
            return _polled(reply)
        if row.answer is None:
            return None
        if row.answer is bytes:
            return bytes(reply.body)
        return _valued(row, _json(reply))

    # Tokens.

    async def _keep_token(self) -> None:
        """Exchange a token that has lived long enough; the server withdraws the old one."""
        token = self._token
        if token is None or self._clock() < token.refresh_at:
            return
        body = msgspec.json.encode({"token": token.text})
        reply = await self._ask(HttpAsk("POST", REFRESH, body))
        self._check(reply)
        self._hold(_json(reply))

    def _hold(self, found: Any) -> None:
        now = self._clock()
        try:
            token, expiry = (
                str(found["access_token"]["token"]),
                float(found["access_token"]["expiry"]),
            )
        except UNREADABLE as error:
            raise _unreadable(error) from error
        # By a clock that is behind or ahead of the server's a token may seem to be over: then the
        # server says when it is.
        left = expiry - now
        self._token = HeldToken(token, now + left * REFRESH_SHARE if left > 0 else float("inf"))

    # One request.

    async def _ask(self, ask: HttpAsk) -> HttpReply:
        reply = self._reader.ask((self._head(ask), ask.body))
        deadline = asyncio.get_running_loop().call_later(self._timeout_s, self._give_up, ask)
        try:
            return await reply
        finally:
            deadline.cancel()
            if reply.cancelled():
                self._reader.end(ConnectionClosed("a caller did not wait for its answer"))

    def _head(self, ask: HttpAsk) -> bytes:
        lines = [
            f"{ask.method} {ask.path} HTTP/1.1",
            f"Host: {self._authority}",
            f"Accept: {ask.accept}",
        ]
        if self._token is not None:
            lines.append(f"Authorization: Bearer {self._token.text}")
        if ask.body or ask.method in ("POST", "PUT"):
            lines += (f"Content-Type: {ask.content_type}", f"Content-Length: {len(ask.body)}")
        return "\r\n".join((*lines, "", "")).encode("ascii")

    def _give_up(self, ask: HttpAsk) -> None:
        path = ask.path.partition("?")[0]
        what = f"{ask.method} {path} had no answer in {self._timeout_s} s"
        self._reader.end(RequestTimeout(what))

    def _check(self, reply: HttpReply) -> None:
        """Raise what an answer says, if it is no success."""
        if HTTPStatus.OK <= reply.status < HTTPStatus.MULTIPLE_CHOICES:
            return
        if reply.status == HTTPStatus.UNAUTHORIZED and not reply.body:
            if self._token is None:
                raise Unauthenticated
            self._token = None
            raise StaleClient("the server does not take the access token any more")
        raise _refusal(reply)


def _row_of(command: Command) -> EndpointRow:
    row = ROWS.get(type(command))
    if row is None:
        raise FeatureUnavailable(
            f"HTTP has no {type(command).__name__}: it needs iggy+tcp, iggy+tls, iggy+ws, iggy+wss"
            " or iggy+quic"
        )
    return row


def _refusal(reply: HttpReply) -> BrokerError:
    """The error of an answer: by its number if it has one, else by its text."""
    if reply.fields.get("content-type", "").startswith("application/json"):
        try:
            found = msgspec.json.decode(reply.body)
            known = error_class(int(found["id"]))
            if known is not None:
                return known(str(found["reason"]))
        except UNREADABLE:
            pass  # Its text says what there is to say.
    if reply.status == HTTPStatus.FORBIDDEN:
        return Unauthorized()
    text = bytes(reply.body[:TEXT_SHOWN_MAX]).decode("utf-8", "replace")
    return HttpResponseError(f"the server answered with HTTP status {reply.status}: {text}")


def _polled(reply: HttpReply) -> PolledMessages:
    fields = reply.fields
    if not fields.get("content-type", "").startswith(OCTETS):
        raise HttpResponseError(
            f"messages came as {fields.get('content-type')!r}: the server does not send {OCTETS}"
        )
    try:
        partition_id, current = int(fields["partition-id"]), int(fields["current-offset"])
    except UNREADABLE as error:
        raise _unreadable(error) from error
    return PolledMessages(partition_id, current, tuple(decode_batch(memoryview(reply.body))))


def _json(reply: HttpReply) -> Any:
    try:
        return msgspec.json.decode(reply.body)
    except msgspec.DecodeError as error:
        raise _unreadable(error) from error


def _valued(row: EndpointRow, found: Any) -> Any:
    assert row.answer is not None
    try:
        return row.answer(found)
    except UNREADABLE as error:
        raise _unreadable(error) from error


def _unreadable(error: Exception) -> InvalidFormat:
    return InvalidFormat(f"the answer is unreadable: {type(error).__name__} {error}")
