"""What a class says about its bytes, and what another generation may have otherwise."""

from dataclasses import dataclass, replace
from typing import Annotated, Any

import pytest

from borzoi.protocol.classic import LAYOUTS, ROWS
from borzoi.protocol.codec import NOTHING, Row, codecs, payload_codec
from borzoi.protocol.codes import Code
from borzoi.protocol.commands import CreateStream, GetTopic, PollMessages
from borzoi.protocol.errors import InvalidCommand, InvalidFormat
from borzoi.protocol.identifiers import Consumer, ConsumerKind, PollingStrategy, StrategyKind
from borzoi.protocol.kinds import (
    ID,
    IDENTIFIER,
    PARTITION,
    U32,
    Announced,
    Kind,
    Number,
    absent,
    counted,
    described,
    listed,
    name8,
    optional,
    u8,
    u32,
)
from borzoi.protocol.layout import Layouts, fields_of, moved
from borzoi.protocol.payload import PayloadReader, pack_identifier
from borzoi.protocol.responses import (
    ClientDetails,
    PartitionInfo,
    Stats,
    StreamDetails,
    StreamInfo,
    TopicDetails,
    TopicInfo,
)

TOPIC = TopicInfo(1, 2, 1, 4_000_000, 1, 6, 7, 8, 9, "t")
STREAM = StreamInfo(1, 2, 1, 4, 5, "s")


def identifier_from_1(reader: PayloadReader) -> int | str:
    found = reader.identifier()
    return found - 1 if isinstance(found, int) else found


def pack_from_1(identifier: int | str) -> bytes:
    return pack_identifier(identifier + 1 if isinstance(identifier, int) else identifier)


