"""What is refused, with which status and in which order, and what defaults become."""

from typing import cast

import pytest

from borzoi.protocol.commands.groups import CreateConsumerGroup, DeleteConsumerGroup
from borzoi.protocol.commands.sessions import CreatePersonalAccessToken, DeletePersonalAccessToken
from borzoi.protocol.commands.streams import CreateStream, DeleteStream, PurgeStream, UpdateStream
from borzoi.protocol.commands.topics import (
    CreatePartitions,
    CreateTopic,
    DeletePartitions,
    DeleteTopic,
    PurgeTopic,
    UpdateTopic,
)
from borzoi.protocol.commands.users import (
    ChangePassword,
    CreateUser,
    DeleteUser,
    UpdatePermissions,
    UpdateUser,
)
from borzoi.protocol.errors import (
    BrokerError,
    CannotChangePermissions,
    CannotCreateConsumerGroupInfo,
    CannotCreateStream,
    CannotCreateTopic,
    CannotDeleteUser,
    ConsumerGroupIdAlreadyExists,
    ConsumerGroupIdNotFound,
    ConsumerGroupNameAlreadyExists,
    InvalidCommand,
    InvalidConsumerGroupId,
    InvalidCredentials,
    InvalidPartitionsCount,
    InvalidPersonalAccessTokenName,
    InvalidStreamId,
    InvalidTopicId,
    InvalidTopicSize,
    PersonalAccessTokenAlreadyExists,
    PersonalAccessTokensLimitReached,
    ResourceNotFound,
    StreamDirectoryNotFound,
    StreamIdNotFound,
    StreamNameAlreadyExists,
    TooManyPartitions,
    TopicIdAlreadyExists,
    TopicIdNotFound,
    TopicNameAlreadyExists,
    Unauthorized,
    UserAlreadyExists,
    UsersLimitReached,
)
from borzoi.protocol.identifiers import U64_MAX
from borzoi.shards.decisions.commands import CreateToken, SetPasswordHash, token_expiry_at
from borzoi.shards.decisions.decide import GROUPS_PER_TOPIC_MAX, MetadataCommand, MetadataSettings
from borzoi.shards.metadata_log.snapshot import dump
from borzoi.storage.wal import START
from tests.shards.decisions.commands import (
    SETTINGS,
    World,
    create_topic,
    create_user,
    small_world,
)

