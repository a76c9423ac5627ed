"""TLS below a connection, turned by hand: no byte is lost, whatever pauses, ends or lags."""

import asyncio
import ssl
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any, cast

import pytest

from borzoi.protocol.tls_records import PIECE_SIZE, TlsFailure, TlsRecords
from borzoi.shards.listening.encrypted import AHEAD_SIZE, READ_SIZE, USUAL_HIGH, Encrypted
from borzoi.shards.tls.certificate import Certificate
from borzoi.shards.tls.context import ServerContext
from tests.certificates import Authority
from tests.shards.hand_loop import HandLoop
from tests.ways import client_context

WINDOW_SIZE = 64 * 1024
MIB = 1024 * 1024
DATA = bytes(range(251)) * 4096  # a megabyte in which no two places look alike


class Loop(HandLoop):
    """Has futures, too, for which no task waits."""

    def __init__(self) -> None:
        super().__init__()
        self._beside = asyncio.new_event_loop()

    def create_future(self) -> asyncio.Future[None]:
        return self._beside.create_future()

    def close(self) -> None:
        self._beside.close()


class Socket:
    """The transport below. The test takes what was sent, and brings what comes."""

    def __init__(self) -> None:
        self.sent: list[bytes] = []
        self.unsent: list[bytes] = []
        self.owner: Encrypted
        self.peer_reads = True
        self.is_paused = False
        self.is_reading = True
        self.is_ended = False
        self.is_closed = False

    @property
    def is_open(self) -> bool:
        return not (self.is_ended or self.is_closed)

    def write(self, data: bytes) -> None:
        assert self.is_open, "written behind the end"
        (self.sent if self.peer_reads else self.unsent).append(bytes(data))
        if self.get_write_buffer_size() > USUAL_HIGH and not self.is_paused:
            self.is_paused = True
            self.owner.pause_writing()

    def writelines(self, parts: Iterable[bytes]) -> None:
        for part in parts:
            self.write(part)

    def get_write_buffer_size(self) -> int:
        return sum(map(len, self.unsent))

    def take(self) -> int:
        """The peer takes what waits here; how much that was."""
        self.sent += self.unsent
        size = self.get_write_buffer_size()
        self.unsent.clear()
        if self.is_paused:
            self.is_paused = False
            self.owner.resume_writing()
        return size

    def pause_reading(self) -> None:
        assert self.is_reading, "paused twice"
        self.is_reading = False

    def resume_reading(self) -> None:
        assert not self.is_reading, "resumed without a pause"
        self.is_reading = True

    def is_closing(self) -> bool:
        return self.is_closed

    def write_eof(self) -> None:
        self.is_ended = True

    def close(self) -> None:
        self.is_closed = True

    abort = close


class Buffers(asyncio.BufferedProtocol):
    """A connection that keeps what it gets, and does behind each buffer what the test says."""

    def __init__(self) -> None:
        self.got = bytearray()
        self.transport: Any = None
        self.after: Callable[[], None] = lambda: None
        self.events: list[str] = []
        self.stays = False
        self._buffer = memoryview(bytearray(WINDOW_SIZE))

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport
        self.events.append("made")

    def get_buffer(self, _sizehint: int) -> memoryview:
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        self.got += self._buffer[:nbytes]
        self.after()

    def eof_received(self) -> bool:
        self.events.append("end")
        return self.stays

    def connection_lost(self, _error: Exception | None) -> None:
        self.events.append("lost")

    def pause_writing(self) -> None:
        self.events.append("pause")

    def resume_writing(self) -> None:
        self.events.append("resume")


class Pieces(asyncio.Protocol):
    """The same, as libraries have it."""

    def __init__(self) -> None:
        self.got = bytearray()
        self.transport: Any = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        assert type(data) is bytes
        self.got += data


