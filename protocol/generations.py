"""Generations of clients: how each frames, what its bytes mean, how it shows messages.

The first bytes of a connection tell how it frames; among those that frame alike, the version given
at login tells the rest, or the shape of requests where a login has none (older/versions.py). Every
session begins as UNDECIDED, which is CLASSIC until more is known. Another generation is another
table beside classic.py and a line in first_generation() or older/versions.py; handlers do not
notice.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, TypeAlias, TypeVar

from borzoi.protocol.classic import CODECS
from borzoi.protocol.codec import CommandCodec
from borzoi.protocol.codes import Code
from borzoi.protocol.commands import Command
from borzoi.protocol.consensus import codecs as consensus
from borzoi.protocol.consensus.framing import ConsensusFraming, is_filled, may_begin
from borzoi.protocol.consensus.send import decode_send_messages
from borzoi.protocol.edges import (
    BARE_KEYS_FORM,
    CONSENSUS_FORM,
    HYBRID_FORM,
    OLD_FORM,
    find_consensus_send,
)
from borzoi.protocol.errors import BrokerError
from borzoi.protocol.framing import REQUEST_HEADER, ClassicFraming, Framing
from borzoi.protocol.identifiers import U32_MAX, Identifier
from borzoi.protocol.message_form import MessageForm
from borzoi.protocol.older import codecs as older
from borzoi.protocol.older import sends, versions
from borzoi.protocol.older.statuses import TextFraming, older_status
from borzoi.protocol.send_messages import SendMessages
from borzoi.protocol.send_target import read_head

T = TypeVar("T")
FindSend: TypeAlias = Callable[[memoryview, dict[bytes, T]], tuple[T, int, memoryview] | None]
"""A send to a place that is known by its first bytes: what it is known as, how many messages, and
these as they are stored, in memory of their own, checked. None: decode all of it."""
ReadHead: TypeAlias = Callable[[memoryview], tuple[Identifier, Identifier, bytes]]
"""Stream, topic and the bytes by which a place is known, from the first bytes of a send."""


@dataclass(frozen=True, slots=True)
class Generation:
    """The server's side of all codecs: requests in, success payloads out, both by code.

    A code that is not in `requests` is an unknown command. `replies` takes the response value,
    None for a command that answers with an empty payload or found nothing.

    framing           makes the machine of one connection
    read_head         of a send whose place is known before all of it is here; None: it is not
    find_send         of a generation whose messages are converted; None: each send is decoded
    polls_as_classic  a poll is laid out as in CLASSIC, so that its place is known by first bytes
    shows             how messages are converted for an answer; None: they leave as stored
    confirms          encodes the answer to a send: stream, topic, partition, offset; None: a send
                      is answered with nothing
    no_partition      the partition, from 0, in the answer to a member that has nothing to poll
    chooses           members of a group choose the partition of a poll from what was assigned to
                      them; one that is not theirs gives no error, but no_partition
    has_sessions      requests carry a session number; a logout ends what belongs to the session
    timed_send        decodes a send whose messages do not say when they were made: that is now,
                      in microseconds; None: they do, and `requests` decodes it
    status_of         the status of an error, where numbers differ; None: it is the error's own
    tells             the name of another generation that a request (code, payload) is of, None if
                      it is of this one or of several. Asked until the session has changed once
    has_older_rules   lists below what is missing are errors; more partitions than there are can
                      be deleted
    """

    name: str
    requests: Mapping[int, Callable[[memoryview], Command]]
    replies: Mapping[int, Callable[[Any], bytes]]
    framing: Callable[[], Framing] = ClassicFraming
    read_head: ReadHead | None = None
    find_send: FindSend[Any] | None = None
    polls_as_classic: bool = False
    shows: MessageForm | None = None
    confirms: Callable[[int, int, int, int], bytes] | None = None
    no_partition: int = 0
    chooses: bool = False
    has_sessions: bool = False
    timed_send: Callable[[memoryview, int], SendMessages] | None = None
    status_of: Callable[[BrokerError], int] | None = None
    tells: Callable[[int, memoryview], str | None] | None = None
    has_older_rules: bool = False


CLASSIC: Final = Generation(
    name="classic",
    requests={code: codec.request.decode for code, codec in CODECS.items()},
    replies={code: codec.answer.encode for code, codec in CODECS.items()},
    read_head=read_head,
    polls_as_classic=True,
)

CONSENSUS: Final = Generation(
    name="consensus-0.11",
    requests={
        **{code: codec.request.decode for code, codec in consensus.CODECS.items()},
        Code.SEND_MESSAGES: decode_send_messages,
    },
    replies={code: codec.answer.encode for code, codec in consensus.CODECS.items()},
    framing=ConsensusFraming,
    read_head=read_head,
    find_send=find_consensus_send,
    polls_as_classic=True,
    shows=CONSENSUS_FORM,
    confirms=consensus.encode_confirmation,
    no_partition=U32_MAX,
    chooses=True,
    has_sessions=True,
)

UNDECIDED: Final = replace(CLASSIC, name="undecided", tells=versions.shown_without_version)


def _older(name: str, codecs: Mapping[int, CommandCodec], **changed: Any) -> Generation:
    """A generation that counts ids from 1; its sends are those of SDK 0.6 unless `changed`."""
    old = Generation(
        name,
        requests={code: codec.request.decode for code, codec in codecs.items()},
        replies={code: codec.answer.encode for code, codec in codecs.items()},
        read_head=sends.read_old_head,
        shows=OLD_FORM,
        no_partition=-1,
        timed_send=sends.decode_old_send,
        status_of=older_status,
        has_older_rules=True,
    )
    return replace(old, **changed)


OLD: Final = _older(versions.OLD, older.OLD_CODECS)
OLD_TEXT: Final = _older(versions.OLD_TEXT, older.OLD_CODECS, framing=TextFraming)
V1: Final = _older(versions.V1, older.V1_CODECS, tells=versions.shown_by_v1)
V1_TEXT: Final = _older(versions.V1_TEXT, older.V1_CODECS, framing=TextFraming)
V1_SHORT: Final = _older(versions.V1_SHORT, older.V1_SHORT_CODECS)
_HYBRID: Final = _older(
    versions.HYBRID,
    older.HYBRID_CODECS,
    read_head=sends.read_hybrid_head,
    find_send=sends.find_short_send,
    shows=HYBRID_FORM,
    timed_send=None,
)
HYBRID: Final = replace(
    _HYBRID, requests={**_HYBRID.requests, Code.SEND_MESSAGES: sends.decode_hybrid_send}
)
BARE_KEYS: Final = replace(
    CLASSIC,
    name=versions.BARE_KEYS,
    requests={**CLASSIC.requests, Code.SEND_MESSAGES: sends.decode_bare_keys_send},
    find_send=sends.find_short_send,
    shows=BARE_KEYS_FORM,
    tells=versions.shown_by_heads,
)
SDK_0_8: Final = replace(CLASSIC, name=versions.SDK_0_8, tells=versions.shown_by_ping)
SDK_0_8_SILENT: Final = replace(
    CLASSIC, name=versions.SDK_0_8_SILENT, tells=versions.shown_by_heads
)

GENERATIONS: Final[Mapping[str, Generation]] = {
    one.name: one
    for one in (
        *(UNDECIDED, CLASSIC, CONSENSUS, SDK_0_8, SDK_0_8_SILENT, BARE_KEYS, HYBRID),
        *(OLD, OLD_TEXT, V1, V1_TEXT, V1_SHORT),
    )
}

SERVED: Final = "SDK 0.1 to 0.10 (length and code first), SDK 0.11 (a header of 256 bytes first)"
"""The generations as a log line names them."""

_CODES: Final[Mapping[type[Command], Code]] = {
    codec.command: Code(code) for code, codec in CODECS.items()
}


def first_generation(present: memoryview) -> Generation:
    """The generation that frames as the first bytes of a connection do.

    Zeros tell; where they are not, an unknown code before a header that can be one does.
    """
    if may_begin(present):
        return CONSENSUS
    if len(present) < REQUEST_HEADER.size:
        return CLASSIC
    _, code = REQUEST_HEADER.unpack_from(present)
    return CONSENSUS if code not in CLASSIC.requests and is_filled(present) else CLASSIC


def generation_for(version: str | None, context: str, has_pinged: bool) -> Generation:
    """The generation of a client that logs in with these texts; None: its login has no field.

    Where two families have one version, only those of one begin with a PING, here or later.
    """
    return GENERATIONS[versions.name_for(version, context, has_pinged)]


def code_of(command: Command) -> Code:
    """The code under which a command travels."""
    return _CODES[type(command)]


def encode_command(command: Command) -> bytes:
    """The payload of a request; framing.encode_request() puts the code in front of it."""
    return CODECS[code_of(command)].request.encode(command)


def decode_reply(code: int, payload: memoryview) -> Any:
    """The value of a success payload; None where the command has none or found nothing."""
    return CODECS[code].answer.decode(payload)
