"""The cluster as clients see it.

Without `cluster.enabled` that is one healthy leader, this broker. With it, the answer names the
nodes of the configuration as they stand there. Nothing is replicated or elected, and the other
nodes are not contacted. A client that finds two nodes goes to the leader's address, so the entry of
this node has the address on which it really listens.
"""

from typing import Final

from borzoi.protocol.responses.cluster import ClusterMetadata, ClusterNode, NodeRole, NodeStatus
from borzoi.shards.settings.addresses import parse_address
from borzoi.shards.settings.schema import Config, OtherNode

CLUSTER_NAME: Final = "single-node"
NODE_NAME: Final = "iggy-node"


class Cluster:
    """Knows the addresses once the listeners are open."""

    def __init__(self, config: Config, follower: bool) -> None:
        self._config = config
        self._follower = follower
        self.addresses = {
            name: getattr(config, name).address for name in ("tcp", "quic", "http", "websocket")
        }
        """By door: where it listens, and before that what is configured."""

    def metadata(self, *, of_this_node: bool = False) -> ClusterMetadata:
        """Names, addresses and roles of all nodes, this one first; or of this one alone.

        Clients of the consensus generation that are shown several nodes ask these for the way to
        each partition, which is served nowhere.
        """
        cluster = self._config.cluster
        role = NodeRole.FOLLOWER if self._follower else NodeRole.LEADER
        if not cluster.enabled:
            # A single node never redirects its clients.
            ip = parse_address(self.addresses["tcp"]).host
            return ClusterMetadata(CLUSTER_NAME, (self._this(NODE_NAME, ip, role),))
        current = cluster.node.current
        this = self._this(current.name, current.ip, role)
        opposite = NodeRole.LEADER if self._follower else NodeRole.FOLLOWER
        others = (self._other(node, opposite) for node in cluster.node.others)
        return ClusterMetadata(cluster.name, (this,) if of_this_node else (this, *others))

    def _this(self, name: str, ip: str, role: NodeRole) -> ClusterNode:
        return ClusterNode(
            name=name,
            ip=ip,
            tcp_port=parse_address(self.addresses["tcp"]).port,
            quic_port=parse_address(self.addresses["quic"]).port,
            http_port=parse_address(self.addresses["http"]).port,
            websocket_port=parse_address(self.addresses["websocket"]).port,
            role=role,
            status=NodeStatus.HEALTHY,
        )

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
