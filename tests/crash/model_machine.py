"""A whole broker beside its model: random commands over TCP, restarts and kills; they must agree.

A sequence starts with an empty broker and ends with deleting what it made. Between them, every
command goes to one of four connections, two on each shard at first, and its answer is compared
with the model's. Two connections are root's; the other two are guests', who log in as this and
that user, and are refused most of the time. One client at a time: concurrency is what the other
tests of this folder are about.

Rules stand in mixins by subject; those about users and groups in model_user_rules.py and
model_group_rules.py, and BrokerMachine in model_run.py is all of them.
"""

import os
import signal
from collections import Counter
from collections.abc import Callable
from typing import Any, ClassVar, Final, NamedTuple, TypeVar

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from borzoi.protocol.codes import Code
from borzoi.protocol.commands import Command
from borzoi.protocol.commands.groups import (
    CreateConsumerGroup,
    GetConsumerGroup,
    GetConsumerGroups,
    JoinConsumerGroup,
    LeaveConsumerGroup,
)
from borzoi.protocol.commands.messages import FlushUnsavedBuffer, PollMessages
from borzoi.protocol.commands.offsets import (
    DeleteConsumerOffset,
    GetConsumerOffset,
    StoreConsumerOffset,
)
from borzoi.protocol.commands.sessions import LoginUser
from borzoi.protocol.commands.streams import (
    CreateStream,
    DeleteStream,
    GetStream,
    GetStreams,
    PurgeStream,
    UpdateStream,
)
from borzoi.protocol.commands.system import GetStats
from borzoi.protocol.commands.topics import (
    CreatePartitions,
    CreateTopic,
    DeletePartitions,
    DeleteTopic,
    GetTopic,
    GetTopics,
    PurgeTopic,
    UpdateTopic,
)
from borzoi.protocol.commands.users import CreateUser, DeleteUser, GetUser, GetUsers
from borzoi.protocol.errors import BrokerError, ClientNotFound, StaleClient
from borzoi.protocol.identifiers import (
    Balanced,
    Consumer,
    ConsumerKind,
    Identifier,
    MessagesKey,
    PartitionId,
    Partitioning,
    PollingStrategy,
    StrategyKind,
)
from borzoi.protocol.message import Message
from borzoi.protocol.permissions import (
    GlobalPermissions,
    Permissions,
    StreamPermissions,
    TopicPermissions,
)
from tests.broker import BrokerProcess, wait_for
from tests.crash.model import SEGMENT_SIZE, ModelGroup, ModelSession, ModelStream, ModelTopic
from tests.crash.model_whole import Model
from tests.shard_wires import connect_to_shard
from tests.wire import Wire

SETTINGS: Final = {
    "IGGY_SYSTEM_SHARDING_CPU_ALLOCATION": "2",
    "IGGY_SYSTEM_SEGMENT_SIZE": str(SEGMENT_SIZE),
    # What was acknowledged is with the kernel; nothing of this waits for a timer.
    "IGGY_SYSTEM_PARTITION_DURABILITY": "written",
    "IGGY_LIMITS_LOGIN_FAILURES_FREE": "1000000",
}
SHARDS: Final = (0, 1)
GUESTS: Final = (2, 3)
"""Seats 0 and 1 are root's; the others begin without a user. An even number begins on shard 0."""
GUEST_NAME: Final = "ann"
PASSWORD: Final = "secret"
CLOSED_AFTER: Final = (StaleClient.status, ClientNotFound.status)
ALL_MESSAGES: Final = 100_000
NO_STREAM_ID: Final = 4000
RESTART_TIMEOUT_S: Final = 60.0
COMMANDS_BETWEEN_RESTARTS: Final = 80
ENDS: Final = ("kill a worker", "kill", "stop")


class Nth(NamedTuple):
    """A stream of the sequence by its id, whatever that is.

    Which ids streams get depends on the sequences before, and a sequence has to mean the same
    whenever it runs.
    """

    number: int


