"""Values of options: what is read, what is refused, what holds when nothing is given."""

from typing import Any

import msgspec
import pytest

from borzoi.messagepack import pack, unpack
from borzoi.protocol.commands.streams import CreateStream
from borzoi.protocol.commands.topics import KEPT, CreateTopic, UpdateTopic
from borzoi.protocol.consensus.options import pack_options, read_options
from borzoi.protocol.errors import (
    BrokerError,
    InvalidOptionValue,
    InvalidTopicSize,
    UnsupportedOptionKey,
)
from borzoi.protocol.headers import HeaderField, HeaderKind, header_field
from borzoi.protocol.identifiers import U64_MAX
from borzoi.shards.decisions.topic_options import (
    OPTIONS,
    TopicDefaults,
    derived_options,
    read_topic_options,
    segment_size_of,
    settings_after,
    settings_of_new,
)
from borzoi.shards.metadata.state import State
from tests.shards.decisions.commands import World, create_topic

U32, U64 = HeaderKind.UINT32, HeaderKind.UINT64
MIB = 1 << 20


def block(**options: HeaderField | str | int) -> bytes:
    return pack_options(
        {
            key: value
            if isinstance(value, HeaderField)
            else header_field(value, U64 if type(value) is int else None)
            for key, value in options.items()
        }
    )


@pytest.mark.parametrize(
    ("key", "value", "number"),
    [
        ("compression_algorithm", "none", 0),
        ("compression_algorithm", "ZSTD", 3),
        ("message_expiry", 0, 0),
        ("message_expiry", U64_MAX, U64_MAX),
        ("message_expiry", "7 days", 604_800_000_000),
        ("message_expiry", "never", U64_MAX),
        ("message_expiry", "1500", 1500),
        ("max_topic_size", "unlimited", U64_MAX),
        ("max_topic_size", "2 GiB", 1 << 31),
        ("segment_size", MIB, MIB),
        ("segment_size", "128 MiB", 128 * MIB),
        ("segment_size", 1 << 30, 1 << 30),
        ("durability", "persisted", 1),
        ("consumer_offset_durability", "replicated", 0),
        ("messages_required_to_save", header_field(1, U32), 1),
        ("messages_required_to_save", "16777216", 1 << 24),
        ("size_of_messages_required_to_save", "1 GiB", 1 << 30),
        ("preallocate_segments", header_field(True), 1),
        ("preallocate_segments", " False ", 0),
        ("enforce_fsync", header_field(False), 0),
    ],
)
def test_values(key: str, value: Any, number: int) -> None:
    assert read_topic_options(block(**{key: value})) == {key: number}


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("compression_algorithm", "brotli"),
        ("compression_algorithm", 1),
        ("message_expiry", header_field(5, U32)),
        ("message_expiry", "soon"),
        ("max_topic_size", "18446744073709551616"),
        ("segment_size", MIB - 512),
        ("segment_size", (1 << 30) + 512),
        ("segment_size", MIB + 1),
        ("durability", "PERSISTENT"),
        ("messages_required_to_save", header_field(0, U32)),
        ("messages_required_to_save", header_field((1 << 24) + 1, U32)),
        ("messages_required_to_save", "many"),
        ("size_of_messages_required_to_save", (1 << 30) + 1),
        ("preallocate_segments", 1),
        ("preallocate_segments", "1"),
        ("durability", HeaderField(HeaderKind.STRING, b"\xff")),
    ],
)
def test_values_that_are_refused(key: str, value: Any) -> None:
    with pytest.raises(InvalidOptionValue, match=repr(key)):
        read_topic_options(block(**{key: value}))


def test_keys_that_are_refused() -> None:
    with pytest.raises(UnsupportedOptionKey, match="no option 'Durability'"):
        read_topic_options(block(Durability="persisted"))
    with pytest.raises(UnsupportedOptionKey, match="'durability' of a topic stays"):
        read_topic_options(block(durability="persisted"), update=True)
    assert read_topic_options(block(message_expiry=5), update=True) == {"message_expiry": 5}


