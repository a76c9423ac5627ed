"""Requests over a real socket: answers, errors, deadlines, turns."""

import asyncio
import socket

import pytest

from borzoi.client.connection import Connection, RequestTimeout
from borzoi.client.reply_reader import RawReply, ResponseTooBig
from borzoi.protocol.codes import Code
from borzoi.protocol.commands import GetClient, GetStreams, Ping
from borzoi.protocol.errors import (
    CannotEstablishConnection,
    ConnectionClosed,
    GenericError,
    InvalidFormat,
    StreamNameAlreadyExists,
    Unauthenticated,
)
from borzoi.protocol.framing import OK, encode_request, encode_response
from borzoi.protocol.generations import CLASSIC
from borzoi.protocol.responses import ClientDetails, ClientInfo, StreamInfo, Transport
from borzoi.protocol.statuses import STATUSES
from tests.client.conftest import Run
from tests.client.scripted_server import Answer, CloseAfter, ScriptedServer, Silence, scripted

HOST = "127.0.0.1"
SHORT_S = 0.02  # a deadline that is meant to pass
STREAMS = tuple(StreamInfo(number, 1, 0, 0, 0, f"stream-{number}") for number in range(3))
STREAMS_ANSWER = encode_response(0, CLASSIC.replies[Code.GET_STREAMS](STREAMS))


async def open_to(server: ScriptedServer, timeout_s: float = 5) -> Connection:
    return await Connection.open(HOST, server.port, timeout_s, response_size_max=20_000_000)


def client_answer(client_id: int) -> bytes:
    client = ClientInfo(client_id, 0, Transport.TCP, "127.0.0.1:1", 0)
    return encode_response(0, CLASSIC.replies[Code.GET_ME](ClientDetails(client, ())))


