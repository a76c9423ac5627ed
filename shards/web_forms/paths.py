"""Paths and queries of requests: text to identifiers and numbers. Pure.

Always: a path is cut at its slashes before it is decoded, so that a name may contain one.
"""

from typing import TypeVar
from urllib.parse import parse_qsl, unquote

import msgspec

from borzoi.protocol.errors import InvalidIdentifier
from borzoi.protocol.identifiers import NAME_SIZE_MAX, U32_MAX, Identifier
from borzoi.shards.web_forms.failures import plain

U32_DIGITS = len(str(U32_MAX))
QUERY_FIELDS_MAX = 64

Query = TypeVar("Query")


def segments_of(path: str) -> tuple[str, ...]:
    """The parts of a path, decoded. 400 if one is no UTF-8."""
    try:
        return tuple(unquote(part, errors="strict") for part in path[1:].split("/"))
    except UnicodeDecodeError:
        raise plain(400, "the path is not UTF-8") from None


def identifier(text: str | int) -> Identifier:
    """A number if it reads as one of 32 bits, else a name. InvalidIdentifier for a bad length."""
    if isinstance(text, int):
        return text
    number = _number(text)
    if number is not None:
        return number
    if not 1 <= len(text.encode()) <= NAME_SIZE_MAX:
        raise InvalidIdentifier(
            f"a name of {len(text.encode())} bytes where 1 to {NAME_SIZE_MAX} fit"
        )
    return text


def u32(text: str, what: str) -> int:
    """A number of a path. 400 if it is none."""
    number = _number(text)
    if number is None:
        raise plain(400, f"{what} is {text!r}, which is no number of 0 to {U32_MAX}")
    return number


def read_query(text: str, kind: type[Query]) -> Query:
    """The fields of a query. 400 if one is missing or cannot be read."""
    try:
        pairs = parse_qsl(
            text, keep_blank_values=True, errors="strict", max_num_fields=QUERY_FIELDS_MAX
        )
        return msgspec.convert(dict(pairs), type=kind, strict=False)
    except (ValueError, msgspec.ValidationError) as error:
        raise plain(400, f"the query cannot be read: {error}") from None


def _number(text: str) -> int | None:
    if not (text.isascii() and text.isdigit() and len(text.lstrip("0")) <= U32_DIGITS):
        return None
    # Without the zeros: a long row of digits is refused by int() itself.
    number = int(text.lstrip("0") or "0")
    return number if number <= U32_MAX else None
