"""The kinds of fields in generations that count ids from 1.

Streams, topics, groups, partitions and users are numbered from 0 inside the broker. In these
generations the first one is 1, and 0 stands for none. Ids of consumers, clients and messages are
chosen by clients and are the same for all.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from borzoi.protocol.errors import InvalidIdentifier
from borzoi.protocol.identifiers import Consumer, ConsumerKind, Identifier
from borzoi.protocol.kinds import (
    CONSUMER,
    ID,
    IDENTIFIER,
    PARTITION,
    PERMISSIONS,
    Kind,
    Number,
    described,
    user_or_none,
)
from borzoi.protocol.payload import PayloadReader, pack_consumer, pack_identifier
from borzoi.protocol.permissions import Permissions, decode_permissions, pack_permissions


def from_one(identifier: Identifier) -> Identifier:
    """An identifier that counts from 1 as the broker knows it. InvalidIdentifier for 0."""
    if isinstance(identifier, str):
        return identifier
    if identifier == 0:
        raise InvalidIdentifier("the id 0, where ids count from 1")
    return identifier - 1


def to_one(identifier: Identifier) -> Identifier:
    """An identifier of the broker as it counts from 1."""
    return identifier if isinstance(identifier, str) else identifier + 1


def _read_identifier(reader: PayloadReader) -> Identifier:
    return from_one(reader.identifier())


def _pack_identifier(identifier: Identifier) -> bytes:
    return pack_identifier(to_one(identifier))


def _read_consumer(reader: PayloadReader) -> Consumer:
    consumer = reader.consumer()
    if consumer.kind == ConsumerKind.CONSUMER:
        return consumer
    return Consumer(consumer.kind, from_one(consumer.id))


def _pack_consumer(consumer: Consumer) -> bytes:
    if consumer.kind == ConsumerKind.CONSUMER:
        return pack_consumer(consumer)
    return pack_consumer(Consumer(consumer.kind, to_one(consumer.id)))


def _shifted(permissions: Permissions, by: int) -> Permissions:
    streams = {
        stream_id + by: replace(
            stream, topics={topic_id + by: topic for topic_id, topic in stream.topics.items()}
        )
        for stream_id, stream in permissions.streams.items()
    }
    return replace(permissions, streams=streams)


def _read_permissions(reader: PayloadReader) -> Permissions:
    permissions = decode_permissions(reader)
    for stream_id, stream in permissions.streams.items():
        if stream_id == 0 or 0 in stream.topics:
            raise InvalidIdentifier("permissions for the id 0, where ids count from 1")
    return _shifted(permissions, -1)


def _pack_permissions(permissions: Permissions) -> bytes:
    return pack_permissions(_shifted(permissions, 1))


def _none_or_from_one(number: int) -> int | None:
    return number - 1 if number else None


def _zero_or_to_one(id: int | None) -> int:
    return 0 if id is None else id + 1


OPTIONAL_ID: Final = Number("I", _none_or_from_one, _zero_or_to_one)
"""An id, or 0 for none."""

ONE_BASED: Final[Mapping[Kind, Kind]] = {
    # 0 becomes -1, an id that nothing has.
    ID: Number("I", lambda number: number - 1, lambda id: id + 1),
    IDENTIFIER: Kind(_read_identifier, _pack_identifier, IDENTIFIER.size_min),
    CONSUMER: Kind(_read_consumer, _pack_consumer, CONSUMER.size_min),
    PARTITION: OPTIONAL_ID,
    PERMISSIONS: Kind(_read_permissions, _pack_permissions, PERMISSIONS.size_min),
    described(user_or_none): OPTIONAL_ID,
}
