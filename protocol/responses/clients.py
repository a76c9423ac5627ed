"""Answers about sessions, called clients on the wire."""

from dataclasses import dataclass
from enum import IntEnum
from typing import Annotated, NamedTuple

from borzoi.protocol.kinds import Announced, id32, text32, u32, user_or_none


class Transport(IntEnum):
    """The door a client came in by."""

    TCP = 1
    QUIC = 2
    HTTP = 3
    WEBSOCKET = 4


@dataclass(frozen=True, slots=True)
class ClientInfo:
    """A session; `user_id` is None before login, `address` is the text ip:port."""

    client_id: u32
    user_id: user_or_none
    transport: Transport
    address: text32
    consumer_groups_count: u32


class Membership(NamedTuple):
    """A consumer group of which the session is a member."""

    stream_id: id32
    topic_id: id32
    group_id: id32


@dataclass(frozen=True, slots=True)
class ClientDetails:
    """A session and the groups of which it is a member."""

    client: ClientInfo
    consumer_groups: Annotated[
        tuple[Membership, ...], Announced(Membership, "consumer_groups_count")
    ]
