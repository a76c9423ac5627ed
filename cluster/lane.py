"""The lane machine: how a log of objects is opened, appended to, and shortened. Pure.

Operations come out and results go in; no clock, no I/O. `opening`, `checkpointing` and `sweeping`
are generators that yield operations to carry out together, and get their results in that order.
A `LaneWriter` takes results one by one, because many groups are on their way at once.

The log of a lane is a walk over slots that starts at the newest checkpoint. Data counts if it was
written under the last fence passed. Behind fence f the walk continues at `f.next`.

Always, and each later line needs the earlier ones:

1. A slot that no checkpoint covers never changes: puts are put-if-absent, and only what a confirmed
   checkpoint covers is deleted. Fences are not deleted, but for rubbish in the gap of another one.
2. A fence is put into the first free slot of a walk. From then on no put of an older writer for
   that slot can succeed, however late it is executed.
3. A writer sends slots below (lowest unconfirmed + window) only. So what an old writer can still
   leave behind a fence f lies in f+1 .. f+window-1, the gap, which `f.next` skips.
4. A group is STORED when its slot and all slots of this writer before it are confirmed as its own.
   With 2: no fence lies before it, so it is in the log.
5. An opening counts if, after its fence, the newest checkpoint is still the one that its walk began
   with. Otherwise a slot it passed may have been freed, and filled again with a late fence that
   leads around a part of the log.
6. A group is REFUSED when a fence holds its slot or one before it, and no checkpoint covered that
   slot when it was listed afterwards. A covered slot may have been freed: its outcome is UNKNOWN.
7. A writer deletes by its own list. A sweep deletes what it lists, below this writer's own
   checkpoint. Packs that it does not know go only when a slot was confirmed that was sent after
   that checkpoint: this proves that every other opening began with this checkpoint or a later one.
"""

from collections.abc import Callable, Generator, Iterable, Sequence
from enum import Enum
from typing import Final, NamedTuple, Protocol, TypeAlias, TypeVar

from borzoi.cluster.keys import (
    Checkpoint,
    checkpoint_key,
    checkpoint_of,
    checkpoints_prefix,
    pack_key,
    packs_prefix,
    slot_key,
    slot_of,
    slots_prefix,
)
from borzoi.cluster.operations import (
    Create,
    Delete,
    Get,
    Listed,
    ListKeys,
    Operation,
    Put,
    PutResult,
    Result,
)
from borzoi.cluster.slots import (
    FENCE_SIZE,
    DataSlot,
    Entry,
    FenceSlot,
    Slot,
    SlotDamaged,
    decode_slot,
    encode_data,
    encode_fence,
)

READ_AHEAD: Final = 16
RACES_MAX: Final = 100
FIRST_SLOT: Final = 1
MISSING_CHECKPOINT: Final = "the newest checkpoint is listed and cannot be read"
RACE: Final = "a slot was taken and then free"

T = TypeVar("T")
Steps: TypeAlias = Generator[Sequence[Operation], Sequence[Result], T]
"""Yields operations, gets their results in the same order, returns a T."""


class LaneDamaged(Exception):
    """The log of this lane cannot be followed: a store that lost or changed an object."""


class Replay(Protocol):
    """What follows the log: the caller's copy of the state."""

    def begin(self, checkpoint: Checkpoint | None, body: bytes) -> frozenset[Checkpoint]:
        """Start from a checkpoint, or from nothing; the packs that it names. May come again."""

    def apply(self, data: DataSlot) -> bool:
        """Take a group, which is in the log for good; whether it follows what was taken before.

        It may not, because a walk over freed slots can skip some of them (5). Then nothing of it is
        taken, and the walk starts over.
        """


class Outcome(Enum):
    """What became of a group."""

    STORED = "stored"
    REFUSED = "refused"
    """It is not in the log and never will be."""
    UNKNOWN = "unknown"


class Step(NamedTuple):
    """What a writer wants done next, and the groups whose outcome is known now, by slot."""

    operations: list[Operation]
    outcomes: list[tuple[int, Outcome]]


class Opened(NamedTuple):
    """A lane that was taken over: where its walk began and what it passed."""

    lane: int
    window: int
    writer: bytes
    fence: int
    start: Checkpoint | None
    packs: frozenset[Checkpoint]
    fences: frozenset[int]


