"""Requests about streams."""

from dataclasses import dataclass

from borzoi.protocol.commands.request import Request
from borzoi.protocol.identifiers import Identifier
from borzoi.protocol.kinds import chosen_id, name8, no_options


@dataclass(frozen=True, slots=True)
class GetStream(Request):
    """One stream with its topics."""

    stream: Identifier


class GetStreams(Request):
    """All streams."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class CreateStream(Request):
    """A new stream; the server chooses its id, unless the client of an older generation has."""

    name: name8
    options: no_options = b""
    wanted_id: chosen_id = None


@dataclass(frozen=True, slots=True)
class DeleteStream(Request):
    """A stream with everything in it."""

    stream: Identifier


@dataclass(frozen=True, slots=True)
class UpdateStream(Request):
    """A new name for a stream."""

    stream: Identifier
    name: name8
    options: no_options = b""


@dataclass(frozen=True, slots=True)
class PurgeStream(Request):
    """Forget all messages of a stream, keep its topics."""

    stream: Identifier
