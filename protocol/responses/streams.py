"""Answers about streams; what a stream consists of can be imported from here as well.

The official clients read until the end of the payload and compare with the count in front. So a
count must equal the number of entries, and no byte may follow. Sizes are whole messages:
headers, payloads and user headers, without indexes. Times are microseconds since 1970.
"""

from dataclasses import dataclass
from typing import Annotated

from borzoi.protocol.kinds import Announced, id32, name8, u32, u64
from borzoi.protocol.responses.topics import PartitionInfo as PartitionInfo
from borzoi.protocol.responses.topics import TopicDetails as TopicDetails
from borzoi.protocol.responses.topics import TopicInfo as TopicInfo


@dataclass(frozen=True, slots=True)
class StreamInfo:
    """A stream; `messages_count` is that of all its topics."""

    id: id32
    created_at: u64
    topics_count: u32
    size_bytes: u64
    messages_count: u64
    name: name8


@dataclass(frozen=True, slots=True)
class StreamDetails:
    """A stream and its topics."""

    stream: StreamInfo
    topics: Annotated[tuple[TopicInfo, ...], Announced(TopicInfo, "topics_count", to_the_end=True)]
