"""The client of this project over HTTP: every call, with the values that TCP gives."""

import asyncio
import zipfile
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from borzoi.client import (
    COMMIT_ON_POLL,
    FIRST,
    NEXT,
    BorzoiClient,
    InvalidArgument,
    Outgoing,
    from_offset,
    new_message,
)
from borzoi.client.web.connection import WebConnection
from borzoi.client.web.requests import AS_MEMBER, ROWS
from borzoi.main import main
from borzoi.protocol import commands
from borzoi.protocol.classic import ROWS as ALL_COMMANDS
from borzoi.protocol.commands import SnapshotCompression, SnapshotType
from borzoi.protocol.errors import (
    CannotEstablishConnection,
    ConnectionClosed,
    ConsumerGroupMemberNotFound,
    FeatureUnavailable,
    HttpResponseError,
    InvalidCredentials,
    StaleClient,
    StreamIdNotFound,
    StreamNameAlreadyExists,
    Unauthenticated,
    Unauthorized,
)
from borzoi.protocol.identifiers import Consumer, ConsumerKind
from borzoi.protocol.permissions import (
    GlobalPermissions,
    Permissions,
    StreamPermissions,
    TopicPermissions,
    UserStatus,
)
from tests.broker import HTTP, BrokerProcess, standing
from tests.certificates import Authority
from tests.conditions import until
from tests.http_client import HttpClient
from tests.shard_wires import ONE_SHARD

Given = Callable[[BorzoiClient, BorzoiClient], Awaitable[None]]


@pytest.fixture
def both(http_broker: BrokerProcess) -> Callable[[Given], None]:
    """Runs a coroutine with two clients of one broker: over HTTP, and over TCP."""

    def run(given: Given) -> None:
        async def call() -> None:
            async with over_http(http_broker) as web, over_tcp(http_broker) as tcp:
                await given(web, tcp)

        asyncio.run(call())

    return run


@asynccontextmanager
async def over_http(broker: BrokerProcess, **options: Any) -> AsyncIterator[BorzoiClient]:
    address = f"iggy+http://iggy:iggy@{broker.http_address}"
    async with BorzoiClient.connect(address, **options) as client:
        yield client


@asynccontextmanager
async def over_tcp(broker: BrokerProcess) -> AsyncIterator[BorzoiClient]:
    async with BorzoiClient.connect(f"iggy://iggy:iggy@{broker.address}") as client:
        yield client


def test_streams_topics_and_partitions(both: Callable[[Given], None]) -> None:
    async def given(web: BorzoiClient, tcp: BorzoiClient) -> None:
        name = "own client / ünï"
        made = await web.create_stream(name)
        assert await web.get_stream(name) == await tcp.get_stream(name)
        with pytest.raises(StreamNameAlreadyExists):
            await web.create_stream(name)
        topic = await web.create_topic(
            name, "t%20", 2, compression_algorithm=4, message_expiry=10**9, max_topic_size=2**40
        )
        assert topic.topic.compression_algorithm == 4
        assert await web.get_topic(name, "t%20") == await tcp.get_topic(name, "t%20")
        await web.update_topic(made.id, topic.topic.id, "renamed", message_expiry=10**10)
        await web.create_partitions(made.id, "renamed", 3)
        await web.delete_partitions(made.id, "renamed", 1)
        assert await web.get_topics(made.id) == await tcp.get_topics(made.id)
        found = await web.get_topic(made.id, "renamed")
        assert found is not None
        assert len(found.partitions) == 4
        await web.send_messages(made.id, "renamed", [b"x" * 1000] * 3, partition_id=0)
        assert await web.get_streams() == await tcp.get_streams()
        await web.delete_segments(made.id, "renamed", 0, 1)
        await web.purge_topic(made.id, "renamed")
        await web.purge_stream(made.id)
        await web.delete_topic(made.id, "renamed")
        await web.update_stream(made.id, "own client")
        assert await tcp.get_stream("own client") == await web.get_stream(made.id)
        await web.delete_stream("own client")
        assert await web.get_stream("own client") is None
        assert await web.get_topic("own client", 0) is None
        assert await web.get_topics("own client") == ()
        with pytest.raises(StreamIdNotFound):
            await web.delete_stream("own client")

    both(given)


