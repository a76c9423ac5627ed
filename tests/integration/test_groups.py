"""Consumer groups over TCP, with members on both shards."""

import struct
from collections.abc import Iterator

import pytest
import xxhash

from borzoi.protocol.commands.groups import (
    CreateConsumerGroup,
    DeleteConsumerGroup,
    GetConsumerGroup,
    GetConsumerGroups,
    JoinConsumerGroup,
    LeaveConsumerGroup,
)
from borzoi.protocol.commands.messages import PollMessages
from borzoi.protocol.commands.offsets import (
    DeleteConsumerOffset,
    GetConsumerOffset,
    StoreConsumerOffset,
)
from borzoi.protocol.commands.sessions import LoginUser
from borzoi.protocol.commands.streams import DeleteStream, GetStream
from borzoi.protocol.commands.system import GetClient, GetClients, GetMe, GetStats
from borzoi.protocol.commands.topics import (
    CreatePartitions,
    DeletePartitions,
    DeleteTopic,
    PurgeTopic,
)
from borzoi.protocol.commands.users import CreateUser, DeleteUser
from borzoi.protocol.errors import (
    ConsumerGroupIdNotFound,
    ConsumerGroupMemberNotFound,
    ConsumerGroupNameAlreadyExists,
    ConsumerOffsetNotFound,
    InvalidOffset,
    NotResolvedConsumer,
    StreamIdNotFound,
    TopicIdNotFound,
    Unauthorized,
)
from borzoi.protocol.identifiers import Consumer, ConsumerKind, PollingStrategy, StrategyKind
from borzoi.protocol.responses.consumers import ConsumerGroupDetails, ConsumerGroupInfo
from borzoi.protocol.responses.polled import PolledMessages
from borzoi.router.placement import pack_namespace, shard_of
from tests.broker import BrokerProcess, wait_for
from tests.shard_wires import one_per_shard, shard_of_wire
from tests.topics import topic_of
from tests.wire import NEXT, Wire

NAME = "readers"
POWERLESS, PASSWORD = "may do nothing", "password"
GROUP = Consumer(ConsumerKind.GROUP, NAME)
NOTHING = PolledMessages(0, 0, ())


@pytest.fixture
def pair(standing_broker: BrokerProcess) -> Iterator[tuple[Wire, Wire]]:
    """A connection on shard 0 and one on shard 1."""
    with one_per_shard(standing_broker) as (zero, one):
        yield zero, one


def new_group(wire: Wire, topic: str, partitions_count: int, messages: int = 0) -> None:
    """A topic with a group, and some messages in every partition."""
    wire.ask(topic_of(topic, partitions_count))
    wire.ask(CreateConsumerGroup(topic, topic, NAME))
    for partition in range(partitions_count):
        if messages:
            batch = [b"%d.%d" % (partition, number) for number in range(messages)]
            assert wire.send(topic, partition, *batch) == 0


def join(wire: Wire, topic: str) -> None:
    wire.ask(JoinConsumerGroup(topic, topic, NAME))


def leave(wire: Wire, topic: str) -> None:
    wire.ask(LeaveConsumerGroup(topic, topic, NAME))


def shares(wire: Wire, topic: str) -> list[list[int]]:
    """What every member holds, in the order in which they joined."""
    found = wire.ask(GetConsumerGroup(topic, topic, NAME))
    assert isinstance(found, ConsumerGroupDetails)
    assert found.group.members_count == len(found.members)
    return [list(member.partitions) for member in found.members]


def poll(
    wire: Wire, topic: str, partition: int | None = None, count: int = 100, commit: bool = False
) -> PolledMessages:
    return wire.poll(topic, partition, NEXT, count, consumer=GROUP, auto_commit=commit)


def taken(polled: PolledMessages) -> list[bytes]:
    return [message.payload for message in polled.messages]


def store(wire: Wire, topic: str, partition: int | None, offset: int) -> int:
    return wire.status(StoreConsumerOffset(GROUP, topic, topic, partition, offset))


def stored(wire: Wire, topic: str, partition: int | None = None) -> int | None:
    found = wire.ask(GetConsumerOffset(GROUP, topic, topic, partition))
    return None if found is None else int(found.stored_offset)


# Groups by name.


