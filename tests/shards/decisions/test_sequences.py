"""Random commands: copies stay equal, and what is always true stays true."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from borzoi.protocol.commands.groups import CreateConsumerGroup, DeleteConsumerGroup
from borzoi.protocol.commands.sessions import DeletePersonalAccessToken
from borzoi.protocol.commands.streams import CreateStream, DeleteStream, PurgeStream, UpdateStream
from borzoi.protocol.commands.topics import (
    CreatePartitions,
    CreateTopic,
    DeletePartitions,
    DeleteTopic,
    PurgeTopic,
    UpdateTopic,
)
from borzoi.protocol.commands.users import DeleteUser, UpdatePermissions, UpdateUser
from borzoi.protocol.errors import BrokerError
from borzoi.protocol.permissions import ALL_PERMISSIONS, Permissions, StreamPermissions, UserStatus
from borzoi.shards.decisions.commands import (
    CreateHashedUser,
    CreateToken,
    DeleteExpiredTokens,
    SetPasswordHash,
)
from borzoi.shards.decisions.decide import MetadataCommand, MetadataSettings
from borzoi.shards.metadata.apply import apply
from borzoi.shards.metadata.effects import Effects
from borzoi.shards.metadata.slots import FIRST_SLOT, IdPool
from borzoi.shards.metadata.state import Run, State
from borzoi.shards.metadata_log.snapshot import dump, load
from borzoi.storage.wal import EntryPlace
from tests.shards.decisions.commands import World

# Few names and small ids, so that commands meet each other all the time.
NAMES = st.sampled_from(["a", "b", "c"])
IDENTIFIERS = st.sampled_from(["a", 0, "a", 0, "b", 1, "c", 2])
COUNTS = st.integers(0, 6)
COMPRESSIONS = st.sampled_from([0, 1, 1, 2, 3, 4, 5])
SIZES = st.sampled_from([0, 0, 999, 1000, 2**64 - 1])
HASHES = st.sampled_from(["h1", "h2", "h3"])
PERMISSIONS = st.sampled_from(
    [None, Permissions(), ALL_PERMISSIONS, Permissions(streams={1: StreamPermissions(True)})]
)
WANTED = st.none() | st.integers(0, 4)
STATUSES = st.sampled_from(UserStatus)
TIMES = st.sampled_from([1000, 1000, 4000, 5000, 6000])

WITH_STREAMS: st.SearchStrategy[MetadataCommand] = st.one_of(
    st.builds(CreateStream, NAMES, wanted_id=WANTED),
    st.builds(UpdateStream, IDENTIFIERS, NAMES),
    st.builds(DeleteStream, IDENTIFIERS),
    st.builds(PurgeStream, IDENTIFIERS),
)
WITH_TOPICS: st.SearchStrategy[MetadataCommand] = st.one_of(
    st.builds(
        CreateTopic,
        IDENTIFIERS,
        COUNTS,
        COMPRESSIONS,
        SIZES,
        SIZES,
        COUNTS,
        NAMES,
        wanted_id=WANTED,
    ),
    st.builds(UpdateTopic, IDENTIFIERS, IDENTIFIERS, COMPRESSIONS, SIZES, SIZES, COUNTS, NAMES),
    st.builds(DeleteTopic, IDENTIFIERS, IDENTIFIERS),
    st.builds(PurgeTopic, IDENTIFIERS, IDENTIFIERS),
    st.builds(CreatePartitions, IDENTIFIERS, IDENTIFIERS, COUNTS),
    st.builds(DeletePartitions, IDENTIFIERS, IDENTIFIERS, COUNTS),
    st.builds(CreateConsumerGroup, IDENTIFIERS, IDENTIFIERS, NAMES, WANTED),
    st.builds(DeleteConsumerGroup, IDENTIFIERS, IDENTIFIERS, IDENTIFIERS),
)
WITH_USERS: st.SearchStrategy[MetadataCommand] = st.one_of(
    st.builds(CreateHashedUser, NAMES, HASHES, STATUSES, PERMISSIONS),
    st.builds(UpdateUser, IDENTIFIERS, st.none() | NAMES, st.none() | STATUSES),
    st.builds(DeleteUser, IDENTIFIERS),
    st.builds(UpdatePermissions, IDENTIFIERS, PERMISSIONS),
    st.builds(SetPasswordHash, IDENTIFIERS, HASHES, HASHES),
    st.builds(
        CreateToken, st.integers(0, 2), TIMES, st.just("token"), HASHES, st.integers(0, 60_000)
    ),
    st.builds(DeleteExpiredTokens),
    st.builds(DeletePersonalAccessToken, st.just("token")),
)
# Topics more often: that is where runs, births and slots are.
COMMANDS = st.sampled_from([WITH_STREAMS, *[WITH_TOPICS] * 5, WITH_USERS]).flatmap(
    lambda kind: kind
)
SETTINGS = MetadataSettings(segment_size=1000, slots_max=60, groups_per_topic_max=2)

# A stream with a topic to begin with, or most commands would find nothing.
START_OF_ALL: list[MetadataCommand] = [
    CreateHashedUser("root", "h1", UserStatus.ACTIVE, ALL_PERMISSIONS),
    CreateStream("a"),
    CreateTopic("a", 3, 1, 0, 0, 0, "a"),
]


def runs_of(state: State) -> dict[tuple[int, int, int], Run]:
    """Every live run by the first partition it holds."""
    return {
        (stream.id, topic.id, run.first_partition): run
        for stream in state.streams.values()
        for topic in stream.topics.values()
        for run in topic.runs
    }


def partitions_of(state: State) -> dict[tuple[int, int, int], tuple[int, int]]:
    """Birth and slot of every live partition."""
    return {
        (stream, topic, run.first_partition + at): (run.birth, run.first_slot + at)
        for (stream, topic, _), run in runs_of(state).items()
        for at in range(run.count)
    }


def check_names_and_ids(names: dict[str, int], by_id: dict[int, str], pool: IdPool) -> None:
    assert {id: name for name, id in names.items()} == by_id
    assert sorted([*by_id, *pool.freed]) == list(range(pool.next_id))


def check_state(state: State) -> None:
    streams = {stream.id: stream.name for stream in state.streams.values()}
    check_names_and_ids(state.stream_names, streams, state.stream_ids)
    users = {user.id: user.username for user in state.users.values()}
    check_names_and_ids(state.usernames, users, state.user_ids)
    for stream in state.streams.values():
        topics = {topic.id: topic.name for topic in stream.topics.values()}
        check_names_and_ids(stream.topic_names, topics, stream.topic_ids)
        for topic in stream.topics.values():
            groups = {group.id: group.name for group in topic.groups.values()}
            check_names_and_ids(topic.group_names, groups, topic.group_ids)
            next_partition = 0
            for run in topic.runs:
                assert run.count > 0
                assert run.first_partition == next_partition
                next_partition += run.count
            assert topic.partitions_count == next_partition
    tokens = {
        token.hash: (user.id, token.name)
        for user in state.users.values()
        for token in user.tokens.values()
    }
    assert tokens == state.token_owners
    slots = [slot for _, slot in partitions_of(state).values()]
    free = sum(state.slots.counts.values())
    assert len(set(slots)) == len(slots)
    assert len(slots) + free == state.slots.frontier - FIRST_SLOT
    assert all(FIRST_SLOT <= slot < SETTINGS.slots_max for slot in slots)


def check_births(
    index: int,
    before: dict[tuple[int, int, int], tuple[int, int]],
    after: dict[tuple[int, int, int], tuple[int, int]],
    effects: Effects,
) -> None:
    """A partition keeps its birth and its slot, or is an effect, or has the newest birth."""
    gone = {
        (one.stream_id, one.topic_id, one.run.first_partition + at): one.run.birth
        for one in effects.removed
        for at in range(one.run.count)
    }
    purged = {
        (one.stream_id, one.topic_id, one.old.first_partition + at): (one.old, one.new)
        for one in effects.purged
        for at in range(one.old.count)
    }
    for partition, (birth, slot) in before.items():
        if partition not in after:
            assert gone[partition] == birth
        elif partition in purged:
            assert purged[partition][0].birth == birth
            assert after[partition] == (index, slot)
        else:
            assert after[partition] == (birth, slot)
    for partition in after.keys() - before.keys():
        assert after[partition][0] == index
    assert gone.keys() == before.keys() - after.keys()
    assert all(birth <= index for birth, _ in after.values())


@pytest.mark.slow
@settings(max_examples=100)
@given(st.lists(COMMANDS, min_size=50, max_size=90), st.integers(0, 60))
def test_copies_stay_equal_whatever_happens(commands: list[MetadataCommand], cut: int) -> None:
    world = World(SETTINGS)
    copy = State()
    for command in START_OF_ALL + commands:
        before = partitions_of(world.state)
        count = world.index
        try:
            effects = world.run(command)
        except BrokerError:
            # Refused: nothing was logged and nothing changed.
            assert world.index == count
            assert world.state == copy
            continue
        assert world.index == count + 1
        assert apply(copy, world.entries[-1]) == effects
        assert copy == world.state
        check_state(copy)
        check_births(world.index, before, partitions_of(copy), effects)

    # The same through a snapshot taken anywhere on the way.
    first = State()
    for entry in world.entries[:cut]:
        apply(first, entry)
    index = min(cut, world.index)
    snapshot = load(dump(first, EntryPlace(index, 99)))
    assert snapshot.state == first
    assert snapshot.end == EntryPlace(index, 99)
    for entry in world.entries[cut:]:
        apply(snapshot.state, entry)
    assert snapshot.state == world.state
    # The order of iteration is part of it: lists that clients see must not depend on a restart.
    assert dump(snapshot.state, EntryPlace(0, 0)) == dump(world.state, EntryPlace(0, 0))
