"""The lane machine step by step; the simulation has everything that comes together."""

from collections.abc import Generator, Sequence
from typing import Any

import pytest

from borzoi.cluster.keys import Checkpoint, checkpoint_key, slot_key
from borzoi.cluster.lane import (
    RACES_MAX,
    LaneDamaged,
    LaneWriter,
    Opened,
    Outcome,
    opening,
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
    pause_s,
)
from borzoi.cluster.slots import (
    DataSlot,
    Entry,
    EntryKind,
    FenceSlot,
    decode_slot,
    encode_data,
    encode_fence,
)

WRITER, OTHER = b"w" * 16, b"o" * 16
ROW = (Entry(EntryKind.OFFSET_STORED, first=1),)


class Follower:
    """A Replay that notes what it was given."""

    def __init__(self) -> None:
        self.slots: list[int] = []

    def begin(self, checkpoint: Checkpoint | None, body: bytes) -> frozenset[Checkpoint]:
        self.slots = []
        return frozenset()

    def apply(self, data: DataSlot) -> bool:
        self.slots.append(data.slot)
        return True


class Objects(dict[str, bytes]):
    """A store that does at once what it is asked."""

    def carry_out(self, operation: Operation) -> Result:
        match operation:
            case Create(key, body):
                return PutResult.OK if self.setdefault(key, body) is body else PutResult.EXISTS
            case Put(key, body):
                self[key] = body
                return PutResult.OK
            case Get(key):
                return self.get(key)
            case Delete(key):
                self.pop(key, None)
                return None
            case ListKeys(prefix):
                keys = [key for key in sorted(self) if key.startswith(prefix + "/")]
                return [Listed(key, len(self[key]), 0.0) for key in keys]


def drive(steps: Generator[Sequence[Operation], Sequence[Result], Any], objects: Objects) -> Any:
    results: list[Result] = []
    operations = next(steps)
    while True:
        results = [objects.carry_out(operation) for operation in operations]
        try:
            operations = steps.send(results)
        except StopIteration as end:
            return end.value


def opened(objects: Objects, writer: bytes = WRITER) -> LaneWriter:
    result = drive(opening(0, 4, writer, Follower()), objects)
    assert isinstance(result, Opened)
    return LaneWriter(result)


def test_an_empty_lane_gets_a_fence_in_its_first_slot() -> None:
    objects = Objects()
    writer = opened(objects)
    assert decode_slot(objects[slot_key(0, 1)]) == FenceSlot(0, 1, WRITER, 5)
    assert writer.fence == 1
    assert writer.append(ROW)[0] == 5


def test_the_next_one_follows_the_log_and_puts_its_fence_behind_it() -> None:
    objects = Objects()
    first = opened(objects)
    for _ in range(2):
        objects.carry_out(first.append(ROW)[1])
    follower = Follower()
    second = drive(opening(0, 4, OTHER, follower), objects)
    assert follower.slots == [5, 6]
    assert second.fence == 7


def test_groups_are_on_their_way_within_the_window() -> None:
    writer = opened(Objects())
    puts = [writer.append(ROW)[1] for _ in range(4)]
    assert not writer.has_room
    # Not the head: confirmed, and not STORED yet.
    assert writer.take(puts[1], PutResult.OK).outcomes == []
    assert not writer.has_room
    stored = writer.take(puts[0], PutResult.OK).outcomes
    assert stored == [(5, Outcome.STORED), (6, Outcome.STORED)]
    assert writer.has_room


def test_an_unknown_put_is_repeated_with_the_same_bytes_and_read_back() -> None:
    writer = opened(Objects())
    _, put = writer.append(ROW)
    (again,), _ = writer.take(put, PutResult.UNKNOWN)
    assert again == put._replace(tries=1)
    (get,), _ = writer.take(again, PutResult.EXISTS)
    assert get == Get(put.key)
    assert writer.take(get, put.body).outcomes == [(5, Outcome.STORED)]


def test_a_put_that_is_taken_and_then_missing_is_put_again() -> None:
    writer = opened(Objects())
    _, put = writer.append(ROW)
    (get,), _ = writer.take(put, PutResult.EXISTS)
    (again,), _ = writer.take(get, None)
    assert again == put._replace(tries=1)


