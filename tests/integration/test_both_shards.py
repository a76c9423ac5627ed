"""A change made through one shard is visible on the other; clients of both are counted."""

from functools import partial
from typing import Final

import pytest
import xxhash

from borzoi.protocol.commands.offsets import GetConsumerOffset, StoreConsumerOffset
from borzoi.protocol.commands.sessions import LogoutUser
from borzoi.protocol.commands.streams import (
    CreateStream,
    DeleteStream,
    GetStream,
    PurgeStream,
    UpdateStream,
)
from borzoi.protocol.commands.system import (
    GetClient,
    GetClients,
    GetClusterMetadata,
    GetMe,
    GetStats,
    Ping,
)
from borzoi.protocol.commands.topics import CreatePartitions, GetTopics
from borzoi.protocol.errors import InvalidClientId, StreamIdNotFound
from borzoi.protocol.responses.clients import Transport
from borzoi.protocol.responses.cluster import NodeRole, NodeStatus
from borzoi.router.placement import pack_namespace, shard_of
from tests.broker import BrokerProcess, wait_for
from tests.shard_wires import one_per_shard
from tests.topics import described, topic_of
from tests.wire import ANYBODY, NEXT, Wire

PARTITIONS: Final = 8
CONNECTIONS: Final = 20
ROUNDS: Final = 4


@pytest.mark.slow
@pytest.mark.parametrize(("here", "there"), [(0, 1), (1, 0)])
def test_changes_are_seen_at_once(standing_broker: BrokerProcess, here: int, there: int) -> None:
    with one_per_shard(standing_broker) as wires:
        one, other = wires[here], wires[there]
        name = f"seen at once by {there}"
        for _ in range(ROUNDS):
            created = one.ask(CreateStream(name))
            assert other.ask(GetStream(name)).stream == created
            one.ask(topic_of(name, PARTITIONS))
            for partition_id in range(PARTITIONS):
                assert other.send(name, partition_id, b"x", b"y") == 0
                assert one.payloads(name, partition_id) == [b"x", b"y"]
                assert described(one, name).partitions[partition_id].messages_count == 2
            one.ask(CreatePartitions(name, name, 1))
            assert other.send(name, PARTITIONS, b"x") == 0
            one.ask(PurgeStream(name))
            for partition_id in range(PARTITIONS + 1):
                assert other.payloads(name, partition_id) == []
                assert other.send(name, partition_id, b"again") == 0
                (message,) = one.poll(name, partition_id).messages
                assert (message.offset, message.payload) == (0, b"again")
            one.ask(UpdateStream(name, name + " renamed"))
            assert other.ask(GetStream(name)) is None
            one.ask(DeleteStream(created.id))
            assert other.ask(GetStream(created.id)) is None
            assert other.ask(GetTopics(created.id)) == ()
            assert other.send(name, 0, b"x", stream=created.id) == StreamIdNotFound.status


@pytest.mark.slow
def test_both_shards_own_partitions_and_share_offsets(standing_broker: BrokerProcess) -> None:
    with one_per_shard(standing_broker) as wires:
        name = "owned by both"
        stream_id = wires[0].ask(CreateStream(name)).id
        # As many partitions as it takes for this stream's id to give both shards some.
        owners: list[int] = []
        while len(owners) < PARTITIONS or set(owners) != {0, 1}:
            assert len(owners) < 1000, "placement gives everything to one shard"
            owners.append(shard_of(pack_namespace(stream_id, 0, len(owners)), 2))
        wires[0].ask(topic_of(name, len(owners)))
        for partition_id in range(len(owners)):
            for turn in range(4):
                assert wires[turn % 2].send(name, partition_id, b"%d" % turn) == 0
            seen = [
                message.offset
                for turn in range(4)
                for message in wires[turn % 2]
                .poll(name, partition_id, NEXT, 1, auto_commit=True)
                .messages
            ]
            assert seen == [0, 1, 2, 3]
            wires[0].ask(StoreConsumerOffset(ANYBODY, name, name, partition_id, 1))
            stored = wires[1].ask(GetConsumerOffset(ANYBODY, name, name, partition_id))
            assert stored.stored_offset == 1
        wires[0].ask(DeleteStream(name))


@pytest.mark.slow
def test_clients_of_both_shards(standing_broker: BrokerProcess) -> None:
    with one_per_shard(standing_broker) as wires:
        crowd = [Wire(standing_broker, login=number % 4 != 0) for number in range(CONNECTIONS)]
        crowd[1].ask(LogoutUser())
        # Connected is who has been accepted, and the kernel does not wait for that.
        assert all(stranger.status(Ping()) == 0 for stranger in crowd)
        everybody = {f"127.0.0.1:{wire.port}": wire for wire in (*wires, *crowd)}
        for asking in wires:
            listed = asking.ask(GetClients())
            assert [one.client_id for one in listed] == sorted(one.client_id for one in listed)
            addresses = [one.address for one in listed]
            assert len(addresses) == len(set(addresses))
            assert set(everybody) <= set(addresses)
            for client in listed:
                assert client.client_id == xxhash.xxh32_intdigest(client.address.encode())
                assert (client.transport, client.consumer_groups_count) == (Transport.TCP, 0)
                found = asking.ask(GetClient(client.client_id))
                assert (found.client, found.consumer_groups) == (client, ())
            strangers = {one.address for one in listed if one.user_id is None}
            assert strangers >= {f"127.0.0.1:{wire.port}" for wire in (*crowd[::4], crowd[1])}
            assert asking.ask(GetStats()).clients_count == len(listed)
            me = asking.ask(GetMe())
            assert me.client.address == f"127.0.0.1:{asking.port}"
            assert me.client in listed
        gone = {f"127.0.0.1:{wire.port}" for wire in crowd}
        for wire in crowd:
            wire.close()
        for asking in wires:
            wait_for(partial(_none_connected, gone, asking))


def _none_connected(addresses: set[str], asking: Wire) -> bool:
    return addresses.isdisjoint(one.address for one in asking.ask(GetClients()))


def test_clients_that_do_not_exist(wire: Wire) -> None:
    assert wire.status(GetClient(0)) == InvalidClientId.status
    known = {client.client_id for client in wire.ask(GetClients())}
    free = next(number for number in range(1, 1000) if number not in known)
    assert wire.ask(GetClient(free)) is None


def test_there_is_one_node(standing_broker: BrokerProcess) -> None:
    with one_per_shard(standing_broker) as wires:
        for wire in wires:
            cluster = wire.ask(GetClusterMetadata())
            assert cluster.name == "single-node"
            (node,) = cluster.nodes
            assert (node.name, node.ip) == ("iggy-node", "127.0.0.1")
            assert node.tcp_port == standing_broker.port
            assert (node.role, node.status) == (NodeRole.LEADER, NodeStatus.HEALTHY)
