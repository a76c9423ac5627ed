"""Users that may do one thing with one stream, and how their calls say who they are."""

import base64
from typing import Final

from borzoi.protocol.commands.streams import GetStream
from borzoi.protocol.commands.topics import GetTopic
from borzoi.protocol.commands.users import CreateUser
from borzoi.protocol.permissions import (
    Permissions,
    StreamPermissions,
    TopicPermissions,
    UserStatus,
)
from tests.broker import BrokerProcess
from tests.wire import Wire

PASSWORD: Final = "a password"


def basic(text: str) -> dict[str, str]:
    """The metadata of a call with a name and a password."""
    return {"authorization": "Basic " + base64.b64encode(text.encode()).decode()}


def new_user(broker: BrokerProcess, name: str, permissions: Permissions | None) -> dict[str, str]:
    """Make a user; the metadata of its calls."""
    with Wire(broker) as wire:
        wire.ask(CreateUser(name, PASSWORD, UserStatus.ACTIVE, permissions))
    return basic(f"{name}:{PASSWORD}")


def of_topic(broker: BrokerProcess, topic: str, **may: bool) -> Permissions:
    """Permissions on one topic of the stream of Liftbridge."""
    with Wire(broker) as wire:
        stream = wire.ask(GetStream("liftbridge"))
        found = wire.ask(GetTopic("liftbridge", topic))
    topics = {found.topic.id: TopicPermissions(**may)}
    return Permissions(streams={stream.stream.id: StreamPermissions(topics=topics)})


def writer_of(broker: BrokerProcess, topic: str) -> dict[str, str]:
    """A user that may publish to one stream, and nothing else."""
    return new_user(broker, f"writer-{topic}", of_topic(broker, topic, send_messages=True))
