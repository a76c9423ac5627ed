"""What entries do to the state, and what they leave to others."""

import gc
import sys
from collections.abc import Callable
from functools import partial
from types import FrameType
from typing import Any

import pytest

from borzoi.protocol.commands.groups import CreateConsumerGroup, DeleteConsumerGroup
from borzoi.protocol.commands.sessions import DeletePersonalAccessToken
from borzoi.protocol.commands.streams import CreateStream, DeleteStream, PurgeStream, UpdateStream
from borzoi.protocol.commands.topics import (
    CreatePartitions,
    DeletePartitions,
    DeleteTopic,
    PurgeTopic,
    UpdateTopic,
)
from borzoi.protocol.commands.users import DeleteUser, UpdatePermissions, UpdateUser
from borzoi.protocol.errors import (
    ConsumerGroupIdNotFound,
    PartitionNotFound,
    ResourceNotFound,
    StreamIdNotFound,
    TopicIdNotFound,
)
from borzoi.protocol.permissions import (
    ALL_PERMISSIONS,
    Permissions,
    StreamPermissions,
    TopicPermissions,
    UserStatus,
)
from borzoi.shards.decisions.commands import CreateToken, DeleteExpiredTokens, SetPasswordHash
from borzoi.shards.metadata import entries
from borzoi.shards.metadata.apply import LogContradiction, apply
from borzoi.shards.metadata.effects import Effects, GroupRef, RunPurged, RunRemoved, TopicRef
from borzoi.shards.metadata.entries import Stored
from borzoi.shards.metadata.entry_form import new_entry
from borzoi.shards.metadata.state import BoardPlace, Group, Run, State, Token
from tests.shards.decisions.commands import World, create_topic, create_user, small_world

FIRST_RUN = Run(0, 3, birth=3, first_slot=1, created_at=3000)
PAID_RUN = Run(0, 1, birth=4, first_slot=4, created_at=4000)
SECOND_RUN = Run(3, 2, birth=5, first_slot=5, created_at=5000)


def test_created_things_are_found_by_id_and_by_name() -> None:
    state = small_world().state
    assert state.stream(0) is state.stream("orders")
    assert state.stream(0).created_at == 2000
    topic = state.topic("orders", "placed")
    assert topic is state.topic(0, 0) is state.find_topic(0, "placed")
    assert topic.runs == [FIRST_RUN, SECOND_RUN]
    assert topic.partitions_count == 5
    assert (topic.message_expiry, topic.max_topic_size) == (5_000_000, 123_456)
    assert topic.replication_factor == 1
    assert topic.group("readers") == topic.group(0) == Group(0, "readers", 6000, birth=6)
    assert state.user("root") is state.user(0)


def test_missing_things_are_none_or_their_own_error() -> None:
    state = small_world().state
    stream = state.stream(0)
    topic = stream.topic(0)
    for identifier in (1, 4096, "ORDERS", "", "0"):
        assert state.find_stream(identifier) is None
        assert state.find_topic(identifier, 0) is None
        with pytest.raises(StreamIdNotFound):
            state.topic(identifier, 0)
    assert state.find_topic(0, 2) is None
    with pytest.raises(TopicIdNotFound):
        state.topic(0, "nope")
    assert topic.find_group("nope") is None
    with pytest.raises(ConsumerGroupIdNotFound):
        topic.group(1)
    assert state.find_user(1) is None
    with pytest.raises(ResourceNotFound):
        state.user("missing")
    assert state.find_token("hash") is None


def test_partitions_lead_to_birth_and_slot() -> None:
    topic = small_world().state.topic(0, 0)
    places = [topic.partition(id) for id in range(5)]
    assert places == [
        BoardPlace(3, 1),
        BoardPlace(3, 2),
        BoardPlace(3, 3),
        BoardPlace(5, 5),
        BoardPlace(5, 6),
    ]
    for id in (-1, 5, 1_000_000):
        assert topic.find_partition(id) is None
        assert topic.find_run(id) is None
        with pytest.raises(PartitionNotFound):
            topic.partition(id)


