"""The one place where it is asked whether a session may act for a group."""

from typing import Protocol

from borzoi.protocol.errors import ConsumerGroupMemberNotFound, StaleClient
from borzoi.protocol.identifiers import Identifier
from borzoi.protocol.responses.clients import Transport
from borzoi.shards.groups.share import Share, Turns
from borzoi.shards.metadata.effects import GroupRef
from borzoi.shards.metadata.state import Group, Stream, Topic
from borzoi.shards.services import Services


class Connected(Protocol):
    """The part of a session that groups look at."""

    client_id: int
    user_id: int | None
    transport: Transport
    address: str
    was_removed: bool
    turns: Turns


def require_group(
    services: Services, caller: Connected, topic: Topic, identifier: Identifier
) -> Group:
    """The group, for a session that still counts as connected."""
    if not services.clients.is_registered(caller):
        raise StaleClient(f"client {caller.client_id} is not registered any more")
    return topic.group(identifier)


def membership(
    services: Services, caller: Connected, stream: Stream, topic: Topic, identifier: Identifier
) -> Share:
    """What the session holds in the group; StaleClient, no such group, no member, in this order."""
    group = require_group(services, caller, topic, identifier)
    ref = GroupRef(stream.id, topic.id, group.id)
    share = services.groups.local.find(caller.client_id, ref, group.birth)
    if share is None:
        raise ConsumerGroupMemberNotFound(f"client {caller.client_id} is not in {ref}")
    return share
