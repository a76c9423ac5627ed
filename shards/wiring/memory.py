"""The memory that shards share, as one of them maps it.

These are its own control memory, its arena with the pool and the receive blocks in it, the board
and the request memory. For each peer it is what that one may be asked through. The supervisor made
all of it and handed the descriptors over; only those of a peer's successor arrive later.
"""

from typing import NamedTuple

from borzoi.router.arena import Arena, PeerArena
from borzoi.router.board import Board
from borzoi.router.control import ControlLayout, OwnControl, SharedControl
from borzoi.router.pool import MemoryPool
from borzoi.router.receive import ReceiveBlocks
from borzoi.router.request_entry import Beginner
from borzoi.router.request_memory import RequestLayout, RequestMemory
from borzoi.router.wake import Wake
from borzoi.shards.orders.spec import WorkerSpec


class PeerMemory(NamedTuple):
    """What one generation of another shard is asked through."""

    control: SharedControl
    arena: PeerArena


class ShardMemory:
    """One shard's own memories, and the way to those of its peers."""

    def __init__(self, spec: WorkerSpec, bucket_capacity: int, share_weight: int) -> None:
        shard, generation = spec.shard, spec.generations[spec.shard]
        self._spec = spec
        self._layout = ControlLayout(spec.shard_count)
        self.control = OwnControl(spec.control_fds[shard], self._layout, shard, generation)
        self.board = Board(spec.board_fd, spec.board_slots)
        self.requests = RequestMemory(
            spec.requests_fd,
            RequestLayout(spec.shard_count, spec.requests_entries),
            Beginner(shard, generation),
        )
        self.wake = Wake(spec.wake_fds[shard])
        arena = Arena(spec.arena_fds[shard], spec.arena_size, shard)
        self.pool = MemoryPool(arena, spec.budget, bucket_capacity, generation, share_weight)
        self.receive = ReceiveBlocks(self.pool)

    def peers(self) -> list[tuple[PeerMemory, Wake]]:
        """The other shards as they were when this one was born."""
        spec = self._spec
        return [
            (
                self.map_peer(
                    shard, spec.generations[shard], spec.control_fds[shard], spec.arena_fds[shard]
                ),
                Wake(spec.wake_fds[shard]),
            )
            for shard in range(spec.shard_count)
            if shard != spec.shard
        ]

    def map_peer(self, shard: int, generation: int, control_fd: int, arena_fd: int) -> PeerMemory:
        """Map the memories of a peer. The descriptors stay the caller's."""
        return PeerMemory(
            SharedControl(control_fd, self._layout, shard, generation),
            PeerArena(arena_fd, self._spec.arena_size, shard, generation),
        )
