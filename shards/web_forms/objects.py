"""The objects of answers as JSON: their fields in the order in which they are written. Pure.

Sizes are text (figures.py), times are microseconds since 1970, 2**64 - 1 is never and unlimited.
Rights are objects of requests, too.
"""

from typing import Annotated, Final, TypeAlias

import msgspec

U32: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=2**32 - 1)]


class Answer(msgspec.Struct, frozen=True):
    """An object of an answer."""


class StreamAnswer(Answer, frozen=True):
    """A stream."""

    id: int
    created_at: int
    name: str
    size: str
    messages_count: int
    topics_count: int


class TopicAnswer(Answer, frozen=True):
    """A topic."""

    id: int
    created_at: int
    name: str
    size: str
    message_expiry: int
    compression_algorithm: str
    max_topic_size: int
    replication_factor: int
    messages_count: int
    partitions_count: int


class StreamDetailsAnswer(StreamAnswer, frozen=True):
    """A stream and its topics."""

    topics: list[TopicAnswer]


class PartitionAnswer(Answer, frozen=True):
    """A partition."""

    id: int
    created_at: int
    segments_count: int
    current_offset: int
    size: str
    messages_count: int


class TopicDetailsAnswer(TopicAnswer, frozen=True):
    """A topic and its partitions."""

    partitions: list[PartitionAnswer]


class AttachmentAnswer(Answer, frozen=True):
    """A topic as a stream of Liftbridge: settings as its client gave them, in their own units."""

    subject: str
    group: str
    settings: dict[str, int]
    paused: list[int]
    readonly: list[int]


class GroupAnswer(Answer, frozen=True):
    """A consumer group."""

    id: int
    name: str
    partitions_count: int
    members_count: int


class MemberAnswer(Answer, frozen=True):
    """A member of a consumer group."""

    id: int
    partitions_count: int
    partitions: list[int]


class GroupDetailsAnswer(GroupAnswer, frozen=True):
    """A consumer group and its members."""

    members: list[MemberAnswer]


class LeaseAnswer(Answer, frozen=True):
    """A leased member: its id, its lease in microseconds, the partitions it begins with."""

    id: str
    lease: int
    partitions: list[int]


class OffsetAnswer(Answer, frozen=True):
    """A committed offset."""

    partition_id: int
    current_offset: int
    stored_offset: int


class GlobalRights(Answer, frozen=True):
    """Rights on everything."""

    manage_servers: bool
    read_servers: bool
    manage_users: bool
    read_users: bool
    manage_streams: bool
    read_streams: bool
    manage_topics: bool
    read_topics: bool
    poll_messages: bool
    send_messages: bool


class TopicRights(Answer, frozen=True):
    """Rights on one topic."""

    manage_topic: bool
    read_topic: bool
    poll_messages: bool
    send_messages: bool


BY_ID: Final = msgspec.Meta(
    extra_json_schema={"propertyNames": {"pattern": "^(0|[1-9][0-9]{0,8})$"}}
)
"""Keys of JSON objects are text, and the library does not say that these are numbers."""


class StreamRights(Answer, frozen=True):
    """Rights on one stream and on topics of it, by id."""

    manage_stream: bool
    read_stream: bool
    manage_topics: bool
    read_topics: bool
    poll_messages: bool
    send_messages: bool
    topics: Annotated[dict[U32, TopicRights], BY_ID] | None = None


class Rights(Answer, frozen=True):
    """Permissions, of answers and of requests alike."""

    everywhere: GlobalRights = msgspec.field(name="global")
    streams: Annotated[dict[U32, StreamRights], BY_ID] | None = None


class UserAnswer(Answer, frozen=True):
    """A user."""

    id: int
    created_at: int
    status: str
    username: str


class UserDetailsAnswer(UserAnswer, frozen=True):
    """A user and all rights."""

    permissions: Rights | None


class TokenAnswer(Answer, frozen=True):
    """A personal access token, without the token itself."""

    name: str
    expiry_at: int | None


class RawTokenAnswer(Answer, frozen=True):
    """A new personal access token. It is shown once."""

    token: str


class AccessToken(Answer, frozen=True):
    """A token for the header Authorization, and the second in which it ends."""

    token: str
    expiry: int


class IdentityAnswer(Answer, frozen=True):
    """The user that has logged in, and its token."""

    user_id: int
    access_token: AccessToken


class MembershipAnswer(Answer, frozen=True):
    """A group of which a client is a member."""

    stream_id: int
    topic_id: int
    group_id: int


class ClientAnswer(Answer, frozen=True):
    """A connected client."""

    client_id: int
    user_id: int | None
    address: str
    transport: str
    consumer_groups_count: int


class ClientDetailsAnswer(ClientAnswer, frozen=True):
    """A connected client and its groups."""

    consumer_groups: list[MembershipAnswer]


class Endpoints(Answer, frozen=True):
    """The ports of a node."""

    tcp: int
    quic: int
    http: int
    websocket: int


class NodeAnswer(Answer, frozen=True):
    """A node of the cluster."""

    name: str
    ip: str
    endpoints: Endpoints
    role: str
    status: str


class ClusterAnswer(Answer, frozen=True):
    """All nodes."""

    name: str
    nodes: list[NodeAnswer]


class CacheAnswer(Answer, frozen=True):
    """How often reads of a partition found their bytes in memory."""

    hits: int
    misses: int
    hit_ratio: float


class StatsAnswer(Answer, frozen=True):
    """Figures of the whole broker."""

    process_id: int
    cpu_usage: float
    total_cpu_usage: float
    memory_usage: str
    total_memory: str
    available_memory: str
    run_time: int
    start_time: int
    read_bytes: str
    written_bytes: str
    messages_size_bytes: str
    streams_count: int
    topics_count: int
    partitions_count: int
    segments_count: int
    messages_count: int
    clients_count: int
    consumer_groups_count: int
    hostname: str
    os_name: str
    os_version: str
    kernel_version: str
    iggy_server_version: str
    iggy_server_semver: int | None
    cache_metrics: dict[str, CacheAnswer]
    threads_count: int
    free_disk_space: str
    total_disk_space: str


class MessageHead(Answer, frozen=True):
    """The header of a message. Ids have up to 128 bits."""

    checksum: int
    id: int
    offset: int
    timestamp: int
    origin_timestamp: int
    user_headers_length: int
    payload_length: int
    reserved: int


class HeaderField(Answer, frozen=True):
    """The key or the value of a user header: what it is, and its bytes in base64."""

    kind: str
    value: bytes


class UserHeader(Answer, frozen=True):
    """One user header."""

    key: HeaderField
    value: HeaderField


class OptionAnswer(Answer, frozen=True):
    """An option: its key, the kind of its value, and the bytes of it when it is not given."""

    key: str
    kind: str
    default_value: list[int]
    description: str


class MessageAnswer(Answer, frozen=True):
    """A message. User headers that cannot be read are the base64 of their bytes."""

    header: MessageHead
    payload: bytes
    user_headers: list[UserHeader] | str


class PolledAnswer(Answer, frozen=True):
    """Messages of a partition (message_json.py writes them)."""

    partition_id: int
    current_offset: int
    count: int
    messages: list[MessageAnswer]
