"""What a failure is about, in words: the status of an answer, and the arguments of its command.

A broker of our own says it itself behind the status. Any other, and an answer that comes from
another shard, has the status only; then the arguments tell. Pure. Always: what comes out names the
thing that was asked for.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

from borzoi.protocol.errors import BrokerError

NEEDS_LOGIN: Final = (
    "this needs a login: give --username and --password or --token, put them into the address,"
    " BORZOI_SERVER=iggy://NAME:PASSWORD@HOST:PORT, or call `borzoi login`; the account of a new"
    " broker on loopback is iggy:iggy"
)

Arguments = Mapping[str, Any]
Words = Callable[[Arguments], str]


def _stream(given: Arguments) -> str:
    return f"stream {given['stream']}"


def _topic(given: Arguments) -> str:
    return f"topic {given['topic']} of stream {given['stream']}"


def _partition(given: Arguments) -> str:
    number = given.get("partition", given.get("partition_id"))
    of_topic = f"{_topic(given)}"
    return of_topic if number is None else f"partition {number} of {of_topic}"


def _group(given: Arguments) -> str:
    return f"group {given.get('group', given.get('consumer'))} of {_topic(given)}"


def _named(what: str) -> Words:
    return lambda given: f"{what} {given['name']}"


def _missing(words: Words) -> Words:
    return lambda given: f"{words(given)} does not exist"


def _taken(words: Words) -> Words:
    return lambda given: f"{words(given)} exists already"


# For these the arguments say more than the broker, which may speak of ids.
BY_ARGUMENTS: Final = frozenset({"InvalidUsername"})

TEXTS: Final[Mapping[str, Words]] = {
    "StreamIdNotFound": _missing(_stream),
    "StreamNameNotFound": _missing(_stream),
    "TopicIdNotFound": _missing(_topic),
    "TopicNameNotFound": _missing(_topic),
    "PartitionNotFound": _missing(_partition),
    "ConsumerGroupIdNotFound": _missing(_group),
    "ConsumerGroupNameNotFound": _missing(_group),
    "StreamNameAlreadyExists": _taken(_named("stream")),
    "TopicNameAlreadyExists": _taken(
        lambda given: f"topic {given['name']} of stream {given['stream']}"
    ),
    "ConsumerGroupNameAlreadyExists": _taken(
        lambda given: f"group {given['name']} of {_topic(given)}"
    ),
    "UserAlreadyExists": _taken(_named("user")),
    "Unauthorized": lambda given: f"the user lacks the permission for `{given['command']}`",
    "TooManyPartitions": lambda given: (
        f"{given.get('count', given.get('partitions'))} partitions are more than a topic may have"
    ),
    "PersonalAccessTokenAlreadyExists": _taken(_named("token")),
    "ConsumerOffsetNotFound": lambda given: (
        f"{given['kind']} {given['consumer']} has no offset in {_partition(given)}"
    ),
    "InvalidOffset": lambda given: (
        f"{_partition(given)} does not reach to offset {given['offset']}"
    ),
    "InvalidPartitionsCount": lambda given: (
        f"{_topic(given)} has fewer than {given['count']} partitions"
    ),
    "InvalidTopicSize": lambda given: (
        f"--max-topic-size {given['max_topic_size']} is less than one segment has"
    ),
    "InvalidUsername": lambda given: (
        f"the name {given['name']!r} has {len(given['name'].encode())} bytes, 3 to 50 are allowed"
    ),
    "ResourceNotFound": lambda given: (
        f"user {given['user']} does not exist"
        if "user" in given
        else f"you have no token {given['name']}"
    ),
}


def text_of(error: Exception, command: str, arguments: Arguments) -> str:
    """The sentence for an error of a command with these arguments."""
    said = f"{error}" or type(error).__name__
    kind = type(error).__name__
    words = TEXTS.get(kind)
    # The arguments have names where the broker may speak of ids.
    is_ours = kind in BY_ARGUMENTS or kind.endswith(("NotFound", "AlreadyExists"))
    is_named = said != getattr(error, "says", "") and not is_ours
    if not isinstance(error, BrokerError) or words is None or is_named:
        return said
    try:
        return words({**arguments, "command": command})
    except KeyError:  # the command is about something else
        return said