def test_messages_and_offsets(both: Callable[[Given], None]) -> None:
    async def given(web: BorzoiClient, tcp: BorzoiClient) -> None:
        await web.create_stream("own messages")
        await web.create_topic("own messages", "t", 2)
        place = ("own messages", "t")
        sent: list[Outgoing] = [
            b"\x00\xff" * 500,
            "text",
            new_message(b"with", id=7, headers={"k": 1}),
        ]
        await web.send_messages(*place, sent, partition_id=1)
        await web.send_messages(*place, [b"by key"], key=b"\x00k")
        await web.send_messages(*place, [b"anywhere"])
        for client in (web, tcp):
            polled = await client.poll_messages(*place, 1, strategy=FIRST, count=3)
            assert [one.payload for one in polled.messages] == [b"\x00\xff" * 500, b"text", b"with"]
            assert polled.messages[2].id == 7
        of_both = [
            await one.poll_messages(*place, 1, strategy=from_offset(1), count=100)
            for one in (web, tcp)
        ]
        assert of_both[0] == of_both[1]
        empty = await web.poll_messages(*place, 1, strategy=from_offset(99), count=1)
        assert (empty.partition_id, empty.messages) == (1, ())
        await web.poll_messages(*place, 1, strategy=NEXT, count=2, consumer=5, auto_commit=True)
        assert await web.get_consumer_offset(*place, 1, consumer=5) == (
            await tcp.get_consumer_offset(*place, 1, consumer=5)
        )
        await web.store_consumer_offset(*place, 1, 0, consumer="me")
        stored = await tcp.get_consumer_offset(*place, 1, consumer="me")
        assert stored is not None
        assert stored.stored_offset == 0
        await web.delete_consumer_offset(*place, 1, consumer="me")
        assert await web.get_consumer_offset(*place, 1, consumer="me") is None
        await web.flush_unsaved_buffer(*place, 1, fsync=True)
        async with web.producer(*place) as producer:
            for number in range(50):
                await producer.send(f"{number}", partition_id=0)
        seen: list[bytes] = []
        async with web.consumer(*place, "reader", partitions=[0], start=FIRST) as consumer:
            async for batch in consumer.batches(wait=False):
                seen += [one.payload for one in batch.messages]
        assert [each for each in seen if each.isdigit()] == [b"%d" % one for one in range(50)]
        await web.delete_stream("own messages")

    both(given)


def test_users_tokens_and_the_server(both: Callable[[Given], None]) -> None:
    granted = Permissions(
        GlobalPermissions(read_streams=True),
        {3: StreamPermissions(poll_messages=True, topics={4: TopicPermissions(read_topic=True)})},
    )

    async def given(web: BorzoiClient, tcp: BorzoiClient) -> None:
        made = await web.create_user("own-user", "secret", permissions=granted)
        assert made.permissions == granted
        assert await web.get_user("own-user") == await tcp.get_user("own-user")
        await web.update_permissions("own-user", None)
        await web.update_user("own-user", username="renamed", status=UserStatus.INACTIVE)
        assert await web.get_users() == await tcp.get_users()
        await web.change_password("renamed", "secret", "other")
        await web.delete_user("renamed")
        assert await web.get_user("renamed") is None
        raw = await web.create_personal_access_token("own", expiry=10**12)
        assert len(raw.token) == 68
        assert await web.get_personal_access_tokens() == await tcp.get_personal_access_tokens()
        await web.delete_personal_access_token("own")
        assert (await web.get_stats()).server_version == (await tcp.get_stats()).server_version
        assert await web.get_cluster_metadata() == await tcp.get_cluster_metadata()
        clients = await web.get_clients()
        me = await tcp.get_me()
        assert me.client in clients
        assert await web.get_client(me.client.client_id) == me
        assert await web.get_client(1) is None
        archive = await web.get_snapshot(
            (SnapshotType.TEST, SnapshotType.SERVER_CONFIG), compression=SnapshotCompression.STORED
        )
        assert zipfile.ZipFile(BytesIO(archive)).testzip() is None
        await web.ping()

    both(given)


