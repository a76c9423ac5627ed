"""What a shard knows about streams, topics, partitions, groups, users and tokens.

Every shard holds its own State. `apply` alone changes it, from log entries, so all copies that
have applied the same index are equal; everybody else only looks. Hold no part of it across an
`await`: look it up again.

Partitions are not objects here. A topic holds runs of them: one run per entry that created
partitions, so a million partitions cost as much memory as the commands that made them.

Always: every id is the key of its object, every name leads to exactly one id, the partitions of a
topic are 0 .. partitions_count - 1 without gaps, and no two live runs share a board slot.
"""

from bisect import bisect_right
from operator import attrgetter
from typing import Final, NamedTuple

import msgspec

from borzoi.protocol.errors import (
    BrokerError,
    ConsumerGroupIdNotFound,
    ConsumerGroupNameNotFound,
    NoPartitions,
    PartitionNotFound,
    ResourceNotFound,
    StreamIdNotFound,
    StreamNameNotFound,
    TopicIdNotFound,
    TopicNameNotFound,
)
from borzoi.protocol.identifiers import Identifier
from borzoi.protocol.permissions import Permissions
from borzoi.shards.attached.attachment import Attachment, BridgeState
from borzoi.shards.metadata.requests import (
    LastRequests,
    Made,
    RequestKey,
    find_made,
    forget_made,
    remember_made,
)
from borzoi.shards.metadata.slots import IdPool, SlotRanges

ROOT_USER_ID: Final = 0


