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

from borzoi.shards.config.addresses import parse_address
from borzoi.shards.config.durations import (
    format_duration,
    format_expiry,
    parse_duration,
    parse_expiry,
)
from borzoi.shards.config.sizes import (
    format_size,
    format_topic_size,
    parse_size,
    parse_topic_size,
)

TomlValue = bool | int | str | list[str]


@dataclass(frozen=True)
class Kind:
    """`needs` completes the sentence "key is X: needs ..."."""

    needs: str
    read: Callable[[object], Any]
    read_text: Callable[[str], Any]
    show: Callable[[Any], TomlValue]
    secret: bool = False


def same(value: Any) -> Any:
    return value


def read_bool(value: object) -> bool:
    if not isinstance(value, bool):
        raise ValueError("no boolean")
    return value


def read_bool_text(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise ValueError("no boolean")
    return text.lower() == "true"


def read_text(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError("no text")
    return value


def read_texts(value: object) -> tuple[str, ...]:
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


def number(low: int, high: int) -> Kind:
    def read(value: object) -> int:
        if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
            raise ValueError("no number of that range")
        return value

    def read_number_text(text: str) -> int:
        if not (text.isascii() and text.isdigit() and len(text) <= 20):
            raise ValueError("no number")
        return read(int(text))

    return Kind(f"a number of {low} to {high}", read, read_number_text, same)


def choice(*names: str) -> Kind:
    def read(value: object) -> str:
        name = read_text(value).strip().lower()
        if name not in names:
            raise ValueError("none of the names")
        return name

    return Kind("one of " + ", ".join(f'"{name}"' for name in names), read, read, same)


def read_size(value: object) -> int:
    if not isinstance(value, int | str) or isinstance(value, bool):
        raise ValueError("no size")
    return parse_size(value)


def read_topic_size(value: object) -> int:
    if not isinstance(value, int | str) or isinstance(value, bool):
        raise ValueError("no size")
    return parse_topic_size(value)


def read_duration(value: object) -> int:
    return parse_duration(read_text(value))


def read_expiry(value: object) -> int:
    return parse_expiry(read_text(value))


def read_address(value: object) -> str:
    text = read_text(value).strip()
    parse_address(text)
    return text


def read_cache_indexes(value: object) -> str:
    word = str(value).lower() if isinstance(value, bool) else read_text(value).strip().lower()
    word = {"true": "all", "false": "none"}.get(word, word)
    if word not in ("all", "open_segment", "none"):
        raise ValueError("none of the names")
    return word


def read_cpu_allocation(value: object) -> str:
    if not isinstance(value, int | str) or isinstance(value, bool):
        raise ValueError("no CPU allocation")
    return str(value).strip()


U16_MAX: Final = 2**16 - 1
U32_MAX: Final = 2**32 - 1
U64_MAX: Final = 2**64 - 1

BOOL: Final = Kind("true or false", read_bool, read_bool_text, same)
TEXT: Final = Kind("text", read_text, read_text, same)
SECRET: Final = Kind("text", read_text, read_text, same, secret=True)
TEXTS: Final = Kind('a list of texts like ["a", "b"]', read_texts, read_texts_text, list)
U16: Final = number(0, U16_MAX)
U32: Final = number(0, U32_MAX)
U64: Final = number(0, U64_MAX)
SIZE: Final = Kind(
    'a size like "1 GiB", "100 KB" or a number of bytes', read_size, read_size, format_size
)
TOPIC_SIZE: Final = Kind(
    'a size like "10 GiB", or "unlimited"', read_topic_size, read_topic_size, format_topic_size
)
DURATION: Final = Kind(
    'a duration like "30 s", "1h 30m" or "0"', read_duration, read_duration, format_duration
)
EXPIRY: Final = Kind(
    'a duration like "7 days", or "none" for never', read_expiry, read_expiry, format_expiry
)
ADDRESS: Final = Kind(
    'an address like "127.0.0.1:8090" or "[::1]:8090"', read_address, read_address, same
)
CACHE_INDEXES: Final = Kind(
    'one of "all", "open_segment", "none"', read_cache_indexes, read_cache_indexes, same
)
CPU_ALLOCATION: Final = Kind(
    'one of "all", a count, "START..END", "numa:auto", "numa:..."',
    read_cpu_allocation,
    read_cpu_allocation,
    same,
)
