"""Receive blocks under the real event loop: many sockets read into one shared window."""

import asyncio
import os
from typing import cast

import pytest
import uvloop

from borzoi.router.arena import Arena, create_arena
from borzoi.router.buffer import Buffer
from borzoi.router.pool import KIB, SLAB_SIZE, MemoryPool
from borzoi.router.receive import ReceiveBlocks

CONNECTIONS = 6
SENT_BYTES = 300 * KIB
PIECES_HELD_MAX = 20


class Receiver(asyncio.BufferedProtocol):
    """Keeps the last pieces where they lie and only looks at them when they are done."""

    def __init__(self, blocks: ReceiveBlocks, paused: list["Receiver"]) -> None:
        self.blocks = blocks
        self.paused = paused
        self.pieces: list[tuple[Buffer, int, int]] = []
        self.received = bytearray()
        self.done = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # The transports of this loop are not instances of asyncio's class, only alike.
        self.transport = cast(asyncio.Transport, transport)

    def get_buffer(self, sizehint: int) -> memoryview:
        return self.blocks.window()

    def buffer_updated(self, nbytes: int) -> None:
        buffer, start = self.blocks.received(nbytes)
        self.pieces.append((buffer, start, nbytes))
        if self.blocks.low:
            self.transport.pause_reading()
            self.paused.append(self)
            asyncio.get_running_loop().call_soon(self.finish_pieces, 0)
        else:
            self.finish_pieces(PIECES_HELD_MAX)

    def finish_pieces(self, kept: int) -> None:
        while len(self.pieces) > kept:
            buffer, start, nbytes = self.pieces.pop(0)
            self.received += buffer.view[start : start + nbytes]
            buffer.release()

    def connection_lost(self, exc: Exception | None) -> None:
        self.finish_pieces(0)
        self.done.set_result(None)


async def send_all(port: int, number: int) -> None:
    _, writer = await asyncio.open_connection("127.0.0.1", port)
    data = bytes([number]) * SENT_BYTES
    for start in range(0, SENT_BYTES, 5000):
        writer.write(data[start : start + 5000])
        await writer.drain()
    writer.close()
    await writer.wait_closed()


async def exchange(budget_slabs: int) -> int:
    """Receive from several clients at once; how often reading was paused."""
    size = budget_slabs * SLAB_SIZE
    fd = create_arena(0, size)
    pool = MemoryPool(Arena(fd, size, 0), size)
    os.close(fd)
    loop = asyncio.get_running_loop()
    paused: list[Receiver] = []
    pauses = 0

    def resume() -> None:
        nonlocal pauses
        while paused:
            pauses += 1
            receiver = paused.pop()
            if not receiver.transport.is_closing():
                receiver.transport.resume_reading()

    blocks = ReceiveBlocks(
        pool, SLAB_SIZE, SLAB_SIZE // 4, on_refilled=lambda: loop.call_soon(resume)
    )
    receivers: list[Receiver] = []

    def accept() -> Receiver:
        receivers.append(Receiver(blocks, paused))
        return receivers[-1]

    server = await loop.create_server(accept, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    try:
        async with asyncio.timeout(30):
            await asyncio.gather(*(send_all(port, number) for number in range(CONNECTIONS)))
            await asyncio.gather(*(receiver.done for receiver in receivers))
    finally:
        # A failed test must not leave transports behind: closing the loop would wait for them.
        for receiver in receivers:
            receiver.transport.abort()
        server.close()
        await server.wait_closed()
    received = sorted(bytes(receiver.received) for receiver in receivers)
    assert received == [bytes([number]) * SENT_BYTES for number in range(CONNECTIONS)]
    blocks.close()
    assert pool.in_use_bytes == blocks.private_bytes == 0
    return pauses


@pytest.mark.parametrize(("budget_slabs", "is_short"), [(200, False), (4, True)])
def test_nothing_is_lost_or_mixed_up(budget_slabs: int, is_short: bool) -> None:
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        pauses = runner.run(exchange(budget_slabs))
    assert bool(pauses) == is_short
