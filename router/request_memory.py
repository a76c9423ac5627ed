"""The request memory: which numbered request each client made last, and what it was answered.

One memfd made by the supervisor; it outlives any worker and ends with the broker. Every shard has
a region of entries, which it alone writes and all read, so no lock is needed: a client that comes
to another shard gets an entry there, with a copy of what its newest one says.

    region of shard k       fingerprints   one word per entry: a digest of its key, 0 = unused
                            entries        1 KiB each, two lines of words and a reply

    entry   line 0   user id | created at | client id, low half | high half
                     claim      counts the claims of one key over all shards: the highest is newest
                     holder     generation of the worker whose session uses it, 0 = none
                     used at    when it was claimed or released, by the monotonic clock
            line 1   hint for   the number that the three words of a hint belong to
                     hint       where a batch goes: namespace, birth, next offset before it
                     beginner   shard << 32 | generation of the worker that has begun it
                     begun      number of the request that was begun last
                     reply      status | size << 32 of the answer
                     answered   number of the request that was answered last
            reply    the body of the answer, up to REPLY_SIZE_MAX bytes

The store that makes something count comes last: the fingerprint of a claim, `begun` of a begin,
`answered` of an answer. A writer killed at any store leaves an entry that is unused, or one whose
last request was answered, or one whose last request was begun: that one is in doubt.

Always: `answered` <= `begun`, and the reply in the entry is that of `begun` if both are equal.

Pages appear when they are touched: an entry that no client uses costs nothing.
"""

import struct
from dataclasses import dataclass
from typing import NamedTuple

import xxhash

from borzoi.router.memory import PAGE_SIZE, WORD_SIZE, create_memory, map_memory
from borzoi.router.request_entry import (
    CLAIM,
    ENTRY_SIZE,
    HEAD,
    HOLDER,
    KEY,
    REPLY_AT,
    USED_AT,
    Beginner,
    ClientKey,
    Entry,
)


class Place(NamedTuple):
    """Where an entry lies."""

    shard: int
    slot: int


class Found(NamedTuple):
    """An entry as another shard, or a later life, finds it."""

    place: Place
    claim: int
    holder: int


