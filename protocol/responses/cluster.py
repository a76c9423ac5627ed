"""The answer to GET_CLUSTER_METADATA. With exactly one node no client ever moves elsewhere."""

from dataclasses import dataclass
from enum import IntEnum
from typing import Annotated

from borzoi.protocol.kinds import counted, text32, u16


class NodeRole(IntEnum):
    """Whether a node leads or follows."""

    LEADER = 0
    FOLLOWER = 1


class NodeStatus(IntEnum):
    """The condition of a node, as it is shown to clients."""

    HEALTHY = 0
    STARTING = 1
    STOPPING = 2
    UNREACHABLE = 3
    MAINTENANCE = 4


@dataclass(frozen=True, slots=True)
class ClusterNode:
    """A node and the ports of its doors."""

    name: text32
    ip: text32
    tcp_port: u16
    quic_port: u16
    http_port: u16
    websocket_port: u16
    role: NodeRole
    status: NodeStatus


@dataclass(frozen=True, slots=True)
class ClusterMetadata:
    """All nodes, under the name of the cluster."""

    name: text32
    nodes: Annotated[tuple[ClusterNode, ...], counted(ClusterNode)]
