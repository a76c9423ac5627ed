"""What one shard writes into a ring slot for another: eight words, never a payload.

A request:
    word 0   kind (bits 0..7) | option (bits 8..31) | generation of the lender (bits 32..63)
    word 1   request id, chosen by the asking shard, unique as long as it waits for the reply:
             where the request of its client lies (bits 0..39, in_work.py) | a number (bits 40..63)
    word 2   namespace of the partition          word 3   birth of the partition
    word 4   position in the lender's arena      word 5   length of what lies there
             (kinds that lend nothing: third and fourth argument)
    word 6   first argument                      word 7   second argument
A reply:
    word 0   status (bits 0..31) | generation of the answering shard (bits 32..63)
    word 1   request id                          words 2..7   results

Positions mean the arena of the shard that asks: it lends a buffer with the request and gets
it back with the reply, or by the death of the peer, never by a timeout.
"""

from enum import IntEnum
from typing import NamedTuple, Protocol, TypeAlias

from borzoi.shards.rings.poll import Poll


class RequestKind(IntEnum):
    """What is asked of a peer, with the meaning of its arguments."""

    APPEND = 1  # batch at position/length; first = message count; option = RESUBMITTED or 0
    # first = value, second = count | consumer << 32, third = user,
    # option = strategy | consumer kind << 8 | auto-commit << 16
    RESOLVE_POLL = 2
    STORE_OFFSET = 3  # first = offset, second = consumer, third = user, option = consumer kind
    GET_OFFSET = 4  # second = consumer, option = consumer kind
    DELETE_OFFSET = 5  # second = consumer, option = consumer kind
    FLUSH = 6  # option = 1 asks for fdatasync as well
    # To shard 0: command at position/length, first = code, second = user, birth = its creation
    PROPOSE = 7
    BARRIER = 8  # apply the metadata log up to index `first`, unlink what it removed
    CLIENTS = 9  # write the connected clients into the lent buffer
    FLUSH_JOURNALS = 10  # durability "buffered" only: write everything that is in memory
    # In the name of a consumer group, to the owner of a partition. All of them:
    # second = group (a poll: count | group << 32), third = epoch, fourth = birth of the group
    GROUP_POLL = 11  # first = value, option as RESOLVE_POLL
    GROUP_STORE = 12  # first = offset
    GROUP_DELETE = 13
    # From shard 0: third = ticket, first = since, option = 1 to wait for no commit
    GROUP_RELEASE = 14
    # About members, to shard 0: namespace = stream and topic, first = client, second = group,
    # fourth = birth of the group
    GROUP_JOIN = 15
    GROUP_LEAVE = 16
    GROUP_ARRIVED = 17  # a member's socket has moved to this shard
    GROUP_MOVING = 18  # first = client, second = the shard it moves to
    GROUP_GONE = 19  # first = client
    GROUP_RELEASED = 20  # from an owner: namespace, second, third = ticket, fourth
    GROUP_MEMBERS = 21  # write the members of groups into the lent buffer; second = group or ALL
    # From shard 0
    GROUP_ASSIGN = 22  # what members hold from now on lies at position/length
    GROUP_REPORT = 23  # write what our members hold into the lent buffer
    # About the segments of a partition, to its owner
    DELETE_SEGMENTS = 32  # first = how many of the oldest
    DELETE_UP_TO = 33  # segments that end at offset `first` or before; option = 1: even unread
    SEGMENTS = 34  # write the sealed segments into the lent buffer
    CHECK_INDEX = 35  # of the segment whose first offset is `first`
    SEGMENT_REPLACED = 36  # to everybody: the log of segment `first` is another file now
    # option = failed or succeeded; digests: first = name and address, second = address,
    # namespace = name
    LOGIN_NOTE = 64
    CACHE_METRICS = 65  # write what was read from memory and what was not into the lent buffer
    UPKEEP = 66  # write what was deleted and archived, as text, into the lent buffer
    METRICS = 67  # write the figures of the shard into the lent buffer


GROUP_KINDS = frozenset(int(kind) for kind in RequestKind if kind.name.startswith("GROUP_"))

LENDING = frozenset(
    {
        int(RequestKind.APPEND),
        int(RequestKind.PROPOSE),
        int(RequestKind.CLIENTS),
        int(RequestKind.GROUP_MEMBERS),
        int(RequestKind.GROUP_ASSIGN),
        int(RequestKind.GROUP_REPORT),
        int(RequestKind.CACHE_METRICS),
        int(RequestKind.SEGMENTS),
        int(RequestKind.UPKEEP),
        int(RequestKind.METRICS),
    }
)
"""The kinds whose words 4 and 5 are a place in the arena of the shard that asks."""


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


def poll_of(request: Request, user: int) -> Poll:
    """The poll that a RESOLVE_POLL or GROUP_POLL means."""
    option, who = request.option, request.second
    return Poll(
        strategy=option & 0xFF,
        value=request.first,
        count_max=who & 0xFFFFFFFF,
        consumer_kind=option >> 8 & 0xFF,
        consumer=who >> 32,
        auto_commit=bool(option >> 16 & 1),
        user=user,
    )
