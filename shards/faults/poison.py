"""Requests that kill workers: recognised by their bytes, and refused for a while.

A request that was in work when two workers died of a fatal signal is refused by all shards for a
minute. The status is that of a feature that is switched off. The request may be well-formed, and
official clients neither repeat it nor reconnect because of this status. When the minute is over it
is carried out again; another death, and it is refused at once.

The supervisor owns the Suspects; workers get what to refuse with their specification and by an
order. While nothing is refused no request is looked at (doors/tcp.py).
"""

import logging
import signal
import struct
from collections.abc import Callable, Sequence
from typing import Final

import msgspec
import xxhash

from borzoi.protocol.codes import Code
from borzoi.protocol.message import MESSAGE_HEADER_SIZE
from borzoi.shards.faults.in_work import HEAD_SIZE_MAX

LOG: Final = logging.getLogger(__name__)

FATAL: Final = frozenset(
    {signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE, signal.SIGILL, signal.SIGABRT}
)
"""Signals that a process brings upon itself."""

DEATHS_MIN: Final = 2
REFUSED_S: Final = 60.0
SUSPECTS_MAX: Final = 64
"""So many requests are remembered, those whose worker died last."""

IDENTITY: Final = struct.Struct("<IQ")
U32: Final = struct.Struct("<I")
LENGTHS: Final = struct.Struct("<II")
LENGTHS_AT: Final = 48
INDEX_ENTRY_SIZE: Final = 16
STAMPED_SIZE: Final = 40
"""Checksum, id, offset and time of a message: a batch is stamped where it was received."""


def digest_of(code: int, length: int, head: bytes | bytearray | memoryview) -> int:
    """What tells a request from others: its code, its length and the beginning of its payload."""
    looked_at = bytearray(head[:HEAD_SIZE_MAX])
    if code == Code.SEND_MESSAGES:
        _clear_stamps(looked_at)
    state = xxhash.xxh3_64(IDENTITY.pack(code & 0xFFFFFFFF, length))
    state.update(bytes(looked_at))
    return state.intdigest()


def _clear_stamps(payload: bytearray) -> None:
    """Make a batch that was stamped the same as one that was not yet."""
    if len(payload) < U32.size:
        return
    (metadata_length,) = U32.unpack_from(payload)
    if metadata_length + U32.size > len(payload):
        return
    # The count is the last field of the metadata, which begins behind its length.
    (count,) = U32.unpack_from(payload, metadata_length)
    at = U32.size + metadata_length + count * INDEX_ENTRY_SIZE
    while at < len(payload):
        end = min(at + STAMPED_SIZE, len(payload))
        payload[at:end] = bytes(end - at)
        if at + MESSAGE_HEADER_SIZE > len(payload):
            return
        at += MESSAGE_HEADER_SIZE + sum(LENGTHS.unpack_from(payload, at + LENGTHS_AT))


class Refusal(msgspec.Struct, frozen=True):
    """A request that is not carried out until then, by the clock that all processes share."""

    digest: int
    until: float


class Suspects:
    """What was in work when workers died. Owned by the supervisor."""

    def __init__(self) -> None:
        self._deaths: dict[int, int] = {}  # by digest, the one of the last death last
        self._refusals: dict[int, Refusal] = {}

    def note(self, digest: int, now: float) -> Refusal | None:
        """A worker died of a fatal signal with this in work; what is to be refused from now on."""
        deaths = self._deaths.pop(digest, 0) + 1
        self._deaths[digest] = deaths
        while len(self._deaths) > SUSPECTS_MAX:
            oldest = next(iter(self._deaths))
            del self._deaths[oldest]
            self._refusals.pop(oldest, None)
        if deaths < DEATHS_MIN:
            return None
        refusal = self._refusals[digest] = Refusal(digest, now + REFUSED_S)
        return refusal

    def refused(self, now: float) -> tuple[Refusal, ...]:
        """What is refused at this moment."""
        return tuple(one for one in self._refusals.values() if one.until > now)


class Guard:
    """What a worker refuses. Owned by its listener."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._until: dict[int, float] = {}
        self._logged: set[int] = set()

    def refuse(self, refusals: Sequence[Refusal]) -> None:
        """Adds these to what is refused from now on."""
        for refusal in refusals:
            self._until[refusal.digest] = refusal.until

    def ends_in_s(self) -> float:
        """How long something is refused from now on, 0 if nothing is; forgets what is over."""
        now = self._clock()
        self._until = {digest: until for digest, until in self._until.items() if until > now}
        self._logged &= self._until.keys()
        return max((until - now for until in self._until.values()), default=0.0)

    def refuses(self, code: int, payload: memoryview) -> bool:
        """Whether this is a request that kills."""
        digest = digest_of(code, payload.nbytes, payload[:HEAD_SIZE_MAX])
        until = self._until.get(digest)
        if until is None or until <= self._clock():
            return False
        if digest not in self._logged:
            # Once: it may be sent a thousand times a second.
            self._logged.add(digest)
            LOG.warning("requests of code %d like this one are refused: workers died of it", code)
        return True
