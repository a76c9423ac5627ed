"""From the values that handlers return to the objects of JSON answers (objects.py). Pure."""

from collections.abc import Iterable
from dataclasses import astuple
from typing import Any, Final

import msgspec

from borzoi.protocol.headers import HeaderKind
from borzoi.protocol.permissions import (
    GlobalPermissions,
    Permissions,
    StreamPermissions,
    TopicPermissions,
    UserStatus,
)
from borzoi.protocol.responses import (
    ClientDetails,
    ClientInfo,
    ClusterMetadata,
    ClusterNode,
    ConsumerGroupDetails,
    ConsumerGroupInfo,
    ConsumerGroupMember,
    PartitionInfo,
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
from borzoi.protocol.responses.options import OptionDescription
from borzoi.shards.attached.attachment import Attachment
from borzoi.shards.web_forms.figures import float32, size_text
from borzoi.shards.web_forms.objects import (
    AttachmentAnswer,
    CacheAnswer,
    ClientAnswer,
    ClientDetailsAnswer,
    ClusterAnswer,
    Endpoints,
    GlobalRights,
    GroupAnswer,
    GroupDetailsAnswer,
    MemberAnswer,
    MembershipAnswer,
    NodeAnswer,
    OffsetAnswer,
    OptionAnswer,
    PartitionAnswer,
    RawTokenAnswer,
    Rights,
    StatsAnswer,
    StreamAnswer,
    StreamDetailsAnswer,
    StreamRights,
    TokenAnswer,
    TopicAnswer,
    TopicDetailsAnswer,
    TopicRights,
    UserAnswer,
    UserDetailsAnswer,
)

COMPRESSION: Final = {1: "none", 2: "gzip", 3: "lz4", 4: "zstd"}
STATUS: Final = {UserStatus.ACTIVE: "active", UserStatus.INACTIVE: "inactive"}
TRANSPORT: Final = {
    Transport.TCP: "tcp",
    Transport.QUIC: "quic",
    Transport.HTTP: "http",
    Transport.WEBSOCKET: "ws",
}


def stream(one: StreamInfo) -> StreamAnswer:
    """A stream of a list."""
    return StreamAnswer(**_stream(one))


def streams(found: Iterable[StreamInfo]) -> list[StreamAnswer]:
    """All streams."""
    return [stream(one) for one in found]


def stream_details(one: StreamDetails) -> StreamDetailsAnswer:
    """A stream and its topics."""
    return StreamDetailsAnswer(**_stream(one.stream), topics=topics(one.topics))


def new_stream(one: StreamInfo) -> StreamDetailsAnswer:
    """A stream that was just made."""
    return StreamDetailsAnswer(**_stream(one), topics=[])


def topics(found: Iterable[TopicInfo]) -> list[TopicAnswer]:
    """The topics of a stream."""
    return [TopicAnswer(**_topic(one)) for one in found]


def topic_details(one: TopicDetails) -> TopicDetailsAnswer:
    """A topic and its partitions."""
    return TopicDetailsAnswer(
        **_topic(one.topic), partitions=[_partition(each) for each in one.partitions]
    )


def new_topic(one: TopicDetails) -> TopicDetailsAnswer:
    """A topic that was just made: HTTP shows the first segment of each partition, TCP does not."""
    details = topic_details(one)
    partitions = [msgspec.structs.replace(each, segments_count=1) for each in details.partitions]
    return msgspec.structs.replace(details, partitions=partitions)


def attachment(one: Attachment) -> AttachmentAnswer:
    """What Liftbridge knows of a topic."""
    paused, readonly = list(one.paused), list(one.readonly)
    return AttachmentAnswer(one.subject, one.group, one.settings, paused, readonly)


def groups(found: Iterable[ConsumerGroupInfo]) -> list[GroupAnswer]:
    """The groups of a topic."""
    return [GroupAnswer(**_group(one)) for one in found]


def group_details(one: ConsumerGroupDetails) -> GroupDetailsAnswer:
    """A group and its members."""
    return GroupDetailsAnswer(**_group(one.group), members=[_member(each) for each in one.members])


def new_group(one: ConsumerGroupInfo) -> GroupDetailsAnswer:
    """A group that was just made."""
    return GroupDetailsAnswer(**_group(one), members=[])


def offset(one: Any) -> OffsetAnswer:
    """A committed offset."""
    return OffsetAnswer(one.partition_id, one.current_offset, one.stored_offset)


def users(found: Iterable[UserInfo]) -> list[UserAnswer]:
    """All users."""
    return [UserAnswer(**_user(one)) for one in found]


def user_details(one: UserDetails) -> UserDetailsAnswer:
    """A user and all rights."""
    return UserDetailsAnswer(**_user(one.user), permissions=rights(one.permissions))


def rights(permissions: Permissions | None) -> Rights | None:
    """Permissions as JSON has them."""
    if permissions is None:
        return None
    found = {
        stream_id: _stream_rights(one) for stream_id, one in sorted(permissions.streams.items())
    }
    return Rights(GlobalRights(*astuple(permissions.global_permissions)), found or None)


def permissions_of(given: Rights | None) -> Permissions | None:
    """What rights() has made JSON of."""
    if given is None:
        return None
    found = {stream_id: _permissions(one) for stream_id, one in (given.streams or {}).items()}
    return Permissions(GlobalPermissions(*msgspec.structs.astuple(given.everywhere)), found)


def tokens(found: Iterable[TokenInfo]) -> list[TokenAnswer]:
    """The tokens of a user."""
    return [TokenAnswer(one.name, one.expiry_at) for one in found]


def raw_token(one: Any) -> RawTokenAnswer:
    """A new token."""
    return RawTokenAnswer(one.token)


def clients(found: Iterable[ClientInfo]) -> list[ClientAnswer]:
    """All clients."""
    return [ClientAnswer(**_client(one)) for one in found]


def client_details(one: ClientDetails) -> ClientDetailsAnswer:
    """A client and its groups."""
    members = [MembershipAnswer(*each) for each in one.consumer_groups]
    return ClientDetailsAnswer(**_client(one.client), consumer_groups=members)


def cluster(one: ClusterMetadata) -> ClusterAnswer:
    """All nodes."""
    return ClusterAnswer(one.name, [_node(each) for each in one.nodes])


def options(found: Iterable[OptionDescription]) -> list[OptionAnswer]:
    """The options of a kind of thing."""
    return [
        OptionAnswer(one.key, HeaderKind(one.kind).name.lower(), list(one.default), one.description)
        for one in found
    ]


def stats(one: Stats) -> StatsAnswer:
    """Figures of the whole broker."""
    caches = {
        f"{each.stream_id}-{each.topic_id}-{each.partition_id}": CacheAnswer(
            each.hits, each.misses, float32(each.hit_ratio)
        )
        for each in one.cache_metrics
    }
    return StatsAnswer(
        process_id=one.process_id,
        cpu_usage=float32(one.cpu_usage),
        total_cpu_usage=float32(one.total_cpu_usage),
        memory_usage=size_text(one.memory_usage),
        total_memory=size_text(one.total_memory),
        available_memory=size_text(one.available_memory),
        run_time=one.run_time,
        start_time=one.start_time,
        read_bytes=size_text(one.read_bytes),
        written_bytes=size_text(one.written_bytes),
        messages_size_bytes=size_text(one.messages_size_bytes),
        streams_count=one.streams_count,
        topics_count=one.topics_count,
        partitions_count=one.partitions_count,
        segments_count=one.segments_count,
        messages_count=one.messages_count,
        clients_count=one.clients_count,
        consumer_groups_count=one.consumer_groups_count,
        hostname=one.hostname,
        os_name=one.os_name,
        os_version=one.os_version,
        kernel_version=one.kernel_version,
        iggy_server_version=one.server_version,
        iggy_server_semver=one.server_semver or None,
        cache_metrics=caches,
        threads_count=one.threads_count,
        free_disk_space=size_text(one.free_disk_space),
        total_disk_space=size_text(one.total_disk_space),
    )


def _stream(one: StreamInfo) -> dict[str, Any]:
    return {
        "id": one.id,
        "created_at": one.created_at,
        "name": one.name,
        "size": size_text(one.size_bytes),
        "messages_count": one.messages_count,
        "topics_count": one.topics_count,
    }


def _topic(one: TopicInfo) -> dict[str, Any]:
    return {
        "id": one.id,
        "created_at": one.created_at,
        "name": one.name,
        "size": size_text(one.size_bytes),
        "message_expiry": one.message_expiry,
        "compression_algorithm": COMPRESSION[one.compression_algorithm],
        "max_topic_size": one.max_topic_size,
        "replication_factor": one.replication_factor,
        "messages_count": one.messages_count,
        "partitions_count": one.partitions_count,
    }


def _partition(one: PartitionInfo) -> PartitionAnswer:
    return PartitionAnswer(
        one.id,
        one.created_at,
        one.segments_count,
        one.current_offset,
        size_text(one.size_bytes),
        one.messages_count,
    )


def _group(one: ConsumerGroupInfo) -> dict[str, Any]:
    return {
        "id": one.id,
        "name": one.name,
        "partitions_count": one.partitions_count,
        "members_count": one.members_count,
    }


def _member(one: ConsumerGroupMember) -> MemberAnswer:
    return MemberAnswer(one.id, len(one.partitions), list(one.partitions))


def _user(one: UserInfo) -> dict[str, Any]:
    return {
        "id": one.id,
        "created_at": one.created_at,
        "status": STATUS[one.status],
        "username": one.username,
    }


def _stream_rights(one: StreamPermissions) -> StreamRights:
    found = {
        topic_id: TopicRights(*astuple(topic)) for topic_id, topic in sorted(one.topics.items())
    }
    return StreamRights(
        one.manage_stream,
        one.read_stream,
        one.manage_topics,
        one.read_topics,
        one.poll_messages,
        one.send_messages,
        found or None,
    )


def _permissions(one: StreamRights) -> StreamPermissions:
    granted = {
        topic_id: TopicPermissions(*msgspec.structs.astuple(topic))
        for topic_id, topic in (one.topics or {}).items()
    }
    return StreamPermissions(**{**msgspec.structs.asdict(one), "topics": granted})


def _client(one: ClientInfo) -> dict[str, Any]:
    return {
        "client_id": one.client_id,
        "user_id": one.user_id,
        "address": one.address,
        "transport": TRANSPORT[one.transport],
        "consumer_groups_count": one.consumer_groups_count,
    }


def _node(one: ClusterNode) -> NodeAnswer:
    endpoints = Endpoints(one.tcp_port, one.quic_port, one.http_port, one.websocket_port)
    return NodeAnswer(one.name, one.ip, endpoints, one.role.name.lower(), one.status.name.lower())
