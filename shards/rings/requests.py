"""Requests between shards: one small class per kind, eight words in a ring slot, no payload.

A request:
    word 0   kind (bits 0..7) | option (bits 8..31) | generation of the lender (bits 32..63)
    word 1   request id, chosen by the asking shard, unique as long as it waits for the reply:
             where the request of its client lies (bits 0..39, in_work.py) | a number (bits 40..63)
    words 2..7   the fields of the class, in their order; a partition is two words, its namespace
                 and its birth. Only polls need an option.
A reply:
    word 0   status (bits 0..31) | generation of the answering shard (bits 32..63)
    word 1   request id                          words 2..4   results

A kind is defined in the room that carries it out, and named once in run/ring_table.py. Both ends
of a ring run the same code, so the order of fields is known to both.

A kind that lends has `position` and `length` as its last two fields. They mean the arena of the
shard that asks: it lends a buffer with the request and gets it back with the reply, or by the
death of the peer, never by a timeout.
"""

from collections.abc import Callable
from enum import Enum, auto
from typing import Any, ClassVar, Final, Generic, Protocol, Self, TypeVar

import msgspec
from msgspec.structs import astuple

from borzoi.router.target import Target
from borzoi.shards.rings.poll import Poll

At = TypeVar("At")

NO_SLOT: Final = -1
"""The slot of a target that came over a ring: its owner looks it up (ports/owners.py)."""


class DeathRule(Enum):
    """What becomes of a request whose peer died before it answered."""

    RESUBMIT = auto()  # show it to the successor: repeating it does no harm
    REREAD = auto()  # the same; it changes nothing, so an error is the truth if that takes too long
    FAIL = auto()  # answer ShardCommunicationError: it may have taken effect
    COMPLETE = auto()  # a dead shard has nothing left to do here


class Done(Protocol):
    """How an operation ends: status (0 = success) and up to three results."""

    def __call__(self, status: int, first: int = 0, second: int = 0, third: int = 0, /) -> None:
        """Called exactly once."""


def ignore(_status: int, _first: int = 0, _second: int = 0, _third: int = 0) -> None:
    """The `done` of a request whose outcome changes nothing at the shard that asks."""


class Request(msgspec.Struct):
    """One request. All fields are whole numbers; a bool comes back as 0 or 1."""

    KIND: ClassVar[int]
    RULE: ClassVar[DeathRule] = DeathRule.RESUBMIT
    LENDS: ClassVar[bool] = False
    OF_CLIENT: ClassVar[bool] = False
    """Whether a client chose what is in it: peers may die of it, so it is not repeated for ever."""
    IS_BATCH: ClassVar[bool] = False
    """Whether the bytes of the client stay where they are until the reply."""

    def words(self, head: int, request_id: int) -> tuple[int, ...]:
        """What is pushed; `head` is word 0 without the kind."""
        return (head | self.KIND, request_id, *astuple(self))

    @classmethod
    def of_words(cls, words: tuple[int, ...]) -> Self:
        """The request that eight words mean."""
        make: Callable[..., Self] = cls
        return make(*words[2 : 2 + len(cls.__struct_fields__)])

    def rule(self) -> DeathRule:
        """What becomes of this request if its peer dies."""
        return self.RULE

    def submit_again(self) -> None:
        """Note in the request that a peer has died with it."""


class OfPartition(Request):
    """A request to the owner of a partition."""

    target: Target

    def words(self, head: int, request_id: int) -> tuple[int, ...]:
        """What is pushed; `head` is word 0 without the kind."""
        target, *rest = astuple(self)
        return (head | self.KIND, request_id, target.namespace, target.birth, *rest)

    @classmethod
    def of_words(cls, words: tuple[int, ...]) -> Self:
        """The request that eight words mean; its target has no slot yet."""
        make: Callable[..., Self] = cls
        target = Target(words[2], words[3], NO_SLOT)
        return make(target, *words[4 : 3 + len(cls.__struct_fields__)])


class AtOwner(OfPartition, Generic[At]):
    """A request that says itself how the owner of the partition carries it out, with an `At`."""

    def carry_out(self, at: At, done: Done) -> None:
        """Do it, on the shard that owns the partition."""
        raise NotImplementedError


class PollAtOwner(AtOwner[At]):
    """A poll that the owner of the partition decides."""

    OF_CLIENT = True

    poll: Poll

    def rule(self) -> DeathRule:
        """A poll that commits may have committed: repeated, it would skip what it had found."""
        return DeathRule.FAIL if self.poll.auto_commit else DeathRule.REREAD


class Telling(Request):
    """A request to write something into the lent buffer; the first result is its size."""

    LENDS = True
    RULE = DeathRule.COMPLETE

    position: int
    length: int


class Append(Request):
    """Append the batch that is lent. All fields are plain: this is the one kind with a rate."""

    KIND = 1
    LENDS = True
    OF_CLIENT = True
    IS_BATCH = True

    namespace: int
    birth: int
    message_count: int
    is_resubmitted: int
    """The owner died with this batch in its hands: it may be on disk already."""
    position: int
    length: int

    def submit_again(self) -> None:
        """Let the successor look whether its predecessor has written the batch."""
        self.is_resubmitted = 1


class AppendAt(Request):
    """Append the message that is lent, if it gets the offset that is expected."""

    KIND = 37
    LENDS = True
    OF_CLIENT = True
    IS_BATCH = True

    namespace: int
    birth: int
    expected: int
    is_resubmitted: int
    position: int
    length: int

    def submit_again(self) -> None:
        """Let the successor look whether its predecessor has written the message."""
        self.is_resubmitted = 1


Serve = Callable[[int, Any, memoryview, Done], None]
"""Carries out a request of a peer: asking shard, request, what it lends, how to answer."""
