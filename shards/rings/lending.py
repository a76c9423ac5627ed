"""Bytes between shards outside the hot path: lent with a request, or written into a lent buffer."""

from typing import Final, Protocol

from borzoi.protocol.errors import ShardCommunicationError
from borzoi.router.buffer import Buffer
from borzoi.router.pool import MemoryPool
from borzoi.shards.rings.asking import asked
from borzoi.shards.rings.peers import DeathRule, Peers
from borzoi.shards.rings.requests import Done, RequestKind

FIRST_LENT_SIZE: Final = 64 * 1024
GATHER_TRIES_MAX: Final = 4


class Ask(Protocol):
    """Sends a request that lends a buffer."""

    def __call__(self, done: Done, buffer: Buffer, position: int, length: int, /) -> None:
        """Ask; `done` is told how many bytes there are to tell."""


async def told(pool: MemoryPool, ask: Ask) -> bytes:
    """What a peer writes into a buffer of ours, which grows until it is large enough."""
    size = FIRST_LENT_SIZE
    for _ in range(GATHER_TRIES_MAX):
        buffer, position = _take(pool, size)

        def start(
            done: Done, buffer: Buffer = buffer, position: int = position, size: int = size
        ) -> None:
            ask(done, buffer, position, size)

        try:
            needed, _, _ = await asked(start)
            if needed <= size:
                return bytes(buffer.view[:needed])
        finally:
            buffer.release()
        size = needed + FIRST_LENT_SIZE
    raise ShardCommunicationError("what a peer has to tell grows faster than we ask")


async def told_by(peers: Peers, pool: MemoryPool, shard: int, kind: RequestKind) -> bytes:
    """What another shard has to tell of itself; nothing while its worker is being replaced."""

    def ask(done: Done, buffer: Buffer, position: int, length: int) -> None:
        peers.ask(
            shard, kind, done, buffer=buffer,
            position=position, length=length, rule=DeathRule.COMPLETE,
        )  # fmt: skip

    return await told(pool, ask)


def tell(lent: memoryview, data: bytes, done: Done, count: int = 0) -> None:
    """The other side: fill the peer's buffer, or say how large it has to be."""
    if len(data) <= lent.nbytes:
        lent[: len(data)] = data
    done(0, len(data), count, 0)


async def lend(pool: MemoryPool, data: bytes, ask: Ask) -> tuple[int, int, int]:
    """Show bytes to a peer; its three results."""
    buffer, position = _take(pool, max(1, len(data)))
    buffer.view[: len(data)] = data
    try:
        return await asked(lambda done: ask(done, buffer, position, len(data)))
    finally:
        buffer.release()


def _take(pool: MemoryPool, size: int) -> tuple[Buffer, int]:
    buffer = pool.take(size)
    if buffer is None or buffer.position is None:
        raise ShardCommunicationError("no buffer is free to talk to another shard")
    return buffer, buffer.position
