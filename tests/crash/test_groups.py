"""Groups when members, workers or everything die: S1 in the size of a test run, and one by one."""

import os
import signal
import struct
from contextlib import suppress
from pathlib import Path

import pytest

from borzoi.protocol.commands.groups import (
    CreateConsumerGroup,
    DeleteConsumerGroup,
    GetConsumerGroup,
    JoinConsumerGroup,
    LeaveConsumerGroup,
)
from borzoi.protocol.commands.messages import PollMessages
from borzoi.protocol.commands.offsets import GetConsumerOffset, StoreConsumerOffset
from borzoi.protocol.commands.system import GetMe
from borzoi.protocol.errors import (
    BrokerError,
    ConsumerGroupMemberNotFound,
    NotResolvedConsumer,
)
from borzoi.protocol.responses.consumers import ConsumerGroupMember
from borzoi.protocol.responses.polled import PolledMessages
from tests.broker import BrokerProcess, wait_for
from tests.conftest import NewBroker
from tests.crash.group_churn import GROUP, NAME, NEXT, SETTINGS, run
from tests.crash.group_ledger import Commit, Delivery, GroupLedger, Span, Violation
from tests.crash.load import PARTITIONS, STREAM, TOPIC, create_topic
from tests.shard_wires import connect, connect_to_shard
from tests.wire import Closed, Wire

EVENTS = 200
SEED = 20
DEATH_TIMEOUT_S = 30.0
ALL = list(range(PARTITIONS))


@pytest.mark.slow
def test_members_come_and_go(tmp_path: Path) -> None:
    summary = run(tmp_path / "data", EVENTS, SEED)
    print(summary)
    assert summary.events == EVENTS
    assert summary.shards == {0, 1}
    assert min(summary.joins, summary.leaves, summary.kills, summary.pauses) > 10


@pytest.mark.slow
def test_workers_die_while_members_come_and_go(tmp_path: Path) -> None:
    summary = run(tmp_path / "data", 20, SEED, worker_kills=2)
    print(summary)
    assert summary.worker_kills == 2


# One broker, one death at a time.


def make(new_broker: NewBroker, **settings: str) -> BrokerProcess:
    broker = new_broker(**{**SETTINGS, **settings})
    with connect(broker) as wire:
        create_topic(wire)
        wire.ask(CreateConsumerGroup(STREAM, TOPIC, NAME))
        for partition in ALL:
            wire.append(STREAM, TOPIC, partition, [b"first", b"second"])
    return broker


def join(wire: Wire) -> None:
    wire.ask(JoinConsumerGroup(STREAM, TOPIC, NAME))


def members(wire: Wire) -> tuple[ConsumerGroupMember, ...]:
    found: tuple[ConsumerGroupMember, ...] = wire.ask(GetConsumerGroup(STREAM, TOPIC, NAME)).members
    return found


def shares(wire: Wire) -> list[list[int]]:
    return [sorted(member.partitions) for member in members(wire)]


def poll(
    wire: Wire, partition: int | None = None, *, count: int = 10, commit: bool = False
) -> PolledMessages:
    polled = wire.ask(PollMessages(GROUP, STREAM, TOPIC, partition, NEXT, count, commit))
    assert isinstance(polled, PolledMessages)
    return polled


def stored(wire: Wire) -> list[int | None]:
    found = [wire.ask(GetConsumerOffset(GROUP, STREAM, TOPIC, one)) for one in ALL]
    return [None if one is None else one.stored_offset for one in found]


def kill_worker(broker: BrokerProcess, shard: int) -> None:
    pid = broker.workers()[shard]
    os.kill(pid, signal.SIGKILL)
    wait_for(lambda: broker.workers().get(shard, pid) != pid, DEATH_TIMEOUT_S)


def eventually(wire: Wire, expected: list[list[int]]) -> None:
    def agreed() -> bool:
        try:
            return shares(wire) == expected
        except BrokerError:
            return False  # Shard 0 is away: it is the one to be asked.

    wait_for(agreed, DEATH_TIMEOUT_S)


