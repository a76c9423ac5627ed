"""Values as terminals and programs read them: lines and tables, or JSON.

JSON has every field under the name it has in the code. Numbers are numbers (times in microseconds
since 1970, sizes in bytes), and enumerations are lower-case words. Bytes are text where they are
UTF-8, otherwise base64 under the name with `_base64` added; a field of bytes that is empty is left
out, because only other generations of the wire have it. What a thing consists of is beside its own
fields: a stream has its `topics`.

Always: lines hold text as it came, and columns are as wide as their escaped text. Escaping is the
work of terminal.py, and so is leaving it out for --raw.
"""

import base64
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from datetime import UTC, datetime
from enum import Enum
from typing import Any, Final, NamedTuple, Protocol, TypeGuard, runtime_checkable

from borzoi.protocol.headers import header_scalar
from borzoi.protocol.identifiers import U64_MAX
from borzoi.protocol.message import Message
from borzoi.protocol.responses import (
    ClientDetails,
    ConsumerGroupDetails,
    StreamDetails,
    TopicDetails,
    UserDetails,
)
from borzoi.quantities import DAY, GIB, HOUR, KIB, MIB, MILLISECOND, MINUTE, SECOND
from borzoi.terminal import say, say_json
from borzoi.visible import AS_BYTES, visible

# These hold a thing and its parts; the thing's own fields are shown beside the parts.
DETAILS: Final = (
    ClientDetails,
    ConsumerGroupDetails,
    StreamDetails,
    TopicDetails,
    UserDetails,
)
TIMES: Final = frozenset({"created_at", "start_time", "timestamp", "origin_timestamp", "expiry_at"})
SIZES: Final = frozenset(
    {
        "size_bytes", "messages_size_bytes", "read_bytes", "written_bytes", "memory_usage",
        "total_memory", "available_memory", "free_disk_space", "total_disk_space", "max_topic_size",
    }
)  # fmt: skip
DURATIONS: Final = frozenset({"run_time", "message_expiry"})
PERCENT: Final = frozenset({"cpu_usage", "total_cpu_usage"})
"""How numbers of these names are shown in lines; JSON has them as they are."""
SERVER_DEFAULT: Final = 0
CODECS: Final = {1: "none", 2: "gzip", 3: "lz4", 4: "zstd"}
WORDS: Final[Mapping[bool | None, str]] = {None: "-", True: "yes", False: "no"}


@dataclass(frozen=True, slots=True)
class Said:
    """What a command has to say that changes something and returns nothing.

    Programs read `about`, too: what was done, to what.
    """

    message: str
    about: Mapping[str, Any] = field(default_factory=dict)


class Written(NamedTuple):
    """Lines that are written as they are."""

    lines: tuple[str, ...]


def toml_lines(plain: Mapping[str, Any]) -> list[str]:
    """The members of an object as TOML: values first, then lists of objects as tables."""
    lines = [
        f"{name} = {json.dumps(value, ensure_ascii=False)}"
        for name, value in plain.items()
        if not isinstance(value, list | dict) and value is not None
    ]
    for name, value in plain.items():
        for one in value if isinstance(value, list) else ():
            lines += ["", f"[[{name}]]", *toml_lines(one)]
    return lines


@runtime_checkable
class Speaking(Protocol):
    """A value that says itself in one sentence; programs read its fields."""

    @property
    def message(self) -> str:
        """The sentence."""


@dataclass(frozen=True, slots=True)
class MessageAt:
    """A message and where it lies."""

    partition_id: int
    message: Message
    with_headers: bool = True


def show(value: object, *, as_json: bool, raw: bool = False, one_by_one: bool = False) -> None:
    """Prints a value as lines, as a table or as JSON; None prints nothing.

    `one_by_one` prints the things of a list below each other.
    """
    if value is None:
        return
    if as_json:
        say_json(json.dumps(as_plain(value), ensure_ascii=False))
        return
    for line in _lines(value, one_by_one=one_by_one):
        say(line, raw=raw)


