"""The kinds of values a setting may have, and how each is read from TOML and from the environment.

A kind reads a TOML value, reads the text of an environment variable, and shows a value as TOML.
Pure. Always: read(show(v)) == v. A kind raises ValueError for what it does not take; the caller
knows the key's name and turns that into a sentence.

The environment carries only text, so what the text means follows from the key's kind: a text key
given digits stays text, a size key given digits is bytes. Guessing the type first and refusing a
misfit, as the 0.8.0 server does, would only add ways to fail.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from borzoi.quantities import (
    SECOND,
    format_duration,
    format_size,
    parse_duration_us,
    parse_size,
)
from borzoi.shards.settings.addresses import parse_address

TomlValue = bool | int | str | list[str]

U16_MAX: Final = 2**16 - 1
U32_MAX: Final = 2**32 - 1
U64_MAX: Final = 2**64 - 1
U64_DIGITS: Final = len(str(U64_MAX))

# The numbers clients send for a limit that is none, and for the server's own.
UNLIMITED: Final = U64_MAX
NEVER: Final = U64_MAX
SERVER_DEFAULT: Final = 0
# An expiry is kept in whole seconds of 32 bits by the clients that show it.
EXPIRY_MAX: Final = U32_MAX * SECOND

ZERO_WORDS: Final = frozenset({"0", "unlimited", "disabled", "none"})
NEVER_WORDS: Final = frozenset({"none", "None", "unlimited", "Unlimited", "never_expire"})
DEFAULT_WORDS: Final = frozenset({"default", "Default", "server_default", "Server_default", "0"})


def same(value: Any) -> Any:
    """The value as it is."""
    return value


@dataclass(frozen=True)
class Kind:
    """`needs` completes the sentence "key is X: needs ...". Without `read_text`, `read` does it."""

    needs: str
    read: Callable[[Any], Any]
    show: Callable[[Any], TomlValue] = same
    read_text: Callable[[str], Any] | None = None
    secret: bool = False

    def from_text(self, text: str) -> Any:
        """The value of an environment variable."""
        return (self.read_text or self.read)(text)


def read_bool(value: object) -> bool:
    """A boolean of TOML."""
    if not isinstance(value, bool):
        raise ValueError("no boolean")
    return value


def read_bool_text(text: str) -> bool:
    """A boolean from "true" or "false", in any case."""
    if text.lower() not in ("true", "false"):
        raise ValueError("no boolean")
    return text.lower() == "true"


def read_text(value: object) -> str:
    """A text of TOML."""
    if not isinstance(value, str):
        raise ValueError("no text")
    return value


def read_texts(value: object) -> tuple[str, ...]:
    """A list of texts of TOML."""
    if not isinstance(value, list):
        raise ValueError("no list")
    return tuple(read_text(item) for item in value)


def read_texts_text(text: str) -> tuple[str, ...]:
    """`["a", "b"]` with or without the quotes; a comma inside quotes belongs to the element."""
    if not (text.startswith("[") and text.endswith("]")):
        raise ValueError("no list")
    if not text[1:-1].strip():
        return ()
    items: list[str] = []
    item, quote, quoted = "", "", False
    for character in text[1:-1] + ",":
        if quote:
            quote = "" if character == quote else quote
            item += "" if not quote else character
        elif character in "\"'" and not item.strip():
            item, quote, quoted = "", character, True
        elif character == ",":
            items.append(item if quoted else item.strip())
            item, quoted = "", False
        elif not (quoted and character.isspace()):
            item += character
    if quote:
        raise ValueError("a quote is not closed")
    return tuple(items)


def number(high: int) -> Kind:
    """Whole numbers of 0 to `high`."""

    def read(value: object) -> int:
        if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= high:
            raise ValueError("no number of that range")
        return value

    def read_number_text(text: str) -> int:
        if not (text.isascii() and text.isdigit() and len(text) <= U64_DIGITS):
            raise ValueError("no number")
        return read(int(text))

    return Kind(f"a number of 0 to {high}", read, read_text=read_number_text)


def choice(*names: str, **aliases: str) -> Kind:
    """One of the names. Aliases are other words for them; "true" and "false" also as booleans."""

    def read(value: object) -> str:
        if aliases and isinstance(value, bool):
            value = str(value)
        name = read_text(value).strip().lower()
        name = aliases.get(name, name)
        if name not in names:
            raise ValueError("none of the names")
        return name

    return Kind("one of " + ", ".join(f'"{name}"' for name in names), read)


def read_size(value: object) -> int:
    """Bytes of a number or of a text."""
    if not isinstance(value, int | str) or isinstance(value, bool):
        raise ValueError("no size")
    size = value if isinstance(value, int) else parse_size(value)
    if not 0 <= size <= U64_MAX:
        raise ValueError("outside 0 to 2^64 - 1 bytes")
    return size


def read_topic_size(value: object) -> int:
    """A size limit of a topic: bytes, UNLIMITED or SERVER_DEFAULT."""
    words = {"unlimited": UNLIMITED, "server_default": SERVER_DEFAULT}
    size = words.get(value.strip().lower()) if isinstance(value, str) else None
    return read_size(value) if size is None else size


def show_topic_size(size: int) -> str:
    """The text of a size limit, as read_topic_size() takes it."""
    if size == UNLIMITED:
        return "unlimited"
    return "server_default" if size == SERVER_DEFAULT else format_size(size)


def read_duration(value: object) -> int:
    """Microseconds. Case does not count, so "M" is a minute here, not a month."""
    text = read_text(value).strip().lower()
    return 0 if text in ZERO_WORDS else parse_duration_us(text)


def read_expiry(value: object) -> int:
    """Microseconds, NEVER or SERVER_DEFAULT. Letters keep their case: "M" is a month."""
    text = read_text(value).strip()
    if text in NEVER_WORDS:
        return NEVER
    if text in DEFAULT_WORDS:
        return SERVER_DEFAULT
    expiry_us = parse_duration_us(text)
    if expiry_us > EXPIRY_MAX:
        raise ValueError("longer than 2^32 - 1 seconds")
    return expiry_us


def show_expiry(expiry_us: int) -> str:
    """The text of an expiry, as read_expiry() takes it."""
    if expiry_us == NEVER:
        return "none"
    return "server_default" if expiry_us == SERVER_DEFAULT else format_duration(expiry_us)


def read_address(value: object) -> str:
    """The text of a host and a port."""
    text = read_text(value).strip()
    parse_address(text)
    return text


def read_cpu_allocation(value: object) -> str:
    """The text of an allocation; cpu_allocation.py judges it."""
    if not isinstance(value, int | str) or isinstance(value, bool):
        raise ValueError("no CPU allocation")
    return str(value).strip()


BOOL: Final = Kind("true or false", read_bool, read_text=read_bool_text)
TEXT: Final = Kind("text", read_text)
SECRET: Final = Kind("text", read_text, secret=True)
TEXTS: Final = Kind('a list of texts like ["a", "b"]', read_texts, list, read_texts_text)
U16: Final = number(U16_MAX)
U32: Final = number(U32_MAX)
U64: Final = number(U64_MAX)
SIZE: Final = Kind('a size like "1 GiB", "100 KB" or a number of bytes', read_size, format_size)
TOPIC_SIZE: Final = Kind('a size like "10 GiB", or "unlimited"', read_topic_size, show_topic_size)
DURATION: Final = Kind('a duration like "30 s", "1h 30m" or "0"', read_duration, format_duration)
EXPIRY: Final = Kind('a duration like "7 days", or "none" for never', read_expiry, show_expiry)
ADDRESS: Final = Kind('an address like "127.0.0.1:8090" or "[::1]:8090"', read_address)
CACHE_INDEXES: Final = choice("all", "open_segment", "none", true="all", false="none")
CPU_ALLOCATION: Final = Kind(
    'one of "all", a count, "START..END", "numa:auto", "numa:..."', read_cpu_allocation
)
