"""Iteration, starts, commits, groups and idling of consumers, against a broker in memory."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from borzoi.client import (
    COMMIT_AFTER_EACH,
    COMMIT_DISABLED,
    COMMIT_ON_CLOSE,
    COMMIT_ON_POLL,
    FIRST,
    LAST,
    NEXT,
    CommitPolicy,
    Idling,
    InvalidArgument,
    MessageConsumer,
    commit_after,
    commit_every,
    from_offset,
    from_timestamp,
)
from borzoi.client.reading import Reading
from borzoi.client.sources import PARTITIONS_AGE_MAX_S, GroupMember, OwnPartitions, Source
from borzoi.protocol.errors import ConnectionClosed, PartitionNotFound, TopicIdNotFound
from borzoi.protocol.identifiers import Consumer, ConsumerKind, PollingStrategy
from tests.client.conftest import Run
from tests.client.small_broker import STREAM, TOPIC, SmallBroker
from tests.conditions import until

ALONE = Consumer(ConsumerKind.CONSUMER, "me")
GROUP = Consumer(ConsumerKind.GROUP, "g")


class Clock:
    """Time that passes only while the consumer waits; at its end the consumer is closed."""

    def __init__(self, budget_s: float = 0.0) -> None:
        self.now_s = 1000.0
        self.end_s = self.now_s + budget_s
        self.waits: list[float] = []
        self.on_wait: Callable[[], None] = lambda: None

    def __call__(self) -> float:
        return self.now_s

    async def pause(self, closing: asyncio.Event, wait_s: float) -> None:
        self.waits.append(wait_s)
        self.now_s += wait_s
        self.on_wait()
        if self.now_s >= self.end_s:
            closing.set()


def consumer_on(
    broker: SmallBroker,
    *,
    who: Consumer = ALONE,
    start: PollingStrategy = NEXT,
    last_count: int = 1,
    commit: CommitPolicy = COMMIT_DISABLED,
    batch_size: int = 4,
    partitions: list[int] | None = None,
    clock: Clock | None = None,
    idling: Idling | None = None,
) -> MessageConsumer:
    """One that ends when there is nothing to read, unless its clock says otherwise."""
    clock = clock or Clock()
    reading = Reading(
        broker,
        STREAM,
        TOPIC,
        who,
        start=start,
        last_count=last_count,
        count=batch_size,
        auto_commit=commit.on_poll,
    )
    source: Source
    if who.kind == ConsumerKind.GROUP:
        source = GroupMember(reading, creates_group=True)
    else:
        source = OwnPartitions(reading, partitions, clock)
    return MessageConsumer(
        reading, source, commit, idling or Idling(), clock_s=clock, pause=clock.pause
    )


async def read(consumer: MessageConsumer) -> list[str]:
    async with consumer:
        return [message.payload.decode() async for message in consumer]


def names(partition_id: int, first: int, last: int) -> list[str]:
    return [f"{partition_id}:{offset}" for offset in range(first, last + 1)]


def test_all_messages_of_all_partitions_once_and_in_order(run: Run) -> None:
    async def test() -> None:
        broker = SmallBroker.of(9, 0, 3)
        found = await read(consumer_on(broker))
        assert sorted(found) == sorted(names(0, 0, 8) + names(2, 0, 2))
        assert [name for name in found if name[0] == "0"] == names(0, 0, 8)
        assert broker.commits == {}

    run(test())


def test_partitions_take_turns(run: Run) -> None:
    async def test() -> None:
        found = await read(consumer_on(SmallBroker.of(8, 8), batch_size=4))
        assert found == names(0, 0, 3) + names(1, 0, 3) + names(0, 4, 7) + names(1, 4, 7)

    run(test())


def test_chosen_partitions_only(run: Run) -> None:
    async def test() -> None:
        assert await read(consumer_on(SmallBroker.of(2, 2, 2), partitions=[1])) == names(1, 0, 1)
        with pytest.raises(PartitionNotFound):
            await read(consumer_on(SmallBroker.of(2), partitions=[7]))

    run(test())


def test_the_partition_of_a_message(run: Run) -> None:
    async def test() -> None:
        consumer = consumer_on(SmallBroker.of(3, 3), batch_size=2)
        async for message in consumer:
            assert message.payload.startswith(b"%d:" % consumer.partition_id)

    run(test())


@pytest.mark.parametrize(
    ("start", "last_count", "first_offset"),
    [
        (FIRST, 1, 0),
        (NEXT, 1, 5),  # 4 is committed
        (from_offset(7), 1, 7),
        (from_timestamp(106), 1, 6),
        (LAST, 1, 9),
        (LAST, 3, 7),
        (LAST, 0, 10),
        (LAST, 99, 0),
    ],
)
def test_starts(run: Run, start: PollingStrategy, last_count: int, first_offset: int) -> None:
    async def test() -> None:
        broker = SmallBroker.of(10)
        broker.commits[ALONE.kind, ALONE.id, 0] = 4
        clock = Clock(budget_s=0.0015)
        clock.on_wait = lambda: broker.append(0) if len(clock.waits) == 1 else None
        consumer = consumer_on(broker, start=start, last_count=last_count, clock=clock)
        assert await read(consumer) == names(0, first_offset, 10)

    run(test())


def test_the_end_of_an_empty_partition_is_its_start(run: Run) -> None:
    async def test() -> None:
        broker = SmallBroker.of(0)
        clock = Clock(budget_s=0.0015)
        clock.on_wait = lambda: broker.append(0, 3) if len(clock.waits) == 1 else None
        assert await read(consumer_on(broker, start=LAST, clock=clock)) == names(0, 0, 2)

    run(test())


def test_batches(run: Run) -> None:
    async def test() -> None:
        broker = SmallBroker.of(6, 3)
        async with consumer_on(broker, commit=COMMIT_ON_CLOSE) as consumer:
            assert (await anext(consumer)).payload == b"0:0"
            found = [
                (batch.partition_id, [message.offset for message in batch.messages])
                async for batch in consumer.batches()
            ]
        assert found == [(0, [1, 2, 3]), (1, [0, 1, 2]), (0, [4, 5])]
        assert broker.commit_calls == [(0, 5), (1, 2)]

    run(test())


def test_batches_of_what_is_there_now(run: Run) -> None:
    async def test() -> None:
        broker = SmallBroker.of(6, 3)
        clock = Clock(budget_s=1)
        async with consumer_on(broker, clock=clock) as consumer:
            counts = [len(batch.messages) async for batch in consumer.batches(wait=False)]
            broker.append(1)
            counts += [len(batch.messages) async for batch in consumer.batches(wait=False)]
        assert counts == [4, 3, 2, 1]
        assert clock.waits == []

    run(test())


def test_idle_consumers_ask_less_and_less(run: Run) -> None:
    """The cost of an hour without a message, in requests."""

    async def test() -> None:
        broker = SmallBroker.of(0)
        clock = Clock(budget_s=3600)
        assert await read(consumer_on(broker, partitions=[0], clock=clock)) == []
        waits = [0.001, 0.002, 0.004, 0.008, 0.016, 0.032, 0.064, 0.1]
        assert clock.waits[: len(waits)] == pytest.approx(waits)
        assert set(clock.waits[len(waits) :]) == {0.1}
        assert broker.polls.total() == len(clock.waits) < 36_010

    run(test())


def test_a_message_ends_the_idleness(run: Run) -> None:
    async def test() -> None:
        broker = SmallBroker.of(0)
        clock = Clock(budget_s=1.0)
        clock.on_wait = lambda: broker.append(0) if len(clock.waits) == 12 else None
        await read(consumer_on(broker, clock=clock, idling=Idling(0.01, 0.05)))
        assert clock.waits[11:15] == pytest.approx([0.05, 0.01, 0.02, 0.04])

    run(test())


def test_an_idle_member_asks_once_for_each_of_its_partitions(run: Run) -> None:
    async def test() -> None:
        broker = SmallBroker.of(0, 0, 0, 0)
        broker.assigned = [0, 2, 3]
        clock = Clock(budget_s=360)
        await read(consumer_on(broker, who=GROUP, clock=clock))
        assert broker.polls.total() <= 3 * len(clock.waits) + 1
        assert len(clock.waits) < 3_610

    run(test())


def test_a_member_without_partitions_is_idle_too(run: Run) -> None:
    async def test() -> None:
        broker = SmallBroker.of(5)
        broker.assigned = []
        clock = Clock(budget_s=360)
        assert await read(consumer_on(broker, who=GROUP, clock=clock)) == []
        assert broker.polls.total() <= len(clock.waits) + 1

    run(test())


def test_a_partition_that_comes_back_is_no_reason_to_ask_more(run: Run) -> None:
    async def test() -> None:
        broker = SmallBroker.of(0, 0)
        clock = Clock(budget_s=60)

        def swap() -> None:
            broker.assigned = [len(clock.waits) // 100 % 2]

        clock.on_wait = swap
        await read(consumer_on(broker, who=GROUP, clock=clock))
        assert broker.polls.total() < 1.1 * len(clock.waits)

    run(test())


@pytest.mark.parametrize(
    ("commit", "expected"),
    [
        (COMMIT_DISABLED, []),
        (COMMIT_ON_CLOSE, [(0, 4)]),
        (COMMIT_AFTER_EACH, [(0, 0), (0, 1), (0, 2), (0, 3), (0, 4)]),
        (commit_after(2), [(0, 1), (0, 3), (0, 4)]),
    ],
)
def test_when_commits_happen(
    run: Run, commit: CommitPolicy, expected: list[tuple[int, int]]
) -> None:
    async def test() -> None:
        broker = SmallBroker.of(5)
        assert await read(consumer_on(broker, commit=commit, batch_size=10)) == names(0, 0, 4)
        assert broker.commit_calls == expected

    run(test())


def test_commits_by_time(run: Run) -> None:
    async def test() -> None:
        broker = SmallBroker.of(10)
        clock = Clock()
        async with consumer_on(
            broker, commit=commit_every(1.0), batch_size=10, clock=clock
        ) as consumer:
            async for message in consumer:
                clock.now_s += 0.4 if message.offset < 6 else 0
        # Handled when the next one is asked for: 0.4 s after it was given out.
        assert broker.commit_calls == [(0, 2), (0, 5), (0, 9)]

    run(test())


def test_commits_by_time_happen_while_idle(run: Run) -> None:
    async def test() -> None:
        broker = SmallBroker.of(1)
        clock = Clock(budget_s=5)
        consumer = consumer_on(broker, commit=commit_every(1.0), clock=clock)
        reading = asyncio.create_task(read(consumer))
        await reading
        assert broker.commit_calls == [(0, 0)]

    run(test())


def test_the_server_commits_what_it_gives_out(run: Run) -> None:
    async def test() -> None:
        broker = SmallBroker.of(6)
        async with consumer_on(broker, commit=COMMIT_ON_POLL, batch_size=4) as consumer:
            await anext(consumer)
            assert broker.committed(ALONE, 0) == 3
        assert broker.commit_calls == []

    run(test())


def test_commits_by_hand_take_what_was_given_out(run: Run) -> None:
    async def test() -> None:
        broker = SmallBroker.of(5, 5)
        async with consumer_on(broker, batch_size=2) as consumer:
            for _ in range(3):
                await anext(consumer)
            await consumer.commit()
            assert sorted(broker.commit_calls) == [(0, 1), (1, 0)]
            await consumer.commit()
            assert len(broker.commit_calls) == 2
            await anext(consumer)
            await consumer.commit()
            assert broker.commit_calls[2:] == [(1, 1)]

    run(test())


def test_a_message_whose_handling_failed_is_not_committed(run: Run) -> None:
    async def test() -> None:
        broker = SmallBroker.of(5)

        async def fail_at_the_third() -> None:
            async with consumer_on(broker, commit=COMMIT_ON_CLOSE) as consumer:
                async for message in consumer:
                    assert 1 / (message.offset - 2)

        with pytest.raises(ZeroDivisionError):
            await fail_at_the_third()
        assert broker.commit_calls == [(0, 1)]
        again = await read(consumer_on(broker, commit=COMMIT_ON_CLOSE))
        assert again == names(0, 2, 4)

    run(test())


def test_a_batch_whose_handling_failed_is_not_committed(run: Run) -> None:
    async def test() -> None:
        broker = SmallBroker.of(8)

        async def fail_at_the_second() -> None:
            async with consumer_on(broker, commit=COMMIT_ON_CLOSE, batch_size=3) as consumer:
                async for batch in consumer.batches():
                    assert 1 / (batch.messages[0].offset - 3)

        with pytest.raises(ZeroDivisionError):
            await fail_at_the_second()
        assert broker.commit_calls == [(0, 2)]

    run(test())


@pytest.mark.parametrize(
    "commit",
    [
        COMMIT_DISABLED,
        COMMIT_ON_POLL,
        COMMIT_AFTER_EACH,
        commit_after(3),
        commit_every(1.0),
        COMMIT_ON_CLOSE,
    ],
)
def test_a_member_reads_each_message_once(run: Run, commit: CommitPolicy) -> None:
    """Also with policies under which the group's commit lags behind what was read."""

    async def test() -> None:
        broker = SmallBroker.of(9, 5)
        found = await read(consumer_on(broker, who=GROUP, commit=commit, batch_size=4))
        assert sorted(found) == sorted(names(0, 0, 8) + names(1, 0, 4))
        committed = [broker.committed(GROUP, partition_id) for partition_id in (0, 1)]
        assert committed == ([None, None] if commit == COMMIT_DISABLED else [8, 4])
        assert broker.groups == {"g"}
        assert not broker.is_member

    run(test())