# Few names, so that they meet; some identifiers lead nowhere.
STREAM_NAMES: Final = st.sampled_from(["a", "b"])
TOPIC_NAMES: Final = st.sampled_from(["x", "y"])
STREAMS: Final = st.sampled_from(["a"] * 8 + ["b"] * 3 + [Nth(0), Nth(1), "absent"])
TOPICS: Final = st.sampled_from(["x"] * 8 + ["y"] * 3 + [0, 1, "absent"])
PARTITION_IDS: Final = st.sampled_from([0, 0, 1, 1, 2, 3, 9])
CONSUMERS: Final = st.builds(
    Consumer, st.just(ConsumerKind.CONSUMER), st.sampled_from([1, 2, "reader"])
)
PARTITIONINGS: Final[st.SearchStrategy[Partitioning]] = st.one_of(
    st.builds(PartitionId, PARTITION_IDS),
    st.builds(MessagesKey, st.sampled_from([b"one", b"two", b"three", b"\0"])),
    st.just(Balanced()),
)
MESSAGES: Final = st.builds(
    Message,
    st.binary(min_size=1, max_size=200),
    st.sampled_from([0, 0, 0, 1, 2**128 - 1]),
    st.sampled_from([b"", bytes.fromhex("02010000006b0b0400000007000000")]),
    st.sampled_from([0, 1_700_000_000_000_000]),
)
BATCHES: Final = st.lists(MESSAGES, min_size=1, max_size=6)
PLACES: Final = st.integers(0, 20)
COUNTS: Final = st.sampled_from([0, 1, 2, 5, ALL_MESSAGES])
SHARD: Final = st.sampled_from(SHARDS)
ON: Final = st.sampled_from((*SHARDS * 4, *GUESTS))
FLAGS: Final = st.integers(0, 9).map(lambda number: number == 0)
PERMISSIONS: Final = st.builds(
    Permissions,
    st.builds(GlobalPermissions, *[FLAGS] * 10),
    # Ids that streams and topics of a sequence have or will have.
    st.dictionaries(
        st.integers(0, 2),
        st.builds(
            StreamPermissions,
            *[FLAGS] * 6,
            st.dictionaries(
                st.integers(0, 1), st.builds(TopicPermissions, *[st.booleans()] * 4), max_size=2
            ),
        ),
        max_size=2,
    ),
)

Done = TypeVar("Done")


