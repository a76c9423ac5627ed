"""Clients of the generation after this protocol: recognised, and refused in words they read.

They frame requests by a header of 256 bytes, whose first 48 are zero; a classic request begins with
a length of at least 4. Their generation is not served yet. An eviction that names the versions that
are served ends their connection at once; without one they would wait for an answer for ever.
"""

from typing import Final

from borzoi.protocol.framing import NOT_WHOLE, ClassicFraming, Cut, Need, Refused

HEADER_SIZE: Final = 256
ZEROS: Final = bytes(48)
SIZE_AT: Final = 48
KIND_AT: Final = 60
CLIENT_AT: Final = slice(128, 144)
REQUEST: Final = 5
EVICTION: Final = 13
INCOMPATIBLE_PROTOCOL: Final = 14
SERVED_VERSION: Final = 8 << 10
"""0.8.0, as clients of that generation write versions: major << 20 | minor << 10 | patch."""


def may_be_newer(view: memoryview) -> bool:
    """Whether these first bytes of a connection can begin such a header."""
    zeros = min(len(view), len(ZEROS))
    if view[:zeros] != ZEROS[:zeros]:
        return False
    return len(view) <= KIND_AT or view[KIND_AT] == REQUEST


class RefusingFraming(ClassicFraming):
    """Answers the first header: this protocol is not spoken here."""

    __slots__ = ()

    header_size: int = HEADER_SIZE

    def cut(self, view: memoryview, start: int, end: int) -> Cut:
        """What begins at `start`; bytes end at `end`."""
        if end - start < HEADER_SIZE:
            return Need(HEADER_SIZE)
        return Refused(HEADER_SIZE, _eviction(view[start:end]), close=True)

    def whole(self, view: memoryview, start: int, end: int) -> int:
        """Nothing is carried out."""
        del view, start, end
        return NOT_WHOLE


def _eviction(header: memoryview) -> bytes:
    """The answer to a whole header."""
    answer = bytearray(HEADER_SIZE)
    answer[SIZE_AT : SIZE_AT + 4] = HEADER_SIZE.to_bytes(4, "little")
    answer[KIND_AT] = EVICTION
    answer[CLIENT_AT] = header[CLIENT_AT]
    answer[144:148] = answer[148:152] = SERVED_VERSION.to_bytes(4, "little")
    answer[255] = INCOMPATIBLE_PROTOCOL
    return bytes(answer)