def test_what_http_cannot_do_is_said(both: Callable[[Given], None]) -> None:
    group = Consumer(ConsumerKind.GROUP, "g")

    async def given(web: BorzoiClient, _tcp: BorzoiClient) -> None:
        with pytest.raises(FeatureUnavailable, match=r"HTTP has no GetMe: it needs iggy\+tcp"):
            await web.get_me()
        with pytest.raises(InvalidArgument, match="stream is the name '12', which is an id"):
            await web.get_stream("12")
        with pytest.raises(ConsumerGroupMemberNotFound, match="no member of group 'g'"):
            await web.poll_messages(0, 0, None, strategy=NEXT, count=1, consumer=group)
        await web.create_stream("own refusals")
        await web.create_topic("own refusals", "t")
        with pytest.raises(HttpResponseError, match="status 413: a body of 2100064 bytes where"):
            await web.send_messages("own refusals", "t", [b"x" * 2_100_000], partition_id=0)
        await web.delete_stream("own refusals")

    both(given)


def test_every_command_of_the_client_has_a_row_or_none_on_purpose() -> None:
    members = {commands.JoinConsumerGroup, commands.LeaveConsumerGroup}
    others = {commands.GetMe, commands.SendMessages}  # none; and send_batch()
    assert {row.command for row in ALL_COMMANDS.values()} == {*ROWS, *members, *others}
    assert AS_MEMBER.keys() <= ROWS.keys()


def test_logins(http_broker: BrokerProcess) -> None:
    async def test() -> None:
        at = http_broker.http_address
        with pytest.raises(InvalidCredentials):
            await BorzoiClient.open(f"iggy+http://iggy:wrong@{at}")
        async with over_http(http_broker) as root:
            token = await root.create_personal_access_token("login")
            async with BorzoiClient.connect(f"iggy+http://{token.token}@{at}") as client:
                assert await client.get_streams() is not None
            await root.delete_personal_access_token("login")
            await root.logout_user()
            with pytest.raises(Unauthenticated):
                await root.get_streams()
            await root.login_user("iggy", "iggy")
            await root.create_user("ann", "secret")
            async with BorzoiClient.connect(f"iggy+http://ann:secret@{at}") as client:
                with pytest.raises(Unauthorized):
                    await client.create_stream("forbidden")
            await root.delete_user("ann")

    asyncio.run(test())


def test_a_token_that_was_withdrawn_is_replaced_by_a_new_login(http_broker: BrokerProcess) -> None:
    async def test() -> None:
        async with over_http(http_broker) as client:
            link = client._session.connection
            assert isinstance(link, WebConnection)
            assert link._token is not None
            withdrawn = link._token.text
            HttpClient(http_broker, withdrawn).ask("DELETE", "/users/logout")
            assert await client.get_streams() is not None
            assert client._session.connects_count == 2
        async with over_http(http_broker, reconnect=None) as client:
            link = client._session.connection
            assert isinstance(link, WebConnection)
            assert link._token is not None
            HttpClient(http_broker, link._token.text).ask("DELETE", "/users/logout")
            with pytest.raises(StaleClient, match="does not take the access token"):
                await client.get_streams()

    asyncio.run(test())


def test_a_token_is_refreshed_before_it_ends(http_broker: BrokerProcess) -> None:
    async def test() -> None:
        async with over_http(http_broker) as client:
            link = client._session.connection
            assert isinstance(link, WebConnection)
            assert link._token is not None
            first = link._token
            await client.ping()
            assert link._token is first
            link._clock = lambda: first.refresh_at + 1
            await client.get_streams()
            assert link._token is not first
            assert client._session.connects_count == 1
            # The refresh has withdrawn the first one.
            assert HttpClient(http_broker, first.text).ask("GET", "/streams").status == 401

    asyncio.run(test())


