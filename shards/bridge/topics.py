"""From the settings of a stream to those of its topic, and from a topic to a stream. Pure."""

from collections.abc import Mapping
from typing import Final

from msgspec import UnsetType

from borzoi.liftbridge.ports import NewStream, StreamView, Times
from borzoi.protocol.consensus.options import pack_options
from borzoi.protocol.headers import HeaderKind, header_field
from borzoi.protocol.identifiers import U64_MAX
from borzoi.quantities import GIB, MIB
from borzoi.shards.attached.attachment import EventTimes
from borzoi.shards.decisions.attaching import CreateAttachedTopic
from borzoi.shards.decisions.topic_options import SEGMENT_SIZE, SEGMENT_SIZE_STEP
from borzoi.shards.metadata.state import Stream, Topic

SERVER_DEFAULT: Final = 0
MS_US: Final = 1000
US_NS: Final = 1000


def new_topic(stream: str, new: NewStream, segment_size: int) -> CreateAttachedTopic:
    """The topic of a stream; `segment_size` is that of topics that ask for none."""
    settings = new.settings
    size = _topic_size(settings.get("retentionMaxBytes"), new.partitions)
    wanted = settings.get("segmentMaxBytes")
    if size not in (SERVER_DEFAULT, U64_MAX) and size < (wanted or segment_size):
        wanted = size
    options = b""
    if wanted:
        wanted = max(MIB, min(GIB, wanted // SEGMENT_SIZE_STEP * SEGMENT_SIZE_STEP))
        options = pack_options({SEGMENT_SIZE: header_field(wanted, HeaderKind.UINT64)})
        if size != SERVER_DEFAULT:
            size = max(size, wanted)
    return CreateAttachedTopic(
        stream,
        new.name,
        new.partitions,
        _expiry(settings.get("retentionMaxAge")),
        size,
        options,
        new.subject,
        new.group,
        dict(settings),
    )


def views_of(stream: Stream | None) -> Mapping[str, StreamView]:
    """The streams of Liftbridge among the topics of a stream of Iggy."""
    if stream is None:
        return {}
    return {
        topic.name: _view(topic)
        for topic in stream.topics.values()
        if not isinstance(topic.attachment, UnsetType)
    }


def _view(topic: Topic) -> StreamView:
    attached = topic.attached
    return StreamView(
        topic.name,
        attached.subject,
        attached.group,
        topic.partitions_count,
        topic.created_at * US_NS,
        attached.settings,
        frozenset(attached.paused),
        attached.resume_all,
        frozenset(attached.readonly),
        _times(attached.pause_times),
        _times(attached.readonly_times),
    )


def _times(times: Mapping[int, EventTimes]) -> dict[int, Times]:
    return {one: Times(at.first * US_NS, at.latest * US_NS) for one, at in times.items()}


def _expiry(age_ms: int | None) -> int:
    if age_ms is None:
        return SERVER_DEFAULT
    return min(age_ms * MS_US, U64_MAX) if age_ms else U64_MAX


def _topic_size(bytes_max: int | None, partitions: int) -> int:
    if bytes_max is None:
        return SERVER_DEFAULT
    return min(bytes_max * partitions, U64_MAX) if bytes_max else U64_MAX