class Agreement(RuleBasedStateMachine):
    """The two of them, and how they are compared."""

    broker: ClassVar[BrokerProcess]
    """Shared by all sequences of a run, set before the first."""
    counts: ClassVar[Counter[str]]
    """What all sequences of the run have done."""

    def __init__(self) -> None:
        super().__init__()
        self.model = Model()
        self.wires: dict[int, Wire] = {}
        self.commands_since_restart = 0

    @initialize(partitions_count=st.integers(1, 3), permissions=PERMISSIONS)
    def begin(self, partitions_count: int, permissions: Permissions) -> None:
        self.counts["sequences"] += 1
        self.connect()
        self.step(0, GetStreams())
        assert not self.model.streams, "the sequence before has left something behind"
        self.step(0, CreateStream("a"))
        self.step(1, CreateTopic("a", partitions_count, 1, 0, 0, 1, "x"))
        self.step(0, CreateUser(GUEST_NAME, PASSWORD, permissions=permissions))
        self.step(GUESTS[0], LoginUser(GUEST_NAME, PASSWORD))
        self.step(1, CreateConsumerGroup("a", "x", "g"))
        self.step(0, JoinConsumerGroup("a", "x", "g"))
        self.step(0, GetConsumerGroup("a", "x", "g"))

    def step(self, on: int, command: Command) -> Any:
        """The same command to both; the answer they agree on, None for an error."""
        reply, status = outcome(lambda: self.wires[on].ask(command))
        expected, expected_status = outcome(lambda: self.model.apply(on, command, reply))
        self.agree(on, command, status, expected_status)
        assert _tupled(reply) == _tupled(expected), f"{command}"
        if self.model.groups_moved:
            self.model.groups_moved = False
            self.settle_groups()
        return reply

    def agree(self, on: int, what: object, status: int, expected: int) -> None:
        assert status == expected, f"{what}: {status} instead of {expected}"
        self.counts["commands"] += 1
        self.counts["refused"] += status != 0
        self.commands_since_restart += 1
        if status in CLOSED_AFTER:
            self.connect_seat(on)

    def connect(self) -> None:
        """Every seat connects again, as the user it had.

        Sockets may move afterwards, which no answer must show.
        """
        users = {seat: session.user for seat, session in self.model.sessions.items()}
        for seat in (*SHARDS, *GUESTS):
            self.connect_seat(seat)
            user = users.get(seat)
            if seat in GUESTS and user is not None:
                self.step(seat, LoginUser(user.name, user.password))
        self.settle_groups()

    def connect_seat(self, seat: int) -> None:
        """A connection to the shard of that seat, without a user if it is a guest's."""
        if seat in self.wires:
            self.wires[seat].close()
            self.model.gone(self.model.sessions[seat])
        login = seat in SHARDS
        self.wires[seat] = connect_to_shard(self.broker, seat % 2, login=login)
        self.model.sessions[seat] = ModelSession(self.model.users[0] if login else None)

    # Groups.

    def settle_groups(self) -> None:
        """Waits for what no answer waits for.

        Members are gone, shares are even again, and all shards know it.
        """
        for stream, topic in self.model.all_topics():
            for group in topic.groups:
                command = GetConsumerGroup(stream.id, topic.id, group.id)
                wait_for(lambda: self._is_settled(command, topic, group), RESTART_TIMEOUT_S)  # noqa: B023 - at once
                self.step(0, command)
                if group.members:
                    self._tell_shards(stream, topic, group)

    def _is_settled(self, command: GetConsumerGroup, topic: ModelTopic, group: ModelGroup) -> bool:
        try:
            members = self.wires[0].ask(command).members
        except BrokerError:
            return False  # Shard 0 is not back yet.
        sizes = [len(one.partitions) for one in members]
        if [one.id for one in members] != [one.id for one in group.members]:
            return False
        return not sizes or max(sizes) - min(sizes) <= 1 or bool(self.model.waits(topic, group))

    def _tell_shards(self, stream: ModelStream, topic: ModelTopic, group: ModelGroup) -> None:
        """A join is answered when every shard knows all assignments, also a join of a member."""
        where = stream.id, topic.id, group.id
        is_member = group.member(self.model.sessions[0]) is not None
        self.step(0, JoinConsumerGroup(*where))
        if not is_member:
            self.step(0, GetConsumerGroup(*where))
            self.step(0, LeaveConsumerGroup(*where))
            self.step(0, GetConsumerGroup(*where))

    def id_of(self, stream: Identifier | Nth) -> Identifier:
        if not isinstance(stream, Nth):
            return stream
        streams = self.model.streams
        return streams[stream.number].id if stream.number < len(streams) else NO_STREAM_ID

    def existing_partition(self, place: int) -> tuple[int, int, int] | None:
        """Some partition that exists: stream, topic, number."""
        found = [
            (stream.id, topic.id, number)
            for stream in self.model.streams
            for topic in stream.topics
            for number in range(len(topic.partitions))
        ]
        return found[place % len(found)] if found else None

    def compare_everything(self, on: int) -> None:
        """All that can be read."""
        self.step(on, GetStreams())
        for stream in list(self.model.streams):
            self.step(on, GetStream(stream.id))
            self.step(on, GetTopics(stream.name))
            for topic in stream.topics:
                self.step(on, GetTopic(stream.id, topic.name))
                self.step(on, GetConsumerGroups(stream.id, topic.id))
                for number, partition in enumerate(topic.partitions):
                    self.step(on, _whole_partition(stream.id, topic.id, number))
                    for consumer in partition.offsets:
                        self.step(on, GetConsumerOffset(consumer, stream.id, topic.id, number))
        self.step(on, GetUsers())
        for user in self.model.users:
            self.step(on, GetUser(user.name))
        stats = self.wires[on].ask(GetStats())
        streams = [stream.seen() for stream in self.model.streams]
        assert stats.streams_count == len(streams)
        assert stats.messages_count == sum(one.messages_count for one in streams)
        assert stats.messages_size_bytes == sum(one.size_bytes for one in streams)
        partitions = [p for s in self.model.streams for t in s.topics for p in t.partitions]
        groups = [group for _, topic in self.model.all_topics() for group in topic.groups]
        assert stats.consumer_groups_count == len(groups)
        assert stats.partitions_count == len(partitions)
        assert stats.segments_count == sum(one.segments_count for one in partitions)

    def teardown(self) -> None:
        if not self.wires:
            return
        for stream in self.wires[0].ask(GetStreams()):
            self.wires[0].ask(DeleteStream(stream.id))
        for user in self.wires[0].ask(GetUsers())[1:]:
            self.wires[0].ask(DeleteUser(user.id))
        for wire in self.wires.values():
            wire.close()