class World:
    """A client of TLS on one side, and a connection on the other."""

    def __init__(self, context: ServerContext, client: ssl.SSLContext, upper: Any) -> None:
        self.loop = Loop()
        self.socket = Socket()
        self.upper = upper
        self.below = Encrypted(self.loop.as_loop, context, upper)
        self.socket.owner = self.below
        self.below.connection_made(cast(asyncio.BaseTransport, self.socket))
        self._coming, self._going = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.client = client.wrap_bio(self._coming, self._going, server_hostname="localhost")
        self.unread = b""  # records that have not come yet

    def shake(self) -> None:
        for _ in range(10):
            with suppress(ssl.SSLWantReadError):
                self.client.do_handshake()
            self.bring(self._going.read())
            self._hear()
            if self.below.opened.done():
                return

    def say(self, data: bytes) -> bytes:
        """The records of these bytes."""
        self.client.write(data)
        return self._going.read()

    def bring(self, came: bytes, size: int = READ_SIZE) -> None:
        """Let records come, at most `size` bytes at once, as far as the socket is read."""
        self.unread += came
        while self.unread and self.socket.is_reading and not self.socket.is_closed:
            room = self.below.get_buffer(-1)
            count = min(size, len(room), len(self.unread))
            room[:count] = self.unread[:count]
            self.unread = self.unread[count:]
            self.below.buffer_updated(count)
            room[:count] = bytes(count)  # as another connection would

    def heard(self) -> bytes:
        """What the client reads of what was sent."""
        self._hear()
        got = b""
        while True:
            try:
                more = self.client.read(MIB)
            except ssl.SSLWantReadError:
                return got
            except ssl.SSLZeroReturnError:
                more = b""
            if not more:
                return got + b"<end>"
            got += more

    def _hear(self) -> None:
        for piece in self.socket.sent:
            self._coming.write(piece)
        self.socket.sent.clear()

    def lose(self) -> None:
        self.below.connection_lost(None)
        self.loop.close()


Contexts = tuple[ServerContext, ssl.SSLContext]


@pytest.fixture(scope="module")
def contexts(tmp_path_factory: pytest.TempPathFactory) -> Contexts:
    authority = Authority()
    files = authority.issue(tmp_path_factory.mktemp("encrypted"))
    served = Certificate(files.cert.read_bytes(), files.key.read_bytes())
    return ServerContext(served), client_context(authority.pem)


@pytest.fixture
def world(contexts: Contexts) -> Any:
    made = World(*contexts, Buffers())
    made.shake()
    yield made
    made.lose()


def test_the_connection_is_made_behind_the_handshake(contexts: Contexts) -> None:
    world = World(*contexts, Buffers())
    assert world.upper.events == []
    world.shake()
    assert world.below.opened.result() is None
    assert world.upper.events == ["made"]
    assert world.upper.transport.get_extra_info("sslcontext") is contexts[0]
    world.lose()
    assert world.upper.events == ["made", "lost"]


@pytest.mark.parametrize("size", [1, 5, 1000, 16_406, 100_000, READ_SIZE])
def test_bytes_do_not_depend_on_how_records_were_cut(world: World, size: int) -> None:
    data = DATA[: size * 2000] + b"end"
    world.bring(world.say(data), size)
    while world.unread:
        world.loop.turn()
        world.bring(b"", size)
    assert world.upper.got == data


def test_a_read_that_was_full_is_the_last_of_a_turn(world: World) -> None:
    world.bring(world.say(DATA))
    turns = 0
    while world.unread:
        assert not world.socket.is_reading
        assert len(world.upper.got) <= (turns + 1) * READ_SIZE
        world.loop.turn()
        world.bring(b"")
        turns += 1
    assert turns == len(DATA) // READ_SIZE
    assert world.upper.got == DATA
    world.loop.turn()
    assert world.socket.is_reading


