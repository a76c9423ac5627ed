"""The cluster as clients see it: one healthy leader, this broker."""

from typing import Final

from borzoi.protocol.responses.cluster import ClusterMetadata, ClusterNode, NodeRole, NodeStatus
from borzoi.shards.config.addresses import parse_address
from borzoi.shards.config.schema import Config

CLUSTER_NAME: Final = "single-node"
NODE_NAME: Final = "iggy-node"


class Cluster:
    """Knows the addresses once the listeners are open."""

    def __init__(self, config: Config, follower: bool) -> None:
        self._config = config
        self._role = NodeRole.FOLLOWER if follower else NodeRole.LEADER
        self.tcp_address = config.tcp.address

    def metadata(self) -> ClusterMetadata:
        """A single node never redirects its clients."""
        tcp = parse_address(self.tcp_address)
        node = ClusterNode(
            name=NODE_NAME,
            ip=tcp.host,
            tcp_port=tcp.port,
            quic_port=parse_address(self._config.quic.address).port,
            http_port=parse_address(self._config.http.address).port,
            websocket_port=parse_address(self._config.websocket.address).port,
            role=self._role,
            status=NodeStatus.HEALTHY,
        )
        return ClusterMetadata(CLUSTER_NAME, (node,))