REFUSED: list[tuple[MetadataCommand, type[BrokerError]]] = [
    (CreateStream("orders"), StreamNameAlreadyExists),
    (UpdateStream("nope", "orders"), StreamIdNotFound),
    (DeleteStream(1), StreamIdNotFound),
    (PurgeStream("nope"), StreamIdNotFound),
    # The arguments before existence, existence before size, size before the name.
    (CreateTopic("nope", 1001, 0, 0, 1, 0, "placed"), TooManyPartitions),
    (CreateTopic("nope", 1000, 0, 0, 1, 0, "placed"), InvalidCommand),
    (CreateTopic("nope", 1000, 5, 0, 1, 0, "placed"), InvalidCommand),
    (CreateTopic("nope", 1000, 1, 0, 1, 0, "placed"), StreamIdNotFound),
    (CreateTopic("orders", 1000, 1, 0, 999, 0, "placed"), InvalidTopicSize),
    (CreateTopic("orders", 1000, 1, 0, 1000, 0, "placed"), TopicNameAlreadyExists),
    (UpdateTopic("nope", "nope", 0, 0, 1, 0, "paid"), InvalidCommand),
    (UpdateTopic("nope", "nope", 1, 0, 1, 0, "paid"), StreamIdNotFound),
    (UpdateTopic("orders", "nope", 1, 0, 1, 0, "paid"), TopicIdNotFound),
    (UpdateTopic("orders", "placed", 1, 0, 999, 0, "paid"), TopicNameAlreadyExists),
    (DeleteTopic("nope", 0), StreamIdNotFound),
    (DeleteTopic(0, 2), TopicIdNotFound),
    (PurgeTopic(0, "nope"), TopicIdNotFound),
    (CreatePartitions("nope", 0, 0), TooManyPartitions),
    (CreatePartitions("nope", 0, 1001), TooManyPartitions),
    (CreatePartitions("nope", 0, 1000), StreamIdNotFound),
    (CreatePartitions(0, "nope", 1), TopicIdNotFound),
    (DeletePartitions("nope", 0, 0), TooManyPartitions),
    (DeletePartitions("nope", 0, 1), StreamIdNotFound),
    (DeletePartitions(0, "nope", 1), TopicIdNotFound),
    (DeletePartitions(0, "placed", 6), InvalidPartitionsCount),
    (CreateConsumerGroup("nope", 0, "x"), StreamIdNotFound),
    (CreateConsumerGroup(0, "nope", "x"), TopicIdNotFound),
    (CreateConsumerGroup(0, 0, "readers"), ConsumerGroupNameAlreadyExists),
    (DeleteConsumerGroup(0, 0, 1), ConsumerGroupIdNotFound),
    (CreateStream("x", wanted_id=0), StreamDirectoryNotFound),
    (CreateStream("orders", wanted_id=0), StreamNameAlreadyExists),
    (CreateStream("x", wanted_id=4096), InvalidStreamId),
    (CreateTopic(0, 1, 1, 0, 0, 0, "x", wanted_id=0), TopicIdAlreadyExists),
    (CreateTopic(0, 1, 1, 0, 0, 0, "x", wanted_id=4096), InvalidTopicId),
    (CreateConsumerGroup(0, 0, "x", 0), ConsumerGroupIdAlreadyExists),
    (CreateConsumerGroup(0, 0, "x", GROUPS_PER_TOPIC_MAX), InvalidConsumerGroupId),
    (create_user("root"), UserAlreadyExists),
    (UpdateUser("missing", "root"), ResourceNotFound),
    (DeleteUser("missing"), ResourceNotFound),
    (DeleteUser("root"), CannotDeleteUser),
    (DeleteUser(0), CannotDeleteUser),
    (UpdatePermissions("missing", None), ResourceNotFound),
    (UpdatePermissions("root", None), CannotChangePermissions),
    (SetPasswordHash("missing", "new", "old"), ResourceNotFound),
    (SetPasswordHash("root", "new", "not the hash of root"), InvalidCredentials),
    (CreateToken(0, 1000, "ab", "h", 0), InvalidPersonalAccessTokenName),
    (CreateToken(0, 1000, "a" * 31, "h", 0), InvalidPersonalAccessTokenName),
    (CreateToken(0, 1000, "é" * 16, "h", 0), InvalidPersonalAccessTokenName),
    (CreateToken(9, 1000, "abc", "h", 0), Unauthorized),
    (CreateToken(0, 999, "abc", "h", 0), Unauthorized),
    (DeletePersonalAccessToken("nope"), ResourceNotFound),
]


@pytest.mark.parametrize(("command", "error"), REFUSED)
def test_refused_and_nothing_changed(command: MetadataCommand, error: type[BrokerError]) -> None:
    world = small_world()
    before = dump(world.state, START)
    with pytest.raises(error) as raised:
        world.run(command)
    assert type(raised.value) is error
    assert dump(world.state, START) == before


@pytest.mark.parametrize(
    "command",
    [
        UpdateStream("orders", "orders"),
        UpdateTopic(0, "placed", 1, 0, 0, 0, "placed"),
        UpdateUser("root", "root"),
        UpdateUser("root"),
        create_topic(0, "most", 1000),
        create_topic(0, "none", 0),
        create_topic(0, "smallest", 1, max_topic_size=1000),
        CreatePartitions(0, 0, 1000),
        DeletePartitions(0, 0, 5),
        CreateTopic(0, 1, 4, U64_MAX, U64_MAX, 255, "zstd"),
        CreateToken(0, 1000, "abc", "h", 0),
        CreateToken(0, 1000, "é" * 15, "h", 0),
        SetPasswordHash("root", "new", "hash of root"),
    ],
)
def test_allowed(command: MetadataCommand) -> None:
    small_world().run(command)