def test_a_member_commits_before_it_polls_again(run: Run) -> None:
    async def test() -> None:
        broker = SmallBroker.of(9)
        async with consumer_on(broker, who=GROUP, commit=commit_after(100)) as consumer:
            for _ in range(5):
                await anext(consumer)
            assert broker.commit_calls == [(0, 3)]

    run(test())


def test_a_member_that_was_dropped_joins_again(run: Run) -> None:
    async def test() -> None:
        broker = SmallBroker.of(9)
        async with consumer_on(broker, who=GROUP, commit=COMMIT_ON_CLOSE) as consumer:
            found = [(await anext(consumer)).offset for _ in range(4)]
            broker.is_member = False
            found += [message.offset async for message in consumer]
        assert found == list(range(9))
        assert broker.joins_count == 2

    run(test())


def test_a_partition_that_was_given_to_another_is_not_committed(run: Run) -> None:
    async def test() -> None:
        broker = SmallBroker.of(4, 4)
        async with consumer_on(broker, who=GROUP, commit=COMMIT_ON_CLOSE) as consumer:
            for _ in range(8):
                await anext(consumer)
            broker.assigned = [1]
        assert broker.commits == {(GROUP.kind, GROUP.id, 1): 3}

    run(test())


def test_a_member_whose_group_has_committed_goes_on_there(run: Run) -> None:
    async def test() -> None:
        broker = SmallBroker.of(9, 9, 9)
        broker.commits[GROUP.kind, GROUP.id, 1] = 5
        found = await read(
            consumer_on(broker, who=GROUP, start=LAST, last_count=2, commit=COMMIT_ON_CLOSE)
        )
        assert sorted(found) == names(0, 7, 8) + names(1, 6, 8) + names(2, 7, 8)

    run(test())


