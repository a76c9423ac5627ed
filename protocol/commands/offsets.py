"""Requests about the offsets that consumers and groups have committed."""

from dataclasses import dataclass

from borzoi.protocol.identifiers import Consumer, Identifier
from borzoi.protocol.payload import (
    U64,
    PayloadReader,
    pack_consumer,
    pack_identifiers,
    pack_optional_partition,
)


@dataclass(frozen=True, slots=True)
class GetConsumerOffset:
    """Where a consumer stands in a partition."""

    consumer: Consumer
    stream: Identifier
    topic: Identifier
    partition_id: int | None


def decode_get_consumer_offset(payload: memoryview) -> GetConsumerOffset:
    reader = PayloadReader(payload)
    return GetConsumerOffset(
        reader.consumer(), reader.identifier(), reader.identifier(), reader.optional_partition()
    )


def encode_get_consumer_offset(command: GetConsumerOffset) -> bytes:
    return b"".join(
        (
            pack_consumer(command.consumer),
            pack_identifiers(command.stream, command.topic),
            pack_optional_partition(command.partition_id),
        )
    )


@dataclass(frozen=True, slots=True)
class StoreConsumerOffset:
    """Commit an offset, forwards or backwards."""

    consumer: Consumer
    stream: Identifier
    topic: Identifier
    partition_id: int | None
    offset: int


def decode_store_consumer_offset(payload: memoryview) -> StoreConsumerOffset:
    reader = PayloadReader(payload)
    return StoreConsumerOffset(
        consumer=reader.consumer(),
        stream=reader.identifier(),
        topic=reader.identifier(),
        partition_id=reader.optional_partition(),
        offset=reader.u64(),
    )


def encode_store_consumer_offset(command: StoreConsumerOffset) -> bytes:
    return b"".join(
        (
            pack_consumer(command.consumer),
            pack_identifiers(command.stream, command.topic),
            pack_optional_partition(command.partition_id),
            U64.pack(command.offset),
        )
    )


@dataclass(frozen=True, slots=True)
class DeleteConsumerOffset:
    """Forget a committed offset."""

    consumer: Consumer
    stream: Identifier
    topic: Identifier
    partition_id: int | None


def decode_delete_consumer_offset(payload: memoryview) -> DeleteConsumerOffset:
    reader = PayloadReader(payload)
    return DeleteConsumerOffset(
        reader.consumer(), reader.identifier(), reader.identifier(), reader.optional_partition()
    )


def encode_delete_consumer_offset(command: DeleteConsumerOffset) -> bytes:
    return b"".join(
        (
            pack_consumer(command.consumer),
            pack_identifiers(command.stream, command.topic),
            pack_optional_partition(command.partition_id),
        )
    )