def _lines(value: object, *, one_by_one: bool) -> Iterable[str]:
    if isinstance(value, Written):
        return value.lines
    if _speaks(value):
        return [value.message]
    plain = as_plain(value)
    if isinstance(value, list):
        plain = [_with_payload(one, row) for one, row in zip(value, plain, strict=True)]
    if isinstance(plain, list) and not one_by_one:
        return table(plain)
    if isinstance(plain, list):
        return [line for one in plain for line in (*card(one), "")][:-1]
    return card(plain) if isinstance(plain, dict) else [f"{plain}"]


def as_plain(value: Any) -> Any:
    """Returns the value as dictionaries, lists and scalars."""
    if _speaks(value):
        return _sentence(value)
    if isinstance(value, MessageAt | Message):
        return _message(value) if isinstance(value, Message) else _message_at(value)
    if isinstance(value, Enum):
        return value.name.lower()
    members = _members(value)
    if members is not None:
        plain = {}
        for name, one in members.items():
            if not isinstance(one, bytes):
                plain[name] = as_plain(one)
            elif one:
                plain |= _bytes(name, one)
        return plain
    if isinstance(value, list | tuple):
        return [as_plain(one) for one in value]
    return value


def _sentence(value: Speaking) -> dict[str, Any]:
    members = _members(value) or {}
    about = members.pop("about", {})
    return {"message": value.message, **members, **about}


def _message_at(value: MessageAt) -> dict[str, Any]:
    plain = {"partition_id": value.partition_id, **_message(value.message)}
    if not value.with_headers:
        del plain["headers"]
    return plain


def _speaks(value: object) -> TypeGuard[Speaking]:
    return isinstance(value, Speaking) and isinstance(value.message, str)


def _members(value: Any) -> dict[str, Any] | None:
    """Returns the named parts of a value, None if it has none. Details begin with those of Info."""
    if isinstance(value, DETAILS):
        first, *parts = fields(value)
        members = _members(getattr(value, first.name))
        assert members is not None, "details have an info first"
        return members | {part.name: getattr(value, part.name) for part in parts}
    if is_dataclass(value) and not isinstance(value, type):
        return {one.name: getattr(value, one.name) for one in fields(value)}
    if isinstance(value, tuple) and hasattr(value, "_asdict"):
        return dict(value._asdict())
    if isinstance(value, Mapping):
        return {str(key): one for key, one in value.items()}
    return None


def card(thing: Mapping[str, Any]) -> list[str]:
    """One thing: its fields as lines, then its parts as tables."""
    flat = {name: value for name, value in thing.items() if not isinstance(value, list | dict)}
    width = max(map(len, flat), default=0)
    lines = [f"{name:{width}}  {_text(name, value)}" for name, value in flat.items()]
    for name, value in thing.items():
        if isinstance(value, list):
            lines += ["", f"{name}:", *_indented(table(value))]
        elif isinstance(value, dict):
            lines += ["", f"{name}:", *_indented(card(value))]
    return lines


def table(rows: Sequence[Any]) -> list[str]:
    """Many things of one kind, one line each."""
    if not rows:
        return ["(none)"]
    if not isinstance(rows[0], dict):
        return [str(row) for row in rows]
    names = list(dict.fromkeys(name for row in rows for name in row))
    lines = [names, *[[_text(name, row.get(name)) for name in names] for row in rows]]
    lengths = [[len(visible(cell)) for cell in line] for line in lines]
    widths = [max(column) for column in zip(*lengths, strict=True)]
    return [
        "  ".join(
            cell + " " * (width - length)
            for cell, width, length in zip(line, widths, of_line, strict=True)
        ).rstrip(" ")
        for line, of_line in zip(lines, lengths, strict=True)
    ]


