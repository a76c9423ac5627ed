"""Strategies that draw commands, responses and messages, and the checked-in frames."""

from collections.abc import Callable, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any, NamedTuple

from hypothesis import strategies as st

from borzoi.protocol import commands, responses
from borzoi.protocol.identifiers import (
    U32_MAX,
    U64_MAX,
    Balanced,
    Consumer,
    ConsumerKind,
    MessagesKey,
    PartitionId,
    PollingStrategy,
    StrategyKind,
)
from borzoi.protocol.message import Message
from borzoi.protocol.permissions import (
    GlobalPermissions,
    Permissions,
    StreamPermissions,
    TopicPermissions,
    UserStatus,
)
from borzoi.protocol.send_messages import decode_send_messages, encode_send_messages

GOLDEN = Path(__file__).parent.parent / "golden"


class Vector(NamedTuple):
    name: str
    code: int
    request: bytes  # payload
    status: int
    response: bytes  # payload


def vectors() -> list[Vector]:
    found = []
    for line in (GOLDEN / "frames.txt").read_text().splitlines():
        if line.startswith("#"):
            continue
        name, request_hex, response_hex = line.split()
        request, response = bytes.fromhex(request_hex), bytes.fromhex(response_hex)
        assert int.from_bytes(request[:4], "little") == len(request) - 4
        assert int.from_bytes(response[4:8], "little") == len(response) - 8
        code = int.from_bytes(request[4:8], "little")
        status = int.from_bytes(response[:4], "little")
        found.append(Vector(name, code, request[8:], status, response[8:]))
    return found


u8 = st.integers(0, 255)
u32 = st.integers(0, U32_MAX)
u64 = st.integers(0, U64_MAX)
f32 = st.floats(width=32, allow_nan=False)
names = st.text(min_size=1, max_size=60)  # four bytes a character at most: fits 255
texts = st.text(max_size=40)
identifiers = u32 | names
consumers = st.builds(Consumer, st.sampled_from(ConsumerKind), identifiers)
partitionings = (
    st.builds(Balanced)
    | st.builds(PartitionId, u32)
    | st.builds(MessagesKey, st.binary(max_size=255))
)
polling_strategies = st.builds(PollingStrategy, st.sampled_from(StrategyKind), u64)

topic_permissions = st.builds(TopicPermissions, *[st.booleans()] * 4)
stream_permissions = st.builds(
    StreamPermissions,
    *[st.booleans()] * 6,
    topics=st.dictionaries(u32, topic_permissions, max_size=3),
)
permissions = st.builds(
    Permissions,
    st.builds(GlobalPermissions, *[st.booleans()] * 10),
    st.dictionaries(u32, stream_permissions, max_size=3),
)

messages = st.builds(
    Message,
    payload=st.binary(max_size=40),
    id=st.integers(0, 2**128 - 1) | st.just(0),
    user_headers=st.binary(max_size=20),
    origin_timestamp=u64,
)
batches = st.lists(messages, min_size=1, max_size=6)
send_messages = st.builds(
    encode_send_messages, identifiers, identifiers, partitionings, batches
).map(lambda payload: decode_send_messages(memoryview(payload)))

snapshots = st.builds(
    commands.GetSnapshot,
    st.sampled_from(commands.SnapshotCompression),
    st.just((commands.SnapshotType.ALL,))
    | st.lists(
        st.sampled_from([t for t in commands.SnapshotType if t != commands.SnapshotType.ALL])
    ).map(tuple),
)

_BY_FIELD: Mapping[str, st.SearchStrategy[Any]] = {
    **dict.fromkeys(("stream", "topic", "group", "user"), identifiers),
    **dict.fromkeys(("name", "token", "password", "current_password", "new_password"), names),
    **dict.fromkeys(("version", "context"), texts),
    **dict.fromkeys(("client_id", "partitions_count", "segments_count", "count"), u32),
    **dict.fromkeys(("message_expiry", "max_topic_size", "offset", "expiry"), u64),
    **dict.fromkeys(("auto_commit", "fsync"), st.booleans()),
    "compression_algorithm": st.integers(1, 4),
    "replication_factor": u8,
    "consumer": consumers,
    "strategy": polling_strategies,
    "wanted_id": st.none(),  # the classic generation has no bytes for it
}


