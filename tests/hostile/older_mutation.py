"""Frames of the older generations that are almost right: golden requests in their layouts.

Each request of tests/golden/frames.txt is written as that generation writes it, beside sends whose
messages have its layout and headers with bare keys; mutation.py changes them.
"""

import struct
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from borzoi.protocol.classic import CODECS
from borzoi.protocol.codec import CommandCodec
from borzoi.protocol.codes import Code
from borzoi.protocol.identifiers import Balanced, MessagesKey, PartitionId, Partitioning
from borzoi.protocol.message import Message
from borzoi.protocol.older.codecs import (
    HYBRID_CODECS,
    OLD_CODECS,
    V1_CODECS,
    V1_SHORT_CODECS,
)
from borzoi.protocol.payload import pack_identifier, pack_partitioning
from tests.hostile.mutation import Mutant, mutant
from tests.protocol.foreign import BARE_HEADERS, OLD_SENT, bare_pair, old_batch, short_batch
from tests.protocol.older.page import REQUESTS
from tests.protocol.values import vectors

TARGETS: Final[Sequence[tuple[str | int, Partitioning]]] = (
    ("events", PartitionId(1)),
    (3, Balanced()),
    ("events", MessagesKey(b"user-42")),
)
MESSAGES: Final = (
    Message(b"payload", 7, BARE_HEADERS, 1_700_000_000_000_000),
    Message(b"x" * 40, 2**127, b"", 1_700_000_000_000_001),
    Message(b"y", 0, BARE_HEADERS + bare_pair(b"count", 11, bytes(4)), 0),
)
SENDS: Final = 6
"""How often sends stand in a corpus: they are what matters most."""


def target(stream: str | int, partitioning: Partitioning) -> bytes:
    return pack_identifier(stream) + pack_identifier("events") + pack_partitioning(partitioning)


def old_sends() -> list[bytes]:
    """Messages to the end of the payload."""
    return [
        target(*place) + messages
        for place in TARGETS
        for messages in (OLD_SENT, old_batch(MESSAGES))
    ]


def short_sends() -> list[bytes]:
    """The envelope of today around messages with heads of 56 bytes."""
    found = []
    for place in TARGETS:
        for count in range(1, len(MESSAGES) + 1):
            index, batch = short_batch(MESSAGES[:count])
            metadata = target(*place) + struct.pack("<I", count)
            found.append(struct.pack("<I", len(metadata)) + metadata + index + batch)
    return found


def corpus(codecs: Mapping[int, CommandCodec], sends: Sequence[bytes]) -> list[Mutant]:
    """What the golden requests are in another layout, and sends."""
    found = [Mutant(Code.SEND_MESSAGES, payload) for payload in sends] * SENDS
    for vector in vectors():
        if vector.code in codecs and vector.code != Code.SEND_MESSAGES:
            command = CODECS[vector.code].request.decode(memoryview(vector.request))
            found.append(Mutant(vector.code, codecs[vector.code].request.encode(command)))
    return found


CORPORA: Final[Mapping[str, Sequence[Mutant]]] = {
    "bare-keys": corpus(CODECS, short_sends()),
    "hybrid": corpus(HYBRID_CODECS, short_sends()),
    "old": corpus(OLD_CODECS, old_sends()),
    "old-text": corpus(OLD_CODECS, old_sends()),
    "v1": corpus(V1_CODECS, old_sends()),
    "v1-short": [
        *corpus(V1_SHORT_CODECS, old_sends()),
        *(Mutant(code, payload) for code, (payload, _) in REQUESTS.items()),
    ],
}


def older_frames(generation: str) -> Callable[[int], bytes]:
    """The frame that belongs to a number."""
    return lambda number: mutant(number, CORPORA[generation]).frame
