"""Bytes between shards outside the hot path: lent with a request, or written into a lent buffer."""

from collections.abc import Callable
from typing import Final

from borzoi.protocol.errors import ShardCommunicationError
from borzoi.router.buffer import Buffer
from borzoi.router.pool import MemoryPool
from borzoi.shards.rings.asking import asked
from borzoi.shards.rings.peers import Peers
from borzoi.shards.rings.requests import Done, Request

FIRST_LENT_SIZE: Final = 64 * 1024
TRIES_MAX: Final = 4

LendingKind = Callable[[int, int], Request]
"""Returns the request that lends so many bytes at a position of our arena."""


async def report_of(peers: Peers, pool: MemoryPool, shard: int, kind: LendingKind) -> bytes:
    """Returns what a peer writes into a buffer of ours, which grows until it is large enough."""
    size = FIRST_LENT_SIZE
    for _ in range(TRIES_MAX):
        buffer, position = _take(pool, size)
        try:
            needed, _, _ = await _ask(peers, shard, kind(position, size), buffer)
            if needed <= size:
                return bytes(buffer.view[:needed])
        finally:
            buffer.release()
        size = needed + FIRST_LENT_SIZE
    raise ShardCommunicationError(
        f"the report of shard {shard} grew {TRIES_MAX} times while it was asked for"
    )


def tell(lent: memoryview, data: bytes, done: Done, count: int = 0) -> None:
    """The other side: fill the peer's buffer, or say how large it has to be."""
    if len(data) <= lent.nbytes:
        lent[: len(data)] = data
    done(0, len(data), count)


async def lend(
    peers: Peers, pool: MemoryPool, shard: int, kind: LendingKind, data: bytes
) -> tuple[int, int, int]:
    """Show bytes to a peer; its three results."""
    buffer, position = _take(pool, max(1, len(data)))
    buffer.view[: len(data)] = data
    try:
        return await _ask(peers, shard, kind(position, len(data)), buffer)
    finally:
        buffer.release()


async def _ask(peers: Peers, shard: int, request: Request, buffer: Buffer) -> tuple[int, int, int]:
    return await asked(lambda done: peers.ask(shard, request, done, buffer))


def _take(pool: MemoryPool, size: int) -> tuple[Buffer, int]:
    buffer = pool.take(size)
    if buffer is None or buffer.position is None:
        raise ShardCommunicationError("no buffer is free to talk to another shard")
    return buffer, buffer.position
