"""What Liftbridge needs of the broker: streams and their states, append, read, follow.

Times are nanoseconds. A Place is a partition in one life; what is asked of a life that has ended
raises PlaceGone. Whom a call stands for is known before anything is asked.
"""

from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from typing import NamedTuple, Protocol


class Action(Enum):
    """What a user may or may not do with a stream."""

    CREATE = "create"
    DELETE = "delete"
    CHANGE = "change"
    DESCRIBE = "describe"
    PUBLISH = "publish"
    SUBSCRIBE = "subscribe"


class User(NamedTuple):
    """A user in one life of its number: numbers are given out again."""

    id: int
    born: int


class PortError(Exception):
    """The broker refuses what was asked for."""


class NotAllowed(PortError):
    """The user has no permission."""


class AlreadyThere(PortError):
    """There is a stream of that name, or a member of that id."""


class PlaceGone(PortError):
    """The stream or partition is not there, or not any more."""


class ReadOnly(PortError):
    """The partition takes no messages."""


class WrongOffset(PortError):
    """The next message would get another offset than expected."""


class NotAMember(PortError):
    """The group has no such member."""


class OutdatedMember(PortError):
    """A member of the group with a later epoch has the partition."""


class NoGroup(PortError):
    """There is no such group."""


class Unavailable(PortError):
    """It may work when it is tried again; whether it was done is not known."""


class Failed(PortError):
    """The broker could not do it: a full disk, a value out of bounds."""


class Times(NamedTuple):
    """When something happened first and last; 0 if never."""

    first: int = 0
    latest: int = 0


class StreamView(NamedTuple):
    """A stream as it is now."""

    name: str
    subject: str
    group: str
    partitions: int
    created_at: int
    settings: Mapping[str, int]
    paused: frozenset[int]
    resume_all: bool
    readonly: frozenset[int]
    pause_times: Mapping[int, Times]
    readonly_times: Mapping[int, Times]

    @property
    def checks_offsets(self) -> bool:
        """Whether publishers say which offset they expect."""
        return bool(self.settings.get("optimisticConcurrencyControl"))


class NewStream(NamedTuple):
    """A stream to be made; `settings` are those that its client has given, by field name."""

    name: str
    subject: str
    group: str
    partitions: int
    settings: Mapping[str, int]


class Place(Protocol):
    """One partition in one life."""


class Extent(NamedTuple):
    """Which offsets a partition has: from `first` to before `next`."""

    first: int
    next: int


class Run(NamedTuple):
    """Consecutive messages as they are stored."""

    views: Sequence[memoryview]
    first: int
    message_count: int


class GroupView(NamedTuple):
    """A consumer group: the streams of each member."""

    epoch: int
    members: Mapping[str, Sequence[str]]


class Store(Protocol):
    """The broker. Methods raise PortError."""

    @property
    def encrypts(self) -> bool:
        """Whether messages are encrypted at rest."""

    def now_ns(self) -> int:
        """The time."""

    def version(self) -> int:
        """A number that changes whenever streams, groups or permissions do."""

    def streams(self) -> Mapping[str, StreamView]:
        """All streams, by name; the same object as long as the version is the same."""

    def require(self, user: User, action: Action, stream: str | None = None) -> None:
        """Raise NotAllowed unless the user may; without a stream, with all of them."""

    async def create(self, user: User, new: NewStream) -> None:
        """Make a stream; it is there for every shard when this returns."""

    async def delete(self, user: User, stream: str) -> None:
        """Remove a stream and its messages."""

    async def pause(
        self, user: User, stream: str, partitions: Sequence[int], resume_all: bool
    ) -> None:
        """Pause partitions."""

    async def resume(
        self, user: User, stream: str, partitions: Sequence[int], action: Action
    ) -> None:
        """End a pause, as part of an action of the user."""

    async def set_readonly(
        self, user: User, stream: str, partitions: Sequence[int], is_set: bool
    ) -> None:
        """Refuse messages to partitions, or take them again."""

    def place(self, stream: str, partition: int) -> Place:
        """The partition as it lives now."""

    async def append(self, user: User, place: Place, batch: bytearray, count: int) -> int:
        """Append messages as stored.py makes them; the offset of the first."""

    async def append_at(self, user: User, place: Place, batch: bytearray, expected: int) -> None:
        """Append one message if it gets that offset; the owner of the partition compares."""

    async def sync(self, place: Place) -> None:
        """Bring what was appended to the disk."""

    async def settle(self) -> None:
        """Let `extent` show everything that was acknowledged."""

    def extent(self, place: Place) -> Extent:
        """Which offsets the partition has."""

    async def read(self, user: User, place: Place, offset: int, count: int) -> Run:
        """Up to `count` messages from an offset on, or from the oldest one behind it."""

    async def at_time(self, user: User, place: Place, time_ns: int) -> int:
        """The first offset of that time or later; the next one if there is none."""

    async def wait(self, place: Place, offset: int, time_s: float) -> None:
        """Until there is a message at that offset, the place is gone, or time is over."""

    async def set_cursor(self, key: str, offset: int) -> None:
        """Keep a cursor. It is on the disk when this returns."""

    def cursor(self, key: str) -> int | None:
        """What a cursor was set to."""

    def group(self, group: str) -> GroupView | None:
        """A consumer group."""

    async def join(self, group: str, member: str, streams: Sequence[str]) -> int:
        """Add a member; the epoch after that."""

    async def leave(self, group: str, member: str) -> None:
        """Remove a member."""

    async def take_seat(self, seat: str, epoch: int, end: Callable[[], None]) -> Callable[[], None]:
        """Be the one subscriber of a group and partition, until what this returns is called.

        `end` is called when a newer one takes over.
        """

    def heard_of(self, group: str, member: str) -> None:
        """The member lives: it is not removed before its time is over again."""