def seen_in_a_round(wire: Wire) -> dict[int, int]:
    """How many messages each partition gave in one round; owners that are away are waited for."""
    found: dict[int, int] = {}

    def complete() -> bool:
        try:
            polled = poll(wire, count=1)
        except BrokerError:
            return False
        found[polled.partition_id] = len(polled.messages)
        return len(found) == PARTITIONS

    wait_for(complete, DEATH_TIMEOUT_S)
    return found


@pytest.mark.slow
def test_workers_die_and_members_stay_or_go(new_broker: NewBroker) -> None:
    # Which member dies with which shard is what is tested: none moves to its partitions' owner.
    broker = make(new_broker, IGGY_TCP_SOCKET_MIGRATION="false")
    with connect_to_shard(broker, 0) as zero:
        with connect_to_shard(broker, 1) as one:
            join(zero)
            join(one)
            assert [len(share) for share in shares(one)] == [4, 4]
            poll(zero, 0, count=1, commit=True)
            kill_worker(broker, 1)
            with pytest.raises(Closed):
                poll(one)
        eventually(zero, [ALL])
        assert seen_in_a_round(zero) == dict.fromkeys(ALL, 1)
        one = connect_to_shard(broker, 1)
        join(one)
        # Polled and not committed: this waits for its time, and then they share again.
        wait_for(lambda: [len(share) for share in shares(one)] == [4, 4], DEATH_TIMEOUT_S)
        me = one.ask(GetMe())
        mine = members(one)[1]
        kill_worker(broker, 0)
        with pytest.raises(Closed):
            poll(zero)
    # Its connection, its membership and its number outlive shard 0.
    eventually(one, [ALL])
    assert members(one)[0].id == mine.id
    assert one.ask(GetMe()) == me
    assert seen_in_a_round(one) == dict.fromkeys(ALL, 1)
    assert [offset for offset in stored(one) if offset is not None] == [0]
    one.ask(StoreConsumerOffset(GROUP, STREAM, TOPIC, 3, 1))
    with connect_to_shard(broker, 0) as other:
        join(other)
        wait_for(lambda: [len(share) for share in shares(other)] == [4, 4], DEATH_TIMEOUT_S)
        other.ask(LeaveConsumerGroup(STREAM, TOPIC, NAME))
    assert shares(one) == [ALL]
    one.close()


@pytest.mark.slow
def test_asking_about_a_group_costs_no_membership_while_shard_0_is_away(
    new_broker: NewBroker,
) -> None:
    # No request waits as long as the start of a worker takes, which the nursery delays.
    broker = make(new_broker, IGGY_LIMITS_REQUEST_TIMEOUT="20ms")
    with connect_to_shard(broker, 1) as one:
        join(one)
        mine = members(one)
        nursery = broker.nursery()
        os.kill(nursery, signal.SIGSTOP)
        os.kill(broker.workers()[0], signal.SIGKILL)
        refused = 0

        def is_back() -> bool:
            nonlocal refused
            try:
                found = members(one), stored(one)
            except BrokerError:
                refused += 1
                with suppress(ProcessLookupError):
                    os.kill(nursery, signal.SIGCONT)
                return False
            return found == (mine, [None] * PARTITIONS) and refused > 0

        wait_for(is_back, DEATH_TIMEOUT_S)


@pytest.mark.slow
def test_time_is_over_for_a_member_that_does_not_commit(new_broker: NewBroker) -> None:
    broker = make(new_broker, IGGY_CONSUMER_GROUP_REBALANCING_TIMEOUT="600ms")
    with connect_to_shard(broker, 0) as zero, connect_to_shard(broker, 1) as one:
        join(zero)
        for _ in ALL:
            assert len(poll(zero).messages) == 2
        join(one)
        assert shares(one) == [ALL, []]
        assert poll(one).messages == ()
        eventually(one, [[0, 1, 2, 3], [4, 5, 6, 7]])
        # Not committed, so it comes again, and the late commit counts no more.
        assert len(poll(one, 7).messages) == 2
        with pytest.raises(NotResolvedConsumer):
            zero.ask(StoreConsumerOffset(GROUP, STREAM, TOPIC, 7, 1))
        zero.ask(StoreConsumerOffset(GROUP, STREAM, TOPIC, 0, 1))


