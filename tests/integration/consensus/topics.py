"""Topics with options."""

from typing import Any, Final

from borzoi.protocol import commands as c
from borzoi.protocol.consensus.options import pack_options
from borzoi.protocol.headers import HeaderKind, header_field
from borzoi.protocol.identifiers import Consumer, ConsumerKind
from borzoi.protocol.responses import TopicDetails
from tests.consensus_wire import ConsensusWire

U64: Final = HeaderKind.UINT64
GROUP = Consumer(ConsumerKind.GROUP, "g")


def new_topic(name: str, partitions: int = 1, **options: Any) -> c.CreateTopic:
    block = pack_options({key: field(value) for key, value in options.items()})
    return c.CreateTopic(name, partitions, 1, 0, 0, 0, name, block)


def field(value: str | bool | int) -> Any:
    return header_field(value, U64) if type(value) is int else header_field(value)


def topic_with(wire: ConsensusWire, name: str, partitions: int = 1, **options: Any) -> TopicDetails:
    wire.ask(c.CreateStream(name))
    details: TopicDetails = wire.ask(new_topic(name, partitions, **options))
    return details