# Differences as an older generation has them: kinds, one more field on the wire, another size.
OLDER = LAYOUTS.changed(
    fields={
        CreateStream: {
            "stream_id": Kind(U32.read, lambda _: bytes(4), 4),
            **fields_of(CreateStream),
        },
        TopicInfo: fields_of(TopicInfo)
        | {"message_expiry": Number("I", lambda s: s * 1_000_000, lambda us: us // 1_000_000)},
    },
    kinds={
        IDENTIFIER: Kind(identifier_from_1, pack_from_1, 3),
        PARTITION: Number(
            "I", lambda found: found - 1 if found else None, lambda id: 0 if id is None else id + 1
        ),
        ID: Number("I", lambda found: found - 1, lambda id: id + 1),
    },
)
# And as a newer one has them: a field that is gone, another order.
NEWER = LAYOUTS.changed(
    fields={TopicInfo: fields_of(TopicInfo) | {"replication_factor": absent(1)}}
)


def both(layouts: Layouts, content: Any, value: Any) -> bytes:
    """The bytes of a value, which are read as the same value."""
    codec = payload_codec(layouts, content)
    payload = codec.encode(value)
    assert codec.decode(memoryview(payload)) == value
    return payload


def test_the_functions_of_a_class_can_be_read() -> None:
    assert LAYOUTS.source(TopicDetails) == "\n".join(
        (
            "def read(reader):",
            "    topic = read_topic(reader)",
            "    partitions = read_announced("
            "item_of_partitions, reader, topic.partitions_count, 'partitions')",
            "    return layout(topic, partitions)",
            "def pack(value):",
            "    assert value.topic.partitions_count == len(value.partitions)",
            "    return pack_topic(value.topic) + pack_items(item_of_partitions, value.partitions)",
        )
    )


def test_a_kind_is_changed_wherever_it_occurs() -> None:
    assert both(LAYOUTS, GetTopic, GetTopic(0, "t")).hex() == "010400000000" + "020174"
    assert both(OLDER, GetTopic, GetTopic(0, "t")).hex() == "010401000000" + "020174"
    poll = PollMessages(
        Consumer(ConsumerKind.CONSUMER, 1), 0, 0, None, PollingStrategy(StrategyKind.NEXT), 1, False
    )
    assert len(both(LAYOUTS, PollMessages, poll)) == len(both(OLDER, PollMessages, poll)) + 1


def test_a_part_of_the_wire_that_the_class_does_not_have() -> None:
    assert both(OLDER, CreateStream, CreateStream("s")).hex() == "00000000" + "0173"
    assert both(LAYOUTS, CreateStream, CreateStream("s")).hex() == "0173"


def test_a_changed_class_is_changed_inside_others() -> None:
    details = StreamDetails(STREAM, (TOPIC,))
    classic = both(LAYOUTS, StreamDetails, details)
    older = both(OLDER, StreamDetails, details)
    assert len(older) == len(classic) - 4
    one_replica = (replace(TOPIC, replication_factor=1),)
    shorter = both(NEWER, listed(TopicInfo), one_replica)
    assert len(shorter) == len(both(LAYOUTS, listed(TopicInfo), one_replica)) - 1
    # What was made before stays as it was.
    assert both(LAYOUTS, StreamDetails, details) == classic


def test_rows_of_numbers_alone_are_changed_as_well() -> None:
    partitions = (PartitionInfo(0, 1, 2, 3, 4, 5),)
    details = TopicDetails(TOPIC, partitions)
    at = len(both(LAYOUTS, TopicInfo, TOPIC))
    assert both(LAYOUTS, TopicDetails, details)[at : at + 4] == b"\0\0\0\0"
    at = len(both(OLDER, TopicInfo, TOPIC))
    assert both(OLDER, TopicDetails, details)[at : at + 4] == b"\1\0\0\0"


def test_a_row_of_the_table_is_replaced() -> None:
    newer = codecs(NEWER, {**ROWS, Code.CREATE_STREAM: Row(CreateStream)})
    assert newer[Code.CREATE_STREAM].answer is NOTHING
    assert newer.keys() == set(Code)


def test_a_field_is_moved() -> None:
    names = list(moved(Stats, "cache_metrics", before="threads_count"))
    assert names.index("cache_metrics") == names.index("server_semver") + 1
    assert sorted(names) == sorted(fields_of(Stats))


def test_a_field_that_does_not_say_how_it_travels() -> None:
    for annotation in (int, str, tuple[int, ...]):
        with pytest.raises(TypeError, match="does not say how it travels"):
            described(annotation)


@dataclass(frozen=True, slots=True)
class Pair:
    count: u8
    numbers: Annotated[tuple[int, ...], counted(u32)]


@dataclass(frozen=True, slots=True)
class Pairs:
    head: Pair
    names: Annotated[tuple[str, ...], Announced(name8, "count")]
    note: name8 | None = None


def test_lists_within_lists() -> None:
    value = Pairs(Pair(2, (7, 8)), ("a", "b"), None)
    assert both(
        Layouts(), Pairs, value
    ).hex() == "02 02000000 07000000 08000000 0161 0162 00".replace(" ", "")
    both(Layouts(), optional(Pairs), value)
    both(Layouts(), counted(Pairs), (value, value))


@pytest.mark.parametrize(
    ("content", "payload"),
    [
        (counted(u32), "ffffffff 00000000"),
        (counted(Pair), "ffffffff 00"),
        (listed(u32), "00000000 00"),
        (listed(PartitionInfo), "00" * 41),
        (ClientDetails, "00000000 00000000 01 00000000 ffffffff 00"),
    ],
)
def test_counts_that_promise_too_much(content: Any, payload: str) -> None:
    with pytest.raises(InvalidCommand, match="cut short"):
        payload_codec(LAYOUTS, content).decode(memoryview(bytes.fromhex(payload)))


def test_a_count_that_differs_from_what_follows() -> None:
    codec = payload_codec(LAYOUTS, StreamDetails)
    payload = codec.encode(StreamDetails(STREAM, (TOPIC,)))
    with pytest.raises(InvalidFormat, match="2 topics where 1 were announced"):
        codec.decode(memoryview(payload + payload_codec(LAYOUTS, TopicInfo).encode(TOPIC)))
    with pytest.raises(AssertionError):
        codec.encode(StreamDetails(STREAM, ()))