@pytest.mark.slow
def test_https_with_certificates(tmp_path: Path) -> None:
    authority = Authority()
    server, own = authority.issue(tmp_path), authority.issue(tmp_path, "client")
    ca = authority.write(tmp_path)
    settings = {
        **HTTP,
        **ONE_SHARD,
        "IGGY_HTTP_TLS_ENABLED": "true",
        "IGGY_HTTP_TLS_CERT_FILE": str(server.cert),
        "IGGY_HTTP_TLS_KEY_FILE": str(server.key),
        "IGGY_HTTP_TLS_CLIENT_AUTH": "required",
        "IGGY_HTTP_TLS_CLIENT_CA_FILE": str(ca),
    }

    async def test(broker: BrokerProcess) -> None:
        url = f"iggy+https://iggy:iggy@{broker.http_address}?tls_domain=localhost&tls_ca_file={ca}"
        shown = f"{url}&tls_cert_file={own.cert}&tls_key_file={own.key}"
        async with BorzoiClient.connect(shown) as client:
            await client.create_stream("sealed")
            await client.create_topic("sealed", "t")
            await client.send_messages("sealed", "t", [b"x" * 100_000] * 10, partition_id=0)
            polled = await client.poll_messages("sealed", "t", 0, strategy=FIRST, count=10)
            assert len(polled.messages) == 10
        with pytest.raises((CannotEstablishConnection, ConnectionClosed)):
            await BorzoiClient.open(url)
        with pytest.raises(CannotEstablishConnection, match="certificate verify failed"):
            await BorzoiClient.open(f"iggy+https://iggy:iggy@{broker.http_address}")

    with standing(tmp_path / "data", settings) as broker:
        asyncio.run(test(broker))


def test_a_group_over_http_and_tcp_together(both: Callable[[Given], None]) -> None:
    """Two members on two doors share the partitions, and none gets a message twice."""

    async def given(web: BorzoiClient, tcp: BorzoiClient) -> None:
        await web.create_stream("own groups")
        await web.create_topic("own groups", "t", 4)
        place = ("own groups", "t")
        seen: dict[str, list[bytes]] = {"web": [], "tcp": []}

        async def consume(name: str, client: BorzoiClient) -> None:
            async with client.group_consumer(*place, "g", commit=COMMIT_ON_POLL) as consumer:
                async for batch in consumer.batches():
                    seen[name] += [one.payload for one in batch.messages]
                    if sum(map(len, seen.values())) >= 400:
                        return

        await web.create_consumer_group(*place, "g")
        tasks = [asyncio.create_task(consume(*one)) for one in (("web", web), ("tcp", tcp))]
        async with shared_by(web, place, "g", 2):
            async with tcp.producer(*place) as producer:
                for number in range(400):
                    await producer.send(b"%d" % number, partition_id=number % 4)
            await until(lambda: sum(map(len, seen.values())) >= 400, 0.01)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        assert sorted(map(int, seen["web"] + seen["tcp"])) == list(range(400))
        assert len(seen["web"]) == len(seen["tcp"]) == 200
        await web.delete_stream("own groups")

    both(given)


@asynccontextmanager
async def shared_by(
    client: BorzoiClient, place: tuple[str, str], group: str, count: int
) -> AsyncIterator[None]:
    """Waits until a group has so many members that hold as much each."""
    async with asyncio.timeout(30):
        while True:
            details = await client.get_consumer_group(*place, group)
            assert details is not None
            held = {len(one.partitions) for one in details.members}
            if len(details.members) == count and len(held) == 1:
                break
            await asyncio.sleep(0.02)
    yield


def test_the_command_line_over_http(http_broker: BrokerProcess) -> None:
    server = f"iggy+http://iggy:iggy@{http_broker.http_address}"

    def run(*words: str) -> str:
        result = CliRunner().invoke(main, words, env={"BORZOI_SERVER": server})
        assert result.exit_code == 0, result.output
        return result.output

    run("stream", "create", "cli")
    run("topic", "create", "cli", "t", "2")
    run("message", "send", "cli", "t", "-p", "0", "hello", "world")
    assert "world" in run("message", "poll", "cli", "t", "0", "-f", "-m", "2")
    assert "hello" in run("tail", "cli/t")
    assert "cli" in run("stream", "list")
    run("consumer-group", "create", "cli", "t", "g")
    run("consumer-offset", "set", "me", "cli", "t", "0", "1")
    assert "1" in run("consumer-offset", "get", "me", "cli", "t", "0")
    assert "iggy" in run("user", "list")
    run("ping")
    run("stats")
    failed = CliRunner().invoke(main, ["me"], env={"BORZOI_SERVER": server})
    assert failed.exit_code == 1
    assert "HTTP has no GetMe" in failed.output
    run("stream", "delete", "cli")
