"""The client of this project over every transport: what it sends comes back, strangers do not."""

import asyncio
import os
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from borzoi.client import FIRST, BorzoiClient
from borzoi.protocol.errors import CannotEstablishConnection
from borzoi.protocol.message import Message
from tests.broker import QUIC, BrokerProcess, standing
from tests.certificates import Authority
from tests.ways import door_of, with_tls

SCHEMES = {
    "tcp": "iggy+tcp",
    "tls": "iggy+tls",
    "ws": "iggy+ws",
    "wss": "iggy+wss",
    "quic": "iggy+quic",
}
ENCRYPTED = ["tls", "wss", "quic"]
LARGE = os.urandom(300_000)
NOT_PROVEN = "certificate verify failed|certificate is unacceptable|issuer certificate"


class Brokers(NamedTuple):
    plain: BrokerProcess
    encrypted: BrokerProcess
    authority: Path
    stranger: Path


@pytest.fixture(scope="module")
def brokers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Brokers]:
    folder = tmp_path_factory.mktemp("transports")
    authority, stranger = Authority(), Authority()
    (folder / "authority.pem").write_bytes(authority.pem)
    (folder / "stranger.pem").write_bytes(stranger.pem)
    files = authority.issue(folder)
    quic = {
        **QUIC,
        "IGGY_QUIC_CERTIFICATE_SELF_SIGNED": "false",
        "IGGY_QUIC_CERTIFICATE_CERT_FILE": str(files.cert),
        "IGGY_QUIC_CERTIFICATE_KEY_FILE": str(files.key),
    }
    tls = {**with_tls(files), **quic}
    with standing(folder / "plain") as plain, standing(folder / "tls", tls) as encrypted:
        yield Brokers(plain, encrypted, folder / "authority.pem", folder / "stranger.pem")


def address(brokers: Brokers, way: str, options: str | None = None) -> str:
    is_encrypted = way in ENCRYPTED
    at = door_of(brokers.encrypted if is_encrypted else brokers.plain, way)
    trusted = f"tls_domain=localhost&tls_ca_file={brokers.authority}" if is_encrypted else ""
    tls = trusted if options is None else options
    return f"{SCHEMES[way]}://iggy:iggy@{at.host}:{at.port}?{tls}"


async def there_and_back(where: str, name: str) -> list[bytes]:
    async with BorzoiClient.connect(where) as client:
        await client.create_stream(name)
        await client.create_topic(name, name, 1)
        sent = [Message(b"small"), Message(LARGE)]
        await client.send_messages(name, name, sent, partition_id=0)
        polled = await client.poll_messages(name, name, 0, strategy=FIRST, count=len(sent))
        return [bytes(message.payload) for message in polled.messages]


@pytest.mark.parametrize("way", sorted(SCHEMES))
def test_messages_there_and_back(brokers: Brokers, way: str) -> None:
    found = asyncio.run(there_and_back(address(brokers, way), f"own-{way}"))
    assert found == [b"small", LARGE]


@pytest.mark.parametrize("way", ENCRYPTED)
@pytest.mark.parametrize("reason", ["stranger", "unknown", "other name"])
def test_a_server_that_is_not_proven_is_refused(brokers: Brokers, way: str, reason: str) -> None:
    options = {
        "stranger": f"tls_domain=localhost&tls_ca_file={brokers.stranger}",
        "unknown": "tls_domain=localhost",
        "other name": f"tls_domain=elsewhere.example&tls_ca_file={brokers.authority}",
    }[reason]
    with pytest.raises(CannotEstablishConnection, match=NOT_PROVEN):
        asyncio.run(there_and_back(address(brokers, way, options), "never"))


@pytest.mark.parametrize("way", ENCRYPTED)
def test_verification_is_off_only_by_its_name(brokers: Brokers, way: str) -> None:
    where = address(brokers, way, "tls_validate_certificate=false")
    assert len(asyncio.run(there_and_back(where, f"unproven-{way}"))) == 2


def test_a_door_that_is_no_websocket_says_so(brokers: Brokers) -> None:
    at = door_of(brokers.plain, "tcp")
    with pytest.raises(CannotEstablishConnection, match="WebSocket"):
        asyncio.run(there_and_back(f"iggy+ws://iggy:iggy@{at.host}:{at.port}", "never"))
