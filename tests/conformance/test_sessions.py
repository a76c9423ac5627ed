"""Connecting, logging in, and coming back after the broker was away."""

import asyncio

import pytest
from apache_iggy import IggyClient, PollingStrategy

from tests.broker import BrokerProcess
from tests.conformance.official import (
    address_of,
    client_for,
    connected,
    new_topic,
    payloads,
    says,
    send,
)


def test_connect_ping_and_log_in_by_hand(standing_broker: BrokerProcess, name: str) -> None:
    async def check() -> None:
        # Only a TCP client can be made from an address alone.
        client = IggyClient(address_of(standing_broker, "tcp"))
        await client.connect()
        await client.ping()
        with pytest.raises(RuntimeError, match="Unauthenticated"):
            await client.get_stream(name)
        await client.login_user("iggy", "iggy")
        assert await client.get_stream(name) is None
        await client.ping()

    asyncio.run(check())


@pytest.mark.parametrize(
    ("username", "password"), [("iggy", "wrong"), ("absent", "iggy"), ("Iggy", "iggy")]
)
def test_wrong_credentials(standing_broker: BrokerProcess, username: str, password: str) -> None:
    async def check() -> None:
        client = IggyClient(address_of(standing_broker, "tcp"))
        await client.connect()
        with pytest.raises(RuntimeError, match=r"^InvalidCredentials$"):
            await client.login_user(username, password)
        await client.login_user("iggy", "iggy")

    asyncio.run(check())


def test_credentials_of_impossible_length(standing_broker: BrokerProcess) -> None:
    async def check() -> None:
        client = IggyClient(address_of(standing_broker, "tcp"))
        await client.connect()
        with pytest.raises(RuntimeError, match="InvalidUsername"):
            await client.login_user("ig", "iggy")
        with pytest.raises(RuntimeError, match="InvalidPassword"):
            await client.login_user("iggy", "ig")

    asyncio.run(check())


def test_log_in_by_connection_string(standing_broker: BrokerProcess, transport: str) -> None:
    async def check() -> None:
        client = await connected(standing_broker, transport)
        await client.ping()
        assert await client.get_stream("there is none") is None

    asyncio.run(check())


def test_wrong_password_in_a_connection_string(
    standing_broker: BrokerProcess, session_transport: str
) -> None:
    async def check() -> None:
        client = client_for(standing_broker, session_transport, "iggy:wrong")
        with pytest.raises(RuntimeError, match="InvalidCredentials"):
            await client.connect()

    asyncio.run(check())


@pytest.mark.parametrize("options", ["", "?retries=1", "?heartbeat_interval=1s&retries=3"])
def test_log_in_and_out_over_http(standing_broker: BrokerProcess, name: str, options: str) -> None:
    async def check() -> None:
        where = address_of(standing_broker, "http")
        client = IggyClient.from_connection_string(f"iggy+http://iggy:iggy@{where}{options}")
        await client.connect()
        await client.ping()
        with pytest.raises(RuntimeError, match="Unauthenticated"):
            await client.get_stream(name)
        with pytest.raises(RuntimeError, match=says("InvalidCredentials")):
            await client.login_user("iggy", "wrong")
        await client.login_user("iggy", "iggy")
        assert await client.get_stream(name) is None

    asyncio.run(check())


@pytest.mark.slow
@pytest.mark.parametrize("end", ["stop", "kill"])
def test_a_client_goes_on_after_a_restart(
    broker: BrokerProcess, transport: str, name: str, end: str
) -> None:
    """The same client object, the same port: it reconnects and logs in by itself."""

    async def check() -> None:
        client = await connected(broker, transport)
        await new_topic(client, name)
        await send(client, name, 0, b"before")
        await asyncio.to_thread(getattr(broker, end))
        await asyncio.to_thread(broker.start)
        assert await payloads(client, name, PollingStrategy.First()) == [b"before"]
        await send(client, name, 0, b"after")
        assert await payloads(client, name, PollingStrategy.First()) == [b"before", b"after"]

    asyncio.run(check())
