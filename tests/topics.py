"""Topics for tests: how they are made and described."""

from borzoi.protocol.commands import CreateStream, CreateTopic, GetTopic
from borzoi.protocol.identifiers import Identifier
from borzoi.protocol.responses import TopicDetails
from tests.wire import Wire


def topic_of(name: str, partitions_count: int = 1, stream: Identifier | None = None) -> CreateTopic:
    """A topic with default settings, in a stream of the same name unless said otherwise."""
    return CreateTopic(
        stream=name if stream is None else stream,
        partitions_count=partitions_count,
        compression_algorithm=1,
        message_expiry=0,
        max_topic_size=0,
        replication_factor=1,
        name=name,
    )


def make_topic(wire: Wire, stream: str, topic: str, partitions_count: int = 1) -> None:
    """Create a stream with a topic."""
    wire.ask(CreateStream(stream))
    wire.ask(topic_of(topic, partitions_count, stream))


def described(wire: Wire, name: str) -> TopicDetails:
    """The topic `name` of the stream `name`."""
    details = wire.ask(GetTopic(name, name))
    assert isinstance(details, TopicDetails)
    return details
