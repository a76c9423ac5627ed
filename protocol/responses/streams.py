"""Answers about streams; what a stream consists of can be imported from here as well.

The official clients read until the end of the payload and compare with the count in front, so
a count must equal the number of entries and no byte may follow. Sizes are whole messages:
headers, payloads and user headers, without indexes. Times are microseconds since 1970.
"""

import struct
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from borzoi.protocol.errors import InvalidFormat
from borzoi.protocol.payload import PayloadReader, pack_str8
from borzoi.protocol.responses.topics import PartitionInfo as PartitionInfo
from borzoi.protocol.responses.topics import TopicDetails as TopicDetails
from borzoi.protocol.responses.topics import TopicInfo as TopicInfo
from borzoi.protocol.responses.topics import encode_topics, read_topics

# id u32 | created_at u64 | topics_count u32 | size_bytes u64 | messages_count u64, then name str8
STREAM: Final = struct.Struct("<IQIQQ")


@dataclass(frozen=True, slots=True)
class StreamInfo:
    id: int
    created_at: int
    topics_count: int
    size_bytes: int
    messages_count: int
    name: str


@dataclass(frozen=True, slots=True)
class StreamDetails:
    stream: StreamInfo
    topics: tuple[TopicInfo, ...]


def encode_stream(stream: StreamInfo) -> bytes:
    numbers = STREAM.pack(
        stream.id,
        stream.created_at,
        stream.topics_count,
        stream.size_bytes,
        stream.messages_count,
    )
    return numbers + pack_str8(stream.name)


def decode_stream(payload: memoryview) -> StreamInfo:
    return _stream(PayloadReader(payload))


def encode_streams(streams: Iterable[StreamInfo]) -> bytes:
    return b"".join(map(encode_stream, streams))


def decode_streams(payload: memoryview) -> tuple[StreamInfo, ...]:
    reader = PayloadReader(payload)
    streams = []
    while reader.remaining:
        streams.append(_stream(reader))
    return tuple(streams)


def encode_stream_details(details: StreamDetails) -> bytes:
    assert details.stream.topics_count == len(details.topics)
    return encode_stream(details.stream) + encode_topics(details.topics)


def decode_stream_details(payload: memoryview) -> StreamDetails:
    reader = PayloadReader(payload)
    stream = _stream(reader)
    topics = read_topics(reader)
    if len(topics) != stream.topics_count:
        raise InvalidFormat(f"{len(topics)} topics where {stream.topics_count} were announced")
    return StreamDetails(stream, topics)


def _stream(reader: PayloadReader) -> StreamInfo:
    identity, created_at, topics_count, size_bytes, messages_count = reader.unpack(STREAM)
    name = reader.str8()
    return StreamInfo(identity, created_at, topics_count, size_bytes, messages_count, name)