class MetadataRules(Agreement):
    """Streams, topics, partitions."""

    @rule(on=ON, name=STREAM_NAMES)
    def create_stream(self, on: int, name: str) -> None:
        self.step(on, CreateStream(name))

    @rule(on=ON, stream=STREAMS, name=STREAM_NAMES)
    def rename_stream(self, on: int, stream: Identifier | Nth, name: str) -> None:
        self.step(on, UpdateStream(self.id_of(stream), name))

    @rule(on=ON, stream=STREAMS, ending=st.sampled_from([DeleteStream, PurgeStream, PurgeStream]))
    def end_stream(self, on: int, stream: Identifier | Nth, ending: Any) -> None:
        self.step(on, ending(self.id_of(stream)))

    @rule(on=ON, stream=STREAMS, name=TOPIC_NAMES, partitions_count=st.integers(0, 3))
    def create_topic(
        self, on: int, stream: Identifier | Nth, name: str, partitions_count: int
    ) -> None:
        self.step(on, CreateTopic(self.id_of(stream), partitions_count, 1, 0, 0, 0, name))

    @rule(on=ON, stream=STREAMS, topic=TOPICS, name=TOPIC_NAMES, setting=st.sampled_from([0, 1, 2]))
    def update_topic(
        self, on: int, stream: Identifier | Nth, topic: Identifier, name: str, setting: int
    ) -> None:
        command = UpdateTopic(
            self.id_of(stream), topic, max(1, setting), setting * 1000, setting, setting, name
        )
        self.step(on, command)

    @rule(on=ON, stream=STREAMS, topic=TOPICS, ending=st.sampled_from([DeleteTopic, PurgeTopic]))
    def end_topic(self, on: int, stream: Identifier | Nth, topic: Identifier, ending: Any) -> None:
        self.step(on, ending(self.id_of(stream), topic))

    @rule(
        on=ON,
        stream=STREAMS,
        topic=TOPICS,
        change=st.sampled_from([CreatePartitions, CreatePartitions, DeletePartitions]),
        count=st.integers(0, 3),
    )
    def change_partitions(
        self, on: int, stream: Identifier | Nth, topic: Identifier, change: Any, count: int
    ) -> None:
        self.step(on, change(self.id_of(stream), topic, count))


class MessageRules(Agreement):
    """Sends, polls, flushes."""

    @rule(on=ON, stream=STREAMS, topic=TOPICS, partitioning=PARTITIONINGS, batch=BATCHES)
    def send(
        self,
        on: int,
        stream: Identifier | Nth,
        topic: Identifier,
        partitioning: Partitioning,
        batch: list[Message],
    ) -> None:
        stream = self.id_of(stream)

        def expect() -> list[int]:
            with self.model.sent_by(self.model.sessions[on], Code.SEND_MESSAGES):
                return self.model.may_go_to(stream, topic, partitioning)

        _, status = outcome(lambda: self.wires[on].append(stream, topic, partitioning, batch))
        candidates, expected = outcome(expect)
        self.agree(on, partitioning, status, expected)
        if candidates is not None:
            self._learn(1 - on % 2, stream, topic, candidates, batch)

    @rule(on=ON, place=PLACES, batches=st.lists(BATCHES, min_size=1, max_size=4))
    def fill(self, on: int, place: int, batches: list[list[Message]]) -> None:
        """Batches that arrive: without messages the other rules have little to do."""
        found = self.existing_partition(place)
        if found is None:
            return
        stream, topic, number = found
        for batch in batches:
            self.send(on, stream, topic, PartitionId(number), batch)

    @rule(on=ON, place=PLACES, consumer=CONSUMERS, value=st.integers(0, 12), count=COUNTS)
    def consume(self, on: int, place: int, consumer: Consumer, value: int, count: int) -> None:
        """What consumers do all day: every strategy, where something is likely to be."""
        found = self.existing_partition(place)
        if found is None:
            return
        for kind in StrategyKind:
            self.poll(on, *found, consumer, kind, value, count, kind is StrategyKind.NEXT)

    def _learn(
        self,
        on: int,
        stream: Identifier,
        topic: Identifier,
        candidates: list[int],
        batch: list[Message],
    ) -> None:
        """Read what was appended, on the other shard, and see that it is what was sent."""
        partitions = self.model.topic(stream, topic).partitions
        grown = []
        for number in candidates:
            known = len(partitions[number].messages)
            polled = self.wires[on].poll_at(stream, topic, number, known, ALL_MESSAGES)
            if polled.messages:
                grown.append((number, polled.messages))
        assert len(grown) == 1, f"a batch lies in one partition, not in {grown}"
        number, found = grown[0]
        log = partitions[number].messages
        assert [m.payload for m in found] == [m.payload for m in batch]
        assert [m.user_headers for m in found] == [m.user_headers for m in batch]
        assert [m.origin_timestamp for m in found] == [m.origin_timestamp for m in batch]
        assert all(m.id == sent.id for m, sent in zip(found, batch, strict=True) if sent.id)
        assert [m.offset for m in found] == list(range(len(log), len(log) + len(batch)))
        assert len({m.timestamp for m in found}) == 1
        assert not log or log[-1].timestamp <= found[0].timestamp
        partitions[number].append(found)
        self.counts["messages"] += len(found)

    @rule(
        on=ON,
        stream=STREAMS,
        topic=TOPICS,
        partition_id=st.one_of(st.none(), PARTITION_IDS),
        consumer=CONSUMERS,
        kind=st.sampled_from(StrategyKind),
        place=st.integers(0, 30),
        count=COUNTS,
        auto_commit=st.booleans(),
    )
    def poll(
        self,
        on: int,
        stream: Identifier | Nth,
        topic: Identifier,
        partition_id: int | None,
        consumer: Consumer,
        kind: StrategyKind,
        place: int,
        count: int,
        auto_commit: bool,
    ) -> None:
        stream = self.id_of(stream)
        value = place
        if kind is StrategyKind.TIMESTAMP:
            value = self._time_near(stream, topic, partition_id or 0, place)
        strategy = PollingStrategy(kind, value)
        command = PollMessages(consumer, stream, topic, partition_id, strategy, count, auto_commit)
        self.step(on, command)

    def _time_near(
        self, stream: Identifier, topic: Identifier, partition_id: int, place: int
    ) -> int:
        """The time of some message, or just before or after it."""
        try:
            log = self.model.topic(stream, topic).partition(partition_id).messages
        except BrokerError:
            return place
        return log[place % len(log)].timestamp + place % 3 - 1 if log else place

    @rule(on=ON, stream=STREAMS, topic=TOPICS, partition_id=PARTITION_IDS, fsync=st.booleans())
    def flush(
        self, on: int, stream: Identifier | Nth, topic: Identifier, partition_id: int, fsync: bool
    ) -> None:
        self.step(on, FlushUnsavedBuffer(self.id_of(stream), topic, partition_id, fsync))


