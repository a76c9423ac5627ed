"""The official client as users with different permissions, and with personal access tokens.

It cannot manage users itself, so that is done for it on another connection.
"""

import asyncio
from collections.abc import Iterator

import pytest
from apache_iggy import IggyClient, PollingStrategy

from borzoi.protocol.commands.sessions import CreatePersonalAccessToken, DeletePersonalAccessToken
from borzoi.protocol.commands.streams import CreateStream, GetStream
from borzoi.protocol.commands.users import CreateUser, DeleteUser, UpdatePermissions, UpdateUser
from borzoi.protocol.permissions import (
    GlobalPermissions,
    Permissions,
    StreamPermissions,
    UserStatus,
)
from tests.broker import BrokerProcess
from tests.conformance.official import WITH_SESSIONS, client_for, payloads, send
from tests.topics import topic_of
from tests.wire import Wire

REFUSED = r"^Unauthorized$"


@pytest.fixture
def root(standing_broker: BrokerProcess) -> Iterator[Wire]:
    root = Wire(standing_broker)
    root.ask(CreateUser("limited", "password"))
    yield root
    root.status(DeleteUser("limited"))
    root.close()


@pytest.fixture
def topic(root: Wire, name: str) -> str:
    """A topic in a stream of the same name."""
    root.ask(CreateStream(name))
    root.ask(topic_of(name))
    return name


async def limited(broker: BrokerProcess, transport: str) -> IggyClient:
    client = client_for(broker, transport, "limited:password")
    await client.connect()
    if transport not in WITH_SESSIONS:
        await client.login_user("limited", "password")
    return client


def test_permissions_hold_at_once(
    standing_broker: BrokerProcess, transport: str, root: Wire, topic: str
) -> None:
    stream_id = root.ask(GetStream(topic)).stream.id

    def allow(**flags: bool) -> None:
        permissions = Permissions(streams={stream_id: StreamPermissions(**flags)})  # type: ignore[arg-type]  # all are flags
        root.ask(UpdatePermissions("limited", permissions))

    async def check() -> None:
        client = await limited(standing_broker, transport)
        with pytest.raises(RuntimeError, match=REFUSED):
            await client.create_stream("another")
        with pytest.raises(RuntimeError, match=REFUSED):
            await client.get_stream(topic)
        with pytest.raises(RuntimeError, match=REFUSED):
            await send(client, topic, 0, b"message")
        allow(send_messages=True)
        await send(client, topic, 0, b"message")
        with pytest.raises(RuntimeError, match=REFUSED):
            await payloads(client, topic, PollingStrategy.First())
        allow(poll_messages=True)
        assert await payloads(client, topic, PollingStrategy.First()) == [b"message"]
        with pytest.raises(RuntimeError, match=REFUSED):
            await send(client, topic, 0, b"message")
        root.ask(UpdatePermissions("limited", Permissions(GlobalPermissions(manage_streams=True))))
        await send(client, topic, 0, b"message")
        assert await client.get_stream(topic) is not None
        root.ask(UpdatePermissions("limited", None))
        with pytest.raises(RuntimeError, match=REFUSED):
            await send(client, topic, 0, b"message")

    asyncio.run(check())


def test_a_user_made_inactive_is_answered_so(
    standing_broker: BrokerProcess, transport: str, root: Wire, topic: str
) -> None:
    """The client takes the status for a lost session and logs in again, which is refused."""

    async def check() -> None:
        client = await limited(standing_broker, transport)
        root.ask(UpdateUser("limited", status=UserStatus.INACTIVE))
        with pytest.raises(RuntimeError, match=r"^(UserInactive|Unauthenticated)$"):
            await client.get_stream(topic)

    asyncio.run(check())


def test_one_who_is_removed_gets_nothing(
    standing_broker: BrokerProcess, transport: str, root: Wire, topic: str
) -> None:
    async def check() -> None:
        client = await limited(standing_broker, transport)
        root.ask(DeleteUser("limited"))
        for call in (client.get_stream(topic), send(client, topic, 0, b"message")):
            with pytest.raises(RuntimeError, match=REFUSED):
                await call

    asyncio.run(check())


def test_personal_access_tokens(
    standing_broker: BrokerProcess, session_transport: str, root: Wire
) -> None:
    token = root.ask(CreatePersonalAccessToken("official", 0)).token
    try:

        async def check() -> None:
            client = client_for(standing_broker, session_transport, token)
            await client.connect()
            assert await client.get_stream("there is none") is None

        asyncio.run(check())
    finally:
        root.ask(DeletePersonalAccessToken("official"))
