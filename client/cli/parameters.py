"""The parameters of commands: names or ids, durations, sizes, permissions, headers."""

from collections.abc import Callable
from dataclasses import fields, replace
from typing import Any, Final

import click

from borzoi.protocol.errors import BrokerError
from borzoi.protocol.headers import HeaderField, HeaderKind, HeaderScalar, header_field
from borzoi.protocol.identifiers import U64_MAX, Identifier
from borzoi.protocol.permissions import (
    GlobalPermissions,
    Permissions,
    StreamPermissions,
    TopicPermissions,
)
from borzoi.quantities import parse_duration_us, parse_size

SERVER_DEFAULT: Final = frozenset({"default", "server_default"})
WITHOUT_END: Final = frozenset({"none", "never", "unlimited"})

# The short names of iggy's command line.
SHORT_RIGHTS: Final = {
    "m_srv": "manage_servers",
    "r_srv": "read_servers",
    "m_usr": "manage_users",
    "r_usr": "read_users",
    "m_str": "manage_streams",
    "r_str": "read_streams",
    "m_top": "manage_topics",
    "r_top": "read_topics",
    "p_msg": "poll_messages",
    "s_msg": "send_messages",
}
COMPRESSIONS: Final = {"none": 1, "gzip": 2, "lz4": 3, "zstd": 4}


def identifier(text: str) -> Identifier:
    """Digits are an id, everything else is a name."""
    return int(text) if text.isascii() and text.isdigit() else text


def duration_us(text: str) -> int:
    """`1h 30m`, `10s`; with `never` and `default` as the wire has them."""
    return _quantity(text, "duration", lambda text: parse_duration_us(text.rstrip()))


def expiry_argument(default: str) -> Callable[..., Any]:
    """A duration that may be several words long, as the last argument of a command."""

    def joined(_ctx: click.Context, _param: click.Parameter, words: tuple[str, ...]) -> int:
        try:
            return duration_us(" ".join(words) or default)
        except ValueError as error:
            raise click.BadParameter(f"{error}") from error

    return click.argument("expiry", nargs=-1, metavar="[EXPIRY]...", callback=joined)


def stream_and_topic(text: str) -> tuple[Identifier, Identifier]:
    """`STREAM/TOPIC`; a topic may have slashes in its name, a stream then not."""
    stream, _, topic = text.partition("/")
    if not stream or not topic:
        raise ValueError(f"{text!r} is not STREAM/TOPIC")
    return identifier(stream), identifier(topic)


def size_bytes(text: str) -> int:
    """`1000`, `10 GiB`; with `unlimited` and `default` as the wire has them."""
    return _quantity(text, "size", parse_size)


def global_permissions(text: str) -> GlobalPermissions:
    """Names with commas between them, long or short."""
    granted: GlobalPermissions = _granted(GlobalPermissions(), text)
    return granted


def stream_permissions(text: str) -> tuple[int, StreamPermissions]:
    """`STREAM[:rights][#TOPIC[:rights]]...`, ids only: that is what the server keeps."""
    head, *topics = text.split("#")
    stream, _, rights = head.partition(":")
    granted = _granted(StreamPermissions(), rights)
    found = {}
    for part in topics:
        topic, _, topic_rights = part.partition(":")
        found[_id("topic", topic)] = _granted(TopicPermissions(), topic_rights)
    return _id("stream", stream), replace(granted, topics=found)


def permissions(
    of_all: GlobalPermissions | None, of_streams: tuple[tuple[int, StreamPermissions], ...]
) -> Permissions | None:
    """Returns the permissions of the options; None if none was given."""
    if of_all is None and not of_streams:
        return None
    return Permissions(of_all or GlobalPermissions(), dict(of_streams))


def header(text: str) -> tuple[HeaderField, HeaderField]:
    """`key:kind:value`, the kinds being those of the wire in lower case."""
    key, _, rest = text.partition(":")
    kind_name, colon, value_text = rest.partition(":")
    if not colon or kind_name.upper() not in HeaderKind.__members__:
        kinds = ", ".join(kind.lower() for kind in HeaderKind.__members__)
        raise ValueError(f"{text!r} is no header: key:kind:value with one of {kinds} is needed")
    kind = HeaderKind[kind_name.upper()]
    return header_field(key), header_field(_scalar(kind, value_text), kind)


class Parsed(click.ParamType):  # type: ignore[type-arg]  # not generic in all its versions
    """A parameter that one of the functions above reads."""

    def __init__(self, name: str, parse: Callable[[str], Any]) -> None:
        self.name = name
        self._parse = parse

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Returns the parsed text of a parameter; a text that does not parse is a usage error."""
        if not isinstance(value, str):
            return value  # a default
        try:
            return self._parse(value)
        except (ValueError, BrokerError) as error:
            self.fail(f"{error}", param, ctx)


IDENTIFIER: Final = Parsed("id or name", identifier)
STREAM_AND_TOPIC: Final = Parsed("stream/topic", stream_and_topic)
SIZE: Final = Parsed("size", size_bytes)
GLOBAL_PERMISSIONS: Final = Parsed("rights", global_permissions)
STREAM_PERMISSIONS: Final = Parsed("stream:rights#topic:rights", stream_permissions)
HEADER: Final = Parsed("key:kind:value", header)


def _quantity(text: str, what: str, parse: Callable[[str], int]) -> int:
    lowered = text.lower()
    if lowered in SERVER_DEFAULT:
        return 0
    if lowered in WITHOUT_END:
        return U64_MAX
    try:
        return parse(lowered)
    except ValueError as error:
        raise ValueError(f"{text!r} is no {what}: {error}") from error


def _granted(nothing: Any, text: str) -> Any:
    """`nothing` with the rights that the text names."""
    known = {one.name for one in fields(nothing) if one.name != "topics"}
    rights = {}
    for word in filter(None, text.split(",")):
        name = SHORT_RIGHTS.get(word, word)
        # Short names are those of all streams; one stream's are spelt without the s.
        name = name if name in known else name.removesuffix("s")
        if name not in known:
            raise ValueError(f"{word!r} is no right; {', '.join(sorted(known))} are")
        rights[name] = True
    return replace(nothing, **rights)


def _id(what: str, text: str) -> int:
    number = identifier(text)
    if not isinstance(number, int):
        raise ValueError(f"{text!r} is no id of a {what}; permissions are given by id")
    return number


def _scalar(kind: HeaderKind, text: str) -> HeaderScalar:
    match kind:
        case HeaderKind.RAW:
            return text.encode()
        case HeaderKind.STRING:
            return text
        case HeaderKind.BOOL:
            if text not in ("true", "false"):
                raise ValueError(f"{text!r} is neither true nor false")
            return text == "true"
        case HeaderKind.FLOAT32 | HeaderKind.FLOAT64:
            return float(text)
        case _:
            return int(text)
