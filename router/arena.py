"""The arena of a shard: the memory in which requests are received and from which they are written.

One memfd per shard and life, made by the supervisor. The shard hands its bytes out through its pool
(pool.py) and may lend a buffer to a peer, which then reads and stamps the bytes in place. Queues
carry descriptors, never payloads. A lent buffer comes back by the peer's reply or by the peer's
death, never by a timeout.

A descriptor names bytes by (lender, generation of the lender, position, length). The generation is
the one that the supervisor counted when it made this arena. A peer may hold arenas of two lives of
one shard, because a batch of the old life may still be in the middle of a write. It finds the right
one by it, and refuses what it holds no arena for.
"""

from borzoi.router.memory import (
    PAGE_SIZE,
    MappedMemory,
    SharedMemoryError,
    create_memory,
    map_memory,
)


class ArenaOutOfRange(SharedMemoryError):
    """A descriptor points outside the arena it names."""


def create_arena(shard: int, size: int) -> int:
    """The descriptor of a new arena of `size` bytes, whole pages, untouched."""
    if size <= 0 or size % PAGE_SIZE:
        raise ValueError(f"an arena of {size} bytes: not a whole number of pages")
    return create_memory(f"borzoi-arena-{shard}", size)


class Arena:
    """The arena of this process. Its pool decides what lies where."""

    __slots__ = ("_memory", "shard", "size", "view")

    def __init__(self, fd: int, size: int, shard: int) -> None:
        self._memory: MappedMemory = map_memory(fd, size, writable=True)
        self.size = size
        self.shard = shard
        self.view = self._memory.bytes

    def give_back(self, position: int, length: int) -> None:
        """Return whole pages to the system. The address space stays ours."""
        self._memory.give_back(position, length)

    def close(self) -> bool:
        """Unmap; False if buffers still in use keep the pages for now."""
        return self._memory.close()


class PeerArena:
    """The arena of one life of another shard, to read from and to stamp in."""

    __slots__ = ("_memory", "generation", "shard", "size", "view")

    def __init__(self, fd: int, size: int, shard: int, generation: int) -> None:
        self._memory: MappedMemory = map_memory(fd, size, writable=True)
        self.size = size
        self.shard = shard
        self.generation = generation
        self.view = self._memory.bytes

    def lent(self, position: int, length: int) -> memoryview:
        """The bytes that a descriptor names, checked to lie inside."""
        if position < 0 or length < 0 or position + length > self.size:
            raise ArenaOutOfRange(
                f"{length} bytes at {position} of the arena of shard {self.shard} "
                f"(generation {self.generation}), which has {self.size}"
            )
        return self.view[position : position + length]

    def close(self) -> bool:
        """Unmap; False if a batch that is being written keeps the pages for now."""
        return self._memory.close()
