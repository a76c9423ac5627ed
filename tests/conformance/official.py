"""The official client, unmodified, over any transport that the broker offers.

Every test of this folder takes the transport as a parameter. A transport that is new to the
broker is one more line in TRANSPORTS; nothing else changes here. Two tests that are about the disk
take a few of them.
"""

from typing import Final, NamedTuple

from apache_iggy import IggyClient, PollingStrategy, ReceiveMessage, SendMessage

from borzoi.shards.web_forms.failures import snake_case
from tests.broker import BrokerProcess

# A client of this package can't be closed, and lives as long as the process of the tests. With its
# own heartbeat of five seconds it would dial a broker that is gone for ever, at a port that may be
# another test's by then.
NO_HEARTBEAT: Final = "heartbeat_interval=1h"
# The client waits this long before it dials a second time; its own default is five seconds.
QUICK_RECONNECT: Final = f"{NO_HEARTBEAT}&reestablish_after=50ms&reconnection_interval=50ms"
# It gives up for ever where a handshake of TLS breaks off, as it does at a broker that stops. So it
# dials when the stop is over.
LATE_RECONNECT: Final = f"{NO_HEARTBEAT}&reestablish_after=5s&reconnection_interval=50ms"


class Way(NamedTuple):
    """How a transport is reached: its table in the configuration, its URL, TLS."""

    door: str
    scheme: str
    is_encrypted: bool = False
    options: str = QUICK_RECONNECT


TRANSPORTS: Final = {
    "tcp": Way("tcp", "iggy+tcp"),
    "tls": Way("tcp", "iggy+tcp", is_encrypted=True, options=LATE_RECONNECT),
    "ws": Way("websocket", "iggy+ws"),
    "wss": Way("websocket", "iggy+ws", is_encrypted=True, options=LATE_RECONNECT),
    "http": Way("http", "iggy+http", options=f"{NO_HEARTBEAT}&retries=3"),
}

AUTHORITY: Final = "authority.pem"
"""Beside the data directory of a broker with TLS: whom its clients are to trust."""


WITH_SESSIONS: Final = tuple(name for name in TRANSPORTS if name != "http")
"""Transports with a session, and so with groups and logins by connection string. Over HTTP the
client does not use the credentials of its connection string, and refuses to join a group."""

POLL_COUNT: Final = 1000


class Received(NamedTuple):
    """Everything the client tells about a message."""

    offset: int
    payload: bytes
    id: int
    timestamp: int
    checksum: int


def address_of(broker: BrokerProcess, transport: str) -> str:
    """Where the broker really listens, as it says itself."""
    return broker.address_of(TRANSPORTS[transport].door)


def client_for(broker: BrokerProcess, transport: str, credentials: str = "iggy:iggy") -> IggyClient:
    """A client that will log in by itself, also after a reconnect; not connected yet."""
    _, scheme, is_encrypted, options = TRANSPORTS[transport]
    where = address_of(broker, transport)
    if is_encrypted:
        trusted = broker.data.parent / AUTHORITY
        options += f"&tls=true&tls_domain=localhost&tls_ca_file={trusted}"
    return IggyClient.from_connection_string(f"{scheme}://{credentials}@{where}?{options}")


async def connected(broker: BrokerProcess, transport: str) -> IggyClient:
    """A client that is logged in."""
    client = client_for(broker, transport)
    await client.connect()
    if transport not in WITH_SESSIONS:
        await client.login_user("iggy", "iggy")
    return client


def says(name: str) -> str:
    """A pattern for an error of the client, whatever the transport.

    Over HTTP the client has one name for all that is not found, and else shows the body.
    """
    if name.endswith("NotFound"):
        return f"{name}|^ResourceNotFound"
    return f'{name}|"code\\\\":\\\\"{snake_case(name)}'


async def new_topic(client: IggyClient, name: str, partitions_count: int = 1) -> str:
    """A stream with a topic of the same name."""
    await client.create_stream(name)
    await client.create_topic(name, name, partitions_count)
    return name


async def send(client: IggyClient, topic: str, partition_id: int, *payloads: bytes | str) -> None:
    """One batch."""
    await client.send_messages(
        topic, topic, partition_id, [SendMessage(payload) for payload in payloads]
    )


async def poll(
    client: IggyClient,
    topic: str,
    partition_id: int,
    strategy: PollingStrategy,
    count: int = POLL_COUNT,
    *,
    auto_commit: bool = False,
) -> list[Received]:
    """One poll."""
    messages = await client.poll_messages(topic, topic, partition_id, strategy, count, auto_commit)
    assert all(message.partition_id() == partition_id for message in messages)
    return [_received(message) for message in messages]


async def payloads(
    client: IggyClient,
    topic: str,
    strategy: PollingStrategy,
    count: int = POLL_COUNT,
    *,
    auto_commit: bool = False,
) -> list[bytes]:
    """The payloads of one poll of partition 0."""
    messages = await poll(client, topic, 0, strategy, count, auto_commit=auto_commit)
    return [message.payload for message in messages]


def _received(message: ReceiveMessage) -> Received:
    payload = message.payload()
    assert message.length() == len(payload)
    return Received(
        message.offset(), payload, message.id(), message.timestamp(), message.checksum()
    )
