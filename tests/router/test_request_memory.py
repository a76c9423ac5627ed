"""The request memory: what a client made last is found on any shard, after any death."""

import os
import struct
from collections.abc import Iterator
from contextlib import suppress

import pytest

from borzoi.router import request_entry
from borzoi.router.request_entry import (
    ENTRY_SIZE,
    REPLY_SIZE_MAX,
    Answer,
    Beginner,
    ClientKey,
    Entry,
    Hint,
)
from borzoi.router.request_memory import RequestLayout, RequestMemory, create_request_memory
from tests.router.dying import Died, dying

KEY = ClientKey(3, 1_000_000, 0xFEDC << 112 | 7)
HINT = Hint(9, 8, 7)
LAYOUT = RequestLayout(2, 4)


@pytest.fixture
def fd() -> Iterator[int]:
    """A memory of two shards with four entries each."""
    made = create_request_memory(LAYOUT)
    yield made
    os.close(made)


def shard(
    fd: int, number: int, generation: int = 1, layout: RequestLayout = LAYOUT
) -> RequestMemory:
    return RequestMemory(fd, layout, Beginner(number, generation))


def claimed(memory: RequestMemory, key: ClientKey = KEY, now_ns: int = 1) -> Entry:
    entry = memory.claim(key, now_ns)
    assert entry is not None
    return entry


def test_a_new_client_has_made_nothing(fd: int) -> None:
    memory = shard(fd, 0)
    assert memory.find(KEY) is None
    entry = claimed(memory)
    assert (entry.begun, entry.is_answered, entry.hint) == (0, True, None)
    found = memory.find(KEY)
    assert found is not None
    assert (found.place, found.claim, found.holder) == ((0, 0), 1, 1)


def test_a_request_is_in_doubt_until_it_is_answered(fd: int) -> None:
    entry = claimed(shard(fd, 1, generation=5))
    entry.begin(12, Beginner(1, 5), HINT)
    assert (entry.begun, entry.is_answered, entry.hint) == (12, False, HINT)
    assert entry.beginner == Beginner(1, 5)
    entry.begin_again(Beginner(1, 6))
    assert (entry.beginner, entry.hint) == (Beginner(1, 6), HINT)
    entry.end(entry.begun, 0, b"where it lies")
    assert (entry.is_answered, entry.answer) == (True, Answer(0, b"where it lies"))
    entry.begin(13, Beginner(1, 6))
    assert (entry.begun, entry.is_answered, entry.hint) == (13, False, None)
    entry.end(entry.begun, 1009)
    assert entry.answer == Answer(1009, b"")


@pytest.mark.parametrize("size", [0, 1, REPLY_SIZE_MAX - 1, REPLY_SIZE_MAX])
def test_answers_are_kept_up_to_a_size(fd: int, size: int) -> None:
    memory = shard(fd, 0)
    entry, neighbour = claimed(memory), claimed(memory, KEY._replace(client=8))
    neighbour.begin(1, Beginner(0, 1), HINT)
    entry.begin(1, Beginner(0, 1))
    entry.end(entry.begun, 0, b"x" * size)
    assert entry.answer == Answer(0, b"x" * size)
    entry.begin(2, Beginner(0, 1))
    entry.end(entry.begun, 0, b"x" * (REPLY_SIZE_MAX + 1))
    assert entry.answer == Answer(0, None)
    assert (neighbour.begun, neighbour.hint) == (1, HINT)


def test_another_shard_goes_on_with_a_copy(fd: int) -> None:
    first, second = shard(fd, 0), shard(fd, 1)
    entry = claimed(first)
    entry.begin(4, Beginner(0, 1), HINT)
    first.release(entry, 2)
    copied = claimed(second)
    assert (copied.begun, copied.is_answered, copied.hint) == (4, False, HINT)
    assert copied.beginner == Beginner(0, 1)
    copied.end(copied.begun, 0, b"done")
    second.release(copied, 3)
    # And back: the newest of the two is what counts.
    again = claimed(first)
    assert (again.begun, again.answer) == (4, Answer(0, b"done"))
    found = first.find(KEY)
    assert found is not None
    assert (found.place.shard, found.claim) == (0, 3)


@pytest.mark.parametrize(
    "other", [KEY._replace(user_id=4), KEY._replace(created_at=2), KEY._replace(client=7)]
)
def test_no_other_client_finds_it(fd: int, other: ClientKey) -> None:
    memory = shard(fd, 0)
    claimed(memory).begin(4, Beginner(0, 1))
    assert memory.find(other) is None
    assert claimed(memory, other).begun == 0


def test_the_one_unused_longest_makes_room(fd: int) -> None:
    memory = shard(fd, 0)
    entries = [claimed(memory, KEY._replace(client=number)) for number in range(1, 5)]
    assert memory.claim(KEY, 9) is None, "all are held"
    for number in (2, 0):
        entries[number].begin(6, Beginner(0, 1))
        memory.release(entries[number], 10 + number)
    entry = claimed(memory)
    assert (entry.slot, entry.begun) == (2, 0)
    assert memory.find(entries[2].key) is None
    assert memory.find(entries[0].key) is not None