def commands_of(command: Any) -> st.SearchStrategy[Any]:
    """Any value of this command class."""
    if command is commands.SendMessages:
        return send_messages
    if command is commands.GetSnapshot:
        return snapshots
    drawn: dict[str, st.SearchStrategy[Any]] = {}
    for field in fields(command):
        if field.name == "options":  # not in every generation
            continue
        if field.name == "partition_id":
            drawn[field.name] = st.none() | u32 if "None" in str(field.type) else u32
        elif field.name == "username":
            drawn[field.name] = st.none() | names if command is commands.UpdateUser else names
        elif field.name == "status":
            statuses = st.sampled_from(UserStatus)
            drawn[field.name] = st.none() | statuses if command is commands.UpdateUser else statuses
        elif field.name == "permissions":
            drawn[field.name] = st.none() | permissions
        else:
            drawn[field.name] = _BY_FIELD[field.name]
    return st.builds(command, **drawn)


def tuples(items: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.lists(items, max_size=3).map(tuple)


def counted(
    build: Callable[..., Any], header: Any, items: st.SearchStrategy[Any], count_field: str
) -> st.SearchStrategy[Any]:
    """A header that tells how many items follow, and that many items."""
    others = {f.name: _response_field(f.name) for f in fields(header) if f.name != count_field}
    return tuples(items).flatmap(
        lambda drawn: st.builds(
            build, st.builds(header, **others, **{count_field: st.just(len(drawn))}), st.just(drawn)
        )
    )


def _response_field(name: str) -> st.SearchStrategy[Any]:
    special: Mapping[str, st.SearchStrategy[Any]] = {
        **dict.fromkeys(("name", "username", "token"), names),
        **dict.fromkeys(("address", "ip", "hostname", "os_name", "os_version"), texts),
        **dict.fromkeys(("kernel_version", "server_version"), texts),
        **dict.fromkeys(("cpu_usage", "total_cpu_usage", "hit_ratio"), f32),
        **dict.fromkeys(("compression_algorithm", "replication_factor"), u8),
        **dict.fromkeys(("explicit_options", "derived_options"), st.just(b"")),
        "transport": st.sampled_from(responses.Transport),
        "user_id": st.none() | st.integers(0, U32_MAX - 1),
    }
    return special.get(name, u32)


def flat(response: Any) -> st.SearchStrategy[Any]:
    return st.builds(response, **{f.name: _response_field(f.name) for f in fields(response)})


users = st.builds(responses.UserInfo, u32, u64, st.sampled_from(UserStatus), names)
cache_metrics = st.builds(responses.CacheMetric, u32, u32, u32, u64, u64, f32)
stats = st.builds(
    responses.Stats,
    **{
        f.name: _response_field(f.name)
        for f in fields(responses.Stats)
        if f.name != "cache_metrics"
    },
    cache_metrics=tuples(cache_metrics),
)
u16 = st.integers(0, 65535)
nodes = st.builds(
    responses.ClusterNode,
    texts,
    texts,
    u16,
    u16,
    u16,
    u16,
    st.sampled_from(responses.NodeRole),
    st.sampled_from(responses.NodeStatus),
)
polled_messages = st.builds(
    responses.PolledMessages,
    u32,
    u64,
    tuples(
        st.builds(
            Message,
            payload=st.binary(max_size=30),
            id=st.integers(0, 2**128 - 1),
            user_headers=st.binary(max_size=20),
            origin_timestamp=u64,
            offset=u64,
            timestamp=u64,
            checksum=u64,
        )
    ),
)
client_details = counted(
    responses.ClientDetails,
    responses.ClientInfo,
    st.builds(responses.Membership, u32, u32, u32),
    "consumer_groups_count",
)
user_details = st.builds(responses.UserDetails, users, st.none() | permissions)
tokens = st.builds(responses.TokenInfo, names, st.none() | st.integers(1, U64_MAX))
stream_details = counted(
    responses.StreamDetails, responses.StreamInfo, flat(responses.TopicInfo), "topics_count"
)
topic_details = counted(
    responses.TopicDetails, responses.TopicInfo, flat(responses.PartitionInfo), "partitions_count"
)
group_details = counted(
    responses.ConsumerGroupDetails,
    responses.ConsumerGroupInfo,
    st.builds(responses.ConsumerGroupMember, u32, tuples(u32)),
    "members_count",
)
identities = st.builds(responses.Identity, u32)
