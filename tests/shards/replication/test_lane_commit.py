"""What a send waits for with replication, and what happens while the store is silent."""

import errno
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from borzoi.cluster.lane import Outcome
from borzoi.cluster.slots import Entry, EntryKind
from borzoi.protocol.batch import clear_first_checksum
from borzoi.protocol.identifiers import ConsumerKind
from borzoi.protocol.message import Message, encode_messages
from borzoi.router.placement import pack_namespace
from borzoi.router.target import Target
from borzoi.shards.metadata.effects import Effects, RunRemoved
from borzoi.shards.metadata.state import Run
from borzoi.shards.partitions.durability import Durability
from borzoi.shards.partitions.group_commit import GroupCommit
from borzoi.shards.replication import lane_commit
from borzoi.shards.replication.commit import ReplicatedCommit
from borzoi.shards.replication.lane_commit import (
    REFUSED,
    STALLED,
    LaneCommit,
    LaneRules,
)
from borzoi.shards.rings.peers import ABANDONED
from tests.shards.owner import TARGET, Owner, Statuses, batch_of

DELETION = Effects(
    TARGET.birth + 1, removed=[RunRemoved(0, 0, Run(0, 1, TARGET.birth, TARGET.slot, 0))]
)
LINGER_S = 0.002
TIMEOUT_S = 30.0
WINDOW = 2
SECOND = Target(pack_namespace(0, 0, 1), 3, 2)


class HandLane:
    """A lane whose puts end when the test says so."""

    def __init__(self, window: int) -> None:
        self.window = window
        self.groups: dict[int, list[Entry]] = {}
        self.next = 100

    @property
    def has_room(self) -> bool:
        return len(self.groups) < self.window

    def append(self, entries: Iterable[Entry]) -> int:
        assert self.has_room
        self.groups[self.next] = list(entries)
        self.next += 1
        return self.next - 1


class ReplicatedOwner(Owner):
    """A shard with one lane."""

    def _new_commit(self) -> GroupCommit:
        self.ends: list[str] = []
        self.replicated = commit = ReplicatedCommit(
            self.loop.as_loop, self.board, self.disk, self.ends.append
        )
        rules = LaneRules(LINGER_S, 1 << 20, TIMEOUT_S, 60.0)
        self.lane = LaneCommit(0, self.loop.as_loop, commit, rules)
        self.hand = HandLane(WINDOW)
        self.lane.log = self.hand  # type: ignore[assignment] # all that a commit asks of it
        commit.lanes[0] = self.lane
        return commit

    def _begin(self) -> None:
        super()._begin()
        self.replicated.wire(self.partitions)

    def send_to(self, target: Target, *payloads: bytes) -> Statuses:
        statuses = Statuses()
        self.appends.append(target, batch_of(*payloads), len(payloads), False, statuses.done)
        return statuses

    def linger(self) -> None:
        self.loop.settle()
        self.loop.advance(LINGER_S)

    def end(self, outcome: Outcome = Outcome.STORED) -> None:
        """The oldest group has its outcome."""
        slot = min(self.hand.groups)
        del self.hand.groups[slot]
        self.lane.ended(slot, outcome)
        self.loop.settle()

    def silence(self) -> None:
        self.loop.advance(TIMEOUT_S + 1)
        self.lane.look()
        self.loop.settle()


@pytest.fixture
def owner(tmp_path: Path) -> Iterator[ReplicatedOwner]:
    made = ReplicatedOwner(tmp_path / "data", Durability.REPLICATED)
    yield made
    made.close()


def batches(entries: Iterable[Entry]) -> list[tuple[int, int, int]]:
    return [
        (one.namespace, one.first, one.number) for one in entries if one.kind is EntryKind.BATCH
    ]


def test_sends_share_an_object_and_are_seen_once_it_is_stored(owner: ReplicatedOwner) -> None:
    sent = [owner.send(b"a"), owner.send(b"b", b"c")]
    other = owner.send_to(SECOND, b"d")
    owner.linger()
    (entries,) = owner.hand.groups.values()
    assert batches(entries) == [(TARGET.namespace, 0, 3), (SECOND.namespace, 0, 1)]
    assert (sent, other, owner.visible()) == ([[], []], [], [])
    assert not any(path.endswith(".log") for name, path in owner.files.calls if name == "write")
    owner.end()
    assert (sent, other, owner.visible()) == ([[0], [0]], [0], [b"a", b"b", b"c"])
    assert owner.partition.log.written.next_offset == 3


