"""What a lost connection does to the requests of a session, and what the next one is sent."""

import asyncio
from typing import Unpack

import pytest

from borzoi.client import NEXT, BorzoiClient, Reconnect
from borzoi.client.client import OpenOptions
from borzoi.client.connection import Connection, RequestTimeout
from borzoi.client.session import LOSSES_MAX
from borzoi.protocol import commands
from borzoi.protocol.codes import Code
from borzoi.protocol.errors import (
    CannotEstablishConnection,
    ConnectionClosed,
    ConsumerGroupIdNotFound,
    Disconnected,
    InvalidCredentials,
    StaleClient,
)
from borzoi.protocol.framing import OK, encode_response
from borzoi.protocol.generations import CLASSIC
from borzoi.protocol.responses import ClientInfo, Transport
from tests.client.conftest import Run
from tests.client.scripted_server import (
    Answer,
    CloseAfter,
    ScriptedServer,
    Silence,
    Step,
    scripted,
)
from tests.conditions import until

QUICK = Reconnect(attempts_max=5, delay_min_s=0.001, delay_max_s=0.002)
DONE = Answer(OK)
LOST = CloseAfter()
LOGGED_IN = Answer(encode_response(0, (7).to_bytes(4, "little")))
CLIENTS = (ClientInfo(1, 7, Transport.TCP, "127.0.0.1:1", 0),)
CLIENTS_ANSWER = Answer(encode_response(0, CLASSIC.replies[Code.GET_CLIENTS](CLIENTS)))
VERSION = "0.10.0"
CONTEXT = "codecs texts"


def refused(error: type[Exception]) -> Answer:
    status: int = error.status  # type: ignore[attr-defined]  # BrokerErrors have one
    return Answer(encode_response(status))


async def open_to(server: ScriptedServer, **options: Unpack[OpenOptions]) -> BorzoiClient:
    options.setdefault("reconnect", QUICK)
    options.setdefault("timeout_s", 5)
    return await BorzoiClient.open(server.address, **options)


def test_a_question_is_asked_again(run: Run) -> None:
    async def test() -> None:
        async with scripted(LOST, later=[[LOST], [CLIENTS_ANSWER]]) as server:
            async with await open_to(server) as client:
                assert await client.get_clients() == CLIENTS
            assert server.commands == [commands.GetClients()] * 3
            assert server.connections == 3

    run(test())


def test_a_question_is_not_asked_for_ever(run: Run) -> None:
    async def test() -> None:
        async with scripted(LOST) as server, await open_to(server) as client:
            with pytest.raises(ConnectionClosed):
                await client.get_clients()
            assert server.connections == LOSSES_MAX + 1

    run(test())


def test_a_change_is_not_repeated_and_the_next_request_goes_on(run: Run) -> None:
    async def test() -> None:
        async with scripted(LOST, later=[[DONE, DONE]]) as server:
            async with await open_to(server) as client:
                with pytest.raises(ConnectionClosed):
                    await client.delete_stream("s")
                await client.delete_stream("t")
                await client.ping()
            assert server.commands == [
                commands.DeleteStream("s"),
                commands.DeleteStream("t"),
                commands.Ping(),
            ]

    run(test())


@pytest.mark.parametrize("resend", [True, False])
def test_a_send_is_repeated_only_if_that_was_said(run: Run, resend: bool) -> None:
    async def test() -> None:
        async with scripted(LOST, later=[[DONE]]) as server:
            async with await open_to(server) as client:
                sending = client.send_messages("s", "t", ["x"], partition_id=0, resend=resend)
                if resend:
                    await sending
                else:
                    with pytest.raises(ConnectionClosed):
                        await sending
                    await client.ping()
            first, second = server.requests
            assert (first == second) is resend

    run(test())


def test_a_poll_that_commits_is_not_repeated(run: Run) -> None:
    async def test() -> None:
        async with scripted(LOST, later=[[DONE]]) as server:
            async with await open_to(server) as client:
                with pytest.raises(ConnectionClosed):
                    await client.poll_messages(
                        "s", "t", 0, strategy=NEXT, count=1, auto_commit=True
                    )
                await client.ping()
            assert len(server.requests) == 2

    run(test())


