"""The one function that changes metadata: apply(state, entry).

Every shard runs it over the same entries, so it must give the same result everywhere: it reads no
clock, no config and no disk, and nothing in it depends on the order of anything but the log.
Births follow from the index of the entry, slots and ids from the state before it.

What it costs does not depend on how many streams, topics or users there are, only on what the
entry touches. The exception is what is rare and must leave nothing behind: removing a stream or
a topic goes through the users once, and so does clearing away expired tokens.
"""

from collections.abc import Callable
from typing import assert_never

from msgspec.structs import replace

from borzoi.protocol.errors import BrokerError
from borzoi.protocol.permissions import Permissions, UserStatus, without_stream, without_topic
from borzoi.shards.metadata import entries
from borzoi.shards.metadata.effects import Effects, GroupRef, RunPurged, RunRemoved, TopicRef
from borzoi.shards.metadata.entries import StoredCommand, permissions_of, stored_command
from borzoi.shards.metadata.slots import IdPool
from borzoi.shards.metadata.state import Group, Run, State, Stream, Token, TokenOwner, Topic, User
from borzoi.storage.wal import WalEntry


class LogContradiction(Exception):
    """An entry does not fit the entries before it. The copy is unusable; the process must end."""


def apply(state: State, entry: WalEntry) -> Effects:
    """Change the state as the entry says. LogContradiction leaves the state half changed."""
    command = stored_command(entry)
    try:
        return apply_command(state, entry.index, entry.timestamp, command)
    except (BrokerError, KeyError, AssertionError) as error:
        raise LogContradiction(
            f"entry {entry.index} of the metadata log does not fit the entries before it:"
            f" {type(command).__name__}, {error!r}"
        ) from error


def apply_command(state: State, index: int, timestamp: int, command: StoredCommand) -> Effects:
    """The same for a command that is already decoded."""
    effects = Effects(index)
    match command:
        case entries.StreamCreated():
            _create_stream(state, timestamp, command)
        case entries.StreamUpdated():
            stream = state.streams[command.stream_id]
            _rename(state.stream_names, stream.name, command.name, stream.id)
            stream.name = command.name
        case entries.StreamDeleted():
            _delete_stream(state, command.stream_id, effects)
        case entries.StreamPurged():
            for topic in state.streams[command.stream_id].topics.values():
                _purge_topic(command.stream_id, topic, index, effects)
        case entries.TopicCreated():
            _create_topic(state, index, timestamp, command)
        case entries.TopicUpdated():
            _update_topic(state.streams[command.stream_id], timestamp, command)
        case entries.TopicDeleted():
            _delete_topic(state, state.streams[command.stream_id], command.topic_id, effects)
            stream_id, topic_id = command.stream_id, command.topic_id
            _withdraw_grants(state, lambda old: without_topic(old, stream_id, topic_id))
        case entries.TopicPurged():
            topic = state.topic(command.stream_id, command.topic_id)
            _purge_topic(command.stream_id, topic, index, effects)
        case entries.PartitionsCreated():
            topic = state.topic(command.stream_id, command.topic_id)
            _add_run(state, topic, command.count, index, timestamp)
            effects.topics_resized.append(TopicRef(command.stream_id, command.topic_id))
        case entries.PartitionsDeleted():
            _delete_partitions(state, command, effects)
        case entries.GroupCreated():
            _create_group(state, index, timestamp, command)
        case entries.GroupDeleted():
            topic = state.topic(command.stream_id, command.topic_id)
            _delete_group(command.stream_id, topic, command.group_id, effects)
        case entries.UserCreated():
            _create_user(state, timestamp, command)
        case entries.UserUpdated():
            _update_user(state, command)
            if command.status == UserStatus.INACTIVE:
                effects.users_disabled.append(command.user_id)
        case entries.UserDeleted():
            _delete_user(state, command.user_id)
            effects.users_removed.append(command.user_id)
        case entries.PermissionsUpdated():
            state.users[command.user_id].permissions = permissions_of(command.permissions)
        case entries.PasswordChanged():
            state.users[command.user_id].password_hash = command.password_hash
            effects.passwords_changed.append(command.user_id)
        case entries.TokenCreated():
            _create_token(state, timestamp, command)
        case entries.TokenDeleted():
            _delete_token(state, state.users[command.user_id], command.name)
        case entries.ExpiredTokensDeleted():
            for user in state.users.values():
                _delete_expired_tokens(state, user, timestamp)
        case _:
            assert_never(command)
    return effects


def _create_stream(state: State, timestamp: int, command: entries.StreamCreated) -> None:
    _take(state.stream_ids, command.stream_id)
    _name(state.stream_names, command.name, command.stream_id)
    state.streams[command.stream_id] = Stream(command.stream_id, command.name, timestamp)


def _delete_stream(state: State, stream_id: int, effects: Effects) -> None:
    stream = state.streams[stream_id]
    for topic_id in list(stream.topics):
        _delete_topic(state, stream, topic_id, effects)
    del state.streams[stream_id]
    del state.stream_names[stream.name]
    state.stream_ids.release(stream_id)
    _withdraw_grants(state, lambda old: without_stream(old, stream_id))
    effects.streams_removed.append(stream_id)


def _create_topic(state: State, index: int, timestamp: int, command: entries.TopicCreated) -> None:
    stream = state.streams[command.stream_id]
    _take(stream.topic_ids, command.topic_id)
    _name(stream.topic_names, command.name, command.topic_id)
    topic = Topic(
        id=command.topic_id,
        name=command.name,
        created_at=timestamp,
        compression_algorithm=command.compression_algorithm,
        message_expiry=command.message_expiry,
        max_topic_size=command.max_topic_size,
        replication_factor=command.replication_factor,
    )
    if command.partitions_count > 0:
        _add_run(state, topic, command.partitions_count, index, timestamp)
    stream.topics[command.topic_id] = topic


