"""What one shard writes into a ring slot for another: eight words, never a payload.

A request:
    word 0   kind (bits 0..7) | option (bits 8..31) | generation of the lender (bits 32..63)
    word 1   request id, chosen by the asking shard, unique while it lives
    word 2   namespace of the partition          word 3   birth of the partition
    word 4   position in the lender's arena      word 5   length of what lies there
    word 6   first argument                      word 7   second argument
A reply:
    word 0   status (bits 0..31) | generation of the answering shard (bits 32..63)
    word 1   request id                          words 2..7   results

Positions mean the arena of the shard that asks: it lends a buffer with the request and gets
it back with the reply, or by the death of the peer, never by a timeout.
"""

from enum import IntEnum
from typing import NamedTuple, Protocol, TypeAlias

from borzoi.shards.poll import Poll


class RequestKind(IntEnum):
    """What is asked of a peer, with the meaning of its arguments."""

    APPEND = 1  # batch at position/length; first = message count; option = RESUBMITTED or 0
    # first = value, second = count | consumer << 32,
    # option = strategy | consumer kind << 8 | auto-commit << 16
    RESOLVE_POLL = 2
    STORE_OFFSET = 3  # first = offset, second = consumer, option = consumer kind
    GET_OFFSET = 4  # second = consumer, option = consumer kind
    DELETE_OFFSET = 5  # second = consumer, option = consumer kind
    FLUSH = 6  # option = 1 asks for fdatasync as well
    PROPOSE = 7  # to shard 0: command at position/length, first = code, second = user
    BARRIER = 8  # apply the metadata log up to index `first`, unlink what it removed
    CLIENTS = 9  # write the connected clients into the lent buffer
    FLUSH_JOURNALS = 10  # durability "buffered" only: write everything that is in memory
    DELETE_SEGMENTS = 11  # first = how many of the oldest
    DELETE_UP_TO = 12  # segments that end at offset `first` or before; option = 1: even unread
    SEGMENTS = 13  # write the sealed segments into the lent buffer
    CHECK_INDEX = 14  # of the segment whose first offset is `first`


RESUBMITTED = 1
"""Option of APPEND: the owner died with this batch in its hands, it may be on disk already."""


class Request(NamedTuple):
    """A request as its eight words mean it."""

    kind: int
    option: int
    generation: int
    request_id: int
    namespace: int
    birth: int
    position: int
    length: int
    first: int
    second: int


Words: TypeAlias = tuple[int, int, int, int, int, int, int, int]


class Done(Protocol):
    """How an operation ends: status (0 = success) and up to three results."""

    def __call__(self, status: int, first: int = 0, second: int = 0, third: int = 0, /) -> None:
        """Called exactly once."""


def pack_request(request: Request) -> Words:
    """The eight words of a request."""
    return (
        request.kind | request.option << 8 | request.generation << 32,
        request.request_id,
        request.namespace,
        request.birth,
        request.position,
        request.length,
        request.first,
        request.second,
    )


def unpack_request(words: tuple[int, ...]) -> Request:
    """The request that eight words mean."""
    head = words[0]
    # As Request._make does; it runs for every batch that a peer lends.
    return tuple.__new__(Request, (head & 0xFF, head >> 8 & 0xFFFFFF, head >> 32, *words[1:]))


def pack_reply(status: int, generation: int, request_id: int, results: tuple[int, ...]) -> Words:
    """The eight words of a reply with up to three results."""
    first, second, third = results
    return (status | generation << 32, request_id, first, second, third, 0, 0, 0)


def poll_option(poll: Poll) -> int:
    """How RESOLVE_POLL says its strategy, consumer kind and auto-commit."""
    return poll.strategy | poll.consumer_kind << 8 | poll.auto_commit << 16


def poll_of(request: Request) -> Poll:
    """The poll that a RESOLVE_POLL means."""
    option, who = request.option, request.second
    return Poll(
        strategy=option & 0xFF,
        value=request.first,
        count_max=who & 0xFFFFFFFF,
        consumer_kind=option >> 8 & 0xFF,
        consumer=who >> 32,
        auto_commit=bool(option >> 16 & 1),
    )
