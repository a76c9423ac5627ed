"""The door for metrics with real sockets: what it answers, and what garbage does to it: nothing."""

import asyncio
import random
import socket
from collections.abc import Awaitable, Callable
from contextlib import suppress

import pytest
import uvloop

from borzoi.protocol.http_head import HEAD_SIZE_MAX
from borzoi.protocol.openmetrics import CONTENT_TYPE
from borzoi.shards.listening.http import (
    CONNECTIONS_MAX,
    LIMITS,
    HttpCounts,
    HttpDoor,
    HttpLimits,
    gives_way,
)
from borzoi.shards.loop.tasks import Tasks
from tests.conditions import until

GET = b"GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n"
TEXT = b"x" * 3_000_000 + b"# EOF\n"
TIMEOUT_S = 60.0
IMPATIENT = HttpLimits(head_time_s=0.05, parting_time_s=0.05)


class Door:
    """A door on a port of its own, on the loop that workers run."""

    def __init__(self, text: Callable[[], Awaitable[bytes]], limits: HttpLimits = LIMITS) -> None:
        self.counts = HttpCounts()
        self.broken: list[BaseException] = []
        loop = asyncio.get_running_loop()
        tasks = Tasks(self.broken.append)
        self.door = HttpDoor(loop, tasks, "/metrics", text, self.counts, limits)
        self.port = 0

    async def open(self) -> None:
        self.port = int((await self.door.listen("127.0.0.1:0")).rpartition(":")[2])

    async def connect(
        self, source: str = "127.0.0.1"
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_connection(
            "127.0.0.1", self.port, limit=1 << 22, local_addr=(source, 0)
        )

    async def send(self, *parts: bytes, half_close: bool = False) -> bytes:
        """Everything that comes back until the end."""
        reader, writer = await self.connect()
        for part in parts:
            writer.write(part)
            await writer.drain()
        if half_close:
            writer.write_eof()
        found = await asyncio.wait_for(reader.read(-1), TIMEOUT_S)
        writer.close()
        return found

    async def until(self, condition: Callable[[], bool]) -> None:
        await until(condition, 0.005)


async def text() -> bytes:
    await asyncio.sleep(0)
    return TEXT


def with_door(
    work: Callable[[Door], Awaitable[None]],
    text: Callable[[], Awaitable[bytes]] = text,
    limits: HttpLimits = LIMITS,
) -> None:
    async def run() -> None:
        door = Door(text, limits)
        await door.open()
        await work(door)
        door.door.close()
        assert door.broken == []

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(run())


def status_of(answer: bytes) -> int:
    assert answer.startswith(b"HTTP/1.1 "), answer[:80]
    return int(answer[9:12])


def test_an_answer_and_the_end() -> None:
    async def work(door: Door) -> None:
        for parts in ((GET,), tuple(bytes([byte]) for byte in GET), (GET + b"more",)):
            head, _, body = (await door.send(*parts)).partition(b"\r\n\r\n")
            assert status_of(head) == 200
            assert f"Content-Type: {CONTENT_TYPE}".encode() in head
            assert f"Content-Length: {len(TEXT)}".encode() in head
            assert b"Connection: close" in head
            assert body == TEXT
        # A peer that has said all and listens still gets everything.
        assert (await door.send(GET, half_close=True)).endswith(TEXT)
        assert door.counts.requests == 4

    with_door(work)


def test_head_has_the_same_head_and_no_body() -> None:
    async def work(door: Door) -> None:
        for path in (b"/metrics", b"/nothing"):
            get = GET.replace(b"/metrics", path)
            got = (await door.send(get)).partition(b"\r\n\r\n")[0]
            assert await door.send(get.replace(b"GET", b"HEAD")) == got + b"\r\n\r\n"

    with_door(work)


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (GET.replace(b"/metrics", b"/"), 404),
        (GET.replace(b"/metrics", b"/metrics/../metrics"), 404),
        (GET.replace(b"GET", b"POST"), 405),
        (GET.replace(b"GET", b"BREW").replace(b"/metrics", b"/coffee"), 404),
        (b"GET /metrics HTTP/1.1\r\n\r\n", 400),
        (b"GET /metrics HTTP/2.0\r\n\r\n", 505),
        (b"GET /metrics HTTP/1.1\nHost: a\n\n", 400),
        (b"\x16\x03\x01\n", 400),
        (b"x" * HEAD_SIZE_MAX, 431),
        (b"x" * 500_000, 431),
    ],
)
def test_refused(sent: bytes, status: int) -> None:
    async def work(door: Door) -> None:
        answer = await door.send(sent)
        assert status_of(answer) == status
        assert answer.count(b"HTTP/1.1") == 1
        assert (await door.send(GET)).endswith(TEXT)

    with_door(work)


def test_a_silent_peer_is_answered_and_cut_off() -> None:
    async def work(door: Door) -> None:
        assert status_of(await door.send(GET[:-1])) == 408
        # This one does not even read, nor close.
        _, writer = await door.connect()
        await door.until(lambda: len(door.door._open) == 1)
        await door.until(lambda: not door.door._open)
        writer.close()

    with_door(work, limits=IMPATIENT)


def test_a_peer_that_does_not_read_is_cut_off() -> None:
    async def large() -> bytes:
        return TEXT * 10

    async def work(door: Door) -> None:
        deaf = socket.create_connection(("127.0.0.1", door.port))
        deaf.sendall(GET)
        await door.until(lambda: len(door.door._open) == 1)
        await door.until(lambda: not door.door._open)
        deaf.close()

    with_door(work, large, HttpLimits(answer_time_s=0.2))


