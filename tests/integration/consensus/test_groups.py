"""Members that choose their partitions from what they were assigned."""

from borzoi.protocol import commands as c
from borzoi.protocol.errors import Unauthorized
from borzoi.protocol.identifiers import Consumer, ConsumerKind
from borzoi.protocol.permissions import GlobalPermissions, Permissions
from borzoi.protocol.responses import GroupAssignment
from tests.broker import BrokerProcess
from tests.consensus_wire import NO_MEMBER, ConsensusWire
from tests.integration.consensus.topics import topic_with
from tests.wire import NEXT, Wire

GROUP = Consumer(ConsumerKind.GROUP, "g")


def members(broker: BrokerProcess, name: str, partitions: int, count: int) -> list[ConsensusWire]:
    wires = [ConsensusWire(broker) for _ in range(count)]
    topic_with(wires[0], name, partitions)
    wires[0].ask(c.CreateConsumerGroup(name, name, "g"))
    for wire in wires:
        wire.ask(c.JoinConsumerGroup(name, name, "g"))
    return wires


def assignment(wire: ConsensusWire, name: str) -> GroupAssignment:
    found: GroupAssignment = wire.ask(c.SyncConsumerGroup(name, name, "g"))
    return found


def test_two_members_share_the_partitions(broker: BrokerProcess) -> None:
    one, other = members(broker, "shared", 2, 2)
    for partition in range(2):
        one.append("shared", "shared", partition, [b"%d" % partition])
    (first,), (second,) = (assignment(wire, "shared").partitions for wire in (one, other))
    assert {first, second} == {0, 1}
    for wire, mine, theirs in ((one, first, second), (other, second, first)):
        polled = wire.poll("shared", mine, NEXT, consumer=GROUP, auto_commit=True)
        assert (polled.partition_id, [m.payload for m in polled.messages]) == (mine, [b"%d" % mine])
        fenced = wire.poll("shared", theirs, NEXT, consumer=GROUP)
        assert (fenced.partition_id, fenced.current_offset, fenced.messages) == (NO_MEMBER, 0, ())


def test_an_assignment_that_changes_has_another_generation(broker: BrokerProcess) -> None:
    (one,) = members(broker, "changing", 2, 1)
    alone = assignment(one, "changing")
    assert assignment(one, "changing") == alone
    assert sorted(alone.partitions) == [0, 1]
    two = ConsensusWire(broker)
    two.ask(c.JoinConsumerGroup("changing", "changing", "g"))
    shared = assignment(one, "changing")
    assert shared.generation != alone.generation
    assert len(shared.partitions) == 1
    third = ConsensusWire(broker)
    third.ask(c.JoinConsumerGroup("changing", "changing", "g"))
    assert sorted(len(assignment(wire, "changing").partitions) for wire in (one, two, third)) == [
        0,
        1,
        1,
    ]


def test_who_is_no_member_is_fenced(broker: BrokerProcess) -> None:
    (one,) = members(broker, "strange", 1, 1)
    stranger = ConsensusWire(broker)
    assert stranger.poll("strange", 0, NEXT, consumer=GROUP).partition_id == NO_MEMBER
    assert stranger.ask(c.SyncConsumerGroup("strange", "strange", "g")) is None
    assert one.poll("strange", 0, NEXT, consumer=GROUP).partition_id == 0
    missing = Consumer(ConsumerKind.GROUP, "missing")
    poll = c.PollMessages(missing, "strange", "strange", 0, NEXT, 1, False)
    assert stranger.status(poll) == 5000


def test_members_of_two_generations(broker: BrokerProcess) -> None:
    (one,) = members(broker, "mixed", 2, 1)
    classic = Wire(broker)
    classic.ask(c.JoinConsumerGroup("mixed", "mixed", "g"))
    for partition in range(2):
        one.append("mixed", "mixed", partition, [b"%d" % partition])
    (mine,) = assignment(one, "mixed").partitions
    assert [m.payload for m in one.poll("mixed", mine, NEXT, consumer=GROUP).messages] == [
        b"%d" % mine
    ]
    theirs = classic.poll("mixed", None, NEXT, consumer=GROUP)
    assert (theirs.partition_id, len(theirs.messages)) == (1 - mine, 1)
    assert classic.poll("mixed", mine, NEXT, consumer=GROUP).partition_id == 0


def test_who_may_ask_what_it_holds(broker: BrokerProcess) -> None:
    (root,) = members(broker, "guarded", 1, 1)
    root.ask(c.CreateUser("reader", "password"))
    reader = ConsensusWire(broker, login=False).log_in("reader", "password")
    assert reader.status(c.SyncConsumerGroup("guarded", "guarded", "g")) == Unauthorized.status
    assert reader.status(c.DescribeOptions(c.OptionScope.TOPIC)) == 0
    allowed = Permissions(GlobalPermissions(read_topics=True))
    root.ask(c.UpdatePermissions("reader", allowed))
    assert reader.ask(c.SyncConsumerGroup("guarded", "guarded", "g")) is None
    assert reader.status(c.SyncConsumerGroup("guarded", "guarded", "h")) == 5000