def test_names_are_unique_where_they_must_be_and_only_there() -> None:
    world = small_world()
    world.run(CreateStream("Orders"))
    world.run(create_topic("Orders", "placed"))
    world.run(CreateConsumerGroup(0, "paid", "readers"))
    with pytest.raises(StreamNameAlreadyExists):
        world.run(UpdateStream("Orders", "orders"))
    world.run(create_user("ann"))
    with pytest.raises(UserAlreadyExists):
        world.run(UpdateUser("ann", "root"))


def test_a_number_is_never_taken_for_a_name() -> None:
    world = small_world()
    world.run(CreateStream("77"))
    world.run(create_user("0"))
    assert world.state.stream("77").id == 1
    assert world.state.find_stream(77) is None
    assert world.state.user("0").id == 1


@pytest.mark.parametrize("update", [False, True])
def test_server_defaults_are_resolved_on_create_and_on_update(update: bool) -> None:
    world = small_world()
    command: MetadataCommand = create_topic(0, "t")
    if update:
        command = UpdateTopic(0, 0, 1, 0, 0, 0, "t")
    world.run(command)
    topic = world.state.topic(0, "t")
    assert topic.message_expiry == SETTINGS.message_expiry
    assert topic.max_topic_size == SETTINGS.max_topic_size
    assert topic.replication_factor == 1


def test_a_default_below_the_segment_size_is_the_configs_own_business() -> None:
    world = small_world()
    world.settings = SETTINGS._replace(max_topic_size=5)
    world.run(create_topic(0, "t"))
    assert world.state.topic(0, "t").max_topic_size == 5


def test_wire_commands_with_secrets_are_no_metadata_commands() -> None:
    world = small_world()
    for command in (
        CreateUser("ann", "secret"),
        ChangePassword("root", "secret", "secret"),
        CreatePersonalAccessToken("token", 0),
    ):
        with pytest.raises(TypeError, match=f"^{type(command).__name__} is no command"):
            world.run(cast(MetadataCommand, command))


def test_secrets_stay_out_of_texts() -> None:
    for command in (
        create_user("ann"),
        SetPasswordHash(0, "hash of new", "hash of old"),
        CreateToken(0, 1000, "token", "hash of token", 0),
    ):
        assert "hash of" not in repr(command)


def test_tokens_are_unique_and_limited_per_user() -> None:
    world = small_world()
    world.run(create_user("ann"))
    for number in range(3):
        world.run(CreateToken(0, 1000, f"token{number}", f"h{number}", 0))
    with pytest.raises(PersonalAccessTokenAlreadyExists):
        world.run(CreateToken(0, 1000, "token0", "other", 0))
    with pytest.raises(PersonalAccessTokensLimitReached):
        world.run(CreateToken(0, 1000, "token3", "h3", 0))
    world.run(CreateToken(1, 7000, "token0", "h4", 0))
    with pytest.raises(PersonalAccessTokenAlreadyExists):
        world.run(CreateToken(1, 7000, "other", "h0", 0))
    with pytest.raises(ResourceNotFound):
        world.run(DeletePersonalAccessToken("token1"), user_id=1)
    world.run(DeletePersonalAccessToken("token1"), user_id=0)
    world.run(CreateToken(0, 1000, "token3", "h3", 0))


def test_expired_tokens_count_for_nothing() -> None:
    world = small_world()
    for number in range(3):
        world.run(CreateToken(0, 1000, f"token{number}", f"h{number}", 50_000), timestamp=10_000)
    with pytest.raises(PersonalAccessTokensLimitReached):
        world.run(CreateToken(0, 1000, "token3", "h3", 0), timestamp=49_999)
    world.run(CreateToken(0, 1000, "token0", "h3", 0), timestamp=50_000)
    assert list(world.state.user(0).tokens) == ["token0"]