class Run(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Partitions made by one entry: `count` ids and as many slots, both consecutive.

    `birth` is the index of the entry that created or last purged them. It names the data: ids
    come back, births do not.
    """

    first_partition: int
    count: int
    birth: int
    first_slot: int
    created_at: int


class BoardPlace(NamedTuple):
    """Where a partition's words stand on the board, and the birth they must carry there."""

    birth: int
    slot: int


class Group(msgspec.Struct):
    """A consumer group by name. Its members belong to shard 0 and are not logged.

    `birth` is the index of the entry that created it: ids come back, births do not.
    """

    id: int
    name: str
    created_at: int
    birth: int


class Topic(msgspec.Struct):
    """A topic and its partitions, as runs in ascending order. Expiry in us, size in bytes."""

    id: int
    name: str
    created_at: int
    compression_algorithm: int
    message_expiry: int
    max_topic_size: int
    replication_factor: int
    compression_since: int = 0  # when the algorithm was changed, in us; 0 = it never was
    runs: list[Run] = []
    groups: dict[int, Group] = {}
    group_names: dict[str, int] = {}
    group_ids: IdPool = msgspec.field(default_factory=IdPool)
    # Not in the bytes of a state while there are none: most topics have none, and older ones had
    # no field for them.
    given_options: bytes | msgspec.UnsetType = msgspec.UNSET
    attachment: Attachment | msgspec.UnsetType = msgspec.UNSET

    @property
    def attached(self) -> Attachment:
        """What Liftbridge knows of the topic, which is one of its streams."""
        if isinstance(self.attachment, msgspec.UnsetType):
            raise TopicIdNotFound(f"topic {self.id} is no stream of Liftbridge")
        return self.attachment

    @property
    def options(self) -> bytes:
        """The explicit options (topic_options.py), b"" if there are none."""
        return self.given_options or b""

    @property
    def partitions_count(self) -> int:
        """How many partitions there are; also the id the next one will get."""
        if not self.runs:
            return 0
        last = self.runs[-1]
        return last.first_partition + last.count

    def find_run(self, partition_id: int) -> Run | None:
        """The run a partition belongs to, None if there is no such partition."""
        if not 0 <= partition_id < self.partitions_count:
            return None
        if len(self.runs) == 1:
            return self.runs[0]
        return self.runs[bisect_right(self.runs, partition_id, key=_first_partition) - 1]

    def find_partition(self, partition_id: int) -> BoardPlace | None:
        """Birth and board slot of a partition, None if there is no such partition."""
        run = self.find_run(partition_id)
        if run is None:
            return None
        return BoardPlace(run.birth, run.first_slot + partition_id - run.first_partition)

    def partition(self, partition_id: int) -> BoardPlace:
        """Birth and board slot of a partition."""
        place = self.find_partition(partition_id)
        if place is None:
            older_status = None if self.runs else NoPartitions.status
            raise PartitionNotFound(
                f"topic {self.id} has no partition {partition_id}", older_status
            )
        return place

    def find_group(self, identifier: Identifier) -> Group | None:
        """The group of that id or name, None if there is none."""
        id = identifier if isinstance(identifier, int) else self.group_names.get(identifier, -1)
        return self.groups.get(id)

    def group(self, identifier: Identifier) -> Group:
        """The group of that id or name."""
        group = self.find_group(identifier)
        if group is None:
            raise ConsumerGroupIdNotFound(
                f"topic {self.id} has no group {identifier!r}",
                _if_name(identifier, ConsumerGroupNameNotFound),
            )
        return group


class Stream(msgspec.Struct):
    """A stream and its topics."""

    id: int
    name: str
    created_at: int
    topics: dict[int, Topic] = {}
    topic_names: dict[str, int] = {}
    topic_ids: IdPool = msgspec.field(default_factory=IdPool)

    def find_topic(self, identifier: Identifier) -> Topic | None:
        """The topic of that id or name, None if there is none."""
        id = identifier if isinstance(identifier, int) else self.topic_names.get(identifier, -1)
        return self.topics.get(id)

    def topic(self, identifier: Identifier) -> Topic:
        """The topic of that id or name."""
        topic = self.find_topic(identifier)
        if topic is None:
            raise TopicIdNotFound(
                f"stream {self.id} has no topic {identifier!r}",
                _if_name(identifier, TopicNameNotFound),
            )
        return topic


class Token(msgspec.Struct, frozen=True):
    """A personal access token. `expiry_at` in microseconds since 1970, 0 for never."""

    name: str
    hash: str
    expiry_at: int

    def expired(self, now: int) -> bool:
        """Whether the token is no longer good at `now`."""
        return self.expiry_at != 0 and self.expiry_at <= now


class User(msgspec.Struct):
    """An account that may log in. Permissions name ids of streams that may or may not exist."""

    id: int
    username: str
    password_hash: str
    status: int
    created_at: int
    permissions: Permissions | None = None
    tokens: dict[str, Token] = {}


class TokenOwner(NamedTuple):
    """Where a token hash leads to."""

    user_id: int
    name: str


class State(msgspec.Struct):
    """All of it, free ids and slots too: equal states stay equal whatever is applied next."""

    streams: dict[int, Stream] = {}
    stream_names: dict[str, int] = {}
    stream_ids: IdPool = msgspec.field(default_factory=IdPool)
    users: dict[int, User] = {}
    usernames: dict[str, int] = {}
    user_ids: IdPool = msgspec.field(default_factory=IdPool)
    token_owners: dict[str, TokenOwner] = {}
    slots: SlotRanges = msgspec.field(default_factory=SlotRanges)
    # Not there until a client has numbered a change: files without one are as they always were.
    requests: LastRequests | msgspec.UnsetType = msgspec.UNSET
    # The same: not there until Liftbridge has a cursor or a group.
    bridge: BridgeState | msgspec.UnsetType = msgspec.UNSET

    def find_stream(self, identifier: Identifier) -> Stream | None:
        """The stream of that id or name, None if there is none."""
        id = identifier if isinstance(identifier, int) else self.stream_names.get(identifier, -1)
        return self.streams.get(id)

    def stream(self, identifier: Identifier) -> Stream:
        """The stream of that id or name."""
        stream = self.find_stream(identifier)
        if stream is None:
            raise StreamIdNotFound(
                f"there is no stream {identifier!r}", _if_name(identifier, StreamNameNotFound)
            )
        return stream

    def find_topic(self, stream: Identifier, topic: Identifier) -> Topic | None:
        """The topic, None if it or its stream does not exist."""
        found = self.find_stream(stream)
        return None if found is None else found.find_topic(topic)

    def topic(self, stream: Identifier, topic: Identifier) -> Topic:
        """The topic; the error says whether it or its stream is missing."""
        return self.stream(stream).topic(topic)

    def find_user(self, identifier: Identifier) -> User | None:
        """The user of that id or name, None if there is none."""
        id = identifier if isinstance(identifier, int) else self.usernames.get(identifier, -1)
        return self.users.get(id)

    def user(self, identifier: Identifier) -> User:
        """The user of that id or name."""
        user = self.find_user(identifier)
        if user is None:
            raise ResourceNotFound(f"there is no user {identifier!r}")
        return user

    def made_by(self, user_id: int, request: RequestKey) -> Made | None:
        """What a numbered request of a user has made; None if it made nothing, as far as known."""
        if isinstance(self.requests, msgspec.UnsetType):
            return None
        return find_made(self.requests, user_id, request)

    def remember_request(self, user_id: int, request: RequestKey, entry: int, new_id: int) -> None:
        """A numbered request has made this."""
        if isinstance(self.requests, msgspec.UnsetType):
            self.requests = {}
        remember_made(self.requests, user_id, request, entry, new_id)

    def make_bridge(self) -> BridgeState:
        """The cursors and groups of Liftbridge, to be changed."""
        if isinstance(self.bridge, msgspec.UnsetType):
            self.bridge = BridgeState()
        return self.bridge

    @property
    def seen_bridge(self) -> BridgeState:
        """The cursors and groups of Liftbridge, to be looked at."""
        return BridgeState() if isinstance(self.bridge, msgspec.UnsetType) else self.bridge

    def forget_requests(self, user_id: int) -> None:
        """The user is gone."""
        if not isinstance(self.requests, msgspec.UnsetType):
            forget_made(self.requests, user_id)

    def find_token(self, hash: str) -> tuple[User, Token] | None:
        """Whose token that is. It may have expired: ask it."""
        owner = self.token_owners.get(hash)
        if owner is None:
            return None
        user = self.users[owner.user_id]
        return user, user.tokens[owner.name]


def _if_name(identifier: Identifier, error: type[BrokerError]) -> int | None:
    """The status for older clients, where a name is not found."""
    return error.status if isinstance(identifier, str) else None


_first_partition: Final = attrgetter("first_partition")