def test_a_peer_that_goes_on_talking_is_cut_off() -> None:
    async def work(door: Door) -> None:
        reader, writer = await door.connect()
        writer.write(GET.replace(b"/metrics", b"/"))
        assert status_of(await asyncio.wait_for(reader.read(-1), TIMEOUT_S)) == 404
        with suppress(ConnectionError):
            while True:
                writer.write(bytes(10_000))
                await asyncio.wait_for(writer.drain(), TIMEOUT_S)
                await asyncio.sleep(0)
        await door.until(lambda: not door.door._open)

    with_door(work, limits=HttpLimits(ignored_size=1000))


async def was_closed(reader: asyncio.StreamReader) -> bool:
    try:
        return await asyncio.wait_for(reader.read(-1), TIMEOUT_S) == b""
    except ConnectionResetError:
        return True


def test_the_silent_give_way_oldest_first_and_are_counted() -> None:
    async def work(door: Door) -> None:
        held = [await door.connect() for _ in range(CONNECTIONS_MAX)]
        await door.until(lambda: len(door.door._open) == CONNECTIONS_MAX)
        held[0][1].write(GET[:-2])
        for number in range(3):
            assert (await door.send(GET)).endswith(TEXT)
            await door.until(lambda: len(door.door._open) == CONNECTIONS_MAX - 1)
            assert door.counts.refused == number + 1
            # A part of a request is none.
            assert await was_closed(held[number][0])
            held.append(await door.connect())
            await door.until(lambda: len(door.door._open) == CONNECTIONS_MAX)
        held[3][1].write(GET)
        assert (await asyncio.wait_for(held[3][0].read(-1), TIMEOUT_S)).endswith(TEXT)
        for _, one in held:
            one.close()
        await door.until(lambda: not door.door._open)

    with_door(work)


def test_too_many_that_are_served_are_closed_at_once_and_counted() -> None:
    may_end = asyncio.Event()

    async def slow() -> bytes:
        await may_end.wait()
        return TEXT

    async def work(door: Door) -> None:
        held = [await door.connect() for _ in range(CONNECTIONS_MAX)]
        for _, one in held:
            one.write(GET)
        await door.until(lambda: door.counts.requests == CONNECTIONS_MAX)
        reader, writer = await door.connect()
        assert await was_closed(reader)
        writer.close()
        assert door.counts.refused == 1
        # From an address that holds fewer places it is let in.
        other = await door.connect("127.0.0.2")
        other[1].write(GET)
        assert await was_closed(held[0][0])
        may_end.set()
        for served, _ in (*held[1:], other):
            assert (await asyncio.wait_for(served.read(-1), TIMEOUT_S)).endswith(TEXT)
        assert door.counts.refused == 2
        for _, one in (*held, other):
            one.close()
        await door.until(lambda: not door.door._open)

    with_door(work, slow)


@pytest.mark.parametrize(
    ("places", "newcomer", "number"),
    [
        ("a a a a", "a", 0),
        ("A a A a", "a", 1),
        ("b a a b b", "c", 0),
        ("c b a a b b", "a", 1),
        ("B b A A A", "a", 1),  # those that wait go first, also if another holds more
        ("A A A A", "a", None),
        ("A A A A", "b", 0),
        ("B A A A", "b", 1),
        ("B B A A A", "b", None),  # no more than one apart: the place would go to and fro
    ],
)
def test_which_place_is_taken_over(places: str, newcomer: str, number: int | None) -> None:
    """Small letters wait, capital ones are served."""
    taken = [(place.lower(), place.isupper()) for place in places.split()]
    assert gives_way(taken, newcomer) == number


def test_a_fault_of_ours_and_figures_that_come_too_late() -> None:
    errors: list[Exception] = [ZeroDivisionError(), TimeoutError()]

    async def broken() -> bytes:
        raise errors.pop()

    async def work(door: Door) -> None:
        assert status_of(await door.send(GET)) == 503
        assert status_of(await door.send(GET)) == 500

    with_door(work, broken)


def test_who_goes_away_before_the_answer_leaves_nothing() -> None:
    may_end = asyncio.Event()

    async def slow() -> bytes:
        await may_end.wait()
        return TEXT

    async def work(door: Door) -> None:
        _, writer = await door.connect()
        writer.write(GET)
        await door.until(lambda: door.counts.requests == 1)
        writer.transport.abort()
        may_end.set()
        await door.until(lambda: not door.door._open)
        assert (await door.send(GET)).endswith(TEXT)

    with_door(work, slow)


def test_garbage_changes_nothing() -> None:
    chance = random.Random(7)
    pieces = [GET, b"\r\n", b"\n", b" ", b"HTTP/1.1", b"GET /metrics", b"Host: a", b"\0", b"\xff"]

    def garbage() -> bytes:
        return b"".join(
            chance.choice(pieces) if chance.random() < 0.8 else chance.randbytes(9)
            for _ in range(chance.randrange(1, 30))
        )

    async def work(door: Door) -> None:
        async def one() -> None:
            with suppress(ConnectionError):
                answer = await door.send(garbage(), half_close=chance.random() < 0.3)
                assert answer == b"" or status_of(answer) in (200, 400, 404, 405, 408, 431, 505)

        for _ in range(8):
            await asyncio.gather(*(one() for _ in range(CONNECTIONS_MAX)))
        await door.until(lambda: not door.door._open)
        assert (await door.send(GET)).endswith(TEXT)

    with_door(work, limits=IMPATIENT)
