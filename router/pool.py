"""The memory pool of a shard: buffers of its arena, within a budget, the warmest first.

The first touch of fresh memory costs ten times what a warm buffer does. So a buffer that was
released last is handed out first, and memory goes back to the system late, by trim().

    arena   | slab | slab |        | slab |  ...  gaps (extents.py)  ...  | slab | slab |
              one buffer each, 64 KiB and more                  many buffers of one small size

A slab is cut from the arena for one of 32 bucket sizes. It is a single buffer from 64 KiB upwards,
or 64 KiB full of smaller ones. A slab none of whose buffers is in use is *idle*. Its memory is warm
and counted. It may be dropped, coldest first, when its address space or its share of the budget is
wanted for another size. A dropped slab's pages are returned to the system.

Owned by one worker, touched by its loop only. Every buffer carries the generation of this life of
the arena; descriptors that lend it to a peer carry the same (arena.py).

Always: in_use_bytes + free_bytes <= budget_bytes <= size of the arena; buffers in use do not
overlap; nothing is ever allocated outside the arena. When there is no room, take() says None:
stop reading from the socket, and wait with when_available().

What clients make the broker keep is taken in their name, and shared by the rule of shares.py: the
one that holds most waits first. What the broker takes for itself, receive blocks for instance, has
no taker, and comes before all of them.
"""

from bisect import bisect_left
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from borzoi.router.arena import Arena
from borzoi.router.buffer import Buffer
from borzoi.router.extents import Extents
from borzoi.shares import Line, Shares

KIB: Final = 1024
MIB: Final = 1024 * KIB

BUCKET_SIZES: Final = (
    *(256, 512, 1 * KIB, 2 * KIB),
    *(n * KIB for n in (4, 8, 16, 32, 64, 128, 256, 512, 768)),
    *(1 * MIB, 1536 * KIB),
    *(n * MIB for n in (2, 4, 6, 8, 10, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512)),
)
LENGTH_MAX: Final = BUCKET_SIZES[-1]
BUCKET_CAPACITY: Final = 8192
# Smaller buffers share a slab of this size; it is also the smallest unit given to the system.
SLAB_SIZE: Final = 64 * KIB
# One trim drops at most so many slabs (90 us per MiB): the loop must not stand still for it.
TRIM_SLABS_MAX: Final = 64
# One release calls at most so many waiters.
WAKES_MAX: Final = 16
# In whose name the broker takes what is no client's: not counted in any share.
NO_TAKER: Final = ""


@dataclass(frozen=True, slots=True)
class PoolStats:
    """A picture of a pool."""

    budget_bytes: int
    in_use_bytes: int
    free_bytes: int
    in_use: int  # buffers out now
    allocated: int  # buffers handed out since the start
    returned: int  # buffers that came back
    exhausted: int  # times that there was no room
    carved_bytes: int  # cut from the arena since the start
    dropped_bytes: int  # returned to the system since the start
    waiting: int


class _Slab:
    """Address space cut for one bucket, and the buffers in it that are free."""

    __slots__ = ("bucket", "count", "pieces", "position", "size")

    def __init__(self, position: int, size: int, bucket: int) -> None:
        piece = BUCKET_SIZES[bucket]
        self.position = position
        self.size = size
        self.bucket = bucket
        self.count = size // piece
        # The last one is taken first: begin at the low end.
        self.pieces = list(range(position + size - piece, position - 1, -piece))


class Waiter:
    """Waits for memory, and is called back when there is some.

    cancel() when it is no longer wanted, also after the call: memory set aside for it then goes to
    the next.
    """

    __slots__ = ("_pool", "bucket", "callback", "taker")

    def __init__(
        self, pool: "MemoryPool", bucket: int, taker: str, callback: Callable[[], object]
    ) -> None:
        self._pool = pool
        self.bucket = bucket
        self.taker = taker
        self.callback = callback

    def cancel(self) -> None:
        """Not interested any more. May be repeated."""
        self._pool.forget_waiter(self)


