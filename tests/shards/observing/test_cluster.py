"""The nodes that GET_CLUSTER_METADATA names."""

import pytest

from borzoi.protocol.responses.cluster import ClusterNode, NodeRole, NodeStatus
from borzoi.shards.config import Config
from borzoi.shards.observing.cluster import Cluster
from borzoi.shards.settings.schema import (
    ClusterSettings,
    CurrentNode,
    NodePorts,
    Nodes,
    OtherNode,
    Tcp,
)


def node(name: str, ip: str, ports: tuple[int, int, int, int], role: NodeRole) -> ClusterNode:
    return ClusterNode(name, ip, *ports, role, NodeStatus.HEALTHY)


@pytest.mark.parametrize(
    ("follower", "role"), [(False, NodeRole.LEADER), (True, NodeRole.FOLLOWER)]
)
def test_one_node_with_the_port_that_is_really_bound(follower: bool, role: NodeRole) -> None:
    cluster = Cluster(Config(tcp=Tcp(address="10.0.0.1:0")), follower)
    cluster.addresses["tcp"] = "10.0.0.1:40001"
    metadata = cluster.metadata()
    assert metadata.name == "single-node"
    assert metadata.nodes == (node("iggy-node", "10.0.0.1", (40001, 8080, 3000, 8092), role),)


def test_the_shipped_cluster_has_two_nodes_and_leads() -> None:
    """Official tests switch it on without naming nodes; being no leader would send them away."""
    cluster = Cluster(Config(cluster=ClusterSettings(enabled=True)), follower=False)
    cluster.addresses["tcp"] = "127.0.0.1:40001"
    metadata = cluster.metadata()
    assert metadata.name == "iggy-cluster"
    assert metadata.nodes == (
        node("iggy-node-1", "127.0.0.1", (40001, 8080, 3000, 8092), NodeRole.LEADER),
        node("iggy-node-2", "127.0.0.1", (8091, 8081, 3001, 8093), NodeRole.FOLLOWER),
    )


def test_this_node_alone() -> None:
    """Clients of the consensus generation poll by way of the other nodes once they see some."""
    cluster = Cluster(Config(cluster=ClusterSettings(enabled=True)), follower=False)
    assert cluster.as_seen_at("10.0.0.7").nodes == cluster.metadata().nodes[:1]
    anywhere = Cluster(Config(tcp=Tcp(address="0.0.0.0:0")), follower=False)
    anywhere.addresses["tcp"] = "0.0.0.0:40001"
    (node,) = anywhere.as_seen_at("10.0.0.7").nodes
    assert (node.ip, node.tcp_port) == ("10.0.0.7", 40001)
    assert anywhere.as_seen_at(None).nodes == anywhere.metadata().nodes


def test_configured_nodes_as_a_follower() -> None:
    nodes = Nodes(
        current=CurrentNode(name="here", ip="10.0.0.1"),
        others=(
            OtherNode(name="b", ip="10.0.0.2", ports=NodePorts(tcp=1, quic=2, http=3)),
            OtherNode(name="c", ip="10.0.0.3"),
        ),
    )
    config = Config(cluster=ClusterSettings(enabled=True, name="three", node=nodes))
    metadata = Cluster(config, follower=True).metadata()
    assert metadata.name == "three"
    assert metadata.nodes == (
        node("here", "10.0.0.1", (8090, 8080, 3000, 8092), NodeRole.FOLLOWER),
        node("b", "10.0.0.2", (1, 2, 3, 8092), NodeRole.LEADER),
        node("c", "10.0.0.3", (8090, 8080, 3000, 8092), NodeRole.LEADER),
    )
