"""A connection that moves to another shard keeps its session, its groups and its framing."""

import psutil
import pytest

from borzoi.protocol import commands as c
from borzoi.protocol.codes import Code
from borzoi.protocol.consensus.evictions import Reason
from borzoi.protocol.identifiers import Consumer, ConsumerKind
from tests.broker import BrokerProcess, wait_for
from tests.consensus_wire import ConsensusWire
from tests.integration.consensus.topics import topic_with
from tests.wire import NEXT

WIRES_MAX = 64
GROUP = Consumer(ConsumerKind.GROUP, "g")


def shards_of(broker: BrokerProcess, wires: list[ConsensusWire]) -> set[int]:
    """The shards that hold the other ends of these connections."""
    ports = {wire.port for wire in wires}
    return {
        shard
        for shard, pid in broker.workers().items()
        for one in psutil.Process(pid).net_connections(kind="tcp")
        if one.status == psutil.CONN_ESTABLISHED and one.raddr.port in ports
    }


@pytest.mark.slow
def test_sessions_move(broker: BrokerProcess) -> None:
    wires = [ConsensusWire(broker)]
    while len(wires) < WIRES_MAX and len(shards_of(broker, wires)) < 2:
        wires.append(ConsensusWire(broker))
    assert len(shards_of(broker, wires)) == 2
    topic_with(wires[0], "moving", len(wires))
    wires[0].ask(c.CreateConsumerGroup("moving", "moving", "g"))
    for wire in wires:
        wire.ask(c.JoinConsumerGroup("moving", "moving", "g"))

    def all_moved() -> bool:
        offsets = [wire.confirmed("moving", 0, b"x").base_offset for wire in wires]
        assert offsets == list(range(offsets[0], offsets[0] + len(wires)))
        return len(shards_of(broker, wires)) == 1

    wait_for(all_moved)
    for wire in wires:
        wire.request(Code.GET_STREAMS, session=wire.session + 1)
        assert wire.evicted == Reason.NO_SESSION
        assert wire.ask(c.GetMe()).client.consumer_groups_count == 1
        (partition,) = wire.ask(c.SyncConsumerGroup("moving", "moving", "g")).partitions
        assert wire.poll("moving", partition, NEXT, consumer=GROUP).partition_id == partition