def test_a_fence_refuses_what_comes_from_there_on() -> None:
    objects = Objects()
    first = opened(objects)
    puts = [first.append(ROW)[1] for _ in range(3)]
    objects.carry_out(puts[0])
    opened(objects, OTHER)
    (get,), _ = first.take(puts[1], PutResult.EXISTS)
    (listing,), _ = first.take(get, objects.carry_out(get))
    assert first.is_lost
    assert not first.has_room
    refused = first.take(listing, objects.carry_out(listing)).outcomes
    assert refused == [(6, Outcome.REFUSED), (7, Outcome.REFUSED)]
    # The one before the fence is in the log, and its answer comes last.
    assert first.take(puts[0], PutResult.OK).outcomes == [(5, Outcome.STORED)]
    assert first.is_idle


def test_a_fence_in_a_slot_that_may_have_been_freed_says_nothing() -> None:
    writer = opened(Objects())
    _, put = writer.append(ROW)
    (get,), _ = writer.take(put, PutResult.EXISTS)
    (listing,), _ = writer.take(get, encode_fence(FenceSlot(0, 5, OTHER, 9)))
    newest = [Listed(checkpoint_key(0, Checkpoint(6, 1)), 10, 0.0)]
    assert writer.take(listing, newest).outcomes == [(5, Outcome.UNKNOWN)]


def test_anything_but_a_fence_says_nothing() -> None:
    writer = opened(Objects())
    _, put = writer.append(ROW)
    (get,), _ = writer.take(put, PutResult.EXISTS)
    (listing,), _ = writer.take(get, b"damaged")
    assert writer.take(listing, []).outcomes == [(5, Outcome.UNKNOWN)]


@pytest.mark.parametrize(
    "found",
    [
        b"garbage",
        encode_data(DataSlot(0, 2, 0, OTHER, ROW)),  # under a fence that was not passed
        encode_data(DataSlot(1, 2, 1, OTHER, ROW)),  # of another lane
        encode_fence(FenceSlot(0, 3, OTHER, 5)),  # of another slot
    ],
)
def test_what_does_not_follow_is_damage_the_second_time(found: bytes) -> None:
    fence = encode_fence(FenceSlot(0, 1, OTHER, 2))
    objects = Objects({slot_key(0, 1): fence, slot_key(0, 2): found})
    with pytest.raises(LaneDamaged, match="slot 2 is not what follows fence 1"):
        drive(opening(0, 4, WRITER, Follower()), objects)


def test_a_checkpoint_that_cannot_be_read_is_damage_the_second_time() -> None:
    class Forgetful(Objects):
        def carry_out(self, operation: Operation) -> Result:
            return None if isinstance(operation, Get) else super().carry_out(operation)

    objects = Forgetful({checkpoint_key(0, Checkpoint(3, 1)): b"state"})
    with pytest.raises(LaneDamaged, match="cannot be read"):
        drive(opening(0, 4, WRITER, Follower()), objects)


def test_a_store_that_takes_and_has_nothing_is_not_asked_for_ever() -> None:
    class Confused(Objects):
        asked = 0

        def carry_out(self, operation: Operation) -> Result:
            if isinstance(operation, Create):
                self.asked += 1
                return PutResult.EXISTS
            return super().carry_out(operation)

    objects = Confused()
    with pytest.raises(LaneDamaged, match="taken and then free"):
        drive(opening(0, 4, WRITER, Follower()), objects)
    assert objects.asked == RACES_MAX + 1


def test_a_checkpoint_frees_what_it_covers_and_keeps_fences() -> None:
    objects = Objects()
    writer = opened(objects)
    for number in range(3):
        for _ in range(2):
            _, put = writer.append(ROW)
            assert writer.take(put, objects.carry_out(put)).outcomes
        name = writer.next_checkpoint()
        assert name == Checkpoint(7 + 2 * number, 1)
        drive(writer.checkpointing(name, b"state", b"pack", frozenset([name])), objects)
    names = [Checkpoint(9, 1), Checkpoint(11, 1)]
    kept = [checkpoint_key(0, name) for name in names]
    pack = kept[-1].replace("checkpoints", "packs")
    assert sorted(objects) == [*kept, pack, slot_key(0, 1)]
    assert writer.next_checkpoint() is None


def test_a_pause_doubles_up_to_two_seconds() -> None:
    pauses = [pause_s(tries) for tries in range(9)]
    assert pauses == [0.0, 0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 2.0, 2.0]
    assert pause_s(10_000) == 2.0
