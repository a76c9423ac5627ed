"""One text of an option, read: identifiers, numbers, sizes, durations, choices.

Pure functions. ValueError (InvalidArgument from identifiers) says what is needed instead; the
caller knows the name of the option. Sizes and durations are those of borzoi.quantities.
"""

import json
import re
from collections.abc import Mapping
from typing import Any

from borzoi.client.arguments import check_identifier
from borzoi.protocol.identifiers import Identifier
from borzoi.quantities import BINARY_SIZE_UNITS, parse_duration_us, parse_size


def identifier(text: str) -> Identifier:
    """Digits are an id, everything else is a name."""
    identifier = int(text) if text.isascii() and text.isdigit() else text
    check_identifier("it", identifier)
    return identifier


def identifiers(text: str) -> tuple[Identifier, ...]:
    """Returns the ids or names of a list with commas."""
    return tuple(identifier(part.strip()) for part in text.split(","))


def names(text: str) -> tuple[str, ...]:
    """Returns the names of a list with commas."""
    return tuple(part.strip() for part in text.split(","))


def pattern(text: str) -> str:
    """Returns the text if it is a regular expression; else raises ValueError."""
    try:
        re.compile(text)
    except re.error as error:
        raise ValueError(f"no regular expression: {error}") from error
    return text


def assigned(text: str) -> Mapping[str, tuple[int, ...]]:
    """Returns the partitions of each topic of a JSON object; else raises ValueError."""
    wanted = 'an object such as {"events": [0, 1]} is needed'
    try:
        value: Any = json.loads(text)
    except ValueError as error:
        raise ValueError(f"no JSON: {error}") from error
    if not isinstance(value, dict) or not value:
        raise ValueError(wanted)
    found = {}
    for topic, partitions in value.items():
        is_list = isinstance(partitions, list) and partitions
        if not is_list or not all(type(one) is int and one >= 0 for one in partitions):
            raise ValueError(wanted)
        found[topic] = tuple(sorted(set(partitions)))
    return found


def boolean(text: str) -> bool:
    """Returns the value of true or false; else raises ValueError."""
    if text.lower() not in ("true", "false"):
        raise ValueError("true or false is needed")
    return text.lower() == "true"


def count(text: str) -> int:
    """Returns a whole number from 0 on; else raises ValueError."""
    if not (text.isascii() and text.isdigit()):
        raise ValueError("a whole number is needed")
    return int(text)


def positive(text: str) -> int:
    """Returns a whole number from 1 on; else raises ValueError."""
    number = count(text)
    if number == 0:
        raise ValueError("at least 1 is needed")
    return number


def limit(text: str) -> int | None:
    """Returns a whole number from 1 on, None for none; else raises ValueError."""
    return None if text.lower() == "none" else positive(text)


def size_limit(text: str) -> int | None:
    """Bytes; as Spark has it, k and m are powers of two with and without the i."""
    if text.lower() == "none":
        return None
    try:
        size = 0 if "." in text else parse_size(text, BINARY_SIZE_UNITS)
    except ValueError:
        size = 0
    if size == 0:
        raise ValueError("a size such as 1000000, 64m or 64 MiB is needed, or none")
    return size


def duration_us(text: str) -> int:
    """`10m`, `1h 30m`, `500ms`; a bare number is milliseconds, as in Spark's options."""
    text = text.strip()
    if text.isascii() and text.isdigit():
        return int(text) * 1_000
    try:
        duration = parse_duration_us(text.lower()) if text else 0
    except ValueError as error:
        raise ValueError(f"{text!r} is no duration such as 500ms, 10m or 1h 30m") from error
    if duration == 0:
        raise ValueError("a duration longer than nothing is needed")
    return duration


def transport(text: str) -> str:
    """Returns auto, tcp or segments; else raises ValueError."""
    if text.lower() not in ("auto", "tcp", "segments"):
        raise ValueError("auto, tcp or segments is needed")
    return text.lower()


def headers_format(text: str) -> bool:
    """Returns whether headers are structs; raises ValueError unless it is map or struct."""
    if text.lower() not in ("map", "struct"):
        raise ValueError("map or struct is needed")
    return text.lower() == "struct"