class MemoryPool:
    """Hands out buffers of one arena."""

    def __init__(
        self,
        arena: Arena,
        budget_bytes: int,
        bucket_capacity: int = BUCKET_CAPACITY,
        generation: int = 1,
        share_weight: int = 1,
    ) -> None:
        if not SLAB_SIZE <= budget_bytes <= arena.size:
            raise ValueError(
                f"a budget of {budget_bytes} bytes is not between one slab ({SLAB_SIZE}) "
                f"and the arena ({arena.size})"
            )
        self._arena = arena
        self._view = arena.view
        self.budget_bytes = budget_bytes
        self.bucket_capacity = bucket_capacity
        self.generation = generation
        self._extents = Extents(arena.size)
        # Per bucket the slabs that have a free buffer, the warmest last.
        self._free: tuple[dict[_Slab, None], ...] = tuple({} for _ in BUCKET_SIZES)
        self._free_counts = [0] * len(BUCKET_SIZES)
        # Slabs with no buffer in use, the coldest first.
        self._idle: OrderedDict[_Slab, None] = OrderedDict()
        self._idle_bytes = 0
        self._slab_bytes = 0
        self.shares = Shares("bytes of the receive pool", budget_bytes, share_weight)
        # As many as there are paused connections.
        self._waiters: Line[Waiter] = Line(self.shares)
        self._waking = False
        self.in_use_bytes = 0
        self._allocated = 0
        self._returned = 0
        self._exhausted = 0
        self._carved_bytes = 0
        self._dropped_bytes = 0

    @property
    def free_bytes(self) -> int:
        """Memory that is counted but not handed out."""
        return self._slab_bytes - self.in_use_bytes

    @property
    def idle_bytes(self) -> int:
        """The part of the free memory that can be dropped: whole slabs."""
        return self._idle_bytes

    def take(self, length: int, taker: str = NO_TAKER) -> Buffer | None:
        """Returns a buffer of exactly `length` bytes with one hold; None if there is no room.

        None also if the share of the taker has no room. The bytes are whatever was there before.
        """
        if length < 1:
            raise ValueError(f"a buffer of {length} bytes")
        bucket = bisect_left(BUCKET_SIZES, length)
        if bucket == len(BUCKET_SIZES):
            self._exhausted += 1
            return None
        capacity = BUCKET_SIZES[bucket]
        if taker and not self.shares.allows(taker, capacity):
            self._exhausted += 1
            return None
        free = self._free[bucket]
        slab = next(reversed(free)) if free else self._carve(bucket)
        if slab is None:
            self._exhausted += 1
            return None
        pieces = slab.pieces
        if len(pieces) == slab.count:
            del self._idle[slab]
            self._idle_bytes -= slab.size
        position = pieces.pop()
        if not pieces:
            del free[slab]
        self._free_counts[bucket] -= 1
        self.in_use_bytes += capacity
        self._allocated += 1
        view = self._view[position : position + length]
        buffer = Buffer(self, slab, position, capacity, view, self.generation)
        if taker:
            self.shares.take_anyway(taker, capacity)
            buffer.taker = taker
        return buffer

    def take_back(self, buffer: Buffer) -> None:
        """Takes the memory of a buffer back. Called only by the buffer, at its last release."""
        slab: _Slab = buffer.place
        position = buffer.position
        assert position is not None, "private memory does not belong to a pool"
        bucket = slab.bucket
        pieces = slab.pieces
        if not pieces:
            self._free[bucket][slab] = None
        pieces.append(position)
        self._free_counts[bucket] += 1
        self.in_use_bytes -= buffer.capacity
        if buffer.taker:
            self.shares.give_back(buffer.taker, buffer.capacity)
        self._returned += 1
        if len(pieces) == slab.count:
            self._idle[slab] = None
            self._idle_bytes += slab.size
            if self._free_counts[bucket] > self.bucket_capacity:
                self._discard([self._drop(slab)])
        if self._waiters:
            self.wake_waiters()

    def trim(self, idle_bytes_max: int) -> int:
        """Gives idle memory beyond `idle_bytes_max` back to the system; returns how many bytes.

        The coldest slabs go first, at most TRIM_SLABS_MAX in one call.
        """
        dropped: list[tuple[int, int]] = []
        while self._idle_bytes > idle_bytes_max and len(dropped) < TRIM_SLABS_MAX:
            dropped.append(self._drop(next(iter(self._idle))))
        return self._discard(dropped)

    def when_available(
        self, callback: Callable[[], object], length: int = 1, taker: str = NO_TAKER
    ) -> Waiter:
        """Call `callback` once, when `length` bytes may be there; it then tries take() again.

        The taker that holds least is called first, and its waiters in the order in which they came.
        Each is called when there is room for what it and those called before it want. So a large
        request is not overtaken for ever by small ones. The call happens inside a release(): the
        callback must not raise and had better only schedule the work.
        """
        bucket = bisect_left(BUCKET_SIZES, length)
        if bucket == len(BUCKET_SIZES) or max(BUCKET_SIZES[bucket], SLAB_SIZE) > self.budget_bytes:
            raise ValueError(f"{length} bytes never fit into a pool of {self.budget_bytes}")
        waiter = Waiter(self, bucket, taker, callback)
        self._waiters.add(taker, waiter)
        if taker:
            self.shares.note_wait(taker, BUCKET_SIZES[bucket])
        return waiter

    def forget_waiter(self, waiter: Waiter) -> None:
        """Do not call the waiter any more; those behind it may have room now."""
        self._waiters.remove(waiter.taker, waiter)
        self.wake_waiters()

    def wake_waiters(self) -> None:
        """Call the first waiters, as far as there is room for them. Harmless at any time."""
        if self._waking:
            return  # A callback released something: the loop below sees that by itself.
        self._waking = True
        try:
            promised = 0
            for _ in range(WAKES_MAX):
                waiter = self._next_waiter(promised)
                if waiter is None:
                    break
                promised += max(BUCKET_SIZES[waiter.bucket], SLAB_SIZE)
                self._waiters.remove(waiter.taker, waiter)
                waiter.callback()
        finally:
            self._waking = False

    def _next_waiter(self, promised: int) -> Waiter | None:
        """The first that its share allows, if there is room beside what is promised.

        What the broker needs itself comes before all: without a receive block nothing is read.
        """
        for taker, waiter in sorted(self._waiters.heads(), key=lambda head: head[0] != NO_TAKER):
            if taker and not self.shares.allows(taker, BUCKET_SIZES[waiter.bucket]):
                continue  # What it holds itself comes back first.
            need = max(BUCKET_SIZES[waiter.bucket], SLAB_SIZE)
            pinned = self._slab_bytes - self._idle_bytes
            reusable = not promised and self._free[waiter.bucket]
            fits = reusable or pinned + promised + need <= self.budget_bytes
            return waiter if fits else None
        return None

    def stats(self) -> PoolStats:
        """How things stand."""
        return PoolStats(
            budget_bytes=self.budget_bytes,
            in_use_bytes=self.in_use_bytes,
            free_bytes=self.free_bytes,
            in_use=self._allocated - self._returned,
            allocated=self._allocated,
            returned=self._returned,
            exhausted=self._exhausted,
            carved_bytes=self._carved_bytes,
            dropped_bytes=self._dropped_bytes,
            waiting=len(self._waiters),
        )

    def _carve(self, bucket: int) -> _Slab | None:
        """A new slab for the bucket, idle and free, or None."""
        size = max(BUCKET_SIZES[bucket], SLAB_SIZE)
        if self._slab_bytes - self._idle_bytes + size > self.budget_bytes:
            return None  # Dropping everything idle would not help.
        dropped: list[tuple[int, int]] = []
        while self._slab_bytes + size > self.budget_bytes:
            dropped.append(self._drop(next(iter(self._idle))))
        position = self._cut(size)
        if position is None:
            # There is budget, but no gap is large enough: join up all that is not in use.
            while self._idle:
                dropped.append(self._drop(next(iter(self._idle))))
            position = self._cut(size)
        if position is None:
            self._discard(dropped)
            return None
        # Pages of dropped slabs that lie in the new one are warm, and stay.
        self._discard(dropped, position, position + size)
        slab = _Slab(position, size, bucket)
        self._slab_bytes += size
        self._carved_bytes += size
        self._free[bucket][slab] = None
        self._free_counts[bucket] += slab.count
        self._idle[slab] = None
        self._idle_bytes += size
        return slab

    def _cut(self, size: int) -> int | None:
        if size == SLAB_SIZE:
            return self._extents.cut_highest(size)
        return self._extents.cut_lowest(size)

    def _drop(self, slab: _Slab) -> tuple[int, int]:
        """Forget an idle slab; the range that is a gap now, whose pages are still there."""
        del self._idle[slab]
        del self._free[slab.bucket][slab]
        self._free_counts[slab.bucket] -= slab.count
        self._idle_bytes -= slab.size
        self._slab_bytes -= slab.size
        self._extents.add(slab.position, slab.size)
        return slab.position, slab.position + slab.size

    def _discard(self, ranges: list[tuple[int, int]], kept: int = 0, kept_end: int = 0) -> int:
        """Gives the pages of the ranges back to the system; returns how many bytes.

        Those between `kept` and `kept_end` stay.
        """
        gone = 0
        for start, end in ranges:
            for low, high in ((start, min(end, kept)), (max(start, kept_end), end)):
                if low < high:
                    self._arena.give_back(low, high - low)
                    gone += high - low
        self._dropped_bytes += gone
        return gone