def test_token_expiry() -> None:
    assert token_expiry_at(1000, 0) == 0
    assert token_expiry_at(1000, U64_MAX) == 0
    assert token_expiry_at(1000, 600) == 1600
    assert token_expiry_at(1000, U64_MAX - 1000) == U64_MAX
    assert token_expiry_at(1000, U64_MAX - 999) == 0


def test_4096_streams_and_not_one_more() -> None:
    world = World()
    for number in range(4096):
        world.run(CreateStream(str(number)))
    with pytest.raises(CannotCreateStream):
        world.run(CreateStream("one too many"))
    with pytest.raises(StreamNameAlreadyExists):
        world.run(CreateStream("17"))
    world.run(DeleteStream("17"))
    world.run(CreateStream("in its place"))
    assert world.state.stream("in its place").id == 17


def test_4096_topics_and_not_one_more() -> None:
    world = World()
    world.run(CreateStream("s"))
    for number in range(4096):
        world.run(create_topic("s", str(number), 0))
    with pytest.raises(CannotCreateTopic):
        world.run(create_topic("s", "one too many", 0))
    world.run(CreateStream("t"))
    world.run(create_topic("t", "elsewhere", 0))


def test_a_million_partitions_and_not_one_more() -> None:
    world = World()
    world.run(CreateStream("s"))
    world.run(create_topic("s", "t", 1000))
    for _ in range(998):
        world.run(CreatePartitions("s", "t", 1000))
    world.run(CreatePartitions("s", "t", 999))
    with pytest.raises(TooManyPartitions):
        world.run(CreatePartitions("s", "t", 2))
    world.run(CreatePartitions("s", "t", 1))
    topic = world.state.topic("s", "t")
    assert topic.partitions_count == 1_000_000
    assert topic.partition(999_999).slot == 1_000_000
    assert topic.partition(499_999).birth == 501
    with pytest.raises(TooManyPartitions):
        world.run(CreatePartitions("s", "t", 1))
    # A million partitions, some kilobytes.
    assert len(dump(world.state, START)) < 50_000


def test_no_more_partitions_than_the_board_has_slots() -> None:
    world = World(MetadataSettings(segment_size=1, slots_max=100))
    world.run(CreateStream("s"))
    with pytest.raises(TooManyPartitions):
        world.run(create_topic("s", "t", 100))
    world.run(create_topic("s", "t", 90))
    with pytest.raises(TooManyPartitions):
        world.run(CreatePartitions("s", "t", 10))
    world.run(CreatePartitions("s", "t", 9))
    assert world.state.topic("s", "t").partition(98).slot == 99


def test_chosen_ids_are_given_and_the_others_go_on_as_ever() -> None:
    world = World()
    for name, wanted in (("auto", None), ("five", 4), ("next", None), ("last", 4095)):
        world.run(CreateStream(name, wanted_id=wanted))
    assert world.state.stream_names == {"auto": 0, "five": 4, "next": 1, "last": 4095}
    world.run(CreateTopic("five", 2, 1, 0, 0, 0, "nine", wanted_id=8))
    world.run(CreateConsumerGroup("five", "nine", "third", 2))
    world.run(CreateConsumerGroup("five", "nine", "first"))
    assert world.state.stream("five").topic_names == {"nine": 8}
    assert world.state.topic(4, 8).group_names == {"third": 2, "first": 0}


def test_groups_and_users_at_their_bounds() -> None:
    world = World(SETTINGS._replace(groups_per_topic_max=2, users_max=2))
    world.run(CreateStream("s"))
    world.run(create_topic("s", "t"))
    for name in "ab":
        world.run(CreateConsumerGroup("s", "t", name))
        world.run(create_user(name))
    with pytest.raises(CannotCreateConsumerGroupInfo):
        world.run(CreateConsumerGroup("s", "t", "c"))
    with pytest.raises(UsersLimitReached):
        world.run(create_user("c"))
    assert MetadataSettings(segment_size=1).users_max == 2**32 - 1
