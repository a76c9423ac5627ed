"""The one place where it is asked whether a session may act for a group."""

from typing import Protocol

from borzoi.protocol.errors import ConsumerGroupMemberNotFound, StaleClient
from borzoi.protocol.identifiers import Identifier
from borzoi.shards.handlers.services import Services
from borzoi.shards.identity.clients import Connected
from borzoi.shards.metadata.effects import GroupRef
from borzoi.shards.metadata.state import Stream, Topic
from borzoi.shards.rosters.share import Share, Turns


class GroupCaller(Connected, Protocol):
    """A session, with its turns in the groups it has joined."""

    turns: Turns


def require_registered(services: Services, caller: GroupCaller) -> None:
    """StaleClient for a session that does not count as connected any more."""
    if not services.clients.is_registered(caller):
        raise StaleClient(f"client {caller.client_id} is not registered any more")


def membership(
    services: Services, caller: GroupCaller, stream: Stream, topic: Topic, identifier: Identifier
) -> Share:
    """What the session holds in the group; StaleClient, no such group, no member, in this order."""
    require_registered(services, caller)
    group = topic.group(identifier)
    ref = GroupRef(stream.id, topic.id, group.id)
    share = services.groups.local.find(caller.client_id, ref, group.birth)
    if share is None:
        raise ConsumerGroupMemberNotFound(f"client {caller.client_id} is not in {ref}")
    return share
