"""An entry of the request memory: the last numbered request of one client, and its answer.

Drawn in request_memory.py. One process writes an entry, in stores of single words but for the body
of an answer; the store that makes something count comes last.
"""

import struct
from typing import Final, NamedTuple

from borzoi.router.memory import WORD_SIZE

ENTRY_SIZE: Final = 1024
ENTRY_WORDS: Final = ENTRY_SIZE // WORD_SIZE
REPLY_AT: Final = 128
REPLY_SIZE_MAX: Final = ENTRY_SIZE - REPLY_AT
"""A longer answer is not kept: a repeat gets a status which says that it was carried out."""

NOT_KEPT: Final = 0xFFFFFFFF
"""The size of an answer that was too long."""

KEY: Final = struct.Struct("4Q")
HEAD: Final = struct.Struct("15Q")
_U32: Final = 0xFFFFFFFF
_U64: Final = (1 << 64) - 1

CLAIM: Final = 4
HOLDER: Final = 5
USED_AT: Final = 6
_BEGUN: Final = 8
_ANSWERED: Final = 9
_BEGINNER: Final = 10
_HINT_FOR: Final = 11
_NAMESPACE: Final = 12
_BIRTH: Final = 13
_NEXT_OFFSET: Final = 14
_REPLY: Final = 15


class ClientKey(NamedTuple):
    """A client: the user in one life of its id, and the 128-bit id that the client chose."""

    user_id: int
    created_at: int
    client: int

    def packed(self) -> bytes:
        """The first four words of its entry."""
        return KEY.pack(self.user_id, self.created_at, self.client & _U64, self.client >> 64)


class Hint(NamedTuple):
    """Where a batch was to go, and the next offset there before it was begun."""

    namespace: int
    birth: int
    next_offset: int


class Beginner(NamedTuple):
    """The worker that has begun a request: a shard in one of its lives."""

    shard: int
    generation: int


class Answer(NamedTuple):
    """What a request was answered; None as the body: it was too long to keep."""

    status: int
    body: bytes | None


class Entry:
    """An entry of this shard's own region, which this process alone writes."""

    __slots__ = ("_at", "_bytes", "_reply_at", "_words", "key", "slot")

    def __init__(
        self, words: memoryview, data: memoryview, at: int, slot: int, key: ClientKey
    ) -> None:
        self._words = words
        self._bytes = data
        self._at = at // WORD_SIZE
        self._reply_at = at + REPLY_AT
        self.slot = slot
        self.key = key

    @property
    def begun(self) -> int:
        """The number of the request that was begun last; 0: none was."""
        return self._words[self._at + _BEGUN]

    @property
    def is_answered(self) -> bool:
        """Whether that one was answered. If not it is in work, or in doubt."""
        return self._words[self._at + _ANSWERED] == self._words[self._at + _BEGUN]

    @property
    def beginner(self) -> Beginner:
        """The worker that has begun it."""
        word = self._words[self._at + _BEGINNER]
        return Beginner(word >> 32, word & _U32)

    @property
    def hint(self) -> Hint | None:
        """Where its batch was to go, if that was known when it was begun."""
        words, at = self._words, self._at
        number = words[at + _HINT_FOR]
        if number == 0 or number != words[at + _BEGUN]:
            return None
        return Hint(words[at + _NAMESPACE], words[at + _BIRTH], words[at + _NEXT_OFFSET])

    @property
    def answer(self) -> Answer:
        """What the last request was answered; only if it is."""
        assert self.is_answered, "the last request has no answer"
        word = self._words[self._at + _REPLY]
        status, size = word & _U32, word >> 32
        if size == NOT_KEPT:
            return Answer(status, None)
        return Answer(status, bytes(self._bytes[self._reply_at : self._reply_at + size]))

    def begin(self, number: int, beginner: Beginner, hint: Hint | None = None) -> None:
        """From now on the request of this number, not 0, is the last one, and in doubt."""
        words, at = self._words, self._at
        words[at + _HINT_FOR] = 0
        words[at + _BEGINNER] = beginner.shard << 32 | beginner.generation
        if hint is not None:
            words[at + _NAMESPACE], words[at + _BIRTH], words[at + _NEXT_OFFSET] = hint
            words[at + _HINT_FOR] = number
        words[at + _BEGUN] = number

    def begin_again(self, beginner: Beginner) -> None:
        """Another worker takes the last request up; its hint stays."""
        self._words[self._at + _BEGINNER] = beginner.shard << 32 | beginner.generation

    def end(self, status: int, body: bytes | memoryview = b"") -> None:
        """The last request was answered with this."""
        words, at = self._words, self._at
        size = len(body)
        if size > REPLY_SIZE_MAX:
            size = NOT_KEPT
        elif size:
            self._bytes[self._reply_at : self._reply_at + size] = body
        words[at + _REPLY] = status | size << 32
        words[at + _ANSWERED] = words[at + _BEGUN]