def test_groups_are_made_found_listed_and_deleted(pair: tuple[Wire, Wire], stream: str) -> None:
    zero, one = pair
    zero.ask(topic_of(stream, 3))
    made = one.ask(CreateConsumerGroup(stream, stream, NAME))
    assert made == ConsumerGroupInfo(0, 3, 0, NAME)
    assert zero.ask(CreateConsumerGroup(stream, stream, "others")).id == 1
    again = CreateConsumerGroup(stream, stream, NAME)
    assert one.status(again) == ConsumerGroupNameAlreadyExists.status
    join(one, stream)
    for asking in pair:
        by_name = asking.ask(GetConsumerGroup(stream, stream, NAME))
        assert by_name == asking.ask(GetConsumerGroup(stream, stream, 0))
        assert by_name.group == ConsumerGroupInfo(0, 3, 1, NAME)
        listed = asking.ask(GetConsumerGroups(stream, stream))
        assert listed == (by_name.group, ConsumerGroupInfo(1, 3, 0, "others"))
    assert zero.ask(GetStats()).consumer_groups_count >= 2
    zero.ask(DeleteConsumerGroup(stream, stream, NAME))
    for asking in pair:
        assert asking.ask(GetConsumerGroup(stream, stream, NAME)) is None
        assert [group.id for group in asking.ask(GetConsumerGroups(stream, stream))] == [1]


def test_what_is_missing(wire: Wire, topic: str) -> None:
    wire.ask(CreateConsumerGroup(topic, topic, NAME))
    assert wire.ask(GetConsumerGroup("nowhere", topic, NAME)) is None
    assert wire.ask(GetConsumerGroup(topic, "nowhere", NAME)) is None
    assert wire.ask(GetConsumerGroup(topic, topic, "absent")) is None
    assert wire.ask(GetConsumerGroups("nowhere", topic)) == ()
    for command in (CreateConsumerGroup, DeleteConsumerGroup, JoinConsumerGroup):
        assert wire.status(command("nowhere", topic, NAME)) == StreamIdNotFound.status
        assert wire.status(command(topic, "nowhere", NAME)) == TopicIdNotFound.status
    for unknown in (DeleteConsumerGroup, JoinConsumerGroup, LeaveConsumerGroup):
        assert wire.status(unknown(topic, topic, 77)) == ConsumerGroupIdNotFound.status
    assert wire.status(LeaveConsumerGroup(topic, topic, NAME)) == ConsumerGroupMemberNotFound.status
    asking = PollMessages(GROUP, topic, topic, None, NEXT, 1, False)
    assert wire.status(asking) == ConsumerGroupMemberNotFound.status
    assert store(wire, topic, 0, 0) == ConsumerGroupMemberNotFound.status
    deleting = DeleteConsumerOffset(GROUP, topic, topic, 0)
    assert wire.status(deleting) == ConsumerGroupMemberNotFound.status


def test_what_is_missing_is_answered_before_what_is_not_allowed(
    standing_broker: BrokerProcess, wire: Wire, topic: str
) -> None:
    """Each command, to a user who may do nothing: stream, topic and group, then the permission."""
    wire.ask(CreateConsumerGroup(topic, topic, NAME))
    wire.ask(CreateUser(POWERLESS, PASSWORD))
    powerless = Wire(standing_broker, login=False)
    powerless.ask(LoginUser(POWERLESS, PASSWORD))
    for command in (
        CreateConsumerGroup,
        DeleteConsumerGroup,
        JoinConsumerGroup,
        LeaveConsumerGroup,
    ):
        assert powerless.status(command("nowhere", topic, NAME)) == StreamIdNotFound.status
        assert powerless.status(command(topic, "nowhere", NAME)) == TopicIdNotFound.status
        assert powerless.status(command(topic, topic, NAME)) == Unauthorized.status
    for unknown in (DeleteConsumerGroup, JoinConsumerGroup, LeaveConsumerGroup):
        assert powerless.status(unknown(topic, topic, "no group")) == ConsumerGroupIdNotFound.status
    assert powerless.status(CreateConsumerGroup(topic, topic, "new")) == Unauthorized.status
    assert powerless.ask(GetConsumerGroup(topic, topic, "no group")) is None
    assert powerless.status(GetConsumerGroup(topic, topic, NAME)) == Unauthorized.status
    assert powerless.ask(GetConsumerGroups(topic, "nowhere")) == ()
    assert powerless.status(GetConsumerGroups(topic, topic)) == Unauthorized.status
    powerless.close()
    wire.ask(DeleteUser(POWERLESS))


# Members.


