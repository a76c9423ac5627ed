"""What a request says of the partition it means, to look it up again when that has ended."""

from typing import NamedTuple

from borzoi.protocol.codes import Code
from borzoi.protocol.errors import BrokerError
from borzoi.protocol.identifiers import Identifier
from borzoi.router.target import Target
from borzoi.shards.changes.service import MetadataService
from borzoi.shards.metadata.access import require


class Named(NamedTuple):
    """The command, and the topic as the client named it."""

    code: Code
    stream: Identifier
    topic: Identifier


def new_life(
    metadata: MetadataService, user_id: int | None, target: Target, named: Named
) -> Target | None:
    """The partition that lives now where the client meant, if `target` has ended.

    Looked up by what the client said: the id of a deleted topic may be another one's by now.
    """
    if user_id is None:
        return None
    state = metadata.refresh()
    try:
        stream = state.stream(named.stream)
        topic = stream.topic(named.topic)
        require(state, user_id, named.code, stream.id, topic.id)
        now = metadata.target(stream.id, topic, target.partition_id)
    except BrokerError:
        return None
    return now if now.birth != target.birth else None