@dataclass(frozen=True, slots=True)
class RequestLayout:
    """Where things lie in the memory. Positions are in bytes."""

    shard_count: int
    entries: int

    def __post_init__(self) -> None:
        if self.shard_count < 1 or self.entries < 1:
            raise ValueError(f"{self.shard_count} shards with {self.entries} entries: one at least")

    @property
    def region_size(self) -> int:
        """Bytes of the region of one shard, whole pages."""
        return self.fingerprints_size + -(-self.entries * ENTRY_SIZE // PAGE_SIZE) * PAGE_SIZE

    @property
    def fingerprints_size(self) -> int:
        """Bytes before the entries of a region, whole pages."""
        return -(-self.entries * WORD_SIZE // PAGE_SIZE) * PAGE_SIZE

    @property
    def size(self) -> int:
        """Bytes of the whole memory."""
        return self.shard_count * self.region_size

    def fingerprint(self, place: Place) -> int:
        """Where the fingerprint of an entry lies."""
        return place.shard * self.region_size + place.slot * WORD_SIZE

    def entry(self, place: Place) -> int:
        """Where an entry begins."""
        return place.shard * self.region_size + self.fingerprints_size + place.slot * ENTRY_SIZE


def create_request_memory(layout: RequestLayout) -> int:
    """The descriptor of an empty memory. Called once, by the supervisor."""
    return create_memory("borzoi-requests", layout.size)


class RequestMemory:
    """The map of the memory in one worker, and the use of its own region."""

    def __init__(self, fd: int, layout: RequestLayout, own: Beginner) -> None:
        """Entries that the dead worker of this shard has held are free to be claimed again."""
        self._memory = map_memory(fd, layout.size, writable=True)
        self._words = self._memory.words
        self._bytes = self._memory.bytes
        self._layout = layout
        self.own = own
        self._unused = 0  # entries from here on were never used, in this life or before
        self._released: dict[int, None] = {}  # the one that was released first is first
        self._take_over()

    def find(self, key: ClientKey) -> Found | None:
        """The newest entry of a client in any region; None if it has none."""
        packed = key.packed()
        newest: Found | None = None
        for shard in range(self._layout.shard_count):
            for place in self._places(shard, packed):
                at = self._layout.entry(place)
                words = HEAD.unpack_from(self._bytes, at)
                if self._bytes[at : at + KEY.size] != packed:
                    continue
                if newest is None or words[CLAIM] > newest.claim:
                    newest = Found(place, words[CLAIM], words[HOLDER])
        return newest

    def claim(self, key: ClientKey, now_ns: int) -> Entry | None:
        """An entry of our region for this client, as its newest one; None if all are held.

        Only while no other session uses the newest one.
        """
        found = self.find(key)
        if found is not None and found.place.shard == self.own.shard:
            slot = found.place.slot
            self._released.pop(slot, None)
            return self._hold(slot, key, found.claim + 1, now_ns)
        copied = None if found is None else self._copy(found, key)
        free = self._free_slot()
        if free is None:
            return None
        place = Place(self.own.shard, free)
        self._write(place, key, copied)
        entry = self._hold(free, key, 1 if found is None else found.claim + 1, now_ns)
        self._words[self._layout.fingerprint(place) // WORD_SIZE] = _fingerprint(key.packed())
        return entry

    def release(self, entry: Entry, now_ns: int) -> None:
        """The session that used the entry has ended; it is kept until its place is needed."""
        at = self._layout.entry(Place(self.own.shard, entry.slot)) // WORD_SIZE
        self._words[at + USED_AT] = now_ns
        self._words[at + HOLDER] = 0
        self._released[entry.slot] = None

    def close(self) -> bool:
        """Unmap; True if the map is gone at once."""
        return self._memory.close()

    def _take_over(self) -> None:
        """After a death: what our region holds is held by no session any more."""
        used = []
        first = self._layout.fingerprint(Place(self.own.shard, 0))
        prints = self._bytes[first : first + self._layout.entries * WORD_SIZE].cast("Q")
        for slot, print_ in enumerate(prints.tolist()):
            if print_:
                at = self._layout.entry(Place(self.own.shard, slot)) // WORD_SIZE
                self._words[at + HOLDER] = 0
                used.append((self._words[at + USED_AT], slot))
                self._unused = slot + 1
        self._released = dict.fromkeys(slot for _, slot in sorted(used))
        # One that was being claimed at the death.
        unused = set(range(self._unused)) - self._released.keys()
        self._released = dict.fromkeys([*sorted(unused), *self._released])

    def _places(self, shard: int, packed: bytes) -> list[Place]:
        """Entries of a region whose fingerprint is that of the key."""
        first = self._layout.fingerprint(Place(shard, 0))
        prints = bytes(self._bytes[first : first + self._layout.entries * WORD_SIZE])
        wanted = struct.pack("Q", _fingerprint(packed))
        found = []
        at = prints.find(wanted)
        while at >= 0:
            if at % WORD_SIZE == 0:
                found.append(Place(shard, at // WORD_SIZE))
            at = prints.find(wanted, at + 1)
        return found

    def _copy(self, found: Found, key: ClientKey) -> bytes | None:
        """Line 1 and the reply of another region's entry; None if it was given away meanwhile."""
        at = self._layout.entry(found.place)
        copied = bytes(self._bytes[at + REPLY_AT // 2 : at + ENTRY_SIZE])
        print_ = self._words[self._layout.fingerprint(found.place) // WORD_SIZE]
        is_same = print_ == _fingerprint(key.packed()) and (
            self._words[at // WORD_SIZE + CLAIM] == found.claim
        )
        return copied if is_same else None

    def _free_slot(self) -> int | None:
        """An entry that no session holds: one that was never used, or the one unused longest."""
        if self._unused < self._layout.entries:
            self._unused += 1
            return self._unused - 1
        if not self._released:
            return None
        slot = next(iter(self._released))
        del self._released[slot]
        return slot

    def _write(self, place: Place, key: ClientKey, copied: bytes | None) -> None:
        """Make an entry that of a client, without its fingerprint."""
        self._words[self._layout.fingerprint(place) // WORD_SIZE] = 0
        at = self._layout.entry(place)
        self._bytes[at : at + KEY.size] = key.packed()
        if copied is None:
            copied = bytes(REPLY_AT // 2)
        start = at + REPLY_AT // 2
        self._bytes[start : start + len(copied)] = copied

    def _hold(self, slot: int, key: ClientKey, claim: int, now_ns: int) -> Entry:
        at = self._layout.entry(Place(self.own.shard, slot))
        word = at // WORD_SIZE
        self._words[word + USED_AT] = now_ns
        self._words[word + CLAIM] = claim
        self._words[word + HOLDER] = self.own.generation
        return Entry(self._words, self._bytes, at, slot, key)


def _fingerprint(packed: bytes) -> int:
    """A digest that is never 0."""
    return xxhash.xxh3_64_intdigest(packed) | 1