def opening(
    lane: int, window: int, writer: bytes, replay: Replay, read_ahead: int = READ_AHEAD
) -> Steps[Opened]:
    """Takes a lane over. LaneDamaged if equal walks meet the same trouble again."""
    met: tuple[Checkpoint | None, str] | None = None
    times = 0
    while True:
        start = yield from _newest_checkpoint(lane)
        walk = _Walk(lane, window, writer, replay, read_ahead)
        trouble = yield from walk.to_its_fence(start)
        if trouble is None:
            if (yield from _newest_checkpoint(lane)) == start:
                return walk.opened(start)
            met = None
            continue
        times = times + 1 if met == (start, trouble) else 1
        met = start, trouble
        if times > (RACES_MAX if trouble == RACE else 1):
            raise LaneDamaged(f"lane {lane}: {trouble}")


class _Walk:
    """One walk from a checkpoint to the first free slot, and the fence that is put there."""

    def __init__(
        self, lane: int, window: int, writer: bytes, replay: Replay, read_ahead: int
    ) -> None:
        self._lane = lane
        self._window = window
        self._read_ahead = read_ahead
        self._writer = writer
        self._replay = replay
        self._slot = FIRST_SLOT
        self._fence = 0
        self._passed: set[int] = set()
        self._packs: frozenset[Checkpoint] = frozenset()
        self._ahead: dict[int, bytes | None] = {}

    def opened(self, start: Checkpoint | None) -> Opened:
        """The lane, after this walk has put its fence."""
        return Opened(
            self._lane,
            self._window,
            self._writer,
            self._fence,
            start,
            self._packs,
            frozenset(self._passed),
        )

    def to_its_fence(self, start: Checkpoint | None) -> Steps[str | None]:
        """Walks and puts the fence; returns what was in the way, None if nothing was."""
        body: Result = b""
        if start is not None:
            (body,) = yield [Get(checkpoint_key(self._lane, start))]
            if body is None:
                return MISSING_CHECKPOINT
            self._slot, self._fence = start
        assert isinstance(body, bytes)
        self._packs = self._replay.begin(start, body)
        while True:
            found = yield from self._read()
            if found is None:
                is_ours, found = yield from self._put_fence()
                if is_ours:
                    self._pass_fence(self._slot, self._slot + self._window)
                    return None
                if found is None:
                    return RACE
            trouble = self._take(found)
            if trouble is not None:
                return trouble

    def _take(self, body: bytes) -> str | None:
        """Goes past a slot; returns what is wrong with it, None if it belongs to the log."""
        found = _decoded(body, self._lane, self._slot)
        if isinstance(found, FenceSlot):
            self._pass_fence(found.slot, found.next)
            return None
        if isinstance(found, DataSlot) and found.fence == self._fence and self._replay.apply(found):
            self._slot += 1
            return None
        return f"slot {self._slot} is not what follows fence {self._fence}"

    def _pass_fence(self, slot: int, after: int) -> None:
        self._passed.add(slot)
        self._fence = slot
        self._slot = after

    def _read(self) -> Steps[bytes | None]:
        if self._slot not in self._ahead:
            slots = range(self._slot, self._slot + self._read_ahead)
            results = yield [Get(slot_key(self._lane, slot)) for slot in slots]
            self._ahead = {slot: _bytes(body) for slot, body in zip(slots, results, strict=True)}
        return self._ahead[self._slot]

    def _put_fence(self) -> Steps[tuple[bool, bytes | None]]:
        """Puts a fence here; returns whether this slot has it, and else what the slot has."""
        after = self._slot + self._window
        body = encode_fence(FenceSlot(self._lane, self._slot, self._writer, after))
        key = slot_key(self._lane, self._slot)
        result = yield from _until_known(Create(key, body))
        self._ahead.clear()
        if result is PutResult.OK:
            return True, None
        # It may be this very fence, if the first answer was lost.
        (there,) = yield [Get(key)]
        found = _bytes(there)
        return found == body, found


class _Group:
    """A group on its way: its bytes, built once."""

    __slots__ = ("body", "is_confirmed")

    def __init__(self, body: bytes) -> None:
        self.body = body
        self.is_confirmed = False


