"""Every answer as a value, with its two codecs beside it.

Gathered here so that handlers and clients can import any of them from one place. A thing that
does not exist is None and travels as an empty payload; a list is its items back to back.
"""

from borzoi.protocol.responses.clients import (
    ClientDetails,
    ClientInfo,
    Membership,
    Transport,
)
from borzoi.protocol.responses.cluster import (
    ClusterMetadata,
    ClusterNode,
    NodeRole,
    NodeStatus,
)
from borzoi.protocol.responses.consumers import (
    ConsumerGroupDetails,
    ConsumerGroupInfo,
    ConsumerGroupMember,
    ConsumerOffsetInfo,
)
from borzoi.protocol.responses.polled import (
    PolledMessages,
)
from borzoi.protocol.responses.stats import (
    CacheMetric,
    Stats,
)
from borzoi.protocol.responses.streams import StreamDetails, StreamInfo
from borzoi.protocol.responses.topics import PartitionInfo, TopicDetails, TopicInfo
from borzoi.protocol.responses.users import (
    Identity,
    RawToken,
    TokenInfo,
    UserDetails,
    UserInfo,
)

__all__ = [
    "CacheMetric",
    "ClientDetails",
    "ClientInfo",
    "ClusterMetadata",
    "ClusterNode",
    "ConsumerGroupDetails",
    "ConsumerGroupInfo",
    "ConsumerGroupMember",
    "ConsumerOffsetInfo",
    "Identity",
    "Membership",
    "NodeRole",
    "NodeStatus",
    "PartitionInfo",
    "PolledMessages",
    "RawToken",
    "Stats",
    "StreamDetails",
    "StreamInfo",
    "TokenInfo",
    "TopicDetails",
    "TopicInfo",
    "Transport",
    "UserDetails",
    "UserInfo",
]
