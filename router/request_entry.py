"""An entry of the request memory: the last numbered request of one client, and its answer.

Drawn in request_memory.py. One process writes an entry, in stores of single words but for the body
of an answer; the store that makes something count comes last. It writes words that lie side by side
with one `pack_into`, which stores them one after the other: a send has no time for six calls.
"""

import struct
from functools import partial
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
_HINT_FOR: Final = 8
_NAMESPACE: Final = 9
_BIRTH: Final = 10
_NEXT_OFFSET: Final = 11
_BEGINNER: Final = 12
_BEGUN: Final = 13
_REPLY: Final = 14
_ANSWERED: Final = 15

_BEGIN_AT: Final = _HINT_FOR * WORD_SIZE
_END_AT: Final = _REPLY * WORD_SIZE
# Native order and size: each field is one store, in the order of the fields.
_store_begin: Final = struct.Struct("6Q").pack_into
SHORT_REPLY: Final = struct.Struct("24s")  # where a batch lies: faster than by a slice
SHORT_SUCCESS: Final = SHORT_REPLY.size << 32
"""The reply word of an answer of that size."""

_store_short: Final = SHORT_REPLY.pack_into
_store_end: Final = struct.Struct("2Q").pack_into


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


NO_HINT: Final = Hint(0, 0, 0)


class Beginner(NamedTuple):
    """The worker that has begun a request: a shard in one of its lives."""

    shard: int
    generation: int


def beginner_word(beginner: Beginner) -> int:
    """The word that names a worker."""
    return beginner.shard << 32 | beginner.generation


class Answer(NamedTuple):
    """What a request was answered; None as the body: it was too long to keep."""

    status: int
    body: bytes | None


class Entry:
    """An entry of this shard's own region, which this process alone writes.

    A send calls three stores itself, because they cost no frame of Python so:

    store_send    number, namespace, birth, next offset, beginner_word(), number again: from now on
                  the batch of this number is the last request, and in doubt
    store_short   the body of an answer, as long as SHORT_REPLY; counts once its end is stored
    store_end     the reply word (SHORT_SUCCESS), then the number of the request it answers
    """

    __slots__ = (
        "_at", "_bytes", "_reply_at", "_words", "key", "slot", "store_end", "store_send",
        "store_short",
    )  # fmt: skip

    def __init__(
        self, words: memoryview, data: memoryview, at: int, slot: int, key: ClientKey
    ) -> None:
        self._words = words
        self._bytes = data
        self._at = at // WORD_SIZE
        self._reply_at = at + REPLY_AT
        self.store_send = partial(_store_begin, data, at + _BEGIN_AT)
        self.store_short = partial(_store_short, data, at + REPLY_AT)
        self.store_end = partial(_store_end, data, at + _END_AT)
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
        # A hint for another number than that of `begun` is none: the words behind it may change.
        hint_for = 0 if hint is None else number
        self.store_send(hint_for, *(hint or NO_HINT), beginner_word(beginner), number)

    def begin_again(self, beginner: Beginner) -> None:
        """Another worker takes the last request up; its hint stays."""
        self._words[self._at + _BEGINNER] = beginner_word(beginner)

    def end(self, number: int, status: int, body: bytes | memoryview = b"") -> None:
        """The last request, of this number, was answered with this."""
        size = len(body)
        if size > REPLY_SIZE_MAX:
            size = NOT_KEPT
        elif size == SHORT_REPLY.size:
            self.store_short(body)
        elif size:
            self._bytes[self._reply_at : self._reply_at + size] = body
        self.store_end(status | size << 32, number)