@pytest.mark.parametrize("commit", [COMMIT_ON_POLL, COMMIT_AFTER_EACH])
def test_the_start_of_a_member_where_nothing_is_committed(run: Run, commit: CommitPolicy) -> None:
    async def test() -> None:
        broker = SmallBroker.of(9)
        consumer = consumer_on(broker, who=GROUP, start=from_offset(6), commit=commit)
        assert await read(consumer) == names(0, 6, 8)
        assert broker.committed(GROUP, 0) == 8

    run(test())


def test_a_member_that_wants_only_what_comes(run: Run) -> None:
    async def test() -> None:
        broker = SmallBroker.of(9)
        clock = Clock(budget_s=0.0015)
        clock.on_wait = lambda: broker.append(0, 2) if len(clock.waits) == 1 else None
        consumer = consumer_on(
            broker, who=GROUP, start=from_timestamp(10**9), commit=COMMIT_ON_CLOSE, clock=clock
        )
        assert await read(consumer) == names(0, 9, 10)

    run(test())


def test_a_purged_partition_is_read_from_its_start(run: Run) -> None:
    async def test() -> None:
        broker = SmallBroker.of(5)
        clock = Clock(budget_s=0.005)

        def purge_and_fill() -> None:
            if len(clock.waits) == 1:
                broker.partitions[0].clear()
            elif len(clock.waits) == 2:
                broker.append(0, 2)

        clock.on_wait = purge_and_fill
        found = await read(consumer_on(broker, clock=clock, batch_size=10))
        assert found == names(0, 0, 4) + names(0, 0, 1)

    run(test())