def test_a_host_without_an_address_is_named_without_a_number(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unknown(*_: object, **__: object) -> None:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    async def test() -> None:
        said = r"^cannot connect to broker\.invalid:8090: Name or service not known$"
        with pytest.raises(CannotEstablishConnection, match=said):
            await Connection.open("broker.invalid", 8090, 5)

    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    run(test())


def test_a_value_comes_back(run: Run) -> None:
    async def test() -> None:
        async with scripted(Answer(STREAMS_ANSWER)) as server:
            connection = await open_to(server)
            assert await connection.request(GetStreams()) == STREAMS
            assert server.requests == [encode_request(Code.GET_STREAMS)]
            await connection.close()

    run(test())


def test_an_answer_in_single_bytes(run: Run) -> None:
    async def test() -> None:
        async with scripted(Answer(STREAMS_ANSWER, piece_size=1), Answer(OK)) as server:
            connection = await open_to(server)
            assert await connection.request(GetStreams()) == STREAMS
            assert await connection.request(Ping()) is None
            await connection.close()

    run(test())


def test_large_requests_and_answers(run: Run) -> None:
    payload = bytes(range(256)) * 30_000

    async def test() -> None:
        async with scripted(Answer(encode_response(0, payload))) as server:
            connection = await open_to(server)
            reply = await connection.send_raw(999, payload, payload)
            assert reply == RawReply(0, bytearray(payload))
            assert server.requests == [encode_request(999, payload + payload)]
            await connection.close()

    run(test())


def test_raw_requests_show_the_status(run: Run) -> None:
    async def test() -> None:
        async with scripted(Answer(encode_response(3))) as server:
            connection = await open_to(server)
            assert await connection.send_raw(9999, b"abc") == RawReply(3, bytearray())
            assert server.requests == [encode_request(9999, b"abc")]
            await connection.close()

    run(test())


def test_a_status_is_an_error_and_the_connection_goes_on(run: Run) -> None:
    unknown = max(STATUSES) + 1
    steps = [Answer(encode_response(status)) for status in (40, 1012, unknown)]

    async def test() -> None:
        async with scripted(*steps, Answer(OK)) as server:
            connection = await open_to(server)
            for error in (Unauthenticated, StreamNameAlreadyExists, GenericError):
                with pytest.raises(error):
                    await connection.request(GetStreams())
            await connection.request(Ping())
            await connection.close()

    run(test())


def test_an_unreadable_answer_is_not_taken_for_a_status(run: Run) -> None:
    async def test() -> None:
        async with scripted(Answer(encode_response(0, b"abc")), Answer(OK)) as server:
            connection = await open_to(server)
            with pytest.raises(
                InvalidFormat, match=r"answer to command 201 is unreadable: .*short"
            ):
                await connection.request(GetStreams())
            await connection.request(Ping())
            await connection.close()

    run(test())


@pytest.mark.parametrize("size", [0, 5, 8, 20, len(STREAMS_ANSWER) - 1])
def test_the_server_goes_away(run: Run, size: int) -> None:
    async def test() -> None:
        async with scripted(CloseAfter(STREAMS_ANSWER[:size])) as server:
            connection = await open_to(server)
            with pytest.raises(ConnectionClosed):
                await connection.request(GetStreams())
            assert not connection.is_open
            with pytest.raises(ConnectionClosed, match="this connection is closed"):
                await connection.request(GetStreams())
            await connection.close()
            assert len(server.requests) == 1

    run(test())


def test_a_server_that_says_goodbye(run: Run) -> None:
    async def test() -> None:
        async with scripted(Answer(OK), farewell=encode_response(8)) as server:
            connection = await open_to(server)
            await connection.request(Ping())
            await server.wait_client_gone()  # we have read its farewell then
            with pytest.raises(ConnectionClosed, match="closing this connection"):
                await connection.request(Ping())
            await connection.close()

    run(test())


def test_a_deadline_closes_the_connection(run: Run) -> None:
    async def test() -> None:
        async with scripted(Silence()) as server:
            connection = await open_to(server, SHORT_S)
            with pytest.raises(RequestTimeout, match=r"command 1 had no answer in 0\.02 s"):
                await connection.request(Ping())
            await server.wait_client_gone()
            with pytest.raises(ConnectionClosed, match="closed: command 1 had no answer"):
                await connection.request(Ping())
            await connection.close()

    run(test())


def test_a_deadline_also_holds_for_a_server_that_does_not_read(run: Run) -> None:
    """More bytes than the sockets take, and no reader that takes them."""

    async def test() -> None:
        ended = asyncio.Event()

        async def ignore(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await ended.wait()
            writer.transport.abort()

        server = await asyncio.start_server(ignore, HOST, 0, limit=1024)
        connection = await Connection.open(HOST, server.sockets[0].getsockname()[1], SHORT_S)
        with pytest.raises(RequestTimeout):
            await connection.send_raw(Code.SEND_MESSAGES, bytes(16_000_000))
        await connection.close()
        ended.set()
        server.close()
        await server.wait_closed()

    run(test())


def test_a_cancelled_caller_takes_the_connection_with_it(run: Run) -> None:
    """Its answer may still come and would look like the answer to the next request."""

    async def test() -> None:
        async with scripted(Silence()) as server:
            connection = await open_to(server)
            asked = asyncio.create_task(connection.request(Ping()))
            await server.wait_requested()
            waiting = asyncio.create_task(connection.request(Ping()))
            await asyncio.sleep(0)
            asked.cancel()
            with pytest.raises(asyncio.CancelledError):
                await asked
            with pytest.raises(ConnectionClosed, match="did not wait for its answer"):
                await waiting
            assert not connection.is_open
            await connection.close()

    run(test())


def test_a_caller_cancelled_before_its_turn_harms_no_other(run: Run) -> None:
    async def test() -> None:
        async with scripted(Answer(client_answer(1)), Answer(client_answer(3))) as server:
            connection = await open_to(server)
            first, second, third = (
                asyncio.create_task(connection.request(GetClient(number))) for number in (1, 2, 3)
            )
            await asyncio.sleep(0)
            second.cancel()
            assert [(await task).client.client_id for task in (first, third)] == [1, 3]
            assert second.cancelled()
            await connection.close()

    run(test())


def test_an_answer_that_is_too_big(run: Run) -> None:
    async def test() -> None:
        async with scripted(CloseAfter(bytes(4) + (20_000_001).to_bytes(4, "little"))) as server:
            connection = await open_to(server)
            with pytest.raises(ResponseTooBig, match="20000001 bytes; at most 20000000"):
                await connection.request(GetStreams())
            assert not connection.is_open
            await connection.close()

    run(test())


def test_concurrent_callers_take_turns_in_order(run: Run) -> None:
    numbers = range(1, 21)
    steps = [Answer(client_answer(number), piece_size=7) for number in numbers]

    async def test() -> None:
        async with scripted(*steps) as server:
            connection = await open_to(server)
            replies = await asyncio.gather(
                *(connection.request(GetClient(number)) for number in numbers)
            )
            assert [reply.client.client_id for reply in replies] == list(numbers)
            assert server.requests == [
                encode_request(Code.GET_CLIENT, number.to_bytes(4, "little")) for number in numbers
            ]
            await connection.close()

    run(test())


def test_closing_fails_the_requests_that_wait(run: Run) -> None:
    async def test() -> None:
        async with scripted(Silence()) as server:
            connection = await open_to(server)
            asked = asyncio.create_task(connection.request(Ping()))
            await server.wait_requested()
            await connection.close()
            await connection.close()
            with pytest.raises(ConnectionClosed, match="closed on this side"):
                await asked

    run(test())


def test_no_server_listens(run: Run) -> None:
    async def test() -> None:
        async with scripted() as server:
            port = server.port
        with pytest.raises(CannotEstablishConnection, match=f"127.0.0.1:{port}"):
            await Connection.open(HOST, port)

    run(test())
