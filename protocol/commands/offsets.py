"""Requests about the offsets that consumers and groups have committed."""

from dataclasses import dataclass

from borzoi.protocol.commands.request import Request
from borzoi.protocol.identifiers import Consumer, Identifier
from borzoi.protocol.kinds import partition, u64


@dataclass(frozen=True, slots=True)
class GetConsumerOffset(Request):
    """Where a consumer stands in a partition."""

    consumer: Consumer
    stream: Identifier
    topic: Identifier
    partition_id: partition


@dataclass(frozen=True, slots=True)
class StoreConsumerOffset(Request):
    """Commit an offset, forwards or backwards."""

    consumer: Consumer
    stream: Identifier
    topic: Identifier
    partition_id: partition
    offset: u64


@dataclass(frozen=True, slots=True)
class DeleteConsumerOffset(Request):
    """Forget a committed offset."""

    consumer: Consumer
    stream: Identifier
    topic: Identifier
    partition_id: partition
