"""Who is connected: this shard's sessions, and everybody's by asking the other shards.

A connection belongs to its shard and dies with it, so nothing of this is logged. A session is
registered from its connect until it is removed: by its end, by moving to another shard, or by the
scan for silent clients, after which the connection itself may go on for a while.
"""

from typing import Final, Protocol

from borzoi.protocol.errors import ShardCommunicationError
from borzoi.protocol.responses.clients import (
    ClientInfo,
    Transport,
    decode_clients,
    encode_clients,
)
from borzoi.router.buffer import Buffer
from borzoi.router.pool import MemoryPool
from borzoi.shards.asking import asked
from borzoi.shards.descriptors import Done, RequestKind
from borzoi.shards.peers import DeathRule, Peers

FIRST_LENT_SIZE: Final = 64 * 1024
GATHER_TRIES_MAX: Final = 4


class Connected(Protocol):
    """What is told about a session."""

    client_id: int
    user_id: int | None
    transport: Transport
    address: str
    last_heartbeat: float
    """When it last gave a sign of life, in seconds of the machine's monotonic clock."""


class Clients:
    """The sessions of this shard by client id."""

    def __init__(self, peers: Peers, pool: MemoryPool) -> None:
        self._peers = peers
        self._pool = pool
        self._sessions: dict[int, Connected] = {}

    def add(self, session: Connected) -> None:
        """A client has connected."""
        self._sessions[session.client_id] = session

    def remove(self, session: Connected) -> None:
        """A client is gone, or so silent that it counts as gone."""
        if self._sessions.get(session.client_id) is session:
            del self._sessions[session.client_id]

    def is_registered(self, session: Connected) -> bool:
        """Whether the session is the one known by its id."""
        return self._sessions.get(session.client_id) is session

    def silent(self, since: float) -> list[Connected]:
        """The sessions whose last sign of life is older than that."""
        return [one for one in self._sessions.values() if one.last_heartbeat < since]

    async def everybody(self) -> list[ClientInfo]:
        """The clients of all shards by id."""
        found = [describe(session) for session in self._sessions.values()]
        for shard in self._peers.shards():
            found.extend(await self._clients_of(shard))
        return sorted(found, key=lambda client: client.client_id)

    async def count(self) -> int:
        """How many clients are connected to all shards."""
        count = len(self._sessions)
        for shard in self._peers.shards():

            def start(done: Done, shard: int = shard) -> None:
                self._peers.ask(shard, RequestKind.CLIENTS, done, rule=DeathRule.COMPLETE)

            _, there, _ = await asked(start)
            count += there
        return count

    def serve(self, lent: memoryview, done: Done) -> None:
        """Write our clients into a peer's buffer, or say how large it has to be."""
        told = encode_clients(describe(session) for session in self._sessions.values())
        if len(told) <= lent.nbytes:
            lent[: len(told)] = told
        done(0, len(told), len(self._sessions), 0)

    async def _clients_of(self, shard: int) -> tuple[ClientInfo, ...]:
        size = FIRST_LENT_SIZE
        for _ in range(GATHER_TRIES_MAX):
            buffer = self._pool.take(size)
            if buffer is None or buffer.position is None:
                raise ShardCommunicationError("no buffer is free to collect the clients")
            position = buffer.position

            def start(
                done: Done, buffer: Buffer = buffer, size: int = size, position: int = position
            ) -> None:
                self._peers.ask(
                    shard, RequestKind.CLIENTS, done, buffer=buffer,
                    position=position, length=size, rule=DeathRule.COMPLETE,
                )  # fmt: skip

            try:
                needed, _, _ = await asked(start)
                if needed <= size:
                    return decode_clients(memoryview(bytes(buffer.view[:needed])))
            finally:
                buffer.release()
            size = needed + FIRST_LENT_SIZE
        raise ShardCommunicationError(f"the clients of shard {shard} grow faster than we ask")


def describe(session: Connected) -> ClientInfo:
    """A session as clients see it. Nobody is a member of a group yet."""
    return ClientInfo(session.client_id, session.user_id, session.transport, session.address, 0)
