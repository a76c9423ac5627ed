"""The request that a worker has in work, in memory that the supervisor reads after its death.

A part of the control memory of a shard (router/control.py), written by itself alone:

    word 0    request    bits 0-39   where its payload lies in the arena, behind its frame header;
                                     0: nothing is in work; 1: the copy below
                         bits 40-63  id of the user + 1; 0: the session is not logged in
         1    of a peer  what another shard has asked for and is being carried out now:
                         bits 0-39   where the payload of its client lies in *its* arena, 0 or 1
                                     if that is unknown
                         bits 40-63  number of that shard + 1; 0: nothing
         8    copied     length of the payload u32 | code u32, if it does not lie in the arena
         9... copy       the first bytes of such a payload

It names the request that was begun last, until any request has ended. A request costs two stores of
a word. A worker that dies while it carries out a request has begun none since. Bytes in the arena
stay where they are until the answer, those of a peer that asks as well.

The supervisor trusts nothing that it reads here: the worker that wrote it died of a fault.
"""

import os
from typing import Final, NamedTuple

from borzoi.protocol.framing import CODE_SIZE, REQUEST_HEADER
from borzoi.router.memory import WORD_SIZE

REQUEST: Final = 0
OF_PEER: Final = 1
COPIED_AT: Final = 8 * WORD_SIZE
COPY_AT: Final = COPIED_AT + REQUEST_HEADER.size

NOTHING: Final = 0
COPIED: Final = 1

WHERE_BITS: Final = 40
WHERE_MASK: Final = (1 << WHERE_BITS) - 1
USER_MASK: Final = (1 << (64 - WHERE_BITS)) - 1

HEAD_SIZE_MAX: Final = 3072
"""So much of a payload is looked at, to tell one request from another."""

MEMORY_SIZE: Final = COPY_AT + HEAD_SIZE_MAX


class RequestInWork(NamedTuple):
    """What is known of a request after the death of its worker."""

    code: int
    length: int  # of its payload
    head: bytes  # the first HEAD_SIZE_MAX bytes of the payload
    user_id: int | None
    asked_by: int | None = None  # the shard of the client, if that is another


def user_bits(user_id: int | None) -> int:
    """A user as it is added to where a request lies."""
    return 0 if user_id is None else ((user_id + 1) & USER_MASK) << WHERE_BITS


class InWork:
    """The record of a worker. Connections write the word themselves, it is their hot path."""

    def __init__(self, words: memoryview | None = None) -> None:
        """Without `words` the memory is private: no other process reads it."""
        self.words = memoryview(bytearray(MEMORY_SIZE)).cast("Q") if words is None else words
        self._bytes = self.words.cast("B")

    def copy(self, code: int, payload: memoryview, user: int) -> None:
        """Begin a request whose bytes do not lie in the arena."""
        head = payload[:HEAD_SIZE_MAX]
        self.words[REQUEST] = NOTHING
        REQUEST_HEADER.pack_into(self._bytes, COPIED_AT, payload.nbytes, code)
        self._bytes[COPY_AT : COPY_AT + head.nbytes] = head
        self.words[REQUEST] = COPIED | user


def read_in_work(words: memoryview, arena_fd: int, arena_size: int) -> RequestInWork | None:
    """What a dead worker had in work."""
    where, user = words[REQUEST] & WHERE_MASK, words[REQUEST] >> WHERE_BITS
    user_id = user - 1 if user else None
    if where == NOTHING:
        return None
    if where == COPIED:
        found = words.cast("B")
        length, code = REQUEST_HEADER.unpack_from(found, COPIED_AT)
        head = bytes(found[COPY_AT : COPY_AT + min(length, HEAD_SIZE_MAX)])
        return RequestInWork(code, length, head, user_id)
    return _read_arena(where, arena_fd, arena_size, user_id, None)


def asking_shard(words: memoryview) -> int | None:
    """The shard whose request a dead worker was carrying out, if it was one."""
    shard: int = words[OF_PEER] >> WHERE_BITS
    return shard - 1 if shard else None


def read_asked(words: memoryview, arena_fd: int, arena_size: int) -> RequestInWork | None:
    """Returns the request of a client of another shard; its bytes lie in that shard's arena."""
    where = words[OF_PEER] & WHERE_MASK
    return _read_arena(where, arena_fd, arena_size, None, asking_shard(words))


def _read_arena(
    where: int, arena_fd: int, arena_size: int, user_id: int | None, asked_by: int | None
) -> RequestInWork | None:
    if not REQUEST_HEADER.size <= where <= arena_size:
        return None
    header = os.pread(arena_fd, REQUEST_HEADER.size, where - REQUEST_HEADER.size)
    framed, code = REQUEST_HEADER.unpack(header)
    length = max(0, framed - CODE_SIZE)
    head = os.pread(arena_fd, min(length, HEAD_SIZE_MAX), where)
    return RequestInWork(code, length, head, user_id, asked_by)