def _update_topic(stream: Stream, timestamp: int, command: entries.TopicUpdated) -> None:
    topic = stream.topics[command.topic_id]
    _rename(stream.topic_names, topic.name, command.name, topic.id)
    topic.name = command.name
    if topic.compression_algorithm != command.compression_algorithm:
        topic.compression_algorithm = command.compression_algorithm
        topic.compression_since = timestamp
    topic.message_expiry = command.message_expiry
    topic.max_topic_size = command.max_topic_size
    topic.replication_factor = command.replication_factor


def _delete_topic(state: State, stream: Stream, topic_id: int, effects: Effects) -> None:
    topic = stream.topics.pop(topic_id)
    del stream.topic_names[topic.name]
    stream.topic_ids.release(topic_id)
    for run in topic.runs:
        state.slots.release(run.first_slot, run.count)
        effects.removed.append(RunRemoved(stream.id, topic_id, run))
    effects.groups_removed.extend(GroupRef(stream.id, topic_id, id) for id in topic.groups)
    effects.topics_removed.append(TopicRef(stream.id, topic_id))


def _purge_topic(stream_id: int, topic: Topic, index: int, effects: Effects) -> None:
    for at, old in enumerate(topic.runs):
        new = replace(old, birth=index)
        topic.runs[at] = new
        effects.purged.append(RunPurged(stream_id, topic.id, old, new))


def _add_run(state: State, topic: Topic, count: int, index: int, timestamp: int) -> None:
    assert count > 0
    first_slot = state.slots.take(count)
    topic.runs.append(Run(topic.partitions_count, count, index, first_slot, timestamp))


def _delete_partitions(state: State, command: entries.PartitionsDeleted, effects: Effects) -> None:
    topic = state.topic(command.stream_id, command.topic_id)
    assert 0 < command.count <= topic.partitions_count
    keep = topic.partitions_count - command.count
    while topic.partitions_count > keep:
        run = topic.runs.pop()
        kept = max(0, keep - run.first_partition)
        if kept > 0:
            topic.runs.append(replace(run, count=kept))
        gone = replace(
            run,
            first_partition=run.first_partition + kept,
            count=run.count - kept,
            first_slot=run.first_slot + kept,
        )
        state.slots.release(gone.first_slot, gone.count)
        effects.removed.append(RunRemoved(command.stream_id, command.topic_id, gone))
    effects.topics_resized.append(TopicRef(command.stream_id, command.topic_id))


def _create_group(state: State, index: int, timestamp: int, command: entries.GroupCreated) -> None:
    topic = state.topic(command.stream_id, command.topic_id)
    _take(topic.group_ids, command.group_id)
    _name(topic.group_names, command.name, command.group_id)
    topic.groups[command.group_id] = Group(command.group_id, command.name, timestamp, index)


def _delete_group(stream_id: int, topic: Topic, group_id: int, effects: Effects) -> None:
    group = topic.groups.pop(group_id)
    del topic.group_names[group.name]
    topic.group_ids.release(group_id)
    effects.groups_removed.append(GroupRef(stream_id, topic.id, group_id))


def _create_user(state: State, timestamp: int, command: entries.UserCreated) -> None:
    _take(state.user_ids, command.user_id)
    _name(state.usernames, command.username, command.user_id)
    state.users[command.user_id] = User(
        id=command.user_id,
        username=command.username,
        password_hash=command.password_hash,
        status=command.status,
        created_at=timestamp,
        permissions=permissions_of(command.permissions),
    )


def _update_user(state: State, command: entries.UserUpdated) -> None:
    user = state.users[command.user_id]
    if command.username is not None:
        _rename(state.usernames, user.username, command.username, user.id)
        user.username = command.username
    if command.status is not None:
        user.status = command.status


def _delete_user(state: State, user_id: int) -> None:
    user = state.users.pop(user_id)
    for token in user.tokens.values():
        del state.token_owners[token.hash]
    del state.usernames[user.username]
    state.user_ids.release(user_id)


def _create_token(state: State, timestamp: int, command: entries.TokenCreated) -> None:
    user = state.users[command.user_id]
    # The cleaner may be slow or switched off, and their places are needed now. The time of the
    # entry says the same to every copy.
    _delete_expired_tokens(state, user, timestamp)
    assert command.name not in user.tokens
    assert command.hash not in state.token_owners
    user.tokens[command.name] = Token(command.name, command.hash, command.expiry_at)
    state.token_owners[command.hash] = TokenOwner(user.id, command.name)


def _delete_token(state: State, user: User, name: str) -> None:
    token = user.tokens.pop(name)
    del state.token_owners[token.hash]


def _delete_expired_tokens(state: State, user: User, timestamp: int) -> None:
    for old in [token for token in user.tokens.values() if token.expired(timestamp)]:
        _delete_token(state, user, old.name)


def _withdraw_grants(state: State, without: Callable[[Permissions], Permissions]) -> None:
    """Ids are given out again: what was granted for the old stream or topic is not for the new."""
    for user in state.users.values():
        if user.permissions is not None:
            user.permissions = without(user.permissions)


def _take(pool: IdPool, id: int) -> None:
    """Take the id the entry names: the one the pool would give, which is checked."""
    taken = pool.take()
    assert taken == id, f"id {id} in the log, {taken} would be next"


def _name(names: dict[str, int], name: str, id: int) -> None:
    assert name not in names, f"{name!r} is taken"
    names[name] = id


def _rename(names: dict[str, int], old: str, new: str, id: int) -> None:
    del names[old]
    _name(names, new, id)