def test_a_topic_without_partitions_has_no_run_and_starts_at_0_later() -> None:
    world = small_world()
    world.run(create_topic(0, "empty", 0))
    topic = world.state.topic(0, "empty")
    assert topic.runs == []
    assert topic.partitions_count == 0
    assert topic.find_partition(0) is None
    world.run(CreatePartitions(0, "empty", 1))
    assert topic.partition(0) == BoardPlace(8, 7)


def test_deleting_partitions_takes_the_highest_and_splits_a_run() -> None:
    world = small_world()
    effects = world.run(DeletePartitions(0, 0, 3))
    topic = world.state.topic(0, 0)
    assert topic.runs == [Run(0, 2, 3, 1, 3000)]
    assert effects == Effects(
        7,
        removed=[
            RunRemoved(0, 0, SECOND_RUN),
            RunRemoved(0, 0, Run(2, 1, birth=3, first_slot=3, created_at=3000)),
        ],
        topics_resized=[TopicRef(0, 0)],
    )
    assert effects.needs_barrier
    # Made again they have a new birth, and the freed slots are used again.
    world.run(CreatePartitions(0, 0, 1))
    assert topic.partition(2) == BoardPlace(8, 3)
    assert topic.partition(1) == BoardPlace(3, 2)


def test_purging_a_topic_gives_all_runs_a_new_birth() -> None:
    world = small_world()
    effects = world.run(PurgeTopic(0, 0))
    topic = world.state.topic(0, 0)
    assert topic.runs == [Run(0, 3, 7, 1, 3000), Run(3, 2, 7, 5, 5000)]
    assert effects == Effects(
        7,
        purged=[
            RunPurged(0, 0, FIRST_RUN, topic.runs[0]),
            RunPurged(0, 0, SECOND_RUN, topic.runs[1]),
        ],
    )
    assert effects.needs_barrier
    assert world.state.topic(0, 1).runs == [PAID_RUN]


def test_purging_a_stream_purges_all_its_topics() -> None:
    world = small_world()
    effects = world.run(PurgeStream("orders"))
    assert [(one.topic_id, one.old, one.new.birth) for one in effects.purged] == [
        (0, FIRST_RUN, 7),
        (0, SECOND_RUN, 7),
        (1, PAID_RUN, 7),
    ]


def test_deleting_a_topic() -> None:
    world = small_world()
    effects = world.run(DeleteTopic(0, 0))
    assert effects == Effects(
        7,
        removed=[RunRemoved(0, 0, FIRST_RUN), RunRemoved(0, 0, SECOND_RUN)],
        topics_removed=[TopicRef(0, 0)],
        groups_removed=[GroupRef(0, 0, 0)],
    )
    assert world.state.find_topic(0, "placed") is None
    world.run(create_topic(0, "again", 4))
    # The id comes back, the birth does not.
    assert world.state.topic(0, 0).runs == [Run(0, 4, 8, 5, 8000)]


def test_deleting_a_stream_takes_everything_in_it() -> None:
    world = small_world()
    effects = world.run(DeleteStream(0))
    assert effects.streams_removed == [0]
    assert effects.topics_removed == [TopicRef(0, 0), TopicRef(0, 1)]
    assert effects.groups_removed == [GroupRef(0, 0, 0)]
    assert [one.run for one in effects.removed] == [FIRST_RUN, SECOND_RUN, PAID_RUN]
    assert world.state.streams == {}
    assert world.state.stream_names == {}
    assert world.state.slots.frontier == 1
    world.run(CreateStream("next"))
    assert world.state.stream("next").id == 0
    assert world.state.stream(0).topic_ids.peek() == 0


def test_ids_are_reused_the_most_recently_freed_first() -> None:
    world = World()
    for name in "abcd":
        world.run(CreateStream(name))
    world.run(DeleteStream("b"))
    world.run(DeleteStream("d"))
    for name in "efg":
        world.run(CreateStream(name))
    assert [world.state.stream(name).id for name in "efg"] == [3, 1, 4]
    for name in "xyz":
        world.run(create_topic("a", name))
        world.run(CreateConsumerGroup("a", "x", name))
    world.run(DeleteTopic("a", "y"))
    world.run(DeleteConsumerGroup("a", "x", "y"))
    world.run(create_topic("a", "w"))
    world.run(CreateConsumerGroup("a", "x", "w"))
    assert world.state.topic("a", "w").id == 1
    assert world.state.topic("a", "x").group("w").id == 1


