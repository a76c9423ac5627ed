"""gRPC over TLS: official and unmodified clients, renewed certificates, certificates of clients."""

import asyncio
import os
import shutil
import signal
import socket
import ssl
from collections.abc import Coroutine
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import grpc  # type: ignore[import-untyped]  # it has no types
import pytest
from grpclib.const import Status
from grpclib.exceptions import GRPCError, StreamTerminatedError

from borzoi.liftbridge.schema import CLASSES, StartPosition
from tests.broker import BrokerProcess, wait_for
from tests.certificates import Authority, Files
from tests.conftest import NewBroker
from tests.liftbridge.client import ANONYMOUS, LiftbridgeClient
from tests.ways import client_context

pytestmark = pytest.mark.slow

PUBLISHED_MIN = 20
"""Publishes around each renewal, over connections that stay and over new ones."""


def with_tls(files: Files, **more: str) -> dict[str, str]:
    own = {"enabled": "true", "cert_file": str(files.cert), "key_file": str(files.key), **more}
    return ANONYMOUS | {f"IGGY_LIFTBRIDGE_TLS_{name.upper()}": text for name, text in own.items()}


def context_of(authority: Authority, own: Files | None = None) -> ssl.SSLContext:
    context = client_context(authority.pem, own)
    context.set_alpn_protocols(["h2"])
    return context


def shown(broker: BrokerProcess) -> str:
    """The certificate that a new connection is shown."""
    host, _, port = broker.liftbridge_address.rpartition(":")
    return ssl.get_server_certificate((host, int(port)))


async def publish(client: LiftbridgeClient, value: bytes) -> int:
    answer = await client.call("Publish", stream="s", value=value)
    return int(answer.ack.offset)


def test_the_official_grpc_client_speaks_through_tls(new_broker: NewBroker, tmp_path: Path) -> None:
    """As gufo-liftbridge's library does it: grpcio, with a channel of its own for TLS."""
    authority = Authority()
    broker = new_broker(**with_tls(authority.issue(tmp_path)))

    async def work() -> None:
        trusted = grpc.ssl_channel_credentials(authority.pem)
        async with grpc.aio.secure_channel(broker.liftbridge_address, trusted) as channel:

            def call(name: str) -> Any:
                asked, given = CLASSES[f"{name}Request"], CLASSES[f"{name}Response"]
                path = f"/proto.API/{name}"
                kinds = (asked.SerializeToString, given.FromString)
                unary = channel.unary_unary(path, *kinds)
                return lambda **fields: unary(asked(**fields), timeout=20)

            await call("CreateStream")(name="s", subject="s")
            for number in range(10):
                answer = await call("Publish")(stream="s", value=b"%d" % number)
                assert answer.ack.offset == number
            message = CLASSES["Message"].FromString
            asked = CLASSES["SubscribeRequest"]
            subscribed = channel.unary_stream(
                "/proto.API/Subscribe", asked.SerializeToString, message
            )(asked(stream="s", startPosition=StartPosition.EARLIEST), timeout=20)
            found = [one.value async for one in _first(subscribed, 11)]
            assert found == [b"", *(b"%d" % number for number in range(10))]
        # Without TLS there is nothing to be had at this door.
        async with grpc.aio.insecure_channel(broker.liftbridge_address) as channel:
            plain = channel.unary_unary("/proto.API/FetchMetadata")
            with pytest.raises(grpc.aio.AioRpcError) as refused:
                await plain(b"", timeout=10)
            assert refused.value.code() is grpc.StatusCode.UNAVAILABLE

    asyncio.run(work())


async def _first(subscribed: Any, count: int) -> Any:
    for _ in range(count):
        yield await subscribed.read()


def test_certificates_are_renewed_under_load(new_broker: NewBroker, tmp_path: Path) -> None:
    authority = Authority()
    files = authority.issue(tmp_path)
    broker = new_broker(**with_tls(files))
    context = context_of(authority)

    async def work() -> None:
        async with LiftbridgeClient(broker, ssl=context) as staying:
            await staying.call("CreateStream", name="s", subject="s")
            acked: list[int] = []

            async def load() -> None:
                acked.append(await publish(staying, b"stays"))
                async with LiftbridgeClient(broker, ssl=context) as new:
                    acked.append(await publish(new, b"new"))

            for number in range(2):
                issued = authority.issue(tmp_path, f"renewed{number}")
                for one, used in zip(issued, files, strict=True):
                    shutil.copy(one, used)
                os.kill(broker.pid, signal.SIGHUP)
                wanted = issued.cert.read_text()
                async with asyncio.timeout(60):
                    while await asyncio.to_thread(shown, broker) != wanted:
                        await load()
                for _ in range(PUBLISHED_MIN):
                    await load()
                # Both shards: the kernel spreads what comes.
                assert {await asyncio.to_thread(shown, broker) for _ in range(8)} == {wanted}
            assert sorted(acked) == list(range(len(acked)))

    asyncio.run(work())


def test_a_certificate_names_its_user(new_broker: NewBroker, tmp_path: Path) -> None:
    authority, stranger = Authority(), Authority("a stranger")
    ca = authority.write(tmp_path)
    asked = {"client_auth": "optional", "client_ca_file": str(ca)}
    settings = with_tls(authority.issue(tmp_path), **asked)
    broker = new_broker(**settings | {"IGGY_LIFTBRIDGE_ANONYMOUS_USER": ""})

    async def status(own: Files | None) -> Status:
        async with LiftbridgeClient(broker, ssl=context_of(authority, own)) as client:
            try:
                await client.call("CreateStream", name="s", subject="s")
            except GRPCError as error:
                return error.status
        return Status.OK

    assert run(status(authority.issue(tmp_path, "unknown"))) is Status.UNAUTHENTICATED
    assert run(status(None)) is Status.UNAUTHENTICATED
    assert run(status(authority.issue(tmp_path, "iggy"))) is Status.OK
    with pytest.raises((OSError, StreamTerminatedError)):
        run(status(stranger.issue(tmp_path, "other")))


def run(work: Coroutine[Any, Any, Status]) -> Status:
    return asyncio.run(work)


def test_half_handshakes_take_places_and_end(new_broker: NewBroker, tmp_path: Path) -> None:
    """Sockets that never say a word keep no client out, and go after the login timeout."""
    authority = Authority()
    limits = {
        "IGGY_LIMITS_CONNECTIONS_BEFORE_LOGIN_MAX": "20",
        "IGGY_LIMITS_LOGIN_TIMEOUT": "1 s",
    }
    broker = new_broker(**with_tls(authority.issue(tmp_path)) | limits)
    host, _, port = broker.liftbridge_address.rpartition(":")

    async def work() -> None:
        async with LiftbridgeClient(broker, ssl=context_of(authority)) as client:
            await client.call("CreateStream", name="s", subject="s")
            assert await publish(client, b"1") == 0

    with ExitStack() as stack:
        silent = [
            stack.enter_context(socket.create_connection((host, int(port)))) for _ in range(200)
        ]
        asyncio.run(work())
        for one in silent:
            one.settimeout(60)
        wait_for(lambda: all(_is_over(one) for one in silent))


def _is_over(one: socket.socket) -> bool:
    try:
        return one.recv(1) == b""
    except ConnectionResetError:
        return True