def test_members_of_both_shards_share_evenly(
    wire: Wire, pair: tuple[Wire, Wire], stream: str
) -> None:
    zero, one = pair
    new_group(wire, stream, 5)
    join(one, stream)
    join(one, stream)
    assert shares(zero, stream) == [[0, 1, 2, 3, 4]]
    join(zero, stream)
    assert shares(zero, stream) == shares(one, stream) == [[0, 1, 2], [3, 4]]
    leave(one, stream)
    assert shares(one, stream) == [[3, 4, 0, 1, 2]]
    left = LeaveConsumerGroup(stream, stream, NAME)
    assert one.status(left) == ConsumerGroupMemberNotFound.status
    leave(zero, stream)
    assert shares(one, stream) == []


def test_a_connection_that_ends_leaves(
    standing_broker: BrokerProcess, wire: Wire, pair: tuple[Wire, Wire], stream: str
) -> None:
    new_group(wire, stream, 4, messages=1)
    join(pair[0], stream)
    with one_per_shard(standing_broker) as others:
        for other in others:
            join(other, stream)
            poll(other, stream)
        assert [len(share) for share in shares(pair[1], stream)] == [2, 1, 1]
    wait_for(lambda: shares(pair[1], stream) == [[0, 1, 2, 3]])


def test_more_members_than_partitions(wire: Wire, pair: tuple[Wire, Wire], stream: str) -> None:
    zero, one = pair
    new_group(wire, stream, 1, messages=1)
    join(zero, stream)
    join(one, stream)
    assert shares(one, stream) == [[0], []]
    assert poll(one, stream) == poll(one, stream, 0) == NOTHING
    assert store(one, stream, None, 0) == NotResolvedConsumer.status
    assert store(one, stream, 0, 0) == NotResolvedConsumer.status
    assert taken(poll(zero, stream)) == [b"0.0"]


def test_the_groups_of_a_client(wire: Wire, pair: tuple[Wire, Wire], stream: str) -> None:
    zero, one = pair
    new_group(wire, stream, 2)
    zero.ask(CreateConsumerGroup(stream, stream, "others"))
    join(one, stream)
    one.ask(JoinConsumerGroup(stream, stream, "others"))
    me = one.ask(GetMe())
    assert [group[2] for group in me.consumer_groups] == [0, 1]
    assert me.client.consumer_groups_count == 2
    for asking in pair:
        assert asking.ask(GetClient(me.client.client_id)) == me
        assert me.client in asking.ask(GetClients())
    zero.ask(DeleteConsumerGroup(stream, stream, NAME))
    assert [group[2] for group in one.ask(GetMe()).consumer_groups] == [1]
    zero.ask(DeleteStream(stream))
    assert one.ask(GetMe()).consumer_groups == ()


# Polling.


def test_polls_go_round_the_partitions(wire: Wire, pair: tuple[Wire, Wire], stream: str) -> None:
    for turn, member in enumerate(pair):
        name = f"{stream}-{turn}"
        member.ask(topic_of(name, 3, stream))
        member.ask(CreateConsumerGroup(stream, name, NAME))
        member.ask(JoinConsumerGroup(stream, name, NAME))
        for partition in range(3):
            wire.send(name, partition, b"%d.0" % partition, b"%d.1" % partition, stream=stream)
        polled = [
            member.poll(name, None, NEXT, 1, consumer=GROUP, auto_commit=True, stream=stream)
            for _ in range(9)
        ]
        assert [one.partition_id for one in polled] == [0, 1, 2] * 3
        assert [taken(one) for one in polled] == [
            [b"%d.%d" % (partition, number)] for number in range(2) for partition in range(3)
        ] + [[], [], []]
        assert {one.current_offset for one in polled} == {1}


def test_members_share_one_offset_per_partition(
    wire: Wire, pair: tuple[Wire, Wire], stream: str
) -> None:
    zero, one = pair
    new_group(wire, stream, 2, messages=4)
    join(zero, stream)
    assert taken(poll(zero, stream, 0, 2, commit=True)) == [b"0.0", b"0.1"]
    assert taken(poll(zero, stream, 1, 3, commit=True)) == [b"1.0", b"1.1", b"1.2"]
    leave(zero, stream)
    join(one, stream)
    assert taken(poll(one, stream, 0)) == [b"0.2", b"0.3"]
    assert taken(poll(one, stream, 1)) == [b"1.3"]


