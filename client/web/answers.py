"""From the JSON of an answer to the values that other doors answer with. Pure.

Names are those of the values, but for a few; sizes are text and exact ("147412 KiB"). What cannot
be read raises KeyError, TypeError or ValueError, which the connection turns into one error.
"""

from collections.abc import Callable, Mapping
from dataclasses import fields
from fractions import Fraction
from typing import Any, Final, TypeAlias, TypeVar

from borzoi.protocol.permissions import (
    GlobalPermissions,
    Permissions,
    StreamPermissions,
    TopicPermissions,
    UserStatus,
)
from borzoi.protocol.responses import (
    CacheMetric,
    ClientDetails,
    ClientInfo,
    ClusterMetadata,
    ClusterNode,
    ConsumerGroupDetails,
    ConsumerGroupInfo,
    ConsumerGroupMember,
    ConsumerOffsetInfo,
    Identity,
    Membership,
    NodeRole,
    NodeStatus,
    PartitionInfo,
    RawToken,
    Stats,
    StreamDetails,
    StreamInfo,
    TokenInfo,
    TopicDetails,
    TopicInfo,
    Transport,
    UserDetails,
    UserInfo,
)

Found: TypeAlias = Mapping[str, Any]
Value = TypeVar("Value")

UNITS: Final = {
    "B": 1,
    "KB": 10**3,
    "MB": 10**6,
    "GB": 10**9,
    "TB": 10**12,
    "KiB": 1 << 10,
    "MiB": 1 << 20,
    "GiB": 1 << 30,
    "TiB": 1 << 40,
}
CODECS: Final = {"none": 1, "gzip": 2, "lz4": 3, "zstd": 4}
USER_STATUSES: Final = {"active": UserStatus.ACTIVE, "inactive": UserStatus.INACTIVE}
TRANSPORTS: Final = {
    "tcp": Transport.TCP,
    "quic": Transport.QUIC,
    "http": Transport.HTTP,
    "ws": Transport.WEBSOCKET,
    "websocket": Transport.WEBSOCKET,
}
SIZES_OF_STATS: Final = frozenset(
    {
        "memory_usage",
        "total_memory",
        "available_memory",
        "read_bytes",
        "written_bytes",
        "messages_size_bytes",
        "free_disk_space",
        "total_disk_space",
    }
)


def size_of(text: str) -> int:
    """A number of bytes: "0 B" is 0, "147412 KiB" is 150949888."""
    number, _, unit = text.partition(" ")
    return int(Fraction(number) * UNITS[unit])


def stream(found: Found) -> StreamInfo:
    """A stream."""
    return _made(StreamInfo, found, size_bytes=size_of(found["size"]))


def streams(found: list[Found]) -> tuple[StreamInfo, ...]:
    """All streams."""
    return tuple(map(stream, found))


def stream_details(found: Found) -> StreamDetails:
    """A stream and its topics."""
    return StreamDetails(stream(found), topics(found["topics"]))


def topics(found: list[Found]) -> tuple[TopicInfo, ...]:
    """The topics of a stream."""
    return tuple(map(_topic, found))


def topic_details(found: Found) -> TopicDetails:
    """A topic and its partitions."""
    partitions = tuple(
        _made(PartitionInfo, one, size_bytes=size_of(one["size"])) for one in found["partitions"]
    )
    return TopicDetails(_topic(found), partitions)


def group(found: Found) -> ConsumerGroupInfo:
    """A consumer group."""
    return _made(ConsumerGroupInfo, found)


def groups(found: list[Found]) -> tuple[ConsumerGroupInfo, ...]:
    """The groups of a topic."""
    return tuple(map(group, found))


def group_details(found: Found) -> ConsumerGroupDetails:
    """A group and its members."""
    members = (ConsumerGroupMember(one["id"], tuple(one["partitions"])) for one in found["members"])
    return ConsumerGroupDetails(group(found), tuple(members))


def offset(found: Found) -> ConsumerOffsetInfo:
    """A committed offset."""
    return _made(ConsumerOffsetInfo, found)


def user(found: Found) -> UserInfo:
    """A user."""
    return _made(UserInfo, found, status=USER_STATUSES[found["status"]])