def _text(name: str, value: Any) -> str:
    if value is None or isinstance(value, bool):
        return "never" if name == "expiry_at" and value is None else WORDS[value]
    if isinstance(value, list | tuple):
        return ", ".join(_text(name, one) for one in value)
    if isinstance(value, dict):
        return json.dumps(value, ensure_ascii=False)
    if name in TIMES and isinstance(value, int):
        return time_text(value)
    if isinstance(value, float):
        return f"{value:.1f} %" if name in PERCENT else f"{value:.2f}"
    return _number(name, value) if type(value) is int else str(value)


def _number(name: str, value: int) -> str:
    if name in ("message_expiry", "max_topic_size") and value in (U64_MAX, SERVER_DEFAULT):
        never = "never" if name == "message_expiry" else "unlimited"
        return never if value == U64_MAX else "server default"
    if name in SIZES:
        return size_text(value)
    if name in DURATIONS:
        return duration_text(value)
    if name == "compression_algorithm":
        return CODECS.get(value, f"unknown ({value})")
    return str(value)


def size_text(size: int) -> str:
    """A size to three digits, such as 1.46 GiB."""
    for unit, of_unit in (("TiB", 1 << 40), ("GiB", GIB), ("MiB", MIB), ("KiB", KIB)):
        if size >= of_unit:
            few = size < 1000 * of_unit
            return f"{size / of_unit:.3g} {unit}" if few else f"{size // of_unit} {unit}"
    return f"{size} B"


def duration_text(duration_us: int) -> str:
    """A duration in its two largest units: 1 h 30 min, 13 min 49 s, 250 ms."""
    if duration_us < SECOND:
        return f"{duration_us / MILLISECOND:.3g} ms"
    parts: list[str] = []
    left = duration_us
    for unit, of_unit in (("d", DAY), ("h", HOUR), ("min", MINUTE), ("s", SECOND)):
        count, left = divmod(left, of_unit)
        if count or parts:
            parts.append(f"{count} {unit}" if count else "")
    return " ".join(part for part in parts[:2] if part)


def time_text(time_us: int) -> str:
    """Returns a timestamp in UTC, to the microsecond; the number if it is no date."""
    seconds, microseconds = divmod(time_us, 1_000_000)
    try:
        moment = datetime.fromtimestamp(seconds, UTC)
    except (OverflowError, ValueError):  # a client may have sent any number
        return str(time_us)
    return f"{moment:%Y-%m-%d %H:%M:%S}.{microseconds:06}Z"


def _indented(lines: Iterable[str]) -> list[str]:
    return [f"  {line}" for line in lines]


def _message(message: Message) -> dict[str, Any]:
    headers: Iterable[tuple[Any, Any]] = message.headers.items()
    pairs = {str(header_scalar(key)): header_scalar(value) for key, value in headers}
    return {
        "offset": message.offset,
        "timestamp": message.timestamp,
        "origin_timestamp": message.origin_timestamp,
        "id": str(message.id),  # 128 bits are more than JSON's readers can be trusted with
        **_bytes("payload", message.payload),
        "headers": {
            key: base64.b64encode(value).decode() if isinstance(value, bytes) else value
            for key, value in pairs.items()
        },
    }


def _with_payload(value: object, row: Any) -> Any:
    """The row of a message with its payload as text in any case; other rows as they are."""
    if not isinstance(value, MessageAt):
        return row
    payload = payload_text(value.message)
    return {
        "payload" if name == "payload_base64" else name: payload
        if name.startswith("payload")
        else one
        for name, one in row.items()
    }


def payload_text(message: Message) -> str:
    """Bytes that are no UTF-8 stand for themselves, so that --raw gives them back."""
    return message.payload.decode("utf-8", AS_BYTES)


def _bytes(name: str, value: bytes) -> dict[str, str]:
    try:
        return {name: value.decode()}
    except UnicodeDecodeError:
        return {f"{name}_base64": base64.b64encode(value).decode()}
