"""The link to NATS: real servers that go away and come back, and messages that cannot be read."""

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import nats
import pytest
from nats.aio.msg import Msg

from borzoi.liftbridge.nats_link import Access, LinkCounts, NatsLink
from tests.certificates import Authority
from tests.conditions import until
from tests.liftbridge.nats_server import NatsServer, needs_nats

pytestmark = [needs_nats, pytest.mark.slow]


@asynccontextmanager
async def linked(server: NatsServer, **access: object) -> AsyncIterator[NatsLink]:
    link = NatsLink(
        Access((server.url,), reconnect_interval_s=0.05, **access),  # type: ignore[arg-type]  # few
        "test",
        LinkCounts(),
    )
    link.start()
    try:
        yield link
    finally:
        await link.stop()


async def send(server: NatsServer, *sent: tuple[str, bytes]) -> None:
    client = await nats.connect(server.url)
    for subject, data in sent:
        await client.publish(subject, data)
    await client.close()


def test_messages_come_in_order(nats_server: NatsServer) -> None:
    async def scenario() -> None:
        async with linked(nats_server) as link:
            got: list[Msg] = []
            await link.subscribe("a.*", "", got.append)
            assert await link.settle(10)
            await send(nats_server, *((f"a.{n % 3}", b"%d" % n) for n in range(2000)))
            await until(lambda: len(got) == 2000)
            assert [int(one.data) for one in got] == list(range(2000))

    asyncio.run(scenario())


def test_what_was_subscribed_before_the_server_was_there(tmp_path: Path) -> None:
    server = NatsServer(tmp_path)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        server.port = free.getsockname()[1]

    async def scenario() -> None:
        async with linked(server) as link:
            got: list[Msg] = []
            await link.subscribe("a", "", got.append)
            assert not await link.settle(0.1)
            assert not await link.publish("a", b"x")
            assert link.counts.unsent == 1
            server.start()
            assert await link.settle(10)
            assert await link.publish("a", b"x")
            await until(lambda: got)

    try:
        asyncio.run(scenario())
    finally:
        server.close()


def test_subscriptions_outlive_the_server(nats_server: NatsServer) -> None:
    async def scenario() -> None:
        async with linked(nats_server) as link:
            got: list[Msg] = []
            gone: list[Msg] = []
            await link.subscribe("a", "", got.append)
            left = await link.subscribe("b", "", gone.append)
            assert await link.settle(10)
            nats_server.kill()
            await until(lambda: not link.counts.is_connected)
            assert link.counts.disconnects == 1
            # Changes while there is no connection hold for the next one.
            await link.unsubscribe(left)
            await link.subscribe("c", "", got.append)
            nats_server.start()
            await until(lambda: link.counts.is_connected)
            assert await link.settle(10)
            await send(nats_server, ("b", b"2"), ("a", b"1"), ("c", b"3"))
            await until(lambda: len(got) == 2)
            assert (sorted(one.data for one in got), gone) == ([b"1", b"3"], [])

    asyncio.run(scenario())


def test_a_client_that_the_server_closed_is_replaced(nats_server: NatsServer) -> None:
    """A protocol error closes the client of nats-py for good."""

    async def scenario() -> None:
        async with linked(nats_server) as link:
            got: list[Msg] = []
            await link.subscribe("a", "", got.append)
            assert await link.settle(10)
            first = link._client
            assert first is not None
            assert first._transport is not None
            first._transport.write(b"NONSENSE\r\n")
            await until(lambda: link._client not in (None, first))
            assert await link.settle(10)
            await send(nats_server, ("a", b"1"))
            await until(lambda: got)

    asyncio.run(scenario())