@pytest.mark.parametrize("is_resumed_at_once", [False, True])
def test_a_connection_that_pauses_behind_each_buffer(
    world: World, is_resumed_at_once: bool
) -> None:
    transport = world.upper.transport

    def pause() -> None:
        transport.pause_reading()
        if is_resumed_at_once:
            transport.resume_reading()

    world.upper.after = pause
    world.bring(world.say(DATA))
    for _ in range(10_000):
        if len(world.upper.got) == len(DATA):
            break
        before = len(world.upper.got)
        if not is_resumed_at_once:
            assert not world.socket.is_reading
            world.loop.turn()
            assert len(world.upper.got) == before
            transport.resume_reading()
            # Never from inside of the call.
            assert len(world.upper.got) == before
        world.loop.turn()
        world.bring(b"")
        if not is_resumed_at_once:
            assert len(world.upper.got) - before <= WINDOW_SIZE
    assert world.upper.got == DATA


def test_bytes_that_wait_are_not_those_of_others(contexts: Contexts, world: World) -> None:
    """What a paused connection has not taken is kept for it, while others read into that memory."""
    other = World(*contexts, Buffers())
    other.shake()
    world.upper.after = world.upper.transport.pause_reading
    world.bring(world.say(DATA[:200_000]))
    other.bring(other.say(b"o" * 200_000))
    assert other.upper.got == b"o" * 200_000
    world.upper.after = lambda: None
    world.upper.transport.resume_reading()
    world.loop.turn()
    assert world.upper.got == DATA[:200_000]
    other.lose()


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_answers_of_all_sizes(contexts: Contexts, version: ssl.TLSVersion) -> None:
    server, client = contexts
    client.maximum_version, usual = version, client.maximum_version
    world = World(server, client, Buffers())
    world.shake()
    client.maximum_version = usual
    transport = world.upper.transport
    transport.write(b"small")
    transport.writelines([b"head", memoryview(DATA), b"", bytearray(b"tail")])
    transport.writelines([b"a", b"b"] * 500)
    assert max(map(len, world.socket.sent)) < PIECE_SIZE + 1000
    assert world.heard() == b"small" + b"head" + DATA + b"tail" + b"ab" * 500
    world.lose()


def test_a_protocol_of_a_library_gets_bytes(contexts: Contexts) -> None:
    world = World(*contexts, Pieces())
    world.shake()
    world.bring(world.say(DATA[:100_000]))
    assert world.upper.got == DATA[:100_000]
    world.upper.transport.write(b"answer")
    assert world.heard() == b"answer"
    world.lose()


def test_the_end_of_the_client_comes_behind_its_bytes(world: World) -> None:
    world.upper.stays = True
    last = world.say(b"last words")
    with pytest.raises(ssl.SSLWantReadError):
        world.client.unwrap()
    world.bring(last + world._going.read())
    assert world.upper.got == b"last words"
    assert world.upper.events == ["made", "end"]
    # The socket ends as well: that is no second end.
    assert world.below.eof_received()
    assert world.upper.events == ["made", "end"]
    world.upper.transport.write(b"the answer")
    world.upper.transport.close()
    assert world.heard() == b"the answer<end>"
    assert world.socket.is_closed


def test_an_end_without_an_answer_closes(world: World) -> None:
    with pytest.raises(ssl.SSLWantReadError):
        world.client.unwrap()
    world.bring(world._going.read())
    assert world.upper.events == ["made", "end"]
    assert world.socket.is_closed


def test_our_end_is_said_and_nothing_comes_behind_it(world: World) -> None:
    transport = world.upper.transport
    assert transport.can_write_eof()
    transport.write(b"refused")
    transport.write_eof()
    transport.write(b"more")
    assert world.heard() == b"refused<end>"
    assert world.socket.is_ended
    assert not transport.is_closing()
    # What the client says meanwhile is taken.
    world.bring(world.say(b"still here"))
    assert world.upper.got == b"still here"
    transport.close()
    assert transport.is_closing()


@pytest.mark.parametrize("kept", [0, 3])
def test_what_is_no_record_ends_the_connection(world: World, kept: int) -> None:
    record = world.say(b"x" * 1000)
    world.bring(record[:kept] + bytes(2000))
    assert world.upper.got == b""
    assert world.socket.is_closed
    with pytest.raises(ssl.SSLError, match="ALERT"):
        world.heard()
    world.upper.transport.write(b"not sent")
    assert world.socket.sent == []