def test_what_comes_meanwhile_goes_behind_it(owner: ReplicatedOwner) -> None:
    first = owner.send(b"a")
    owner.linger()
    second = owner.send(b"b")
    owner.linger()
    third = owner.send(b"c")
    owner.linger()
    # The window is full.
    assert [batches(one) for one in owner.hand.groups.values()] == [
        [(TARGET.namespace, 0, 1)],
        [(TARGET.namespace, 1, 1)],
    ]
    owner.end()
    assert (first, second, third, owner.visible()) == ([0], [], [], [b"a"])
    assert batches(owner.hand.groups[102]) == [(TARGET.namespace, 2, 1)]
    owner.end()
    owner.end()
    assert (second, third, owner.visible()) == ([0], [0], [b"a", b"b", b"c"])


def test_offsets_wait_for_the_lane(owner: ReplicatedOwner) -> None:
    owner.send(b"a", b"b")
    owner.linger()
    owner.end()
    stored, deleted = Statuses(), Statuses()
    owner.partitions.store_offset(TARGET, ConsumerKind.CONSUMER, 7, 1, 0, stored.done)
    owner.linger()
    ((entry,),) = owner.hand.groups.values()
    assert (entry.kind, entry.consumer_kind, entry.number, entry.first) == (
        EntryKind.OFFSET_STORED,
        ConsumerKind.CONSUMER,
        7,
        1,
    )
    assert stored == []
    owner.end()
    assert stored == [0]
    owner.partitions.delete_offset(TARGET, ConsumerKind.CONSUMER, 7, deleted.done)
    owner.linger()
    ((entry,),) = owner.hand.groups.values()
    assert (entry.kind, entry.number, deleted) == (EntryKind.OFFSET_DELETED, 7, [])
    owner.end()
    assert deleted == [0]


def test_commits_of_one_consumer_are_one_entry_and_refused_while_the_store_is_silent(
    owner: ReplicatedOwner,
) -> None:
    owner.send(b"a", b"b", b"c")
    owner.linger()
    owner.end()

    def store(offset: int) -> Statuses:
        stored = Statuses()
        owner.partitions.store_offset(TARGET, ConsumerKind.CONSUMER, 7, offset, 0, stored.done)
        return stored

    stored = [store(0), store(1)]
    owner.linger()
    ((entry,),) = owner.hand.groups.values()
    assert (entry.first, stored) == (1, [[], []])
    owner.silence()
    assert (stored, store(2)) == ([[ABANDONED], [ABANDONED]], [STALLED])
    assert owner.partition.offsets.get(ConsumerKind.CONSUMER, 7) == 1
    owner.end()
    again = store(2)
    owner.linger()
    owner.end()
    assert again == [0]


def test_a_flush_waits_for_what_is_on_its_way(owner: ReplicatedOwner) -> None:
    owner.send(b"a")
    owner.linger()
    flushed, level = Statuses(), Statuses()
    owner.partitions.flush(TARGET, False, flushed.done)
    owner.linger()
    assert (flushed, len(owner.hand.groups)) == ([], 1)
    owner.end()
    assert flushed == [0]
    owner.partitions.flush(TARGET, False, level.done)
    assert level == [0]


def test_a_segment_that_is_rolled_ends_behind_what_is_on_its_way(owner: ReplicatedOwner) -> None:
    owner.send(b"a")
    owner.linger()
    owner.send(b"b")
    rolled = Statuses()
    owner.commit.roll(owner.partition, rolled.done)
    owner.linger()
    owner.send(b"c")
    owner.linger()
    owner.end()
    owner.end()
    owner.end()
    assert [one.first_offset for one in owner.partition.log.sealed] == [0]
    assert owner.partition.log.written.active_segment == 2
    assert owner.visible() == [b"a", b"b", b"c"]


def test_a_silent_store_ends_sends_and_goes_on_where_it_was(owner: ReplicatedOwner) -> None:
    in_slots = [owner.send(b"a")]
    owner.linger()
    in_slots.append(owner.send(b"b"))
    owner.linger()
    staged = owner.send(b"c")
    owner.linger()
    owner.silence()
    assert (in_slots, staged) == ([[ABANDONED], [ABANDONED]], [STALLED])
    late = owner.send(b"d")
    owner.linger()
    assert late == [STALLED]
    owner.end()
    assert owner.visible() == [b"a"]
    again = owner.send(b"e")
    owner.linger()
    owner.end()
    owner.end()
    # What was refused is not there, and its offsets were given out once more.
    assert (again, owner.visible()) == ([0], [b"a", b"b", b"e"])
    assert in_slots == [[ABANDONED], [ABANDONED]]


