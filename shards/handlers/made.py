"""The answer to a change that was made before, under the same number, by a worker that has died.

The metadata log knows what the change has given out; the rest is looked up. A request that does
not fit what it has made, and one whose object is gone by now, is refused as one that was carried
out and whose reply is forgotten.
"""

from typing import Any, TypeVar

from borzoi.protocol.commands.groups import CreateConsumerGroup
from borzoi.protocol.commands.sessions import CreatePersonalAccessToken
from borzoi.protocol.commands.streams import CreateStream
from borzoi.protocol.commands.topics import CreateTopic
from borzoi.protocol.commands.users import CreateUser
from borzoi.protocol.errors import RequestAlreadyApplied
from borzoi.protocol.responses.consumers import ConsumerGroupInfo
from borzoi.shards.handlers.caller import Caller
from borzoi.shards.handlers.services import Services
from borzoi.shards.handlers.users import details_of
from borzoi.shards.metadata.requests import Made
from borzoi.shards.metadata.state import Group, Stream, Topic

Named = TypeVar("Named", Stream, Topic, Group)


def answer_made(services: Services, caller: Caller, command: Any, made: Made) -> Any:
    """The response value of a command that has made this."""
    state, new_id = services.metadata.state, made.new_id
    match command:
        case CreateStream(name=name):
            stream = _named(state.streams.get(new_id), name)
            return services.describer.stream(stream)
        case CreateTopic(stream=stream_id, name=name):
            found = state.find_topic(stream_id, new_id)
            return services.describer.new_topic(_named(found, name), caller.knows_all_codecs)
        case CreateConsumerGroup(stream=stream_id, topic=topic_id, name=name):
            topic = state.topic(stream_id, topic_id)
            group = _named(topic.groups.get(new_id), name)
            return ConsumerGroupInfo(group.id, topic.partitions_count, 0, group.name)
        case CreateUser(username=name):
            user = state.users.get(new_id)
            if user is None or user.username != name:
                raise RequestAlreadyApplied(f"user {name!r} was made, and is not there any more")
            return details_of(user)
        case CreatePersonalAccessToken():
            raise RequestAlreadyApplied("the token was in the first answer and nowhere else")
        case _:
            return None


def _named(found: Named | None, name: str) -> Named:
    if found is None or found.name != name:
        raise RequestAlreadyApplied(f"{name!r} was made, and is not there any more")
    return found
