"""The bare limits as programs: the least a process must do for the bytes a broker handles.

Started by limits.py as `python -m borzoi.bench.bare NAME CPU SIZE COUNT FILE`. Each serves one load
run, pinned where the shard would be, and is ended by its parent. None of them looks into the bytes,
checks anything or knows a message.

    append-loop   blocking recv_into one warm buffer, one write per frame, 8 bytes back
    append-uvloop the same with uvloop's BufferedProtocol
    slices-loop   per request the next slice of a mapped file, header and slice in one sendmsg
    slices-uvloop the same with writelines
    echo          uvloop, every piece of bytes straight back

Two more do the same with copies, to show what the paths without them are worth (`bench seed`):

    append-copies data_received into a growing bytearray, a slice of it to the file
    slices-copies pread into new bytes, joined with the header
"""

import asyncio
import mmap
import os
import socket
import sys
from collections.abc import Callable
from typing import Final, cast

import uvloop

from borzoi.bench.batches import POLL_TAIL, U64
from borzoi.protocol.framing import OK, RESPONSE_HEADER
from borzoi.protocol.responses.polled import POLLED_HEADER

POLL_FRAME_SIZE: Final = 46
OFFSET_AT: Final = POLL_FRAME_SIZE - POLL_TAIL
APPENDED_MAX: Final = 1 << 30  # as a segment: then the file begins at 0 again
LISTEN_BACKLOG: Final = 128


class Slices:
    """A mapped file of equal batches; a slice is found by the offset that is asked for."""

    def __init__(self, path: str, size: int, message_count: int) -> None:
        self._file = os.open(path, os.O_RDONLY)
        self._view = memoryview(mmap.mmap(self._file, 0, prot=mmap.PROT_READ))
        self._size = size
        self._count = message_count
        self._slots = len(self._view) // size

    def answer(self, offset: int) -> tuple[bytes, memoryview]:
        """Returns head and mapped bytes of the answer to a poll at this offset."""
        at = self._position(offset)
        return self._head(offset), self._view[at : at + self._size]

    def copied_answer(self, offset: int) -> bytes:
        """Returns the same answer, read from the file and joined."""
        return self._head(offset) + os.pread(self._file, self._size, self._position(offset))

    def _position(self, offset: int) -> int:
        return offset // self._count % self._slots * self._size

    def _head(self, offset: int) -> bytes:
        return RESPONSE_HEADER.pack(0, POLLED_HEADER.size + self._size) + POLLED_HEADER.pack(
            0, offset + self._count, self._count
        )


class Appender:
    """A file that takes frames, one write each."""

    def __init__(self, path: str) -> None:
        self._file = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o600)
        self._size = 0

    def append(self, view: memoryview) -> None:
        """Writes a frame behind the last one; a full file begins at 0 again."""
        self._size += os.write(self._file, view)
        if self._size >= APPENDED_MAX:
            os.ftruncate(self._file, 0)
            os.lseek(self._file, 0, os.SEEK_SET)
            self._size = 0


def append_loop(listener: socket.socket, size: int, path: str, _count: int) -> None:
    """One connection, nothing but recv, write, send."""
    appender = Appender(path)
    buffer = memoryview(bytearray(size))
    while True:
        connection, _ = listener.accept()
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with connection:
            received = 0
            while count := connection.recv_into(buffer[received:]):
                received += count
                if received == size:
                    appender.append(buffer)
                    connection.send(OK)
                    received = 0


def slices_loop(listener: socket.socket, size: int, path: str, count: int) -> None:
    """One connection, nothing but recv and sendmsg."""
    slices = Slices(path, size, count)
    request = bytearray(POLL_FRAME_SIZE)
    while True:
        connection, _ = listener.accept()
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with connection:
            while connection.recv_into(request, 0, socket.MSG_WAITALL) == POLL_FRAME_SIZE:
                head, part = slices.answer(U64.unpack_from(request, OFFSET_AT)[0])
                sent = connection.sendmsg((head, part))
                if sent < len(head) + len(part):
                    connection.sendall(part[sent - len(head) :])