def test_memory_of_an_abandoned_send_may_be_used_again(owner: ReplicatedOwner) -> None:
    batch, statuses = batch_of(b"kept"), Statuses()
    owner.append(batch, 1, statuses)
    owner.linger()
    owner.silence()
    assert statuses == [ABANDONED]
    batch[:] = bytes(len(batch))
    owner.end()
    assert owner.visible() == [b"kept"]


def test_who_is_taken_over_appends_nothing_more(owner: ReplicatedOwner) -> None:
    sent = owner.send(b"a")
    owner.linger()
    staged = owner.send(b"b")
    owner.loop.settle()
    owner.end(Outcome.REFUSED)
    owner.lane.lost("another node")
    assert (sent, staged, owner.ends) == ([REFUSED], [REFUSED], ["lane 0: another node"])
    later = owner.send(b"c")
    owner.linger()
    assert (later, owner.visible(), owner.hand.groups) == ([REFUSED], [], {})


def test_an_outcome_that_is_unknown_has_no_status(owner: ReplicatedOwner) -> None:
    sent = owner.send(b"a")
    owner.linger()
    owner.end(Outcome.UNKNOWN)
    assert sent == [ABANDONED]


def test_a_disk_that_takes_nothing_stops_the_broker(owner: ReplicatedOwner) -> None:
    sent = owner.send(b"a")
    owner.linger()
    behind = owner.send(b"b")
    owner.linger()
    owner.files.fail("write", errno.ENOSPC)
    owner.end()
    owner.files.repair()
    # It would leave a gap.
    owner.end()
    assert (sent, behind, owner.visible()) == ([ABANDONED], [ABANDONED], [])
    assert "what is stored cannot be written here" in owner.ends[0]


def test_a_partition_that_is_deleted_takes_nothing_that_was_on_its_way(
    owner: ReplicatedOwner,
) -> None:
    sent = owner.send(b"a")
    owner.linger()
    owner.partitions.apply_effects(DELETION)
    owner.end()
    assert sent == [0]
    assert (owner.visible(), owner.ends) == ([], [])


def test_too_much_in_one_turn_is_refused(
    owner: ReplicatedOwner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lane_commit, "GROUP_SIZE_MAX", 200)
    fits, large = owner.send(b"a"), owner.send_to(SECOND, bytes(200))
    owner.linger()
    owner.end()
    assert (fits, large) == ([0], [STALLED])


def test_nothing_more_is_sent_than_a_checkpoint_can_hold(
    owner: ReplicatedOwner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lane_commit, "UNPACKED_SIZE_MAX", 100)
    owner.send(bytes(100))
    owner.linger()
    waits = owner.send(b"a")
    owner.linger()
    owner.end()
    assert (owner.hand.groups, waits) == ({}, [])
    owner.lane.begin_checkpoint()
    owner.linger()
    owner.end()
    assert waits == [0]


def test_a_duplicate_of_what_is_on_its_way_is_found(tmp_path: Path) -> None:
    owner = ReplicatedOwner(tmp_path / "data", Durability.REPLICATED, window=(100, 0))

    def send(id: int) -> Statuses:
        statuses = Statuses()
        batch = memoryview(bytearray(encode_messages([Message(b"%d" % id, id=id)])))
        clear_first_checksum(batch)
        owner.append(batch, 1, statuses)
        owner.linger()
        return statuses

    sent = [send(1)]
    while owner.disk.waiting:
        owner.disk.run_next()
        owner.linger()
    sent += [send(2), send(1)]
    while owner.hand.groups:
        owner.end()
    assert (sent, owner.visible()) == ([[0], [0], [0]], [b"1", b"2"])
    # The window is lost with what was refused; it is read back once the log is level.
    owner.silence()
    lost = send(3)
    owner.silence()
    assert lost == [ABANDONED]
    late = send(3)
    assert late == [STALLED]
    owner.end()
    again = send(3)
    while owner.disk.waiting:
        owner.disk.run_next()
        owner.linger()
    while owner.hand.groups:
        owner.end()
    assert (again, owner.visible()) == ([0], [b"1", b"2", b"3"])
    owner.close()
