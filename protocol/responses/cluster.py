"""The answer to GET_CLUSTER_METADATA. With exactly one node no client ever moves elsewhere.

name str32 | nodes_count u32
per node:   name str32 | ip str32 | tcp, quic, http, websocket ports 4 x u16 | role u8 | status u8
"""

import struct
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from borzoi.protocol.payload import U32, PayloadReader, pack_str32

PORTS: Final = struct.Struct("<4H")
ROLE_AND_STATUS: Final = struct.Struct("<BB")
# Two empty texts, the ports, role and status: less than this no node can have.
NODE_SIZE_MIN: Final = 2 * U32.size + PORTS.size + ROLE_AND_STATUS.size


class NodeRole(IntEnum):
    LEADER = 0
    FOLLOWER = 1


class NodeStatus(IntEnum):
    HEALTHY = 0
    STARTING = 1
    STOPPING = 2
    UNREACHABLE = 3
    MAINTENANCE = 4


@dataclass(frozen=True, slots=True)
class ClusterNode:
    name: str
    ip: str
    tcp_port: int
    quic_port: int
    http_port: int
    websocket_port: int
    role: NodeRole
    status: NodeStatus


@dataclass(frozen=True, slots=True)
class ClusterMetadata:
    name: str
    nodes: tuple[ClusterNode, ...]


def encode_cluster_metadata(metadata: ClusterMetadata) -> bytes:
    nodes = b"".join(map(_encode_node, metadata.nodes))
    return pack_str32(metadata.name) + U32.pack(len(metadata.nodes)) + nodes


def decode_cluster_metadata(payload: memoryview) -> ClusterMetadata:
    reader = PayloadReader(payload)
    name = reader.str32()
    count = reader.u32()
    reader.require(count * NODE_SIZE_MIN)
    return ClusterMetadata(name, tuple(_node(reader) for _ in range(count)))


def _encode_node(node: ClusterNode) -> bytes:
    return b"".join(
        (
            pack_str32(node.name),
            pack_str32(node.ip),
            PORTS.pack(node.tcp_port, node.quic_port, node.http_port, node.websocket_port),
            ROLE_AND_STATUS.pack(node.role, node.status),
        )
    )


def _node(reader: PayloadReader) -> ClusterNode:
    return ClusterNode(
        name=reader.str32(),
        ip=reader.str32(),
        tcp_port=reader.u16(),
        quic_port=reader.u16(),
        http_port=reader.u16(),
        websocket_port=reader.u16(),
        role=reader.enumeration(NodeRole),
        status=reader.enumeration(NodeStatus),
    )