def test_one_that_is_claimed_again_is_not_given_away(fd: int) -> None:
    memory = shard(fd, 0)
    entries = [claimed(memory, KEY._replace(client=number)) for number in range(1, 5)]
    memory.release(entries[1], 10)
    again = claimed(memory, entries[1].key)
    assert again.slot == 1
    assert memory.claim(KEY, 12) is None


def test_a_successor_finds_everything_and_holds_nothing(fd: int) -> None:
    dead = shard(fd, 0)
    entries = [claimed(dead, KEY._replace(client=number), 10 - number) for number in range(1, 5)]
    entries[1].begin(3, Beginner(0, 1), HINT)
    successor = shard(fd, 0, generation=2)
    found = successor.find(entries[1].key)
    assert found is not None
    assert found.holder == 0
    entry = claimed(successor, entries[1].key)
    assert (entry.begun, entry.is_answered, entry.hint) == (3, False, HINT)
    # The others make room in the order in which they were used.
    order = [claimed(successor, KEY._replace(client=number)).slot for number in range(11, 14)]
    assert order == [3, 2, 0]
    assert successor.claim(KEY, 12) is None


def copy_of(fd: int) -> bytes:
    return os.pread(fd, LAYOUT.size, 0)


class DyingStores:
    """Stores words one after the other, as `pack_into` does, and dies after so many."""

    def __init__(self, left: int) -> None:
        self._left = left

    def __call__(self, memory: memoryview, at: int, *words: int) -> None:
        for number, word in enumerate(words):
            if self._left == 0:
                raise Died
            self._left -= 1
            struct.pack_into("Q", memory, at + 8 * number, word)


def test_death_at_every_store_of_a_request(fd: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """After each of them the last request is the one before, in doubt, or answered."""
    entry = claimed(shard(fd, 0))
    entry.begin(1, Beginner(0, 1), Hint(1, 1, 1))
    entry.end(1, 0, b"first")
    before = copy_of(fd)
    seen = []
    for stores in range(9):
        os.pwrite(fd, before, 0)
        dying_stores = DyingStores(stores)
        monkeypatch.setattr(request_entry, "_store_begin", dying_stores)
        monkeypatch.setattr(request_entry, "_store_end", dying_stores)
        doomed = claimed(shard(fd, 0, generation=2))
        with suppress(Died):
            doomed.begin(2, Beginner(0, 2), HINT)
            doomed.end(2, 7, b"second")
        left = claimed(shard(fd, 1))
        if left.begun == 1:
            assert left.answer == Answer(0, b"first")
        elif left.is_answered:
            assert left.answer == Answer(7, b"second")
        else:
            assert (left.hint, left.beginner) == (HINT, Beginner(0, 2))
        seen.append((left.begun, left.is_answered))
    assert seen == [(1, True)] * 6 + [(2, False)] * 2 + [(2, True)]


def test_death_at_every_store_of_a_claim(fd: int) -> None:
    """The entry that made room is gone, or the client that came has it: never a mixture."""
    layout = RequestLayout(2, 1)
    old, new = KEY, KEY._replace(client=99)
    memory = shard(fd, 0, layout=layout)
    entry = claimed(memory, old)
    entry.begin(5, Beginner(0, 1), HINT)
    memory.release(entry, 2)
    before = copy_of(fd)
    seen = []
    for stores in range(6):
        os.pwrite(fd, before, 0)
        doomed = shard(fd, 0, 2, layout)
        doomed._words = dying(doomed._words, stores)
        with suppress(Died):
            claimed(doomed, new)
        successor = shard(fd, 0, 3, layout)
        found = (successor.find(old) is not None, successor.find(new) is not None)
        seen.append(found)
        begun = claimed(successor, old).begun
        assert begun == (5 if found[0] else 0)
    assert seen == [(True, False)] + [(False, False)] * 4 + [(False, True)]


def test_a_copy_of_an_entry_that_is_given_away_meanwhile_is_not_used(fd: int) -> None:
    layout = RequestLayout(2, 1)
    first, second = shard(fd, 0, layout=layout), shard(fd, 1, layout=layout)
    entry = claimed(first)
    entry.begin(5, Beginner(0, 1))
    first.release(entry, 2)
    found = second.find(KEY)
    assert found is not None
    claimed(first, KEY._replace(client=1))
    assert second._copy(found, KEY) is None


def test_entries_cost_memory_when_they_are_used() -> None:
    layout = RequestLayout(2, 10_000)
    fd = create_request_memory(layout)
    memory = shard(fd, 1, layout=layout)
    claimed(memory).begin(1, Beginner(1, 1))
    assert os.fstat(fd).st_size == layout.size > 2 * 10_000 * ENTRY_SIZE
    assert os.fstat(fd).st_blocks * 512 <= 50 * 4096
    assert memory.close()
    os.close(fd)


@pytest.mark.parametrize(("shards", "entries"), [(0, 1), (1, 0)])
def test_there_is_one_entry_at_least(shards: int, entries: int) -> None:
    with pytest.raises(ValueError, match="one at least"):
        RequestLayout(shards, entries)
