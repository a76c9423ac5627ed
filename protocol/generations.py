"""Codecs are chosen per session: the version a client gives at login tells its generation.

Before login, and for every version known today, that is CLASSIC. A later generation is another
table beside classic.py and another line in generation_for(); handlers do not notice.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from borzoi.protocol.classic import CODECS
from borzoi.protocol.codes import Code
from borzoi.protocol.commands import Command


@dataclass(frozen=True, slots=True)
class Generation:
    """The server's side of all codecs: requests in, success payloads out, both by code.

    A code that is not in `requests` is an unknown command. `replies` takes the response value,
    None for a command that answers with an empty payload or found nothing.
    """

    name: str
    requests: Mapping[int, Callable[[memoryview], Command]]
    replies: Mapping[int, Callable[[Any], bytes]]


CLASSIC: Final = Generation(
    name="classic",
    requests={code: codec.request.decode for code, codec in CODECS.items()},
    replies={code: codec.answer.encode for code, codec in CODECS.items()},
)

GENERATIONS: Final[Mapping[str, Generation]] = {CLASSIC.name: CLASSIC}

_CODES: Final[Mapping[type[Command], Code]] = {
    codec.command: Code(code) for code, codec in CODECS.items()
}


def generation_for(version: str) -> Generation:
    """The generation of a client that gives this version at login; no version is the oldest."""
    del version  # one generation so far
    return CLASSIC


def code_of(command: Command) -> Code:
    """The code under which a command travels."""
    return _CODES[type(command)]


def encode_command(command: Command) -> bytes:
    """The payload of a request; framing.encode_request() puts the code in front of it."""
    return CODECS[code_of(command)].request.encode(command)


def decode_reply(code: int, payload: memoryview) -> Any:
    """The value of a success payload; None where the command has none or found nothing."""
    return CODECS[code].answer.decode(payload)