class LaneWriter:
    """The one writer of a lane, from the opening until another fence is found."""

    def __init__(self, opened: Opened) -> None:
        self._opened = opened
        self._lane = opened.lane
        self._next = self._confirmed = opened.fence + opened.window
        self._groups: dict[int, _Group] = {}
        # The end: where the lane was lost, and what has been seen of checkpoints since.
        self._lost_at: int | None = None
        self._is_fenced = False
        self._listings = 0
        self._covered = 0
        # Checkpoints: the newest and the one before, and what a new one will free.
        self._checkpoint = opened.start
        self._previous: Checkpoint | None = None
        self._packs = opened.packs
        self._fences = opened.fences
        self._proof: int | None = None
        self._is_checkpointing = False

    @property
    def fence(self) -> int:
        """The slot of the fence that this writer writes under."""
        return self._opened.fence

    @property
    def confirmed(self) -> int:
        """The slot behind the last one that is STORED."""
        return self._confirmed

    @property
    def is_lost(self) -> bool:
        """Whether another writer has taken the lane."""
        return self._lost_at is not None

    @property
    def is_idle(self) -> bool:
        """Whether every outcome is known."""
        return not self._groups

    @property
    def has_room(self) -> bool:
        """Whether a group may be appended now."""
        return not self.is_lost and self._next < self._confirmed + self._opened.window

    def append(self, entries: Iterable[Entry]) -> tuple[int, Create]:
        """Gives a group its slot; returns the slot and the put to carry out."""
        assert self.has_room
        slot = self._next
        self._next += 1
        body = encode_data(
            DataSlot(self._lane, slot, self.fence, self._opened.writer, tuple(entries))
        )
        self._groups[slot] = _Group(body)
        return slot, Create(slot_key(self._lane, slot), body)

    def take(self, operation: Operation, result: Result) -> Step:
        """Takes the result of an operation that `append` or `take` returned."""
        if isinstance(operation, ListKeys):
            return self._listed(_listing(result))
        slot = slot_of(operation.key)
        assert slot is not None
        if slot not in self._groups or (self._lost_at is not None and slot >= self._lost_at):
            return Step([], [])
        if isinstance(operation, Create):
            assert isinstance(result, PutResult)
            return self._created(slot, operation, result)
        return self._found(slot, operation.key, _bytes(result))

    def _created(self, slot: int, operation: Create, result: PutResult) -> Step:
        match result:
            case PutResult.OK:
                return self._confirm(slot)
            case PutResult.EXISTS:
                # By another writer, or by this put: the answer to an earlier try may be lost.
                return Step([Get(operation.key)], [])
            case PutResult.UNKNOWN:
                return Step([operation._replace(tries=operation.tries + 1)], [])

    def _found(self, slot: int, key: str, body: bytes | None) -> Step:
        group = self._groups[slot]
        if body is None:
            return Step([Create(key, group.body, tries=1)], [])
        if body == group.body:
            return self._confirm(slot)
        self._lost_at = slot
        self._is_fenced = isinstance(_decoded(body, self._lane, slot), FenceSlot)
        self._listings += 1
        return Step([ListKeys(checkpoints_prefix(self._lane))], [])

    def _confirm(self, slot: int) -> Step:
        self._groups[slot].is_confirmed = True
        outcomes = []
        while (head := self._groups.get(self._confirmed)) is not None and head.is_confirmed:
            del self._groups[self._confirmed]
            outcomes.append((self._confirmed, Outcome.STORED))
            self._confirmed += 1
        return Step([], outcomes)

    def _listed(self, listed: list[Listed]) -> Step:
        """Ends the groups from where the lane was lost on; those before go on as they were."""
        self._listings -= 1
        newest = _newest(listed)
        self._covered = max(self._covered, 0 if newest is None else newest.next)
        if self._listings:
            return Step([], [])  # an earlier slot was found lost: the last listing decides
        lost_at = self._lost_at
        assert lost_at is not None
        is_covered = self._covered > lost_at
        outcome = Outcome.REFUSED if self._is_fenced and not is_covered else Outcome.UNKNOWN
        ended = [slot for slot in self._groups if slot >= lost_at]
        for slot in ended:
            del self._groups[slot]
        return Step([], [(slot, outcome) for slot in ended])

    def next_checkpoint(self) -> Checkpoint | None:
        """The name of a checkpoint of all that is STORED now, None if there is nothing new."""
        is_new = self._checkpoint is None or self._confirmed > self._checkpoint.next
        return Checkpoint(self._confirmed, self.fence) if is_new else None

    def checkpointing(
        self, name: Checkpoint, body: bytes, pack: bytes, packs: frozenset[Checkpoint]
    ) -> Steps[None]:
        """Stores a checkpoint that names `packs`, and frees what it covers; one at a time.

        Its own pack, if there is one, is put first.
        """
        assert not self._is_checkpointing
        assert name.next <= self._confirmed
        self._is_checkpointing = True
        if pack:
            yield from _until_known(Put(pack_key(self._lane, name), pack))
        yield from _until_known(Put(checkpoint_key(self._lane, name), body))
        freed = self._freed_by(name, packs)
        self._previous, self._checkpoint = self._checkpoint, name
        self._packs = packs
        self._fences = frozenset(fence for fence in self._fences if fence >= name.next)
        self._proof = self._next
        yield [Delete(key) for key in freed]
        self._is_checkpointing = False

    def _freed_by(self, name: Checkpoint, packs: frozenset[Checkpoint]) -> list[str]:
        """Keys by this writer's own list: never what it does not know."""
        begin = FIRST_SLOT if self._checkpoint is None else self._checkpoint.next
        slots = [slot for slot in range(begin, name.next) if slot not in self._fences]
        freed = [slot_key(self._lane, slot) for slot in slots]
        freed += [pack_key(self._lane, pack) for pack in sorted(self._packs - packs)]
        if self._previous is not None:
            freed.append(checkpoint_key(self._lane, self._previous))
        return freed

    def sweeping(self, is_old: Callable[[Listed], bool]) -> Steps[int]:
        """Removes what kills have left below this writer's own checkpoint; returns how much."""
        newest, previous, packs = self._checkpoint, self._previous, self._packs
        if newest is None or self._proof is None:
            return 0  # no checkpoint of its own
        is_proved = self._confirmed > self._proof
        prefixes = slots_prefix, checkpoints_prefix, packs_prefix
        results = yield [ListKeys(prefix(self._lane)) for prefix in prefixes]
        slots, checkpoints, named = map(_listing, results)
        left = [one.key for one in slots if _is_freed(one, newest) and is_old(one)]
        for one in checkpoints:
            name = checkpoint_of(one.key)
            if name is not None and name < newest and name != previous:
                left.append(one.key)
        for one in named if is_proved else []:
            name = checkpoint_of(one.key)
            if name is not None and name < newest and name not in packs:
                left.append(one.key)
        yield [Delete(key) for key in left]
        return len(left)


