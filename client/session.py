"""A session that outlives its connection: reconnect, log in again, join the groups again.

Owns the connection and what has to be repeated on a new one: the login, and the groups that this
client is a member of. Any number of tasks may share a session; their requests take turns. The
request that finds the connection lost makes a new one, while the others wait. They share its
success and its failure.

What happens to the request that was on its way when the connection broke:

    repeatable (repeating.py)   asked again, a few times at most
    anything else               ConnectionClosed; whether it was carried out is not known
    no answer in time           RequestTimeout, the same; the caller's time is over, so no repeat
    not sent yet                sent over the new connection

An answer that says the session is over (the server shuts down, or has dropped a client whose
heartbeats were missing) means that nothing was done. The session is renewed and the request sent
once more. Without a Reconnect a session that has lost its connection stays broken.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import replace
from typing import Any, Final, TypeAlias

from borzoi.client.connection import RequestTimeout
from borzoi.client.link import Link, OutgoingBatch
from borzoi.client.reconnect import Reconnect
from borzoi.client.repeating import is_repeatable
from borzoi.protocol.commands import (
    ChangePassword,
    Command,
    DeleteConsumerGroup,
    JoinConsumerGroup,
    LeaveConsumerGroup,
    LoginUser,
    LoginWithPersonalAccessToken,
    LogoutUser,
    Ping,
    UpdateUser,
)
from borzoi.protocol.errors import (
    BrokerError,
    CannotEstablishConnection,
    ConnectionClosed,
    Disconnected,
    StaleClient,
)

# A request that takes the server down each time must not do so for ever.
LOSSES_MAX: Final = 3

Credentials: TypeAlias = LoginUser | LoginWithPersonalAccessToken
Dial: TypeAlias = Callable[[], Awaitable[Link]]
Ask: TypeAlias = Callable[[Link], Awaitable[Any]]


class Session:
    """Takes over a connection that is open and not logged in."""

    def __init__(
        self,
        connection: Link,
        dial: Dial | None = None,
        reconnect: Reconnect | None = None,
        *,
        chance: Callable[[], float] = random.random,
    ) -> None:
        assert (dial is None) == (reconnect is None), "both or none"
        self.connection = connection
        self.connects_count = 1
        self._dial = dial
        self._reconnect = reconnect
        self._chance = chance
        self._turn = asyncio.Lock()  # wakes its waiters first come, first served
        self._failures_count = 0  # of whole series of attempts
        self._failure = ""
        self._closing = asyncio.Event()
        self._credentials: Credentials | None = None
        self._user_id: int | None = None
        self._memberships: dict[tuple[object, object, object], JoinConsumerGroup] = {}
        self._heartbeat: asyncio.Task[None] | None = None

    async def request(self, command: Command) -> Any:
        """The value a command is answered with, as Link.request()."""
        value = await self._exchange(lambda link: link.request(command), is_repeatable(command))
        self._remember(command, value)
        return value

    async def send(self, batch: OutgoingBatch, *, resend: bool) -> None:
        """A batch. With `resend` it may arrive twice, without it never does."""
        await self._exchange(lambda link: link.send_batch(batch), resend)

    def beat(self, interval_s: float) -> None:
        """Ping from now on, so that a server which drops silent clients keeps this one."""
        assert self._heartbeat is None, "one heart"
        self._heartbeat = asyncio.create_task(self._beat(interval_s))

    async def close(self) -> None:
        """Close at once; a request that is still unanswered fails. May be called twice."""
        self._closing.set()
        if self._heartbeat is not None:
            self._heartbeat.cancel()
            await asyncio.wait((self._heartbeat,))
        await self.connection.close()

    async def _exchange(self, ask: Ask, repeatable: bool) -> Any:
        losses = 0
        renewed = False
        failures_before = self._failures_count
        async with self._turn:
            if self._failures_count != failures_before and not self.connection.is_open:
                # Made to wait while all attempts failed; it need not wait for as many again.
                raise CannotEstablishConnection(f"{self._failure}")
            while True:
                connection = await self._connected()
                try:
                    return await ask(connection)
                except ConnectionClosed:
                    # An open connection means that the server has answered with this status.
                    if connection.is_open or not self._may_repeat(repeatable, losses):
                        raise
                    losses += 1
                except (Disconnected, StaleClient):
                    if renewed or self._reconnect is None:
                        raise
                    renewed = True
                    await connection.close()

    def _may_repeat(self, repeatable: bool, losses: int) -> bool:
        return repeatable and self._reconnect is not None and losses < LOSSES_MAX

    async def _connected(self) -> Link:
        """An open connection that is logged in; the caller has the turn."""
        if self._closing.is_set():
            raise ConnectionClosed("this client is closed")
        if self.connection.is_open or self._reconnect is None:
            return self.connection
        failure: Exception | None = None
        for delay_s in self._reconnect.delays(self._chance):
            if await self._closes_within(delay_s):
                raise ConnectionClosed("this client was closed while it made its connection again")
            try:
                return await self._connect_again()
            except (CannotEstablishConnection, ConnectionClosed, RequestTimeout) as error:
                failure = error
        attempts = self._reconnect.attempts_max
        self._failures_count += 1
        self._failure = (
            f"the connection was lost and {attempts} attempts to make it again failed: {failure}"
        )
        raise CannotEstablishConnection(self._failure) from failure

    async def _connect_again(self) -> Link:
        assert self._dial is not None
        connection = await self._dial()
        try:
            await self._introduce(connection)
        except BaseException:  # cancelled as well: nothing else would close the socket
            await connection.close()
            raise
        self.connection = connection
        self.connects_count += 1
        if self._closing.is_set():
            await connection.close()
        return connection

    async def _introduce(self, connection: Link) -> None:
        if self._credentials is not None:
            await connection.request(self._credentials)
        for membership in self._memberships.values():
            try:
                await connection.request(membership)
            except ConnectionClosed:
                raise
            except BrokerError:
                # The group or its topic is gone. Polls for it are refused by the server; nothing
                # else needs it.
                continue

    async def _closes_within(self, delay_s: float) -> bool:
        try:
            async with asyncio.timeout(delay_s):
                return await self._closing.wait()
        except TimeoutError:
            return False

    async def _beat(self, interval_s: float) -> None:
        while self.connection.is_open or self._reconnect is not None:
            await asyncio.sleep(interval_s)
            # The application's next request meets the same error, and raises it.
            with suppress(BrokerError, OSError):
                await self.request(Ping())

    def _remember(self, command: Command, value: Any) -> None:
        """Notes what has to be repeated on a later connection."""
        match command:
            case LoginUser() | LoginWithPersonalAccessToken():
                self._credentials = command
                self._user_id = value.user_id
            case LogoutUser():
                self._credentials = self._user_id = None
            case JoinConsumerGroup(stream, topic, group):
                self._memberships[stream, topic, group] = command
            case LeaveConsumerGroup(stream, topic, group) | DeleteConsumerGroup(
                stream, topic, group
            ):
                self._memberships.pop((stream, topic, group), None)
            case ChangePassword(user, _, new_password) if self._is_me(user):
                self._rewrite_login(password=new_password)
            case UpdateUser(user, str(username)) if self._is_me(user):
                self._rewrite_login(username=username)

    def _is_me(self, user: int | str) -> bool:
        if isinstance(user, int):
            return user == self._user_id
        return isinstance(self._credentials, LoginUser) and user == self._credentials.username

    def _rewrite_login(self, **changed: str) -> None:
        if isinstance(self._credentials, LoginUser):
            self._credentials = replace(self._credentials, **changed)
