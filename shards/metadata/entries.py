"""The kinds of entries of the metadata log: what each one holds, and what it changes.

An entry is fully resolved: ids are numbers, server defaults are values, passwords and tokens are
hashes. Every shard applies the same entries to its own state, so `apply` must give the same result
everywhere: it reads no clock, no config and no disk. The time and the index are those of the log
entry around it. Births follow from the index, slots and ids from the state before it.

What applying costs does not depend on how many streams, topics or users there are, only on what
the entry touches. The exceptions are rare: removing a stream or a topic goes through the users
once, to leave nothing behind, and so does clearing away expired tokens; an id that a client has
chosen is looked up among the freed ones.

Old logs stay readable for ever, so: a kind is never renamed or reused, a field never changes its
meaning or becomes required; new fields come with a default, new kinds come at the end. Permissions
are stored as the block of the wire, which is small and cannot change.
"""

from collections.abc import Callable

import msgspec
from msgspec.structs import replace

from borzoi.protocol.payload import PayloadReader
from borzoi.protocol.permissions import (
    Permissions,
    UserStatus,
    decode_permissions,
    pack_permissions,
    without_stream,
    without_topic,
)
from borzoi.shards.attached.attachment import Attachment
from borzoi.shards.metadata.effects import Effects, GroupRef, RunPurged, RunRemoved, TopicRef
from borzoi.shards.metadata.slots import IdPool
from borzoi.shards.metadata.state import Group, Run, State, Stream, Token, TokenOwner, Topic, User


class Stored(msgspec.Struct, frozen=True, omit_defaults=True, tag_field="kind"):
    """What all kinds have in common: the way they are encoded, and that they can be applied."""

    def apply(self, state: State, timestamp: int, effects: Effects) -> None:
        """Change the state and note what is left to others. `effects` has the entry's index."""
        raise NotImplementedError

    @property
    def new_id(self) -> int:
        """The id that the entry has given out, 0 if none."""
        return 0


class OfStream(Stored, frozen=True):
    """An entry about a stream."""

    stream_id: int


class OfTopic(OfStream, frozen=True):
    """An entry about a topic of a stream."""

    topic_id: int


class OfUser(Stored, frozen=True):
    """An entry about a user."""

    user_id: int


class StreamCreated(OfStream, frozen=True, tag="stream_created"):
    """A stream without topics exists."""

    name: str
    is_chosen: bool = False  # the id, by a client

    def apply(self, state: State, timestamp: int, _effects: Effects) -> None:
        _take(state.stream_ids, self.stream_id, self.is_chosen)
        _name(state.stream_names, self.name, self.stream_id)
        state.streams[self.stream_id] = Stream(self.stream_id, self.name, timestamp)

    @property
    def new_id(self) -> int:
        return self.stream_id


class StreamUpdated(OfStream, frozen=True, tag="stream_updated"):
    """The stream has another name."""

    name: str

    def apply(self, state: State, _timestamp: int, _effects: Effects) -> None:
        stream = state.streams[self.stream_id]
        _rename(state.stream_names, stream.name, self.name, stream.id)
        stream.name = self.name


class StreamDeleted(OfStream, frozen=True, tag="stream_deleted"):
    """The stream, its topics and the rights on them are gone."""

    def apply(self, state: State, _timestamp: int, effects: Effects) -> None:
        stream = state.streams[self.stream_id]
        for topic_id in list(stream.topics):
            _delete_topic(state, stream, topic_id, effects)
        del state.streams[stream.id]
        del state.stream_names[stream.name]
        state.stream_ids.release(stream.id)
        _withdraw_grants(state, lambda old: without_stream(old, stream.id))
        effects.streams_removed.append(stream.id)


class StreamPurged(OfStream, frozen=True, tag="stream_purged"):
    """All topics of the stream go on empty."""

    def apply(self, state: State, _timestamp: int, effects: Effects) -> None:
        for topic in state.streams[self.stream_id].topics.values():
            _purge_topic(self.stream_id, topic, effects)


class TopicCreated(OfTopic, frozen=True, tag="topic_created"):
    """A topic with its first partitions exists."""

    name: str
    partitions_count: int
    compression_algorithm: int
    message_expiry: int
    max_topic_size: int
    replication_factor: int
    options: bytes = b""
    is_chosen: bool = False  # the id, by a client
    attachment: Attachment | None = None

    def apply(self, state: State, timestamp: int, effects: Effects) -> None:
        stream = state.streams[self.stream_id]
        _take(stream.topic_ids, self.topic_id, self.is_chosen)
        _name(stream.topic_names, self.name, self.topic_id)
        topic = Topic(
            id=self.topic_id,
            name=self.name,
            created_at=timestamp,
            compression_algorithm=self.compression_algorithm,
            message_expiry=self.message_expiry,
            max_topic_size=self.max_topic_size,
            replication_factor=self.replication_factor,
            given_options=self.options or msgspec.UNSET,
            attachment=self.attachment or msgspec.UNSET,
        )
        effects.attachments_changed = self.attachment is not None
        if self.partitions_count > 0:
            _add_run(state, topic, self.partitions_count, timestamp, effects.index)
        stream.topics[self.topic_id] = topic

    @property
    def new_id(self) -> int:
        return self.topic_id