def _is_freed(one: Listed, newest: Checkpoint) -> bool:
    slot = slot_of(one.key)
    return slot is not None and slot < newest.next and one.size != FENCE_SIZE


def _newest_checkpoint(lane: int) -> Steps[Checkpoint | None]:
    (result,) = yield [ListKeys(checkpoints_prefix(lane))]
    return _newest(_listing(result))


def _newest(listed: list[Listed]) -> Checkpoint | None:
    names = (checkpoint_of(one.key) for one in listed)
    return max((name for name in names if name is not None), default=None)


def _until_known(put: Create | Put) -> Steps[PutResult]:
    """The same bytes under the same key, until the store says what became of them."""
    while True:
        (result,) = yield [put]
        assert isinstance(result, PutResult)
        if result is not PutResult.UNKNOWN:
            return result
        put = put._replace(tries=put.tries + 1)


def _decoded(body: bytes, lane: int, slot: int) -> Slot | None:
    """What these bytes are, None if they do not belong into this slot."""
    try:
        found = decode_slot(body)
    except SlotDamaged:
        return None
    return found if (found.lane, found.slot) == (lane, slot) else None


def _bytes(result: Result) -> bytes | None:
    assert result is None or isinstance(result, bytes)
    return result


def _listing(result: Result) -> list[Listed]:
    assert isinstance(result, list)
    return result