def test_renaming() -> None:
    world = small_world()
    assert not world.run(UpdateStream(0, "renamed"))
    assert world.state.find_stream("orders") is None
    assert world.state.stream("renamed").id == 0
    assert not world.run(UpdateTopic(0, 0, 4, 77, 2000, 3, "renamed"))
    topic = world.state.topic(0, "renamed")
    assert world.state.find_topic(0, "placed") is None
    assert topic.runs == [FIRST_RUN, SECOND_RUN]
    assert (topic.compression_algorithm, topic.message_expiry) == (4, 77)
    assert (topic.max_topic_size, topic.replication_factor) == (2000, 3)
    # To its own name, and the old name is free again.
    world.run(UpdateStream(0, "renamed"))
    world.run(CreateStream("orders"))


def test_deleting_a_group() -> None:
    world = small_world()
    effects = world.run(DeleteConsumerGroup(0, 0, "readers"))
    assert effects == Effects(7, groups_removed=[GroupRef(0, 0, 0)])
    assert world.state.topic(0, 0).groups == {}


def test_users() -> None:
    world = small_world()
    assert not world.run(create_user("ann"))
    assert world.run(UpdateUser(1, "anna", UserStatus.INACTIVE)).users_disabled == [1]
    user = world.state.user("anna")
    assert world.state.find_user("ann") is None
    assert (user.id, user.status, user.created_at) == (1, 2, 7000)
    assert not world.run(UpdateUser("anna", status=UserStatus.ACTIVE))
    assert (user.username, user.status) == ("anna", 1)
    world.run(UpdatePermissions(1, Permissions()))
    assert user.permissions == Permissions()
    world.run(UpdatePermissions(1, None))
    assert user.permissions is None
    assert world.run(SetPasswordHash("anna", "new", "hash of ann")).passwords_changed == [1]
    assert user.password_hash == "new"
    world.run(CreateToken(1, 7000, "token", "t1", 0))
    effects = world.run(DeleteUser(1))
    assert effects.users_removed == [1]
    assert not effects.needs_barrier
    assert world.state.find_token("t1") is None
    world.run(create_user("ben"))
    assert world.state.user("ben").id == 1
    assert world.state.user(0).permissions == ALL_PERMISSIONS


GRANTED = Permissions(
    streams={
        0: StreamPermissions(read_stream=True, topics={0: TopicPermissions(True)}),
        1: StreamPermissions(
            send_messages=True,
            topics={0: TopicPermissions(True), 1: TopicPermissions(False, True)},
        ),
        9: StreamPermissions(manage_stream=True),
    }
)


def world_with_grants() -> World:
    """Streams 0 and 1 with topics 0 and 1, and two users with grants beside one without."""
    world = small_world()
    world.run(CreateStream("bills"))
    world.run(create_topic("bills", "sent"))
    world.run(create_topic("bills", "lost"))
    world.run(create_user("ann", GRANTED))
    world.run(create_user("ben"))
    world.run(create_user("cid", GRANTED))
    return world


def test_a_new_stream_inherits_nothing_that_was_granted_for_the_old_one() -> None:
    world = world_with_grants()
    world.run(DeleteStream("bills"))
    world.run(CreateStream("other bills"))
    assert world.state.stream("other bills").id == 1
    left = Permissions(streams={id: GRANTED.streams[id] for id in (0, 9)})
    assert world.state.user("ann").permissions == left
    assert world.state.user("cid").permissions == left
    assert world.state.user("ben").permissions is None
    assert world.state.user(0).permissions == ALL_PERMISSIONS
    # What is granted again holds.
    world.run(UpdatePermissions("ann", GRANTED))
    assert world.state.user("ann").permissions == GRANTED


def test_a_new_topic_inherits_nothing_that_was_granted_for_the_old_one() -> None:
    world = world_with_grants()
    world.run(DeleteTopic("bills", "sent"))
    world.run(create_topic("bills", "unpaid"))
    assert world.state.topic("bills", "unpaid").id == 0
    on_bills = StreamPermissions(send_messages=True, topics={1: TopicPermissions(False, True)})
    left = Permissions(streams={**GRANTED.streams, 1: on_bills})
    assert world.state.user("ann").permissions == left
    assert world.state.user("cid").permissions == left