class OffsetRules(Agreement):
    """Committed offsets."""

    @rule(
        on=ON,
        consumer=CONSUMERS,
        stream=STREAMS,
        topic=TOPICS,
        partition_id=PARTITION_IDS,
        offset=st.integers(0, 6),
    )
    def store_offset(
        self,
        on: int,
        consumer: Consumer,
        stream: Identifier | Nth,
        topic: Identifier,
        partition_id: int,
        offset: int,
    ) -> None:
        self.step(
            on, StoreConsumerOffset(consumer, self.id_of(stream), topic, partition_id, offset)
        )

    @rule(
        on=ON,
        consumer=CONSUMERS,
        stream=STREAMS,
        topic=TOPICS,
        partition_id=st.one_of(st.none(), PARTITION_IDS),
        question=st.sampled_from([GetConsumerOffset, DeleteConsumerOffset]),
    )
    def ask_or_forget_offset(
        self,
        on: int,
        consumer: Consumer,
        stream: Identifier | Nth,
        topic: Identifier,
        partition_id: int | None,
        question: Any,
    ) -> None:
        self.step(on, question(consumer, self.id_of(stream), topic, partition_id))


class RestartRules(Agreement):
    """Ends of the broker, and of one of its workers. Everything acknowledged is there again."""

    @precondition(lambda self: self.commands_since_restart >= COMMANDS_BETWEEN_RESTARTS)
    @rule(end=st.sampled_from(ENDS), shard=SHARD, on=SHARD)
    def restart(self, end: str, shard: int, on: int) -> None:
        self.restart_now(end, shard, on)

    def restart_now(self, end: str, shard: int, on: int) -> None:
        """End what is to end, and look whether everything is as it was."""
        if end == "kill a worker":
            self._kill_worker(shard)
        else:
            getattr(self.broker, end)()
            self.broker.start()
        self.counts[end] += 1
        self.connect()
        self.compare_everything(on)
        self.commands_since_restart = 0

    def _kill_worker(self, shard: int) -> None:
        old = self.broker.workers()[shard]
        os.kill(old, signal.SIGKILL)
        wait_for(lambda: self.broker.workers().get(shard, old) != old, RESTART_TIMEOUT_S)

    @rule(on=SHARD)
    def compare(self, on: int) -> None:
        self.compare_everything(on)


def outcome(act: Callable[[], Done]) -> tuple[Done | None, int]:
    """What came of it: a value, or the status of an error."""
    try:
        return act(), 0
    except BrokerError as error:
        return None, error.status


def _whole_partition(stream: int, topic: int, partition_id: int) -> PollMessages:
    anybody = Consumer(ConsumerKind.CONSUMER, 1)
    first = PollingStrategy(StrategyKind.FIRST)
    return PollMessages(anybody, stream, topic, partition_id, first, ALL_MESSAGES, False)


def _tupled(value: Any) -> Any:
    """Lists of the decoder are lists or tuples, and an empty one is nothing at all."""
    if value is None or value in ((), []):
        return None
    return tuple(value) if isinstance(value, list) else value
