"""Every answer as a value, its fields in the order of the wire.

Gathered here so that handlers and clients can import any of them from one place. A thing that
does not exist is None and travels as an empty payload; a list is its items back to back.
"""

# ruff: noqa: F401 - gathered for others

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
    GroupAssignment,
)
from borzoi.protocol.responses.options import OptionDescription
from borzoi.protocol.responses.polled import (
    PolledMessages,
)
from borzoi.protocol.responses.sent import SentBatch
from borzoi.protocol.responses.stats import (
    CacheMetric,
    Stats,
)
from borzoi.protocol.responses.streams import StreamDetails, StreamInfo
from borzoi.protocol.responses.topics import PartitionInfo, TopicDetails, TopicInfo
from borzoi.protocol.responses.users import (
    Identity,
    RawToken,
    Registered,
    TokenInfo,
    UserDetails,
    UserInfo,
)
