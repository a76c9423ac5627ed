"""The layouts of SDK 0.1 to 0.7, as differences to the classic generation, and their tables.

OLD counts ids from 1, names the id in its three create commands (0: the server chooses) and has a
partition as a bare u32 (0: none). V1 is older: a message expiry is u32 in seconds, 0 is never. Its
SDKs up to 0.1 have no compression, size limit and replication of topics.

Names of streams, topics and groups have statuses of their own. Codes that these SDKs do not know
are not in the tables.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

from borzoi.protocol import commands as c
from borzoi.protocol import responses as r
from borzoi.protocol.classic import LAYOUTS, ROWS
from borzoi.protocol.codec import CommandCodec, PayloadCodec, Row, codecs, payload_codec
from borzoi.protocol.codes import Code
from borzoi.protocol.errors import (
    BrokerError,
    InvalidConsumerGroupName,
    InvalidFormat,
    InvalidMessagesCount,
    InvalidStreamName,
    InvalidTopicName,
)
from borzoi.protocol.identifiers import U32_MAX, U64_MAX
from borzoi.protocol.kinds import Kind, Number, absent
from borzoi.protocol.layout import Fields, fields_of, moved
from borzoi.protocol.older.one_based import ONE_BASED, OPTIONAL_ID
from borzoi.protocol.older.page import (
    Later,
    accepting,
    later_consumer,
    later_group,
    later_new_group,
    later_new_topic,
)
from borzoi.protocol.payload import PayloadReader, pack_str8

SECOND: Final = 1_000_000  # in microseconds
NEVER: Final = U64_MAX
NO_COMPRESSION: Final = 1
SERVER_DEFAULT: Final = 0


def _name_or(error: type[BrokerError]) -> Kind:
    """A name; one that is empty is this error."""

    def read(reader: PayloadReader) -> str:
        try:
            return reader.str8()
        except InvalidFormat:
            raise error("an empty name") from None

    return Kind(read, pack_str8, 1)


STREAM_NAME: Final = _name_or(InvalidStreamName)
TOPIC_NAME: Final = _name_or(InvalidTopicName)
GROUP_NAME: Final = _name_or(InvalidConsumerGroupName)


def _with_id(layout: type[Any], name: Kind, before: str) -> Fields:
    """The fields of a create command with the wanted id before one of them."""
    fields = {**fields_of(layout), "name": name}
    del fields["wanted_id"]
    names = list(fields)
    names.insert(names.index(before), "wanted_id")
    return {each: fields.get(each, OPTIONAL_ID) for each in names}


def _seconds_to_expiry(seconds: int) -> int:
    return seconds * SECOND if seconds else NEVER


def _expiry_to_seconds(expiry: int) -> int:
    """At least 1, since 0 is never."""
    return 0 if expiry == NEVER else max(1, min(expiry // SECOND, U32_MAX))


EXPIRY_SECONDS: Final = Number("I", _seconds_to_expiry, _expiry_to_seconds)
# Unlimited is 0 in answers; in requests 0 is the server's default, as everywhere.
SHOWN_SIZE: Final = Number("Q", None, lambda size: 0 if size == U64_MAX else size)

OLD_LAYOUTS: Final = LAYOUTS.changed(
    {
        c.CreateStream: _with_id(c.CreateStream, STREAM_NAME, before="name"),
        c.CreateTopic: _with_id(c.CreateTopic, TOPIC_NAME, before="partitions_count"),
        c.CreateConsumerGroup: _with_id(c.CreateConsumerGroup, GROUP_NAME, before="name"),
        c.UpdateStream: {**fields_of(c.UpdateStream), "name": STREAM_NAME},
        c.UpdateTopic: {**fields_of(c.UpdateTopic), "name": TOPIC_NAME},
    },
    ONE_BASED,
)

_CREATE_TOPIC: Final = _with_id(c.CreateTopic, TOPIC_NAME, before="partitions_count")
_UPDATE_TOPIC: Final = {**fields_of(c.UpdateTopic), "name": TOPIC_NAME}

V1_LAYOUTS: Final = OLD_LAYOUTS.changed(
    {
        c.CreateTopic: {**_CREATE_TOPIC, "message_expiry": EXPIRY_SECONDS},
        c.UpdateTopic: {**_UPDATE_TOPIC, "message_expiry": EXPIRY_SECONDS},
        r.TopicInfo: {
            **fields_of(r.TopicInfo),
            "message_expiry": EXPIRY_SECONDS,
            "max_topic_size": SHOWN_SIZE,
        },
    }
)

_NOT_IN_SHORT: Final[Fields] = {
    "compression_algorithm": absent(NO_COMPRESSION),
    "max_topic_size": absent(SERVER_DEFAULT),
    "replication_factor": absent(SERVER_DEFAULT),
}

V1_SHORT_LAYOUTS: Final = V1_LAYOUTS.changed(
    {
        c.CreateTopic: {**_CREATE_TOPIC, "message_expiry": EXPIRY_SECONDS, **_NOT_IN_SHORT},
        c.UpdateTopic: {**_UPDATE_TOPIC, "message_expiry": EXPIRY_SECONDS, **_NOT_IN_SHORT},
        r.TopicInfo: {
            **fields_of(r.TopicInfo),
            "message_expiry": EXPIRY_SECONDS,
            **_NOT_IN_SHORT,
        },
        r.Stats: {
            **moved(r.Stats, "cache_metrics", before="threads_count"),
            "total_cpu_usage": absent(0.0),
        },
    }
)


def _rows(unknown: frozenset[Code], changed: Mapping[Code, Row]) -> dict[Code, Row]:
    """The rows of a generation: the classic ones but for some."""
    return {code: row for code, row in {**ROWS, **changed}.items() if code not in unknown}


def _without_count_0(poll: PayloadCodec) -> PayloadCodec:
    """A poll of no messages is refused."""

    def decode(payload: memoryview) -> c.PollMessages:
        command: c.PollMessages = poll.decode(payload)
        if command.count == 0:
            raise InvalidMessagesCount("a poll of 0 messages")
        return command

    return PayloadCodec(decode, poll.encode)


def _by_shape(
    is_short: Callable[[memoryview], bool], short: PayloadCodec, long: PayloadCodec
) -> PayloadCodec:
    return PayloadCodec(
        lambda payload: (short if is_short(payload) else long).decode(payload), long.encode
    )


def rest_after(payload: memoryview, identifiers: int) -> memoryview:
    """What follows so many identifiers; raises if they are not there."""
    reader = PayloadReader(payload)
    for _ in range(identifiers):
        reader.identifier()
    return payload[reader.at :]


def ends_with_name(rest: memoryview, at: int) -> bool:
    """Whether a length u8 at this place is that of all bytes behind it, and not 0."""
    return len(rest) > at + 1 and rest[at] == len(rest) - at - 1


def is_short_create_topic(payload: memoryview) -> bool:
    """Whether a CREATE_TOPIC is that of SDK 0.1: id, partitions, expiry, name."""
    return ends_with_name(rest_after(payload, 1), 12)


def _is_short_update_topic(payload: memoryview) -> bool:
    return ends_with_name(rest_after(payload, 2), 4)


UNKNOWN: Final = frozenset({Code.GET_CLUSTER_METADATA, Code.DELETE_SEGMENTS})
"""Codes that came with later SDKs."""

_POLL: Final = {
    Code.POLL_MESSAGES: ROWS[Code.POLL_MESSAGES]._replace(
        request=_without_count_0(payload_codec(OLD_LAYOUTS, c.PollMessages))
    )
}
_of_v1: Final = partial(payload_codec, V1_LAYOUTS)
_of_short: Final = partial(payload_codec, V1_SHORT_LAYOUTS)

OLD_CODECS: Final[Mapping[int, CommandCodec]] = codecs(OLD_LAYOUTS, _rows(UNKNOWN, _POLL))
HYBRID_CODECS: Final[Mapping[int, CommandCodec]] = codecs(
    OLD_LAYOUTS, _rows(frozenset({Code.GET_CLUSTER_METADATA}), _POLL)
)
_EARLIER: Final[Mapping[Code, Later]] = {
    Code.POLL_MESSAGES: later_consumer(18),
    Code.GET_CONSUMER_OFFSET: later_consumer(4),
    Code.DELETE_CONSUMER_OFFSET: later_consumer(4),
    Code.STORE_CONSUMER_OFFSET: later_consumer(12),
    Code.GET_CONSUMER_GROUP: later_group,
    Code.DELETE_CONSUMER_GROUP: later_group,
    Code.JOIN_CONSUMER_GROUP: later_group,
    Code.LEAVE_CONSUMER_GROUP: later_group,
    Code.CREATE_CONSUMER_GROUP: later_new_group,
    Code.CREATE_TOPIC: later_new_topic,
}


def _with_earlier(found: Mapping[int, CommandCodec]) -> Mapping[int, CommandCodec]:
    """The codecs of a generation that may be that of the first releases."""
    accepted = {
        int(code): found[code]._replace(request=accepting(found[code].request, later))
        for code, later in _EARLIER.items()
    }
    return {**found, **accepted}


V1_CODECS: Final[Mapping[int, CommandCodec]] = _with_earlier(
    codecs(
        V1_LAYOUTS,
        _rows(
            UNKNOWN,
            {
                **_POLL,
                Code.CREATE_TOPIC: ROWS[Code.CREATE_TOPIC]._replace(
                    request=_by_shape(
                        is_short_create_topic, _of_short(c.CreateTopic), _of_v1(c.CreateTopic)
                    )
                ),
                Code.UPDATE_TOPIC: ROWS[Code.UPDATE_TOPIC]._replace(
                    request=_by_shape(
                        _is_short_update_topic, _of_short(c.UpdateTopic), _of_v1(c.UpdateTopic)
                    )
                ),
            },
        ),
    )
)
V1_SHORT_CODECS: Final[Mapping[int, CommandCodec]] = _with_earlier(
    codecs(V1_SHORT_LAYOUTS, _rows(UNKNOWN, _POLL))
)