@pytest.mark.slow
@pytest.mark.parametrize("clean", [True, False])
def test_groups_and_offsets_outlive_the_broker_and_members_do_not(
    new_broker: NewBroker, clean: bool
) -> None:
    broker = make(new_broker)
    with connect(broker) as wire:
        wire.ask(CreateConsumerGroup(STREAM, TOPIC, "deleted"))
        wire.ask(CreateConsumerGroup(STREAM, TOPIC, "other"))
        wire.ask(DeleteConsumerGroup(STREAM, TOPIC, "deleted"))
        join(wire)
        for number, partition in enumerate(ALL):
            poll(wire, partition, count=1 + number % 2, commit=True)
        before = stored(wire)
        assert before == [0, 1] * 4
        if clean:
            assert broker.stop() == 0
        else:
            broker.kill()
    # What a worker left that died before it had carried out a deletion.
    leftover = broker.data / "streams/0/topics/0/partitions/3/offsets/groups/1"
    leftover.write_bytes(struct.pack("<Q", 1))
    broker.start()
    with connect(broker) as wire:
        assert members(wire) == ()
        assert wire.ask(GetConsumerGroup(STREAM, TOPIC, "deleted")) is None
        assert wire.ask(GetConsumerGroup(STREAM, TOPIC, "other")).group.id == 2
        assert stored(wire) == before
        assert not leftover.exists()
        with pytest.raises(ConsumerGroupMemberNotFound):
            poll(wire)
        join(wire)
        assert seen_in_a_round(wire) == {one: 1 - one % 2 for one in ALL}


@pytest.mark.slow
def test_a_dead_worker_keeps_no_offset_of_a_deleted_group(new_broker: NewBroker) -> None:
    # No request waits for the dead one: the group is deleted and made again before it is back.
    broker = make(new_broker, IGGY_LIMITS_REQUEST_TIMEOUT="20ms")
    with connect_to_shard(broker, 0) as zero:
        join(zero)
        for _ in ALL:
            poll(zero, commit=True)
        assert stored(zero) == [1] * PARTITIONS
        pid = broker.workers()[1]
        os.kill(pid, signal.SIGKILL)
        zero.ask(DeleteConsumerGroup(STREAM, TOPIC, NAME))
        assert zero.ask(CreateConsumerGroup(STREAM, TOPIC, NAME)).id == 0
    wait_for(lambda: _nothing_is_stored(broker), DEATH_TIMEOUT_S)


def _nothing_is_stored(broker: BrokerProcess) -> bool:
    try:
        with connect(broker) as wire:
            found = stored(wire)
    except (BrokerError, Closed):
        return False  # The worker is not back yet.
    assert found == [None] * PARTITIONS
    return True


# The judge itself.


def ledger(*deliveries: Delivery) -> GroupLedger:
    made = GroupLedger(1.0)
    for one in deliveries:
        made.delivered(0, one)
    return made


def test_the_judge_sees_what_was_skipped() -> None:
    with pytest.raises(Violation, match="skipped"):
        ledger(Delivery("a", 0, 3, 1, 2), Delivery("a", 5, 6, 3, 4)).judge({0: 7})
    assert ledger(Delivery("a", 0, 6, 1, 2)).judge({0: 7}).delivered == 7


def test_the_judge_sees_what_was_committed_and_came_again() -> None:
    books = ledger(Delivery("a", 0, 3, 1, 2), Delivery("a", 3, 6, 4, 5))
    books.committed(0, Commit(3, 3))
    with pytest.raises(Violation, match="committed before"):
        books.judge({0: 7})


def test_the_judge_sees_two_owners() -> None:
    books = ledger(Delivery("a", 0, 3, 10, 11), Delivery("b", 2, 6, 12, 13))
    with pytest.raises(Violation, match="no member left"):
        books.judge({0: 7})
    books.joins.append(Span(12.5, 12.6))
    with pytest.raises(Violation, match="no member left"):
        books.judge({0: 7})
    books.joins[0] = Span(11, 11.1)
    assert books.judge({0: 7}).twice == 2
    books.joins.clear()
    books.departures.append(Span(5, 9))
    with pytest.raises(Violation, match="no member left"):
        books.judge({0: 7})
    books.departures.append(Span(11, 12))
    assert books.judge({0: 7}).twice == 2
