"""Answers about sessions, called clients on the wire.

client_id u32 | user_id u32 | transport u8 | address str32 | consumer_groups_count u32
details add per group:   stream_id u32 | topic_id u32 | group_id u32
"""

import struct
from collections.abc import Iterable
from dataclasses import dataclass
from enum import IntEnum
from typing import Final, NamedTuple

from borzoi.protocol.identifiers import U32_MAX
from borzoi.protocol.payload import U32, PayloadReader, pack_str32

CLIENT: Final = struct.Struct("<IIB")
MEMBERSHIP: Final = struct.Struct("<III")
NO_USER: Final = U32_MAX


class Transport(IntEnum):
    TCP = 1
    QUIC = 2
    HTTP = 3
    WEBSOCKET = 4


@dataclass(frozen=True, slots=True)
class ClientInfo:
    """A session; `user_id` is None before login, `address` is the text ip:port."""

    client_id: int
    user_id: int | None
    transport: Transport
    address: str
    consumer_groups_count: int


class Membership(NamedTuple):
    stream_id: int
    topic_id: int
    group_id: int


@dataclass(frozen=True, slots=True)
class ClientDetails:
    client: ClientInfo
    consumer_groups: tuple[Membership, ...]


def encode_client(client: ClientInfo) -> bytes:
    user_id = NO_USER if client.user_id is None else client.user_id
    return b"".join(
        (
            CLIENT.pack(client.client_id, user_id, client.transport),
            pack_str32(client.address),
            U32.pack(client.consumer_groups_count),
        )
    )


def encode_clients(clients: Iterable[ClientInfo]) -> bytes:
    return b"".join(map(encode_client, clients))


def decode_clients(payload: memoryview) -> tuple[ClientInfo, ...]:
    reader = PayloadReader(payload)
    clients = []
    while reader.remaining:
        clients.append(_client(reader))
    return tuple(clients)


def encode_client_details(details: ClientDetails) -> bytes:
    assert details.client.consumer_groups_count == len(details.consumer_groups)
    groups = b"".join([MEMBERSHIP.pack(*group) for group in details.consumer_groups])
    return encode_client(details.client) + groups


def decode_client_details(payload: memoryview) -> ClientDetails:
    return _details(PayloadReader(payload))


def decode_many_client_details(payload: memoryview) -> tuple[ClientDetails, ...]:
    """Details one behind the other, as shards tell each other of their clients."""
    reader = PayloadReader(payload)
    clients = []
    while reader.remaining:
        clients.append(_details(reader))
    return tuple(clients)


def _details(reader: PayloadReader) -> ClientDetails:
    client = _client(reader)
    # Before the loop: a hostile count must not make us try four billion times.
    reader.require(client.consumer_groups_count * MEMBERSHIP.size)
    groups = [Membership(*reader.unpack(MEMBERSHIP)) for _ in range(client.consumer_groups_count)]
    return ClientDetails(client, tuple(groups))


def _client(reader: PayloadReader) -> ClientInfo:
    client_id = reader.u32()
    user_id = reader.u32()
    return ClientInfo(
        client_id=client_id,
        user_id=None if user_id == NO_USER else user_id,
        transport=reader.enumeration(Transport),
        address=reader.str32(),
        consumer_groups_count=reader.u32(),
    )