class TopicUpdated(OfTopic, frozen=True, tag="topic_updated"):
    """The topic has another name and other settings; its partitions stay."""

    name: str
    compression_algorithm: int
    message_expiry: int
    max_topic_size: int
    replication_factor: int
    options: bytes = b""

    def apply(self, state: State, timestamp: int, effects: Effects) -> None:
        stream = state.streams[self.stream_id]
        topic = stream.topics[self.topic_id]
        _rename(stream.topic_names, topic.name, self.name, topic.id)
        if topic.name != self.name:
            _end_attachment(state, topic, effects)
        topic.name = self.name
        if topic.compression_algorithm != self.compression_algorithm:
            topic.compression_algorithm = self.compression_algorithm
            topic.compression_since = timestamp
        topic.message_expiry = self.message_expiry
        topic.max_topic_size = self.max_topic_size
        topic.replication_factor = self.replication_factor
        topic.given_options = self.options or msgspec.UNSET


class TopicDeleted(OfTopic, frozen=True, tag="topic_deleted"):
    """The topic, its partitions, groups and the rights on it are gone."""

    def apply(self, state: State, _timestamp: int, effects: Effects) -> None:
        _delete_topic(state, state.streams[self.stream_id], self.topic_id, effects)
        _withdraw_grants(state, lambda old: without_topic(old, self.stream_id, self.topic_id))


class TopicPurged(OfTopic, frozen=True, tag="topic_purged"):
    """The partitions of the topic go on empty."""

    def apply(self, state: State, _timestamp: int, effects: Effects) -> None:
        _purge_topic(self.stream_id, state.topic(self.stream_id, self.topic_id), effects)


class PartitionsCreated(OfTopic, frozen=True, tag="partitions_created"):
    """The topic has `count` partitions more, with the ids behind its last."""

    count: int

    def apply(self, state: State, timestamp: int, effects: Effects) -> None:
        topic = state.topic(self.stream_id, self.topic_id)
        _add_run(state, topic, self.count, timestamp, effects.index)
        effects.topics_resized.append(TopicRef(self.stream_id, self.topic_id))


class PartitionsDeleted(OfTopic, frozen=True, tag="partitions_deleted"):
    """The `count` highest ids go."""

    count: int

    def apply(self, state: State, _timestamp: int, effects: Effects) -> None:
        topic = state.topic(self.stream_id, self.topic_id)
        assert 0 < self.count <= topic.partitions_count
        keep = topic.partitions_count - self.count
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
            effects.removed.append(RunRemoved(self.stream_id, self.topic_id, gone))
        if not isinstance(topic.attachment, msgspec.UnsetType):
            topic.attachment = topic.attachment.within(keep)
            effects.attachments_changed = True
        effects.topics_resized.append(TopicRef(self.stream_id, self.topic_id))


class GroupCreated(OfTopic, frozen=True, tag="group_created"):
    """A consumer group without members exists."""

    group_id: int
    name: str
    is_chosen: bool = False  # the id, by a client

    def apply(self, state: State, timestamp: int, effects: Effects) -> None:
        topic = state.topic(self.stream_id, self.topic_id)
        _take(topic.group_ids, self.group_id, self.is_chosen)
        _name(topic.group_names, self.name, self.group_id)
        topic.groups[self.group_id] = Group(self.group_id, self.name, timestamp, effects.index)

    @property
    def new_id(self) -> int:
        return self.group_id


class GroupDeleted(OfTopic, frozen=True, tag="group_deleted"):
    """The consumer group and its offsets are gone."""

    group_id: int

    def apply(self, state: State, _timestamp: int, effects: Effects) -> None:
        topic = state.topic(self.stream_id, self.topic_id)
        group = topic.groups.pop(self.group_id)
        del topic.group_names[group.name]
        topic.group_ids.release(self.group_id)
        effects.groups_removed.append(GroupRef(self.stream_id, topic.id, self.group_id))


class UserCreated(OfUser, frozen=True, tag="user_created"):
    """A user exists, with the hash of its password."""

    username: str
    password_hash: str
    status: int
    permissions: bytes | None = None

    def apply(self, state: State, timestamp: int, _effects: Effects) -> None:
        _take(state.user_ids, self.user_id, False)
        _name(state.usernames, self.username, self.user_id)
        state.users[self.user_id] = User(
            id=self.user_id,
            username=self.username,
            password_hash=self.password_hash,
            status=self.status,
            created_at=timestamp,
            permissions=permissions_of(self.permissions),
        )

    @property
    def new_id(self) -> int:
        return self.user_id


