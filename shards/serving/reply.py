"""What a request ends with: a value, until a door gives it the form that its client reads.

A session hands exactly one of these to its door for every request. The TCP door writes a frame;
a door that speaks JSON would write the same value as JSON.
"""

from collections.abc import Sequence
from typing import Any, Final, TypeAlias

import msgspec


class Status(msgspec.Struct, frozen=True, gc=False):
    """Nothing but a status; None: the outcome is unknown, the door closes without an answer.

    `text` says more about an error, to clients that have said they read it.
    """

    status: int | None
    close: bool = False
    text: str = ""


class Value(msgspec.Struct, frozen=True, gc=False):
    """The response value of a command. The generation of the session encodes it, by the code."""

    code: int
    value: Any


class Payload(msgspec.Struct, frozen=True, gc=False):
    """A success whose payload has the form already in which the client reads it."""

    payload: bytes


class Messages(msgspec.Struct, frozen=True, gc=False):
    """Messages of a partition as they are stored: `size` bytes in `views`, none of them copied."""

    partition_id: int
    current_offset: int
    message_count: int
    views: Sequence[memoryview]
    size: int


Reply: TypeAlias = Status | Value | Payload | Messages

OK: Final = Status(0)
UNKNOWN_OUTCOME: Final = Status(None, close=True)