def test_every_strategy(wire: Wire, pair: tuple[Wire, Wire], stream: str) -> None:
    zero, one = pair
    new_group(wire, stream, 1, messages=4)
    join(one, stream)
    for strategy, expected in (
        (PollingStrategy(StrategyKind.FIRST), [b"0.0", b"0.1"]),
        (PollingStrategy(StrategyKind.LAST), [b"0.2", b"0.3"]),
        (PollingStrategy(StrategyKind.OFFSET, 1), [b"0.1", b"0.2"]),
        (PollingStrategy(StrategyKind.TIMESTAMP, 0), [b"0.0", b"0.1"]),
        (NEXT, [b"0.0", b"0.1"]),
    ):
        assert taken(one.poll(stream, None, strategy, 2, consumer=GROUP)) == expected
    assert stored(one, stream) is None
    one.poll(
        stream, None, PollingStrategy(StrategyKind.OFFSET, 1), 2, consumer=GROUP, auto_commit=True
    )
    assert stored(zero, stream) == 2
    assert poll(one, stream, 0, count=0).messages == ()


# Offsets.


def test_offsets_of_a_group(
    standing_broker: BrokerProcess, wire: Wire, pair: tuple[Wire, Wire], stream: str
) -> None:
    zero, one = pair
    new_group(wire, stream, 2, messages=4)
    join(one, stream)
    assert stored(zero, stream, 1) is None
    assert store(one, stream, 1, 4) == InvalidOffset.status
    assert store(one, stream, 1, 3) == 0
    assert store(one, stream, 1, 1) == 0
    assert stored(zero, stream, 1) == stored(one, stream, 1) == 1
    stream_id = zero.ask(GetStream(stream)).stream.id
    partition = standing_broker.data / f"streams/{stream_id}/topics/0/partitions/1"
    assert (partition / "offsets/groups/0").read_bytes() == struct.pack("<Q", 1)
    assert taken(poll(one, stream, 1)) == [b"1.2", b"1.3"]
    deleting = DeleteConsumerOffset(GROUP, stream, stream, 1)
    assert one.status(deleting) == 0
    assert one.status(deleting) == ConsumerOffsetNotFound.status
    assert stored(zero, stream, 1) is None
    assert taken(poll(one, stream, 1, 1)) == [b"1.0"]


def test_without_a_partition_the_one_polled_last_is_meant(
    wire: Wire, pair: tuple[Wire, Wire], stream: str
) -> None:
    zero, one = pair
    new_group(wire, stream, 3, messages=4)
    join(one, stream)
    assert [poll(one, stream).partition_id for _ in range(2)] == [0, 1]
    assert store(one, stream, None, 2) == 0
    assert [stored(zero, stream, partition) for partition in range(3)] == [None, 2, None]
    assert one.status(DeleteConsumerOffset(GROUP, stream, stream, None)) == 0
    assert stored(zero, stream, 1) is None
    # None of this was a turn of the round.
    assert poll(one, stream).partition_id == 2


def test_a_deleted_group_leaves_no_offset_to_the_next(
    wire: Wire, pair: tuple[Wire, Wire], stream: str
) -> None:
    zero, one = pair
    new_group(wire, stream, 4, messages=2)
    join(one, stream)
    for _ in range(4):
        poll(one, stream, commit=True)
    one.ask(DeleteConsumerGroup(stream, stream, NAME))
    asking = PollMessages(GROUP, stream, stream, None, NEXT, 1, False)
    assert one.status(asking) == ConsumerGroupIdNotFound.status
    zero.ask(CreateConsumerGroup(stream, stream, NAME))
    # The same id, but another group: it has no members.
    assert one.status(asking) == ConsumerGroupMemberNotFound.status
    assert [stored(one, stream, partition) for partition in range(4)] == [None] * 4
    join(one, stream)
    assert sorted(taken(poll(one, stream))[0] for _ in range(4)) == [b"%d.0" % n for n in range(4)]


def test_a_purged_topic_begins_at_offset_0(
    wire: Wire, pair: tuple[Wire, Wire], stream: str
) -> None:
    zero, one = pair
    new_group(wire, stream, 2, messages=2)
    join(one, stream)
    for _ in range(2):
        poll(one, stream, commit=True)
    zero.ask(PurgeTopic(stream, stream))
    assert shares(zero, stream) == [[0, 1]]
    for partition in range(2):
        assert wire.send(stream, partition, b"new") == 0
    assert [taken(poll(one, stream, commit=True)) for _ in range(3)] == [[b"new"], [b"new"], []]


# Handing over.


