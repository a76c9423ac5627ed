"""The table of a generation: for each code its request and its success answer, both ways.

A row names classes; layout.py makes their codecs. A payload that is not made of fields (a batch of
messages, an archive) brings a PayloadCodec of its own.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from borzoi.protocol.commands import Command
from borzoi.protocol.kinds import Kind, described
from borzoi.protocol.layout import Layouts
from borzoi.protocol.payload import PayloadReader


class PayloadCodec(NamedTuple):
    """Both directions of a whole payload."""

    decode: Callable[[memoryview], Any]
    encode: Callable[[Any], bytes]


class OrEmpty(NamedTuple):
    """A payload that may be empty: read as `without`, and written for None."""

    item: Any
    without: Any = None


def _encode_nothing(value: None) -> bytes:
    assert value is None, "this command is answered without a payload"
    return b""


NOTHING: Final = PayloadCodec(lambda _payload: None, _encode_nothing)


class Row(NamedTuple):
    """A command and its answer: a class, a kind, OrEmpty or PayloadCodec."""

    command: type[Command]
    answer: Any = NOTHING
    request: Any = None
    """How the command travels, where that is not by its fields alone."""


class CommandCodec(NamedTuple):
    """How one command and its success answer travel."""

    command: type[Command]
    request: PayloadCodec
    answer: PayloadCodec


def codecs(layouts: Layouts, rows: Mapping[Any, Row]) -> dict[int, CommandCodec]:
    """The codecs of a generation by code."""
    return {
        code: CommandCodec(
            command,
            payload_codec(layouts, request or command),
            payload_codec(layouts, answer),
        )
        for code, (command, answer, request) in rows.items()
    }


def payload_codec(layouts: Layouts, content: Any) -> PayloadCodec:
    """The codec of a payload that consists of this class or kind."""
    if isinstance(content, PayloadCodec):
        return content
    if isinstance(content, OrEmpty):
        decode, encode = payload_codec(layouts, content.item)
        without = content.without
        return PayloadCodec(
            lambda payload: decode(payload) if payload else without,
            lambda value: b"" if value is None else encode(value),
        )
    description = described(content)
    kind: Kind | None = None

    # Made on first use: a process needs few of all codecs, and starts without waiting for them.
    def decode_fields(payload: memoryview) -> Any:
        nonlocal kind
        if kind is None:
            kind = layouts.kind(description)
        return kind.read(PayloadReader(payload))

    def encode_fields(value: Any) -> bytes:
        nonlocal kind
        if kind is None:
            kind = layouts.kind(description)
        return kind.pack(value)

    return PayloadCodec(decode_fields, encode_fields)