class UserUpdated(OfUser, frozen=True, tag="user_updated"):
    """None leaves the name or the status as it is."""

    username: str | None = None
    status: int | None = None

    def apply(self, state: State, _timestamp: int, effects: Effects) -> None:
        user = state.users[self.user_id]
        if self.username is not None:
            _rename(state.usernames, user.username, self.username, user.id)
            user.username = self.username
        if self.status is not None:
            user.status = self.status
        if self.status == UserStatus.INACTIVE:
            effects.users_disabled.append(self.user_id)


class UserDeleted(OfUser, frozen=True, tag="user_deleted"):
    """The user and its tokens are gone."""

    def apply(self, state: State, _timestamp: int, effects: Effects) -> None:
        user = state.users.pop(self.user_id)
        for token in user.tokens.values():
            del state.token_owners[token.hash]
        del state.usernames[user.username]
        state.user_ids.release(self.user_id)
        effects.users_removed.append(self.user_id)


class PermissionsUpdated(OfUser, frozen=True, tag="permissions_updated"):
    """The user has these permissions instead of its former ones; None is none."""

    permissions: bytes | None = None

    def apply(self, state: State, _timestamp: int, _effects: Effects) -> None:
        state.users[self.user_id].permissions = permissions_of(self.permissions)


class PasswordChanged(OfUser, frozen=True, tag="password_changed"):
    """The user logs in with another password."""

    password_hash: str

    def apply(self, state: State, _timestamp: int, effects: Effects) -> None:
        state.users[self.user_id].password_hash = self.password_hash
        effects.passwords_changed.append(self.user_id)


class TokenCreated(OfUser, frozen=True, tag="token_created"):
    """The user has a token more. Its expired ones are gone."""

    name: str
    hash: str
    expiry_at: int = 0

    def apply(self, state: State, timestamp: int, _effects: Effects) -> None:
        user = state.users[self.user_id]
        # The cleaner may be slow or switched off, and their places are needed now. The time of the
        # entry says the same to every copy.
        _delete_expired_tokens(state, user, timestamp)
        assert self.name not in user.tokens
        assert self.hash not in state.token_owners
        user.tokens[self.name] = Token(self.name, self.hash, self.expiry_at)
        state.token_owners[self.hash] = TokenOwner(user.id, self.name)


class TokenDeleted(OfUser, frozen=True, tag="token_deleted"):
    """The token of this name is gone."""

    name: str

    def apply(self, state: State, _timestamp: int, _effects: Effects) -> None:
        _delete_token(state, state.users[self.user_id], self.name)


class ExpiredTokensDeleted(Stored, frozen=True, tag="expired_tokens_deleted"):
    """Of all users, those that had expired at the time of the entry."""

    def apply(self, state: State, timestamp: int, _effects: Effects) -> None:
        for user in state.users.values():
            _delete_expired_tokens(state, user, timestamp)


def permissions_block(permissions: Permissions | None) -> bytes | None:
    """Permissions as a stored command holds them."""
    return None if permissions is None else pack_permissions(permissions)


def permissions_of(block: bytes | None) -> Permissions | None:
    """The permissions in a stored command."""
    return None if block is None else decode_permissions(PayloadReader(memoryview(block)))


def _delete_topic(state: State, stream: Stream, topic_id: int, effects: Effects) -> None:
    topic = stream.topics.pop(topic_id)
    del stream.topic_names[topic.name]
    stream.topic_ids.release(topic_id)
    for run in topic.runs:
        state.slots.release(run.first_slot, run.count)
        effects.removed.append(RunRemoved(stream.id, topic_id, run))
    effects.groups_removed.extend(GroupRef(stream.id, topic_id, id) for id in topic.groups)
    effects.topics_removed.append(TopicRef(stream.id, topic_id))
    _end_attachment(state, topic, effects)


def _end_attachment(state: State, topic: Topic, effects: Effects) -> None:
    """There is no stream of Liftbridge under the name of the topic any more."""
    if not isinstance(topic.attachment, msgspec.UnsetType):
        effects.attachments_changed = True
        state.seen_bridge.stream_gone(topic.name)


def _purge_topic(stream_id: int, topic: Topic, effects: Effects) -> None:
    for at, old in enumerate(topic.runs):
        new = replace(old, birth=effects.index)
        topic.runs[at] = new
        effects.purged.append(RunPurged(stream_id, topic.id, old, new))


def _add_run(state: State, topic: Topic, count: int, timestamp: int, birth: int) -> None:
    assert count > 0
    first_slot = state.slots.take(count)
    topic.runs.append(Run(topic.partitions_count, count, birth, first_slot, timestamp))


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


def _take(pool: IdPool, id: int, is_chosen: bool) -> None:
    """Take the id the entry names: a free one, or the one the pool would give; both is checked."""
    if is_chosen:
        assert pool.is_free(id), f"id {id} in the log, which is taken"
        pool.take_this(id)
        return
    taken = pool.take()
    assert taken == id, f"id {id} in the log, {taken} would be next"


def _name(names: dict[str, int], name: str, id: int) -> None:
    assert name not in names, f"{name!r} is taken"
    names[name] = id


def _rename(names: dict[str, int], old: str, new: str, id: int) -> None:
    del names[old]
    _name(names, new, id)