def test_a_join_waits_for_commits(wire: Wire, pair: tuple[Wire, Wire], stream: str) -> None:
    for source, target in (pair, pair[::-1]):
        name = f"{stream}-{source.port}"
        source.ask(topic_of(name, 4, stream))
        source.ask(CreateConsumerGroup(stream, name, NAME))
        for partition in range(4):
            wire.send(name, partition, b"a", b"b", stream=stream)

        def ask(
            wire: Wire, partition: int | None = None, commit: bool = False, name: str = name
        ) -> PolledMessages:
            return wire.poll(
                name, partition, NEXT, 2, consumer=GROUP, auto_commit=commit, stream=stream
            )

        source.ask(JoinConsumerGroup(stream, name, NAME))
        assert [ask(source).partition_id for _ in range(4)] == [0, 1, 2, 3]
        target.ask(JoinConsumerGroup(stream, name, NAME))

        def held(name: str = name, wire: Wire = target) -> list[list[int]]:
            found = wire.ask(GetConsumerGroup(stream, name, NAME))
            return [list(member.partitions) for member in found.members]

        assert held() == [[0, 1, 2, 3], []]
        assert ask(target) == ask(target, 3) == NOTHING
        # The source goes round what it will keep, and may still ask for what it will lose.
        assert {ask(source).partition_id for _ in range(4)} == {0, 1}
        assert taken(ask(source, 3)) == [b"a", b"b"]
        storing = StoreConsumerOffset(GROUP, stream, name, 3, 0)
        source.ask(storing)
        assert held() == [[0, 1, 2, 3], []]
        source.ask(StoreConsumerOffset(GROUP, stream, name, 3, 1))
        wait_for(lambda: held() == [[0, 1, 2], [3]])
        assert source.status(storing) == NotResolvedConsumer.status
        assert ask(source, 3) == NOTHING
        assert ask(target, 3).messages == ()
        # A poll that commits does it, too.
        assert taken(ask(source, 2, commit=True)) == [b"a", b"b"]
        wait_for(lambda: held() == [[0, 1], [3, 2]])
        assert [ask(target, commit=True).messages for _ in range(2)] == [(), ()]


def test_what_is_committed_moves_at_once(wire: Wire, pair: tuple[Wire, Wire], stream: str) -> None:
    zero, one = pair
    new_group(wire, stream, 2, messages=2)
    join(zero, stream)
    assert len(poll(zero, stream, 1, commit=True).messages) == 2
    join(one, stream)
    assert shares(one, stream) == [[0], [1]]
    assert poll(one, stream, commit=True).messages == ()


def test_a_member_that_waits_gets_everything_when_the_source_leaves(
    wire: Wire, pair: tuple[Wire, Wire], stream: str
) -> None:
    zero, one = pair
    new_group(wire, stream, 2, messages=2)
    join(zero, stream)
    assert [len(poll(zero, stream).messages) for _ in range(2)] == [2, 2]
    join(one, stream)
    assert shares(one, stream) == [[0, 1], []]
    leave(zero, stream)
    assert shares(one, stream) == [[0, 1]]
    assert [len(poll(one, stream).messages) for _ in range(2)] == [2, 2]


def test_the_source_keeps_all_when_the_member_that_waits_leaves(
    wire: Wire, pair: tuple[Wire, Wire], stream: str
) -> None:
    zero, one = pair
    new_group(wire, stream, 2, messages=2)
    join(one, stream)
    assert [len(poll(one, stream).messages) for _ in range(2)] == [2, 2]
    join(zero, stream)
    leave(zero, stream)
    assert shares(one, stream) == [[0, 1]]
    assert {poll(one, stream).partition_id for _ in range(2)} == {0, 1}
    # Committed now, and no member waits: it stays, and stays usable.
    assert store(one, stream, 0, 1) == store(one, stream, 1, 1) == 0
    assert {poll(one, stream).partition_id for _ in range(2)} == {0, 1}
    join(zero, stream)
    assert shares(one, stream) == [[0], [1]]


def test_a_commit_from_before_a_partition_was_lost_is_refused(
    wire: Wire, pair: tuple[Wire, Wire], stream: str
) -> None:
    zero, one = pair
    new_group(wire, stream, 2, messages=5)
    join(one, stream)
    assert [len(poll(one, stream, partition, 2).messages) for partition in range(2)] == [2, 2]
    join(zero, stream)
    join(wire, stream)
    assert shares(wire, stream) == [[0, 1], [], []]
    # A leave settles everything at once, also what waited for a commit.
    leave(wire, stream)
    assert shares(wire, stream) == [[0], [1]]
    assert len(poll(zero, stream, 1, 5, commit=True).messages) == 5
    leave(zero, stream)
    assert shares(wire, stream) == [[0, 1]]
    # It holds the partition again, but another member has committed beyond what it polled.
    assert store(one, stream, 1, 1) == NotResolvedConsumer.status
    assert stored(wire, stream, 1) == 4
    assert store(one, stream, 0, 1) == 0
    assert poll(one, stream, 1).messages == ()
    assert store(one, stream, 1, 1) == 0


