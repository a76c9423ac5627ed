"""Two faults that the simulation has found in the design, step by step, as rules now need them."""

from types import ModuleType
from typing import Any

import pytest

from borzoi.cluster import lane
from borzoi.cluster.keys import Checkpoint, checkpoint_key, pack_key, slot_key
from borzoi.cluster.operations import ListKeys, Operation, Result
from borzoi.cluster.slots import DataSlot, FenceSlot, encode_data, encode_fence
from tests.cluster.copies import Copy, batch
from tests.cluster.history import History
from tests.cluster.mutations import MUTATIONS, mutated
from tests.cluster.test_lane import Objects, drive

WINDOW = 2
ONE, TWO, THREE = b"1" * 16, b"2" * 16, b"3" * 16


def put_data(objects: Objects, slot: int, fence: int, writer: bytes, offset: int) -> None:
    data = DataSlot(0, slot, fence, writer, (batch(offset, [100 + offset]),))
    objects[slot_key(0, slot)] = encode_data(data)


def put_fence(objects: Objects, slot: int, writer: bytes) -> None:
    objects[slot_key(0, slot)] = encode_fence(FenceSlot(0, slot, writer, slot + WINDOW))


class StartsLate(Objects):
    """The first listing of checkpoints was read long ago: there was none then."""

    listed = 0

    def carry_out(self, operation: Operation) -> Result:
        if isinstance(operation, ListKeys):
            self.listed += 1
            if self.listed == 1:
                return []
        return super().carry_out(operation)


def test_a_walk_that_is_led_around_a_part_of_the_log_takes_nothing_of_the_rest() -> None:
    """Slot 3 was freed and filled with a late fence; its `next` leads past slot 4."""
    objects = StartsLate()
    name = Checkpoint(4, 1)
    before = Copy(History())
    before.take([batch(0, [100])])
    body, pack, _ = before.checkpoint(name)
    objects[checkpoint_key(0, name)], objects[pack_key(0, name)] = body, pack
    put_fence(objects, 1, ONE)
    put_fence(objects, 3, THREE)
    put_data(objects, 4, 1, ONE, 1)
    put_fence(objects, 5, TWO)
    put_data(objects, 7, 5, TWO, 2)
    history = History()
    copy = Copy(history)
    opened = drive(lane.opening(0, WINDOW, THREE, copy), objects)
    assert objects.listed == 3  # the stale one, and those before and behind the second walk
    assert opened.start == name
    assert copy.length == 3
    assert copy.tail == [101, 102]
    assert history.problems == []


class Writer:
    """A writer that sends one group at a time, and its copy."""

    def __init__(self, machine: ModuleType, objects: Objects, identity: bytes) -> None:
        self.objects = objects
        self.copy = Copy(History())
        self.lane: Any = machine.LaneWriter(
            drive(machine.opening(0, WINDOW, identity, self.copy), objects)
        )

    def append(self) -> None:
        entries = [batch(self.copy.length, [100 + self.copy.length])]
        _, put = self.lane.append(entries)
        step = self.lane.take(put, self.objects.carry_out(put))
        assert [outcome.value for _, outcome in step.outcomes] == ["stored"]
        self.copy.take(entries)

    def checkpoint(self) -> Checkpoint:
        name: Checkpoint = self.lane.next_checkpoint()
        body, pack, packs = self.copy.checkpoint(name)
        drive(self.lane.checkpointing(name, body, pack, packs), self.objects)
        return name

    def sweep(self) -> None:
        drive(self.lane.sweeping(lambda one: True), self.objects)


(NO_PROOF,) = [one for one in MUTATIONS if one.name.endswith("without a proof")]


@pytest.mark.parametrize(
    ("machine", "is_kept"), [(lane, True), (mutated(NO_PROOF), False)], ids=["proof", "none"]
)
def test_a_sleeper_does_not_sweep_a_pack_that_another_opening_relies_on(
    machine: ModuleType, is_kept: bool
) -> None:
    objects = Objects()
    first = Writer(machine, objects, ONE)
    first.append()
    # Its checkpoint is on its way, and arrives when the second writer has opened without it.
    late = Checkpoint(first.lane.confirmed, first.lane.fence)
    body, pack, _ = first.copy.checkpoint(late)
    objects[pack_key(0, late)] = pack
    second = Writer(machine, objects, TWO)
    objects[checkpoint_key(0, late)] = body
    third = Writer(machine, objects, THREE)
    assert third.copy.pieces[0].pack == late
    # The second one sleeps, and knows neither this checkpoint nor that it is fenced.
    second.checkpoint()
    second.sweep()
    third.append()
    third.checkpoint()
    assert (pack_key(0, late) in objects) == is_kept
    log = third.copy.whole(lambda name: objects.get(pack_key(0, name)))
    assert (sorted(log) == [0, 1]) == is_kept


def test_a_pack_of_a_checkpoint_that_never_came_is_swept_in_the_end() -> None:
    objects = Objects()
    first = Writer(lane, objects, ONE)
    first.append()
    late = Checkpoint(first.lane.confirmed, first.lane.fence)
    objects[pack_key(0, late)] = first.copy.checkpoint(late)[1]
    second = Writer(lane, objects, TWO)
    second.append()
    name = second.checkpoint()
    second.sweep()
    assert pack_key(0, late) in objects
    second.append()
    second.sweep()
    assert pack_key(0, late) not in objects
    assert pack_key(0, name) in objects
