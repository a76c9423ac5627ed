"""The cluster as clients see it.

Without `cluster.enabled` that is one healthy leader, this broker. With it, the answer names the
nodes of the configuration as they stand there. Nothing is replicated or elected, and the other
nodes are not contacted. A client that finds two nodes goes to the leader's address, so the entry of
this node has the address on which it really listens. A door that is not open has the port 0.
"""

from dataclasses import replace
from typing import Final

from borzoi.protocol.responses.cluster import ClusterMetadata, ClusterNode, NodeRole, NodeStatus
from borzoi.shards.settings.addresses import parse_address
from borzoi.shards.settings.open_doors import open_doors
from borzoi.shards.settings.schema import Config, OtherNode

CLUSTER_NAME: Final = "single-node"
NODE_NAME: Final = "iggy-node"
ANY_ADDRESS: Final = frozenset({"0.0.0.0", "::", "[::]"})


class Cluster:
    """Knows the addresses once the listeners are open."""

    def __init__(self, config: Config, follower: bool) -> None:
        self._config = config
        self._follower = follower
        self.addresses = open_doors(config)
        """By door, of those that are open: where it listens, and before that what is configured."""

    def as_seen_at(self, host: str | None) -> ClusterMetadata:
        """One node, this one, by the address that a client has reached.

        For clients of the consensus generation. If they are shown several nodes, they ask these
        for the way to each partition, which is served nowhere; and they dial the address that
        they are shown, so that it cannot be one that only stands for all others.
        """
        shown = self.metadata()
        this = shown.nodes[0]
        if host is not None and this.ip in ANY_ADDRESS:
            this = replace(this, ip=host)
        return ClusterMetadata(shown.name, (this,))

    def metadata(self) -> ClusterMetadata:
        """Names, addresses and roles of all nodes, this one first."""
        cluster = self._config.cluster
        role = NodeRole.FOLLOWER if self._follower else NodeRole.LEADER
        if not cluster.enabled:
            # A single node never redirects its clients.
            first = next(iter(self.addresses.values()), self._config.tcp.address)
            ip = parse_address(first).host
            return ClusterMetadata(CLUSTER_NAME, (self._this(NODE_NAME, ip, role),))
        current = cluster.node.current
        this = self._this(current.name, current.ip, role)
        opposite = NodeRole.LEADER if self._follower else NodeRole.FOLLOWER
        others = (self._other(node, opposite) for node in cluster.node.others)
        return ClusterMetadata(cluster.name, (this, *others))

    def _this(self, name: str, ip: str, role: NodeRole) -> ClusterNode:
        return ClusterNode(
            name=name,
            ip=ip,
            tcp_port=self._port("tcp"),
            quic_port=self._port("quic"),
            http_port=self._port("http"),
            websocket_port=self._port("websocket"),
            role=role,
            status=NodeStatus.HEALTHY,
        )

    def _port(self, door: str) -> int:
        """Where the door really listens; 0 if it is not open."""
        address = self.addresses.get(door)
        return 0 if address is None else parse_address(address).port

    def _other(self, node: OtherNode, role: NodeRole) -> ClusterNode:
        """A port that is not given is the one configured here."""
        config, ports = self._config, node.ports

        def port(given: int | None, address: str) -> int:
            return parse_address(address).port if given is None else given

        return ClusterNode(
            name=node.name,
            ip=node.ip,
            tcp_port=port(ports.tcp, config.tcp.address),
            quic_port=port(ports.quic, config.quic.address),
            http_port=port(ports.http, config.http.address),
            websocket_port=port(ports.websocket, config.websocket.address),
            role=role,
            status=NodeStatus.HEALTHY,
        )