def test_requests_that_wait_for_their_turn_go_over_the_new_connection(run: Run) -> None:
    async def test() -> None:
        async with scripted(LOST, later=[[DONE, DONE]]) as server:
            async with await open_to(server) as client:
                outcomes = await asyncio.gather(
                    *(client.delete_stream(number) for number in range(3)), return_exceptions=True
                )
            assert isinstance(outcomes[0], ConnectionClosed)
            assert outcomes[1:] == [None, None]
            assert server.commands == [commands.DeleteStream(number) for number in range(3)]

    run(test())


def test_the_password_login_is_repeated(run: Run) -> None:
    async def test() -> None:
        steps: list[list[Step]] = [[LOGGED_IN, CLIENTS_ANSWER]]
        async with scripted(LOGGED_IN, LOST, later=steps) as server:
            async with await open_to(server, username="anna", password="secret") as client:
                await client.get_clients()
            login = commands.LoginUser("anna", "secret", VERSION, CONTEXT)
            assert server.commands == [login, commands.GetClients()] * 2

    run(test())


def test_a_token_login_by_hand_is_repeated_and_a_logout_ends_that(run: Run) -> None:
    async def test() -> None:
        steps: list[list[Step]] = [[LOGGED_IN, DONE, DONE, LOST], [DONE]]
        async with scripted(LOGGED_IN, LOST, later=steps) as server:
            async with await open_to(server) as client:
                await client.login_with_personal_access_token("abc")
                await client.ping()
                await client.logout_user()
                await client.ping()
            login = commands.LoginWithPersonalAccessToken("abc")
            ping = commands.Ping()
            assert server.commands == [login, ping, login, ping, commands.LogoutUser(), ping, ping]

    run(test())


def test_a_changed_name_and_password_are_used_afterwards(run: Run) -> None:
    async def test() -> None:
        steps: list[list[Step]] = [[LOGGED_IN, DONE]]
        async with scripted(LOGGED_IN, DONE, DONE, DONE, LOST, later=steps) as server:
            async with await open_to(server, username="anna", password="secret") as client:
                await client.change_password("anna", "secret", "better")
                await client.change_password("another user", "secret", "theirs")
                await client.update_user(7, username="hanna")
                await client.ping()
            assert server.commands[5] == commands.LoginUser("hanna", "better", VERSION, CONTEXT)

    run(test())


def test_a_login_that_is_refused_now_is_reported_and_not_tried_again(run: Run) -> None:
    async def test() -> None:
        steps: list[list[Step]] = [[refused(InvalidCredentials)]]
        async with scripted(LOGGED_IN, LOST, later=steps) as server:
            async with await open_to(server, username="anna", password="secret") as client:
                with pytest.raises(InvalidCredentials):
                    await client.ping()
            assert server.connections == 2

    run(test())


def test_groups_are_joined_again_but_not_those_that_were_left(run: Run) -> None:
    async def test() -> None:
        async with scripted(DONE, DONE, DONE, LOST, later=[[DONE, DONE]]) as server:
            async with await open_to(server) as client:
                await client.join_consumer_group("s", "t", "stays")
                await client.join_consumer_group("s", "t", "leaves")
                await client.leave_consumer_group("s", "t", "leaves")
                await client.ping()
            assert server.commands[3:] == [
                commands.Ping(),
                commands.JoinConsumerGroup("s", "t", "stays"),
                commands.Ping(),
            ]

    run(test())


def test_a_group_that_is_gone_does_not_stand_in_the_way(run: Run) -> None:
    async def test() -> None:
        steps: list[list[Step]] = [[refused(ConsumerGroupIdNotFound), DONE]]
        async with scripted(DONE, LOST, later=steps) as server, await open_to(server) as client:
            await client.join_consumer_group("s", "t", "g")
            await client.ping()

    run(test())


@pytest.mark.parametrize("over", [StaleClient, Disconnected])
def test_an_answer_that_ends_the_session_renews_it(run: Run, over: type[Exception]) -> None:
    """Nothing was done, so even a change is sent once more."""

    async def test() -> None:
        async with scripted(DONE, refused(over), later=[[DONE, DONE]]) as server:
            async with await open_to(server) as client:
                await client.join_consumer_group("s", "t", "g")
                await client.delete_stream("s")
            join = commands.JoinConsumerGroup("s", "t", "g")
            delete = commands.DeleteStream("s")
            assert server.commands == [join, delete, join, delete]

    run(test())


def test_a_session_that_ends_at_once_again_is_reported(run: Run) -> None:
    async def test() -> None:
        async with scripted(refused(StaleClient)) as server, await open_to(server) as client:
            with pytest.raises(StaleClient):
                await client.get_me()
            assert server.connections == 2

    run(test())