def test_new_partitions_are_found_and_read_whole(run: Run) -> None:
    async def test() -> None:
        broker = SmallBroker.of(3)
        clock = Clock(budget_s=2 * PARTITIONS_AGE_MAX_S)

        def grow() -> None:
            if len(clock.waits) == 1:
                broker.partitions[1] = []
                broker.append(1, 5)

        clock.on_wait = grow
        found = await read(consumer_on(broker, start=LAST, clock=clock))
        assert found == names(0, 2, 2) + names(1, 0, 4)

    run(test())


def test_a_removed_partition_is_forgotten(run: Run) -> None:
    async def test() -> None:
        broker = SmallBroker.of(4, 4)
        consumer = consumer_on(broker)
        found = [(await anext(consumer)).payload.decode() for _ in range(8)]
        del broker.partitions[1]
        broker.append(0)
        found += [message.payload.decode() async for message in consumer]
        assert found == names(0, 0, 3) + names(1, 0, 3) + names(0, 4, 4)

    run(test())


def test_a_topic_that_is_not_there(run: Run) -> None:
    async def test() -> None:
        broker = SmallBroker.of(1)
        broker.is_there = False
        with pytest.raises(TopicIdNotFound):
            await read(consumer_on(broker))

    run(test())


def test_an_answer_lost_under_commit_on_poll_is_passed_over_once(run: Run) -> None:
    async def test() -> None:
        broker = SmallBroker.of(3)
        broker.failures = [ConnectionClosed()]
        clock = Clock(budget_s=0.0015)
        found = await read(consumer_on(broker, commit=COMMIT_ON_POLL, clock=clock))
        assert found == names(0, 0, 2)
        broker.failures = [ConnectionClosed(), ConnectionClosed()]
        with pytest.raises(ConnectionClosed):
            await read(consumer_on(broker, commit=COMMIT_ON_POLL, clock=Clock(budget_s=1)))

    run(test())