def users(found: list[Found]) -> tuple[UserInfo, ...]:
    """All users."""
    return tuple(map(user, found))


def user_details(found: Found) -> UserDetails:
    """A user and its permissions."""
    return UserDetails(user(found), _permissions(found["permissions"]))


def tokens(found: list[Found]) -> tuple[TokenInfo, ...]:
    """Personal access tokens."""
    return tuple(_made(TokenInfo, one) for one in found)


def raw_token(found: Found) -> RawToken:
    """A new personal access token."""
    return _made(RawToken, found)


def identity(found: Found) -> Identity:
    """The user that has logged in."""
    return _made(Identity, found)


def clients(found: list[Found]) -> tuple[ClientInfo, ...]:
    """All connected clients."""
    return tuple(map(_client, found))


def client_details(found: Found) -> ClientDetails:
    """A connected client and its groups."""
    members = (
        Membership(one["stream_id"], one["topic_id"], one["group_id"])
        for one in found["consumer_groups"]
    )
    return ClientDetails(_client(found), tuple(members))


def cluster(found: Found) -> ClusterMetadata:
    """All nodes."""
    return ClusterMetadata(found["name"], tuple(map(_node, found["nodes"])))


def stats(found: Found) -> Stats:
    """Figures of the whole broker."""
    named = dict(found)
    for name in SIZES_OF_STATS:
        named[name] = size_of(found[name])
    return _made(
        Stats,
        named,
        server_version=found["iggy_server_version"],
        server_semver=found["iggy_server_semver"] or 0,
        cache_metrics=tuple(_cache(place, one) for place, one in found["cache_metrics"].items()),
    )


def permissions_body(permissions: Permissions | None) -> dict[str, Any] | None:
    """Permissions as a request has them."""
    if permissions is None:
        return None
    found = {str(stream_id): _rights(one) for stream_id, one in permissions.streams.items()}
    return {"global": _flags(permissions.global_permissions), "streams": found or None}


def _topic(found: Found) -> TopicInfo:
    named = {"explicit_options": b"", "derived_options": b"", **found}
    codec = CODECS[found["compression_algorithm"]]
    return _made(TopicInfo, named, size_bytes=size_of(found["size"]), compression_algorithm=codec)


def _client(found: Found) -> ClientInfo:
    return _made(ClientInfo, found, transport=TRANSPORTS[found["transport"].lower()])


def _cache(place: str, found: Found) -> CacheMetric:
    stream_id, topic_id, partition_id = map(int, place.split("-"))
    figures = found["hits"], found["misses"], found["hit_ratio"]
    return CacheMetric(stream_id, topic_id, partition_id, *figures)


def _node(found: Found) -> ClusterNode:
    ports = found["endpoints"]
    return ClusterNode(
        found["name"],
        found["ip"],
        ports["tcp"],
        ports["quic"],
        ports["http"],
        ports["websocket"],
        NodeRole[found["role"].upper()],
        NodeStatus[found["status"].upper()],
    )


def _permissions(found: Found | None) -> Permissions | None:
    if found is None:
        return None
    granted = {
        int(stream_id): StreamPermissions(
            **{
                **one,
                "topics": {
                    int(topic_id): TopicPermissions(**topic)
                    for topic_id, topic in (one["topics"] or {}).items()
                },
            }
        )
        for stream_id, one in (found["streams"] or {}).items()
    }
    return Permissions(GlobalPermissions(**found["global"]), granted)


def _rights(one: StreamPermissions) -> dict[str, Any]:
    granted = {str(topic_id): _flags(topic) for topic_id, topic in one.topics.items()}
    return {**_flags(one), "topics": granted or None}


def _flags(one: Any) -> dict[str, bool]:
    return {each.name: getattr(one, each.name) for each in fields(one) if each.name != "topics"}


def _made(kind: Callable[..., Value], found: Found, **changed: Any) -> Value:
    """A value whose fields are named as in the JSON, but for those that are given."""
    names = [each.name for each in fields(kind)]  # type: ignore[arg-type]  # a dataclass
    return kind(**{name: changed[name] if name in changed else found[name] for name in names})