def test_a_timeout_is_the_callers_and_the_next_request_goes_on(run: Run) -> None:
    async def test() -> None:
        async with scripted(Silence(), later=[[DONE]]) as server:
            async with await open_to(server, timeout_s=1.0) as client:
                with pytest.raises(RequestTimeout):
                    await client.get_clients()
                await client.ping()
            assert server.commands == [commands.GetClients(), commands.Ping()]

    run(test())


def test_a_broker_that_does_not_come_back(run: Run) -> None:
    async def test() -> None:
        async with scripted(LOST) as server:
            client = await open_to(server)
            with pytest.raises(ConnectionClosed):
                await client.delete_stream("s")
        with pytest.raises(CannotEstablishConnection, match="5 attempts to make it again failed"):
            await client.ping()
        assert not client.is_open
        await client.close()

    run(test())


def test_those_who_waited_fail_with_the_one_who_tried(run: Run) -> None:
    async def test() -> None:
        async with scripted(LOST) as server:
            client = await open_to(server)
            with pytest.raises(ConnectionClosed):
                await client.delete_stream("s")
        dialled = 0

        async def dial() -> Connection:
            nonlocal dialled
            dialled += 1
            return await Connection.open("127.0.0.1", server.port)

        client._session._dial = dial
        outcomes = await asyncio.gather(*(client.ping() for _ in range(5)), return_exceptions=True)
        assert [type(outcome) for outcome in outcomes] == [CannotEstablishConnection] * 5
        assert dialled == QUICK.attempts_max
        with pytest.raises(CannotEstablishConnection):
            await client.ping()
        assert dialled == 2 * QUICK.attempts_max
        await client.close()

    run(test())


def test_without_a_policy_a_lost_connection_stays_lost(run: Run) -> None:
    async def test() -> None:
        async with scripted(LOST) as server, await open_to(server, reconnect=None) as client:
            for _ in range(2):
                with pytest.raises(ConnectionClosed):
                    await client.ping()
            assert server.connections == 1

    run(test())


def test_closing_ends_the_attempts(run: Run) -> None:
    async def test() -> None:
        async with scripted(LOST) as server:
            never = Reconnect(attempts_max=1_000, delay_min_s=60, delay_max_s=60)
            client = await open_to(server, reconnect=never)
            asking = asyncio.create_task(client.ping())
            await until(lambda: not client.is_open)
            for _ in range(3):  # it learns of its loss, and begins to wait
                await asyncio.sleep(0)
            await client.close()
            with pytest.raises(ConnectionClosed, match="was closed while"):
                await asking
            with pytest.raises(ConnectionClosed, match="is closed"):
                await client.ping()

    run(test())


def test_a_caller_cancelled_in_the_middle_leaves_a_session_that_works(run: Run) -> None:
    async def test() -> None:
        async with scripted(Silence(), later=[[DONE]]) as server:
            async with await open_to(server) as client:
                asking = asyncio.create_task(client.get_clients())
                await server.wait_requested()
                asking.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await asking
                await client.ping()
            assert server.commands == [commands.GetClients(), commands.Ping()]

    run(test())


def test_a_quiet_client_pings(run: Run) -> None:
    async def test() -> None:
        async with scripted(*[DONE] * 1000) as server:
            async with await open_to(server, heartbeat_s=0.001):
                await until(lambda: len(server.requests) >= 3)
            assert set(server.commands) == {commands.Ping()}

    run(test())


def test_heartbeats_make_a_lost_connection_again(run: Run) -> None:
    """So a member of a group is back in it although its application asks for nothing."""

    async def test() -> None:
        steps: list[list[Step]] = [[DONE, *[DONE] * 1000]]
        async with scripted(DONE, LOST, later=steps) as server:
            async with await open_to(server, heartbeat_s=0.001) as client:
                await client.join_consumer_group("s", "t", "g")
                await until(lambda: len(server.requests) >= 4)
            wanted = [type(command) for command in server.commands[:4]]
            assert wanted.count(commands.JoinConsumerGroup) == 2

    run(test())


def test_a_token_in_place_of_a_password(run: Run) -> None:
    async def test() -> None:
        async with scripted(LOGGED_IN) as server:
            async with await open_to(server, token="abc"):
                pass
            assert server.commands == [commands.LoginWithPersonalAccessToken("abc")]

    run(test())