# Partitions come and go.


def test_new_partitions_are_shared_at_once(
    wire: Wire, pair: tuple[Wire, Wire], stream: str
) -> None:
    zero, one = pair
    new_group(wire, stream, 2, messages=1)
    join(zero, stream)
    poll(zero, stream)
    poll(zero, stream)
    join(one, stream)
    assert shares(one, stream) == [[0, 1], []]
    one.ask(CreatePartitions(stream, stream, 2))
    # What was promised is settled without waiting, as few as possible move.
    assert shares(one, stream) == [[0, 1], [2, 3]]
    wire.send(stream, 3, b"new")
    wait_for(lambda: taken(poll(one, stream, 3)) == [b"new"])


def test_deleted_partitions_are_given_up_at_once(
    wire: Wire, pair: tuple[Wire, Wire], stream: str
) -> None:
    zero, one = pair
    new_group(wire, stream, 4, messages=1)
    join(zero, stream)
    join(one, stream)
    assert shares(one, stream) == [[0, 1], [2, 3]]
    one.ask(DeletePartitions(stream, stream, 3))
    assert shares(one, stream) == [[0], []]
    assert poll(one, stream) == NOTHING
    assert taken(poll(zero, stream)) == [b"0.0"]
    zero.ask(DeletePartitions(stream, stream, 1))
    assert shares(one, stream) == [[], []]
    assert poll(zero, stream) == NOTHING
    zero.ask(CreatePartitions(stream, stream, 1))
    assert shares(one, stream) == [[0], []]


def test_a_deleted_topic_takes_its_groups_along(
    wire: Wire, pair: tuple[Wire, Wire], stream: str
) -> None:
    zero, one = pair
    new_group(wire, stream, 2, messages=1)
    join(one, stream)
    zero.ask(DeleteTopic(stream, stream))
    assert one.ask(GetMe()).consumer_groups == ()
    new_group(wire, stream, 2, messages=1)
    assert shares(one, stream) == []
    asking = PollMessages(GROUP, stream, stream, None, NEXT, 1, False)
    assert one.status(asking) == ConsumerGroupMemberNotFound.status


# Moving to another shard.


@pytest.mark.slow
@pytest.mark.parametrize("origin", [0, 1])
def test_a_member_that_moves_stays_a_member(
    standing_broker: BrokerProcess,
    wire: Wire,
    pair: tuple[Wire, Wire],
    stream: str,
    origin: int,
) -> None:
    member = pair[origin]
    new_group(wire, stream, 16)
    join(member, stream)
    assert [poll(member, stream).partition_id for _ in range(3)] == [0, 1, 2]
    me = member.ask(GetMe())
    stream_id = member.ask(GetStream(stream)).stream.id
    foreign = next(
        partition
        for partition in range(16)
        if shard_of(pack_namespace(stream_id, 0, partition), 2) != origin
    )
    assert member.send(stream, foreign, b"x") == 0
    wait_for(lambda: shard_of_wire(standing_broker, member) != origin)
    assert member.ask(GetMe()) == me
    # It goes on where it was in its round, and orders reach it where it is now.
    assert poll(member, stream).partition_id == 3
    assert shares(wire, stream) == [list(range(16))]
    join(wire, stream)
    assert [len(share) for share in shares(wire, stream)] == [8, 8]
    leave(wire, stream)
    assert {poll(member, stream).partition_id for _ in range(16)} == set(range(16))
    member.close()
    wait_for(lambda: shares(wire, stream) == [])


def test_the_same_client_is_known_by_its_address(wire: Wire, topic: str) -> None:
    wire.ask(CreateConsumerGroup(topic, topic, NAME))
    join(wire, topic)
    me = wire.ask(GetMe()).client
    assert me.client_id == xxhash.xxh32_intdigest(f"127.0.0.1:{wire.port}".encode())
    assert me.consumer_groups_count == 1
    leave(wire, topic)
    assert wire.ask(GetMe()).client.consumer_groups_count == 0