def test_a_failed_handshake_is_said(contexts: Contexts) -> None:
    world = World(*contexts, Buffers())
    world.bring(b"GET / HTTP/1.1\r\n\r\n")
    with pytest.raises(TlsFailure, match="http request"):
        world.below.opened.result()
    assert world.socket.is_closed
    world.lose()
    assert world.upper.events == []


def test_a_peer_that_leaves_in_the_handshake(contexts: Contexts) -> None:
    world = World(*contexts, Buffers())
    assert not world.below.eof_received()
    world.lose()
    with pytest.raises(TlsFailure, match="the peer is gone"):
        world.below.opened.result()
    assert world.upper.events == []


def test_a_connection_that_aborts_in_the_middle(world: World) -> None:
    world.upper.after = world.upper.transport.abort
    world.bring(world.say(DATA[:100_000]))
    assert len(world.upper.got) <= WINDOW_SIZE
    assert world.socket.is_closed
    world.loop.turn()


class Chatty(TlsRecords):
    """Has something to say of its own to whatever comes, as to keys that are to be changed."""

    said = 0

    def unsent(self) -> memoryview:
        self.said += 1
        return memoryview(b"said")


def test_a_peer_that_asks_and_does_not_read_is_not_heard(world: World) -> None:
    chatty = Chatty(world.below._context._context)
    world.socket.peer_reads = False
    world.upper.transport.write(bytes(100_000))
    world.below._records = chatty
    world.bring(b"\x16" * 10, 1)
    # The first record of ten bytes was answered, and the rest waits in the socket.
    assert chatty.said == 1
    assert len(world.unread) == 9
    assert not world.socket.is_reading
    world.socket.take()
    assert world.socket.is_reading
    assert world.upper.events == ["made", "pause", "resume"]


@pytest.mark.parametrize("high", [None, 2 * MIB])
def test_an_answer_is_encrypted_as_it_is_taken(world: World, high: int | None) -> None:
    transport = world.upper.transport
    transport.set_write_buffer_limits(high, high and MIB)
    world.socket.peer_reads = False
    for _ in range(3):
        transport.writelines([b"head", memoryview(DATA)])
        assert world.socket.get_write_buffer_size() < 2 * AHEAD_SIZE
    whole = 3 * (len(DATA) + 4)
    assert transport.get_write_buffer_size() > whole
    assert world.upper.events == ["made", "pause"]
    taken = 0
    while world.upper.events == ["made", "pause"]:
        assert transport.get_write_buffer_size() > (MIB if high else 0)
        taken += world.socket.take()
    assert taken > (MIB if high else 2 * MIB)
    while world.socket.take():
        assert world.socket.get_write_buffer_size() < 2 * AHEAD_SIZE
    assert world.upper.events == ["made", "pause", "resume"]
    assert transport.get_write_buffer_size() == 0
    assert world.heard() == (b"head" + DATA) * 3


@pytest.mark.parametrize("is_half", [False, True])
def test_an_end_waits_for_what_was_written(world: World, is_half: bool) -> None:
    transport = world.upper.transport
    world.socket.peer_reads = False
    transport.write(DATA)
    if is_half:
        transport.write_eof()
    else:
        transport.close()
    assert transport.is_closing() != is_half
    transport.write(b"more")
    assert world.socket.is_open
    while world.socket.take():
        pass
    assert not world.socket.is_open
    assert world.heard() == DATA + b"<end>"


def test_what_waits_is_forgotten_with_the_connection(world: World) -> None:
    world.socket.peer_reads = False
    world.upper.transport.write(DATA)
    world.upper.transport.close()
    world.upper.transport.abort()
    assert world.socket.is_closed
    assert world.upper.transport.get_write_buffer_size() < 2 * AHEAD_SIZE


def test_the_memory_of_an_idle_connection(world: World) -> None:
    """Nothing is kept of what has come and was taken."""
    world.bring(world.say(DATA[:200_000]))
    assert not world.below._has_rest
    assert world.below._records._came.obj is not None
    assert world.upper.got == DATA[:200_000]
