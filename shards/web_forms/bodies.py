"""The bodies and queries of requests: what a client may say, field by field. Pure.

Unknown fields are ignored, except in a send. Optional fields may be absent or null. A number that
does not fit its field on the wire is refused here.
"""

from typing import Annotated, Final, Literal, TypeAlias

import msgspec

from borzoi.protocol.identifiers import U64_MAX
from borzoi.shards.web_forms.objects import U32, Rights

U8: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=255)]
# The library has no bounds above 2**63; Body looks.
U64: TypeAlias = Annotated[int, msgspec.Meta(ge=0, extra_json_schema={"maximum": U64_MAX})]
Codec: TypeAlias = Literal["none", "gzip", "lz4", "zstd"]
Status: TypeAlias = Literal["active", "inactive"]
ConsumerId: TypeAlias = str | U32
Options: TypeAlias = dict[str, str] | None
"""Of the 0.9 generation: named values, each as text."""

POLLED_BY_DEFAULT: Final = 10


class Body(msgspec.Struct, frozen=True):
    """A body or a query. ValueError for a number of more than 64 bits."""

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            value = getattr(self, name)
            if isinstance(value, int) and value > U64_MAX:
                raise ValueError(f"{name} is {value}, more than {U64_MAX}")


class LoginBody(Body, frozen=True):
    """Name and password. `context` may say "codecs": the client knows lz4 and zstd."""

    username: str
    password: str
    version: str | None = None
    context: str | None = None


class TokenBody(Body, frozen=True):
    """A token: an access token to refresh, or a personal access token to log in with."""

    token: str


class CreateUserBody(Body, frozen=True):
    """A new user."""

    username: str
    password: str
    status: Status = "active"
    permissions: Rights | None = None
    options: Options = None


class UpdateUserBody(Body, frozen=True):
    """What is null or absent stays as it is."""

    username: str | None = None
    status: Status | None = None
    options: Options = None


class PermissionsBody(Body, frozen=True):
    """All permissions of a user; null takes them away."""

    permissions: Rights | None = None


class PasswordBody(Body, frozen=True):
    """A new password, given the current one."""

    current_password: str
    new_password: str


class CreateTokenBody(Body, frozen=True):
    """A new personal access token; it ends `expiry` microseconds from now, with 0 never."""

    name: str
    expiry: U64 = 0


class NameBody(Body, frozen=True):
    """A name for a consumer group."""

    name: str


class StreamBody(Body, frozen=True):
    """A name for a stream."""

    name: str
    options: Options = None


class CreateTopicBody(Body, frozen=True):
    """A new topic. 0 is the server's default, 2**64 - 1 is never and unlimited."""

    name: str
    partitions_count: U32
    compression_algorithm: Codec = "none"
    message_expiry: U64 = 0
    max_topic_size: U64 = 0
    replication_factor: U8 | None = None
    options: Options = None


class UpdateTopicBody(Body, frozen=True):
    """What is null or absent stays as it is."""

    name: str
    compression_algorithm: Codec | None = None
    message_expiry: U64 | None = None
    max_topic_size: U64 | None = None
    replication_factor: U8 | None = None
    options: Options = None


class PartitionsBody(Body, frozen=True):
    """How many partitions to add."""

    partitions_count: U32


class PartitionsQuery(Body, frozen=True):
    """How many partitions to remove."""

    partitions_count: U32


class SegmentsQuery(Body, frozen=True):
    """How many segments to delete."""

    segments_count: U32


class StoreOffsetBody(Body, frozen=True):
    """An offset to commit."""

    offset: U64
    consumer_id: ConsumerId = 1
    partition_id: U32 | None = None


class OffsetQuery(Body, frozen=True):
    """Whose offset, of which partition. The consumer may be a group (ours)."""

    consumer_id: ConsumerId = 1
    partition_id: U32 | None = None
    kind: Literal["consumer", "group"] = "consumer"


class PartitionQuery(Body, frozen=True):
    """Which partition."""

    partition_id: U32 | None = None


class SnapshotBody(Body, frozen=True):
    """What a snapshot is to show, and how it is packed. All stands alone."""

    compression: Literal["Stored", "Deflated", "Bzip2", "Zstd", "Lzma", "Xz"] = "Deflated"
    snapshot_types: tuple[
        Literal[
            "FilesystemOverview",
            "ProcessList",
            "ResourceUsage",
            "Test",
            "ServerLogs",
            "ServerConfig",
            "All",
        ],
        ...,
    ] = ("All",)


class PollQuery(Body, frozen=True):
    """Where a poll begins, and how much it returns."""

    consumer_id: ConsumerId = 1
    partition_id: U32 = 0
    kind: Literal["offset", "o", "timestamp", "t", "first", "f", "last", "l", "next", "n"] = (
        "offset"
    )
    value: U64 = 0
    count: U32 = POLLED_BY_DEFAULT
    auto_commit: bool = False
    wait: str = ""
    """How long to wait for messages if there are none, like "30s" (ours)."""


class LeaseBody(Body, frozen=True):
    """How long a member may be silent, like "30s" (ours)."""

    lease: str = "30s"


class GroupOffsetBody(Body, frozen=True):
    """An offset to commit for a group; without a partition, in the one polled last (ours)."""

    offset: U64
    partition_id: U32 | None = None


class GroupPollQuery(Body, frozen=True):
    """Where a poll of a member begins; without a partition, the next of its round (ours)."""

    partition_id: U32 | None = None
    kind: Literal["offset", "o", "timestamp", "t", "first", "f", "last", "l", "next", "n"] = "next"
    value: U64 = 0
    count: U32 = POLLED_BY_DEFAULT
    auto_commit: bool = False
    wait: str = ""


class StreamQuery(Body, frozen=True):
    """Where a stream begins; Last-Event-ID counts before it."""

    consumer_id: ConsumerId = 1
    partition_id: U32 = 0
    kind: Literal["offset", "o", "timestamp", "t", "first", "f", "last", "l", "next", "n"] = (
        "offset"
    )
    value: U64 = 0
    auto_commit: bool = False


class SendQuery(Body, frozen=True):
    """Of a send whose body is no JSON: the partition, or a key in base64; and how many messages."""

    partition_id: U32 | None = None
    key: str | None = None
    count: U32 | None = None


class PartitioningBody(Body, frozen=True):
    """`value` is empty, four bytes with the number of a partition, or a key."""

    kind: Literal["balanced", "partition_id", "messages_key"]
    value: bytes = b""


class FieldBody(Body, frozen=True):
    """The key or the value of a user header: little-endian bytes."""

    kind: Literal[
        "raw",
        "string",
        "bool",
        "int8",
        "int16",
        "int32",
        "int64",
        "int128",
        "uint8",
        "uint16",
        "uint32",
        "uint64",
        "uint128",
        "float32",
        "float64",
    ]
    value: bytes


class HeaderBody(Body, frozen=True):
    """One user header."""

    key: FieldBody
    value: FieldBody


class MessageBody(msgspec.Struct, frozen=True):
    """A message to send. An id is a number of 64 bits, or text: decimal, 32 hex digits, UUID."""

    payload: bytes
    id: U64 | str = 0
    user_headers: list[HeaderBody] | str | None = None


class SendBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A batch for one partition."""

    partitioning: PartitioningBody
    messages: list[MessageBody]