def test_messages_that_cannot_be_read_do_not_end_the_others(nats_server: NatsServer) -> None:
    async def scenario() -> None:
        async with linked(nats_server) as link:
            got: list[Msg] = []
            await link.subscribe("a.>", "", got.append)
            assert await link.settle(10)
            hostile = socket.create_connection(("127.0.0.1", nats_server.port))
            hostile.sendall(b'CONNECT {"verbose":false,"headers":true,"protocol":1}\r\n')
            hostile.sendall(b"PUB a.\xff\xfe 1\r\nx\r\n")
            hostile.sendall(b"PUB a.b \xff 1\r\nx\r\n")
            head = b"NATS/1.0 \xff\xff\xff\r\n\r\n"
            hostile.sendall(b"HPUB a.c %d %d\r\n%sx\r\n" % (len(head), len(head) + 1, head))
            hostile.sendall(b"PUB a.d 4\r\nlast\r\n")
            await until(lambda: got and got[-1].data == b"last")
            hostile.close()
            assert link.counts.unreadable == 3
            assert len(got) == 1

    asyncio.run(scenario())


def test_queue_groups_share(nats_server: NatsServer) -> None:
    async def scenario() -> None:
        async with linked(nats_server) as one, linked(nats_server) as other:
            got: list[list[Msg]] = [[], []]
            for number, link in enumerate((one, other)):
                await link.subscribe("a", "group", got[number].append)
                assert await link.settle(10)
            await send(nats_server, *(("a", b"%d" % n) for n in range(500)))
            await until(lambda: len(got[0]) + len(got[1]) == 500)
            assert min(map(len, got)) > 100
            assert len({one.data for one in got[0] + got[1]}) == 500

    asyncio.run(scenario())


def test_the_first_answer_of_an_inbox(nats_server: NatsServer) -> None:
    async def scenario() -> None:
        async with linked(nats_server) as link:
            assert await link.settle(10)
            inbox = link.new_inbox()
            answering: list[asyncio.Task[bool]] = []

            def answer(message: Msg) -> None:
                answering.append(asyncio.create_task(link.publish(inbox, b"re " + message.data)))

            await link.subscribe("a", "", answer)
            assert await link.first_answer("a", b"x", inbox) == b"re x"
            with pytest.raises(ValueError, match="1048576"):
                await link.first_answer("a", bytes(1 << 20 | 1), inbox)
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.1):
                    await link.first_answer("without.answer", b"x", link.new_inbox())
            nats_server.kill()
            await until(lambda: not link.counts.is_connected)
            with pytest.raises(ConnectionError):
                await link.first_answer("a", b"x", inbox)

    asyncio.run(scenario())


AUTHORIZED = "authorization {{ {} }}"


@pytest.mark.parametrize(
    ("config", "access", "wrong"),
    [
        ('user: "u", password: "p"', {"user": "u", "password": "p"}, {"user": "u"}),
        ('token: "t"', {"token": "t"}, {"token": "x"}),
    ],
)
def test_credentials(
    tmp_path: Path,
    config: str,
    access: dict[str, str],
    wrong: dict[str, str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    server = NatsServer(tmp_path, AUTHORIZED.format(config))
    server.start()

    async def scenario() -> None:
        async with linked(server, **access) as link:
            assert await link.settle(10)
        async with linked(server, **wrong) as link:
            assert not await link.settle(0.5)

    try:
        asyncio.run(scenario())
    finally:
        server.close()
    assert "uthorization" in caplog.text


def test_tls(tmp_path: Path) -> None:
    authority = Authority()
    files = authority.issue(tmp_path)
    config = f'tls {{ cert_file: "{files.cert}", key_file: "{files.key}" }}'
    server = NatsServer(tmp_path, config, scheme="tls")
    server.start()

    async def scenario() -> None:
        trusting = ssl.create_default_context(cadata=authority.pem.decode())
        async with linked(server, tls=trusting) as link:
            assert await link.settle(10)
        async with linked(server, tls=ssl.create_default_context()) as link:
            assert not await link.settle(0.5)

    try:
        asyncio.run(scenario())
    finally:
        server.close()