class AppendProtocol(asyncio.BufferedProtocol):
    """append-uvloop; every connection has a warm buffer of its own."""

    def __init__(self, size: int, appender: Appender) -> None:
        self._buffer = memoryview(bytearray(size))
        self._size = size
        self._appender = appender
        self._received = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keeps the transport. Called by the event loop."""
        self._transport = cast(asyncio.Transport, transport)

    def get_buffer(self, _sizehint: int) -> memoryview:
        """Returns where the rest of the frame goes. Called by the event loop."""
        return self._buffer[self._received :]

    def buffer_updated(self, nbytes: int) -> None:
        """Appends and acknowledges a frame when it is complete."""
        self._received += nbytes
        if self._received == self._size:
            self._appender.append(self._buffer)
            self._transport.write(OK)
            self._received = 0


class SlicesProtocol(asyncio.BufferedProtocol):
    """slices-uvloop."""

    def __init__(self, slices: Slices) -> None:
        self._buffer = memoryview(bytearray(POLL_FRAME_SIZE))
        self._slices = slices
        self._received = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keeps the transport. Called by the event loop."""
        self._transport = cast(asyncio.Transport, transport)

    def get_buffer(self, _sizehint: int) -> memoryview:
        """Returns where the rest of the poll goes. Called by the event loop."""
        return self._buffer[self._received :]

    def buffer_updated(self, nbytes: int) -> None:
        """Answers a poll when it is complete."""
        self._received += nbytes
        if self._received == POLL_FRAME_SIZE:
            self._received = 0
            offset = U64.unpack_from(self._buffer, OFFSET_AT)[0]
            self._transport.writelines(self._slices.answer(offset))


class EchoProtocol(asyncio.Protocol):
    """echo."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keeps the transport's write. Called by the event loop."""
        self._write = cast(asyncio.Transport, transport).write

    def data_received(self, data: bytes) -> None:
        """Sends the bytes back."""
        self._write(data)


class CopyingAppendProtocol(asyncio.Protocol):
    """append-copies: collects frames in the simple way, with copies."""

    def __init__(self, size: int, appender: Appender) -> None:
        self._size = size
        self._appender = appender
        self._pending = bytearray()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keeps the transport. Called by the event loop."""
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        """Collects bytes; appends and acknowledges each complete frame."""
        self._pending += data
        if len(self._pending) >= self._size:
            frame = bytes(self._pending[: self._size])
            del self._pending[: self._size]
            self._appender.append(memoryview(frame))
            self._transport.write(OK)


class CopyingSlicesProtocol(asyncio.Protocol):
    """slices-copies."""

    def __init__(self, slices: Slices) -> None:
        self._slices = slices
        self._pending = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keeps the transport. Called by the event loop."""
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        """Collects bytes; answers each complete poll with a copy."""
        self._pending += data
        if len(self._pending) >= POLL_FRAME_SIZE:
            offset = U64.unpack_from(self._pending, OFFSET_AT)[0]
            self._pending = self._pending[POLL_FRAME_SIZE:]
            self._transport.write(self._slices.copied_answer(offset))


def append_copies(listener: socket.socket, size: int, path: str, _count: int) -> None:
    """Appends frames, with the copies of a simple program. Serves until it is killed."""
    appender = Appender(path)
    _serve(listener, lambda: CopyingAppendProtocol(size, appender))


def slices_copies(listener: socket.socket, size: int, path: str, count: int) -> None:
    """Answers polls, with the copies of a simple program. Serves until it is killed."""
    slices = Slices(path, size, count)
    _serve(listener, lambda: CopyingSlicesProtocol(slices))


def append_uvloop(listener: socket.socket, size: int, path: str, _count: int) -> None:
    """Appends frames from a buffer of each connection. Serves until it is killed."""
    appender = Appender(path)
    _serve(listener, lambda: AppendProtocol(size, appender))


def slices_uvloop(listener: socket.socket, size: int, path: str, count: int) -> None:
    """Answers polls with slices of a mapped file. Serves until it is killed."""
    slices = Slices(path, size, count)
    _serve(listener, lambda: SlicesProtocol(slices))


def echo(listener: socket.socket, _size: int, _path: str, _count: int) -> None:
    """Sends back what comes. Serves until it is killed."""
    _serve(listener, EchoProtocol)


PROGRAMS: Final[dict[str, Callable[[socket.socket, int, str, int], None]]] = {
    "append-loop": append_loop,
    "append-uvloop": append_uvloop,
    "slices-loop": slices_loop,
    "slices-uvloop": slices_uvloop,
    "echo": echo,
    "append-copies": append_copies,
    "slices-copies": slices_copies,
}


def _serve(listener: socket.socket, factory: Callable[[], asyncio.BaseProtocol]) -> None:
    async def run() -> None:
        server = await asyncio.get_running_loop().create_server(factory, sock=listener)
        await server.serve_forever()

    uvloop.run(run())


def main(arguments: list[str]) -> None:
    """Runs one program on a port that it prints first. The arguments come from limits.py."""
    name, cpu, size, count, path = arguments
    if cpu != "-":
        os.sched_setaffinity(0, {int(cpu)})
    listener = socket.create_server(("127.0.0.1", 0), backlog=LISTEN_BACKLOG)
    print(listener.getsockname()[1], flush=True)
    PROGRAMS[name](listener, int(size), path, int(count))


if __name__ == "__main__":
    main(sys.argv[1:])