def test_a_purge_takes_no_grants_away() -> None:
    world = world_with_grants()
    world.run(PurgeStream("bills"))
    world.run(PurgeTopic("bills", "sent"))
    assert world.state.user("ann").permissions == GRANTED


def test_expired_tokens_are_cleared_away_for_all_users() -> None:
    world = small_world()
    world.run(create_user("ann"))
    world.run(CreateToken(0, 1000, "forever", "h1", 0))
    world.run(CreateToken(0, 1000, "short", "h2", 20_000))
    world.run(CreateToken(1, 7000, "short", "h3", 20_000))
    world.run(CreateToken(1, 7000, "longer", "h4", 20_001))
    assert not world.run(DeleteExpiredTokens(), timestamp=20_000)
    assert sorted(world.state.token_owners) == ["h1", "h4"]
    assert list(world.state.user(0).tokens) == ["forever"]
    assert list(world.state.user(1).tokens) == ["longer"]


def test_tokens_lead_to_their_owner_and_expired_ones_make_room() -> None:
    world = small_world()
    world.run(CreateToken(0, 1000, "forever", "h1", 0))
    world.run(CreateToken(0, 1000, "short", "h2", 9500), timestamp=9000)
    user = world.state.user(0)
    assert world.state.find_token("h2") == (user, Token("short", "h2", 9500))
    assert not user.tokens["short"].expired(9499)
    assert user.tokens["short"].expired(9500)
    assert not user.tokens["forever"].expired(2**64 - 1)
    world.run(CreateToken(0, 1000, "short", "h3", 0), timestamp=9500)
    assert world.state.find_token("h2") is None
    assert sorted(user.tokens) == ["forever", "short"]
    world.run(DeletePersonalAccessToken("forever"))
    assert world.state.find_token("h1") is None
    assert list(world.state.token_owners) == ["h3"]


@pytest.mark.parametrize(
    "command",
    [
        entries.StreamCreated(5, "x"),
        entries.StreamCreated(1, "orders"),
        entries.StreamDeleted(1),
        entries.TopicDeleted(0, 7),
        entries.PartitionsDeleted(0, 0, 6),
        entries.PartitionsCreated(0, 0, 0),
        entries.GroupDeleted(0, 0, 4),
        entries.UserCreated(1, "x", "h", 1, b"\x05"),
        entries.TokenDeleted(0, "none"),
    ],
)
def test_an_entry_that_does_not_fit_names_itself(command: Stored) -> None:
    world = small_world()
    with pytest.raises(LogContradiction, match=f"entry 7 .*{type(command).__name__}"):
        apply(world.state, new_entry(7, 0, 0, command))


def lines_run(work: Callable[[], object]) -> int:
    """How many lines of Python run: a cost that does not depend on the machine."""
    count = 0

    def trace(frame: FrameType, event: str, argument: Any) -> Any:
        nonlocal count
        count += event == "line"
        return trace

    before = sys.gettrace()
    # What the garbage collector calls in between is no cost of it.
    gc.disable()
    sys.settrace(trace)
    try:
        work()
    finally:
        sys.settrace(before)
        gc.enable()
    return count


def world_of(topics: int) -> World:
    """Topics with holes between their slots: every other one was deleted again."""
    world = World()
    world.run(CreateStream("s"))
    for number in range(topics):
        world.run(create_topic("s", str(number), 1 + number % 7))
    for number in range(0, topics, 2):
        world.run(DeleteTopic("s", str(number)))
    return world


def test_the_cost_of_an_entry_does_not_grow_with_the_number_of_topics() -> None:
    costs = []
    # The first one pays for what is looked up once in a process.
    for topics in (2, 20, 2000):
        world = world_of(topics)
        costs.append(
            [
                lines_run(partial(world.run, create_topic("s", "new", 3))),
                lines_run(partial(world.run, create_topic("s", "big", 900))),
                lines_run(partial(world.run, PurgeTopic("s", "new"))),
                lines_run(partial(world.run, DeleteTopic("s", "new"))),
                lines_run(partial(world.run, CreateStream("t"))),
            ]
        )
    assert costs[1] == costs[2]


def test_an_empty_state_is_equal_to_another() -> None:
    assert State() == State()
    assert small_world().state == small_world().state
    assert small_world().state != World().state