def test_iteration_goes_on_after_an_error(run: Run) -> None:
    async def test() -> None:
        broker = SmallBroker.of(6)
        async with consumer_on(broker, commit=commit_after(1)) as consumer:
            found = [(await anext(consumer)).offset for _ in range(4)]
            broker.failures = [ConnectionClosed()]
            with pytest.raises(ConnectionClosed):
                await anext(consumer)
            found += [message.offset async for message in consumer]
        assert found == list(range(6))
        assert broker.commit_calls == [(0, offset) for offset in range(6)]

    run(test())


def test_closing_ends_an_iteration_that_waits(run: Run) -> None:
    async def test() -> None:
        broker = SmallBroker.of(0)
        reading = Reading(
            broker,
            STREAM,
            TOPIC,
            ALONE,
            start=NEXT,
            last_count=1,
            count=1,
            auto_commit=False,
        )
        source = OwnPartitions(reading, [0], lambda: 0.0)
        consumer = MessageConsumer(reading, source, COMMIT_DISABLED, Idling(3600, 3600))
        waiting = asyncio.create_task(read(consumer))
        await until(lambda: broker.polls)
        await consumer.close()
        await consumer.close()
        assert await waiting == []
        with pytest.raises(StopAsyncIteration):
            await anext(consumer)

    run(test())


BAD_POLICIES: list[Callable[[], Any]] = [
    lambda: commit_after(-1),
    lambda: commit_every(-1),
    lambda: CommitPolicy(on_poll=True, on_close=True),
    lambda: Idling(0, 1),
    lambda: Idling(2, 1),
]


@pytest.mark.parametrize("make", BAD_POLICIES)
def test_policies_that_make_no_sense(make: Callable[[], Any]) -> None:
    with pytest.raises(InvalidArgument):
        make()
