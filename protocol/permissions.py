"""What an active user may do: globally, per stream, per topic of a stream.

The block on the wire; every right is one byte, any byte but zero grants it:

    10 global rights | has_streams u8
    per stream:   stream_id u32 | 6 rights | has_topics u8
      per topic:    topic_id u32 | 4 rights | has_next_topic u8
                  has_next_stream u8

Streams and topics are written in ascending order of their ids. No entries and no map at all
are the same bytes.
"""

import struct
from collections.abc import Mapping
from dataclasses import astuple, dataclass, field, replace
from enum import IntEnum
from typing import Final

from borzoi.protocol.errors import InvalidFormat
from borzoi.protocol.payload import U32, PayloadReader

GLOBAL_RIGHTS: Final = struct.Struct("<10?")
STREAM_RIGHTS: Final = struct.Struct("<I6?")  # stream id first
TOPIC_RIGHTS: Final = struct.Struct("<I4?")  # topic id first


class UserStatus(IntEnum):
    """Whether a user may log in."""

    ACTIVE = 1
    INACTIVE = 2


@dataclass(frozen=True, slots=True)
class GlobalPermissions:
    """Rights on everything."""

    manage_servers: bool = False
    read_servers: bool = False
    manage_users: bool = False
    read_users: bool = False
    manage_streams: bool = False
    read_streams: bool = False
    manage_topics: bool = False
    read_topics: bool = False
    poll_messages: bool = False
    send_messages: bool = False


@dataclass(frozen=True, slots=True)
class TopicPermissions:
    """Rights on one topic."""

    manage_topic: bool = False
    read_topic: bool = False
    poll_messages: bool = False
    send_messages: bool = False


@dataclass(frozen=True, slots=True)
class StreamPermissions:
    """Rights on one stream, and on single topics of it by id."""

    manage_stream: bool = False
    read_stream: bool = False
    manage_topics: bool = False
    read_topics: bool = False
    poll_messages: bool = False
    send_messages: bool = False
    topics: Mapping[int, TopicPermissions] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Permissions:
    """Everything granted to one user. Rights add up; none takes another away."""

    global_permissions: GlobalPermissions = field(default_factory=GlobalPermissions)
    streams: Mapping[int, StreamPermissions] = field(default_factory=dict)


ALL_PERMISSIONS: Final = Permissions(
    GlobalPermissions(True, True, True, True, True, True, True, True, True, True)
)


def without_stream(permissions: Permissions, stream_id: int) -> Permissions:
    """The same without what is granted for one stream and its topics."""
    if stream_id not in permissions.streams:
        return permissions
    streams = {id: stream for id, stream in permissions.streams.items() if id != stream_id}
    return replace(permissions, streams=streams)


def without_topic(permissions: Permissions, stream_id: int, topic_id: int) -> Permissions:
    """The same without what is granted for one topic."""
    stream = permissions.streams.get(stream_id)
    if stream is None or topic_id not in stream.topics:
        return permissions
    topics = {id: topic for id, topic in stream.topics.items() if id != topic_id}
    streams = {**permissions.streams, stream_id: replace(stream, topics=topics)}
    return replace(permissions, streams=streams)


def encode_permissions(permissions: Permissions) -> bytes:
    """The block without its length."""
    parts = [GLOBAL_RIGHTS.pack(*astuple(permissions.global_permissions))]
    for stream_id, stream in sorted(permissions.streams.items()):
        parts.append(b"\1")
        parts.append(_encode_stream(stream_id, stream))
    parts.append(b"\0")
    return b"".join(parts)


def decode_permissions(reader: PayloadReader) -> Permissions:
    """A block preceded by its length u32, which must be exactly what the block occupies.

    One client family leaves out the has_next bytes. Where such a byte would lie beyond the
    announced end it counts as 0, which is right for one stream with at most one topic.
    """
    size = reader.u32()
    end = reader.at + size
    reader.require(size)
    global_permissions = GlobalPermissions(*_rights(reader, 10))
    streams: dict[int, StreamPermissions] = {}
    more = reader.flag()
    while more:
        stream_id = reader.u32()
        manage, read, manage_topics, read_topics, poll, send = _rights(reader, 6)
        topics = _decode_topics(reader, end)
        streams[stream_id] = StreamPermissions(
            manage, read, manage_topics, read_topics, poll, send, topics
        )
        more = _has_next(reader, end)
    if reader.at != end:
        raise InvalidFormat(f"permissions of {size} bytes end {reader.at - end} bytes beside that")
    return Permissions(global_permissions, streams)


def pack_permissions(permissions: Permissions) -> bytes:
    """The block with its length in front."""
    block = encode_permissions(permissions)
    return U32.pack(len(block)) + block


def _encode_stream(stream_id: int, stream: StreamPermissions) -> bytes:
    rights = STREAM_RIGHTS.pack(
        stream_id,
        stream.manage_stream,
        stream.read_stream,
        stream.manage_topics,
        stream.read_topics,
        stream.poll_messages,
        stream.send_messages,
    )
    parts = [rights]
    for topic_id, topic in sorted(stream.topics.items()):
        parts.append(b"\1")
        parts.append(TOPIC_RIGHTS.pack(topic_id, *astuple(topic)))
    parts.append(b"\0")
    return b"".join(parts)


def _decode_topics(reader: PayloadReader, end: int) -> dict[int, TopicPermissions]:
    topics: dict[int, TopicPermissions] = {}
    more = reader.flag()
    while more:
        topic_id = reader.u32()
        topics[topic_id] = TopicPermissions(*_rights(reader, 4))
        more = _has_next(reader, end)
    return topics


def _rights(reader: PayloadReader, count: int) -> list[bool]:
    return [byte != 0 for byte in reader.take(count)]


def _has_next(reader: PayloadReader, end: int) -> bool:
    return reader.at < end and reader.flag()