def test_options_win_over_fields() -> None:
    fields = CreateTopic("s", 1, 2, 3, 4, 1, "t", block(message_expiry=30, segment_size=MIB))
    settings = settings_of_new(fields)
    assert settings[:4] == (2, 30, 4, MIB)
    assert settings.options == fields.options


def test_updates() -> None:
    explicit = block(compression_algorithm="gzip", durability="persisted", max_topic_size=7)
    kept = UpdateTopic("s", "t", KEPT, KEPT, KEPT, KEPT, "t", block(message_expiry=5))
    settings = settings_after(kept, 2, 3, 7, explicit)
    assert settings[:3] == (2, 5, 7)
    assert read_options(settings.options) == read_options(explicit) | read_options(kept.options)
    of_fields = UpdateTopic("s", "t", 1, 2, 3, 1, "t")
    settings = settings_after(of_fields, 2, 3, 7, explicit)
    assert settings[:3] == (1, 2, 3)
    assert read_options(settings.options) == read_options(block(durability="persisted"))


def test_what_holds_without_options() -> None:
    defaults = TopicDefaults(segment_size=5 * MIB, durability="persisted")
    explicit = block(message_expiry=9)
    derived = read_options(derived_options(defaults, explicit, 2, 9, 8))
    assert derived["compression_algorithm"] == header_field("gzip")
    assert derived["max_topic_size"] == header_field(8, U64)
    assert derived["segment_size"] == header_field(5 * MIB, U64)
    assert derived["durability"] == header_field("persisted")
    assert set(derived) == set(OPTIONS) - {"message_expiry", "enforce_fsync"}
    for one in defaults.descriptions():
        default = HeaderField(HeaderKind(one.kind), one.default)
        assert one.key in read_topic_options(block(**{one.key: default}))
        assert one.description


def test_the_size_of_segments() -> None:
    assert segment_size_of(b"", 3) == 3
    assert segment_size_of(block(durability="persisted"), 3) == 3
    assert segment_size_of(block(segment_size="2 MiB"), 3) == 2 * MIB


def test_a_topic_holds_at_least_one_segment_of_its_own_size() -> None:
    world = World()
    world.run(CreateStream("s"))

    def create(name: str, size: int, segment_size: int) -> BrokerError | None:
        options = block(max_topic_size=size, segment_size=segment_size)
        try:
            world.run(CreateTopic("s", 1, 1, 0, 0, 1, name, options))
        except BrokerError as error:
            return error
        return None

    assert create("fits", 2 * MIB, 2 * MIB) is None
    assert isinstance(create("small", MIB, 2 * MIB), InvalidTopicSize)
    topic = world.state.topic("s", "fits")
    assert (topic.max_topic_size, topic.options) == (
        2 * MIB,
        block(max_topic_size=2 * MIB, segment_size=2 * MIB),
    )


def test_a_state_with_and_without_options_in_bytes() -> None:
    world = World()
    world.run(CreateStream("s"))
    world.run(create_topic("s", "without"))
    assert b"options" not in msgspec.msgpack.encode(world.state)
    world.run(CreateTopic("s", 1, 1, 0, 0, 1, "with", block(durability="persisted")))
    data = msgspec.msgpack.encode(world.state)
    assert pack(world.state) == data
    assert unpack(data, State) == world.state
    assert unpack(data, State).topic("s", "with").options == block(durability="persisted")
    # Without an option left it is as if there never was one.
    world.run(UpdateTopic("s", "without", KEPT, KEPT, KEPT, KEPT, "w", block(message_expiry=5)))
    world.run(UpdateTopic("s", "w", 1, 0, 0, 1, "without"))
    assert world.state.topic("s", "without").given_options is msgspec.UNSET
