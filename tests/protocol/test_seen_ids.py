"""The window of message ids: against a model, and the compiled one against its plain twin.

The model is a list of all messages ever stored: an id is a duplicate if one of the last so many
that are not too old bears it.
"""

import struct
import sys
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from borzoi.protocol import plain_log, plain_seen_ids
from borzoi.protocol.batch import INDEX_ENTRY, message_start
from borzoi.protocol.errors import InvalidMessagesSize
from borzoi.protocol.message import Message, decode_messages, encode_messages
from tests.protocol.fenced import Fence

compiled = pytest.importorskip("borzoi.protocol._seen_ids")

SEED = 0x1234_5678_9ABC_DEF0
SIZE_MAX = 16 * 1024
ENTRY_SIZE_MAX = 40
"""What docs/DURABILITY.md says a remembered id costs at most, compiled."""

BATCH_FENCE, OTHER_FENCE, ENTRIES_FENCE = Fence(SIZE_MAX), Fence(SIZE_MAX), Fence(SIZE_MAX)


@pytest.fixture(scope="module", params=["plain", "compiled"])
def twin(request: pytest.FixtureRequest) -> ModuleType:
    return plain_seen_ids if request.param == "plain" else compiled


def batch_of(*ids: int, payload: bytes = b"p") -> memoryview:
    return BATCH_FENCE.at_the_end(
        encode_messages(Message(payload * (number % 3), id) for number, id in enumerate(ids))
    )


def ids_in(batch: memoryview | bytearray) -> list[int]:
    return [one.id for one in decode_messages(memoryview(batch))]


class Counting:
    """Random bytes that are different and known."""

    def __init__(self) -> None:
        self.drawn = 1 << 40

    def __call__(self, size: int) -> bytes:
        numbers = range(self.drawn, self.drawn + size // 16)
        self.drawn += len(numbers)
        return b"".join(number.to_bytes(16, "little") for number in numbers)


def admitted(seen: Any, *ids: int, at: int = 1) -> list[int]:
    """The ids of those messages of a batch that are new."""
    batch = batch_of(*ids)
    sent = list(decode_messages(batch))
    survivors = seen.admit(batch, len(ids), at, Counting())
    after = list(decode_messages(batch))
    assert [one.payload for one in after] == [one.payload for one in sent]
    if survivors is None:
        return ids_in(batch)
    kept = list(decode_messages(memoryview(survivors.batch)))
    starts = memoryview(survivors.starts).cast("I").tolist()
    assert survivors.message_count == len(kept) == len(starts) < len(ids)
    began = {message_start(batch, number): one for number, one in enumerate(after)}
    assert [began[start] for start in starts] == kept
    return [one.id for one in kept]


def test_an_id_is_new_once(twin: ModuleType) -> None:
    seen = twin.SeenIds(10, 0, SEED)
    assert admitted(seen, 1, 2, 3) == [1, 2, 3]
    assert admitted(seen, 2, 4, 1) == [4]
    assert admitted(seen, 1, 2, 3, 4) == []
    assert len(seen) == 4


def test_the_first_of_several_in_one_batch_wins(twin: ModuleType) -> None:
    seen = twin.SeenIds(10, 0, SEED)
    batch = BATCH_FENCE.at_the_end(
        encode_messages([Message(b"first", 7), Message(b"second", 7), Message(b"other", 8)])
    )
    survivors = seen.admit(batch, 3, 1, Counting())
    payloads = [one.payload for one in decode_messages(memoryview(survivors.batch))]
    assert payloads == [b"first", b"other"]


def test_messages_without_an_id_get_one_and_are_never_duplicates(twin: ModuleType) -> None:
    seen = twin.SeenIds(100, 0, SEED)
    given_ids = admitted(seen, 0, 0, 5, 0)
    assert len(set(given_ids)) == 4
    assert 0 not in given_ids
    assert len(admitted(seen, 0, 0, 5, 0)) == 3
    # Those they got are known from then on, like any other.
    assert admitted(seen, *given_ids) == []


def test_both_halves_of_an_id_count(twin: ModuleType) -> None:
    seen = twin.SeenIds(10, 0, SEED)
    assert admitted(seen, 1, 1 << 64) == [1, 1 << 64]
    assert admitted(seen, 1 | 1 << 64, 1, 1 << 64) == [1 | 1 << 64]


def test_an_id_expires_and_is_not_refreshed(twin: ModuleType) -> None:
    seen = twin.SeenIds(10, 100, SEED)
    assert admitted(seen, 1, at=1000) == [1]
    assert admitted(seen, 1, at=1099) == []
    assert admitted(seen, 1, at=1100) == [1]
    assert len(seen) == 1


def test_the_oldest_leaves_when_there_are_too_many(twin: ModuleType) -> None:
    seen = twin.SeenIds(3, 0, SEED)
    assert admitted(seen, 1, 2, 3, 4) == [1, 2, 3, 4]
    assert len(seen) == 3
    assert admitted(seen, 2, 3, 4) == []
    assert admitted(seen, 1) == [1]
    assert admitted(seen, 2) == [2]
    assert admitted(seen, 4, 1) == []


def test_how_far_back_a_message_lies(twin: ModuleType) -> None:
    seen = twin.SeenIds(5, 0, SEED)
    for id in range(1, 9):
        assert seen.back_to_first(batch_of(id, 1)) == 0
        assert admitted(seen, id) == [id]
        known = range(max(1, id - 4), id + 1)
        assert [seen.back_to_first(batch_of(one)) for one in known] == [
            id + 1 - one for one in known
        ]
    assert seen.back_to_first(batch_of(3)) == 0


def test_what_a_damaged_index_hides_keeps_its_place(twin: ModuleType) -> None:
    seen = twin.SeenIds(10, 0, SEED)
    messages = [Message(b"x", id) for id in range(1, 6)]
    log = encode_messages(messages)
    size = len(log) // 5
    ends = [size, 2 * size, 10**9, 4 * size, 5 * size]
    entries = b"".join(INDEX_ENTRY.pack(at, end, 1) for at, end in enumerate(ends))
    seen.remember(memoryview(bytearray(log)), 0, memoryview(entries))
    assert len(seen) == 5
    assert [seen.back_to_first(batch_of(id)) for id in (1, 2, 3, 4, 5)] == [5, 4, 3, 0, 1]


def test_a_batch_of_more_ids_than_the_window_holds(twin: ModuleType) -> None:
    seen = twin.SeenIds(2, 0, SEED)
    assert admitted(seen, 1, 2, 3, 1, 2, 2) == [1, 2, 3, 1, 2]
    assert len(seen) == 2


@pytest.mark.parametrize("entries_max", [0, plain_seen_ids.ENTRIES_MAX + 1])
def test_a_window_of_an_impossible_size(twin: ModuleType, entries_max: int) -> None:
    with pytest.raises(ValueError, match="ids"):
        twin.SeenIds(entries_max, 0, SEED)


@pytest.mark.parametrize("change", [1, -1])
@pytest.mark.parametrize("count_off", [0, 1, -1])
def test_a_batch_that_is_not_one_changes_nothing(
    twin: ModuleType, change: int, count_off: int
) -> None:
    seen = twin.SeenIds(10, 0, SEED)
    content = bytearray(encode_messages([Message(b"abc", 0), Message(b"de", 2)]))
    (length,) = struct.unpack_from("<I", content, 52)
    struct.pack_into("<I", content, 52, length + change)
    batch = BATCH_FENCE.at_the_end(bytes(content))
    with pytest.raises(InvalidMessagesSize):
        seen.admit(batch, 2 + count_off, 1, Counting())
    assert len(seen) == 0
    assert bytes(batch) == content


@pytest.mark.parametrize("count", [64, 1000, 5000])
def test_what_an_entry_costs(count: int) -> None:
    seen = compiled.SeenIds(count, 0, SEED)
    empty = sys.getsizeof(seen)
    for first in range(1, 2 * count, 50):
        seen.admit(batch_of(*range(first, first + 50)), 50, 1, Counting())
    assert len(seen) == count
    slack = 64 * 4  # the smallest table
    assert sys.getsizeof(seen) - empty <= ENTRY_SIZE_MAX * count + slack


def test_memory_is_given_back_when_ids_expire(twin: ModuleType) -> None:
    seen = twin.SeenIds(10_000, 1000, SEED)
    empty = sys.getsizeof(seen)
    for first in range(1, 3001, 50):
        seen.admit(batch_of(*range(first, first + 50)), 50, first, Counting())
    full = sys.getsizeof(seen)
    seen.forget_expired(3900)
    assert len(seen) == 100
    assert sys.getsizeof(seen) < full
    assert admitted(seen, 2900, 2901, 3000, at=3900) == [2900]
    seen.forget_expired(9999)
    assert len(seen) == 0
    assert sys.getsizeof(seen) <= empty + 1000
    assert admitted(seen, 1, at=10_000) == [1]


def test_ids_whose_halves_are_counters_are_spread(twin: ModuleType) -> None:
    """Ids that clients really use: small numbers, times, one half fixed. None is confused."""
    for shift in (0, 32, 64, 96):
        seen = twin.SeenIds(4096, 0, SEED)
        ids = [1 << 127 | number << shift for number in range(200)]
        assert admitted(seen, *ids) == ids
        assert admitted(seen, *ids) == []


# Against the model, with everything that can happen to a window.

few_ids = st.integers(0, 12) | st.integers(1, 3).map(lambda number: number << 64)
steps = st.lists(
    st.tuples(
        st.sampled_from(["admit", "admit", "admit", "trim", "read back"]),
        st.lists(few_ids, min_size=1, max_size=8),
        st.integers(0, 40),  # time that passes
    ),
    max_size=25,
)


class Model:
    def __init__(self, entries_max: int, expiry_us: int) -> None:
        self.entries_max = entries_max
        self.expiry_us = expiry_us
        self.stored: list[tuple[int, int]] = []

    def window(self, now: int) -> list[tuple[int, int]]:
        last = self.stored[-self.entries_max :]
        return [(id, at) for id, at in last if not self.expiry_us or now - at < self.expiry_us]

    def is_new(self, id: int, now: int) -> bool:
        return id == 0 or all(id != known for known, _ in self.window(now))


@pytest.mark.slow
@settings(max_examples=200)
@given(steps, st.sampled_from([1, 2, 3, 5, 70]), st.sampled_from([0, 1, 30, 100]))
def test_the_model(
    twin: ModuleType,
    steps: list[tuple[str, list[int], int]],
    entries_max: int,
    expiry_us: int,
) -> None:
    model = Model(entries_max, expiry_us)
    seen = twin.SeenIds(entries_max, expiry_us, SEED)
    now = 1000
    for step, ids, passed in steps:
        now += passed
        if step == "trim":
            seen.forget_expired(now)
        elif step == "read back":
            seen = read_back(twin, model, now)
        else:
            expected = []
            batch = batch_of(*ids)
            survivors = seen.admit(batch, len(ids), now, Counting())
            named = ids_in(batch)
            for sent, id in zip(ids, named, strict=True):
                if model.is_new(sent, now):
                    expected.append(id)
                    model.stored.append((id, now))
            kept = named if survivors is None else ids_in(survivors.batch)
            assert kept == expected
            assert len(seen) == len(model.window(now))


def read_back(twin: ModuleType, model: Model, now: int) -> Any:
    """A window that a successor makes of the log, in pieces that begin anywhere in a file."""
    seen = twin.SeenIds(model.entries_max, model.expiry_us, SEED)
    window = model.window(now)
    for first in range(0, len(window), 3):
        piece = window[first : first + 3]
        position = 777 * first
        show(
            seen, [Message(b"x" * first, id) for id, _ in piece], [at for _, at in piece], position
        )
    return seen


def show(seen: Any, messages: list[Message], times: list[int], position: int) -> None:
    entries, end = b"", position
    for message, at in zip(messages, times, strict=True):
        end += message.size_bytes
        entries += INDEX_ENTRY.pack(5, end, at)
    seen.remember(
        OTHER_FENCE.at_the_end(encode_messages(messages)).toreadonly(),
        position,
        ENTRIES_FENCE.at_the_end(entries).toreadonly(),
    )


def test_a_log_from_before_deduplication_may_hold_an_id_twice(twin: ModuleType) -> None:
    seen = twin.SeenIds(3, 0, SEED)
    show(seen, [Message(b"", id) for id in (7, 7, 8)], [1, 2, 3], 0)
    assert len(seen) == 3
    assert admitted(seen, 9) == [9]  # drops the older 7
    assert admitted(seen, 7) == []
    assert admitted(seen, 10) == [10]
    assert admitted(seen, 7) == [7]


@settings(max_examples=200)
@given(st.data(), st.integers(0, 300), st.lists(st.integers(0, 600), max_size=6))
def test_an_index_that_leads_astray_reads_nothing_outside(
    data: st.DataObject, size: int, ends: list[int]
) -> None:
    log = data.draw(st.binary(min_size=size, max_size=size))
    entries = b"".join(INDEX_ENTRY.pack(0, end, 1) for end in ends)
    position = data.draw(st.integers(0, 300))
    plain, fast = plain_seen_ids.SeenIds(4, 0, SEED), compiled.SeenIds(4, 0, SEED)
    for fenced in (OTHER_FENCE.at_the_end, OTHER_FENCE.at_the_start):
        view, entries_view = fenced(log).toreadonly(), ENTRIES_FENCE.at_the_end(entries)
        plain.remember(view, position, entries_view)
        fast.remember(view, position, entries_view)
        assert len(plain) == len(fast)


# What a batch with duplicates leaves behind.


def stamped(messages: bytearray, count: int, first_offset: int) -> memoryview:
    view = memoryview(messages)
    plain_log.stamp_batch(view, count, first_offset, 99, bytes, first_offset, 0)
    return view


@settings(max_examples=200)
@given(st.data(), st.lists(few_ids, min_size=1, max_size=8))
def test_a_batch_is_known_again_by_what_was_stored_of_it(
    twin: ModuleType, data: st.DataObject, ids: list[int]
) -> None:
    seen = twin.SeenIds(100, 0, SEED)
    admitted(seen, *data.draw(st.lists(few_ids.filter(bool), min_size=1, max_size=5)))
    batch = batch_of(*ids)
    survivors = seen.admit(batch, len(ids), 1, Counting())
    before = [(one.id, one.payload) for one in decode_messages(batch)]
    if survivors is None:
        stored = stamped(bytearray(batch), len(ids), 5)
        batch[:] = stored
        kept = len(ids)
    else:
        kept = survivors.message_count
        stored = stamped(survivors.batch, kept, 5)
        twin.copy_stamps(batch, stored, survivors.starts)
    assert [(one.id, one.payload) for one in decode_messages(batch)] == before
    if kept:
        checksum, offset = struct.unpack_from("<Q16xQ", batch)
        assert (checksum != 0, offset) == (True, 5)
    # A part of it may be all that a killed write left; others may have written behind it.
    written = data.draw(st.integers(0, kept))
    found = bytes(stored[: message_start(stored, written)])
    others = bytes(stamped(bytearray(encode_messages([Message(b"zz", 1)])), 1, 5 + written))
    cut = data.draw(st.integers(0, len(others)))
    rest, count = twin.without_stored(
        batch.toreadonly(), len(ids), OTHER_FENCE.at_the_end(found + others[:cut]).toreadonly()
    )
    # Behind the last one that is stored; what was dropped in front of it stays dropped.
    starts = [message_start(batch, number) for number in range(len(ids))]
    kept_starts = starts if survivors is None else memoryview(survivors.starts).cast("I").tolist()
    first = starts.index(kept_starts[written - 1]) + 1 if written else 0
    assert [(one.id, one.payload) for one in decode_messages(memoryview(rest))] == before[first:]
    assert count == len(ids) - first
    for other in (plain_seen_ids, compiled):
        assert (rest, count) == other.without_stored(
            batch, len(ids), OTHER_FENCE.at_the_end(found + others[:cut])
        )


def test_a_damaged_batch_is_refused_when_it_is_shown_again(twin: ModuleType) -> None:
    content = bytearray(encode_messages([Message(b"abc", 1)]))
    with pytest.raises(InvalidMessagesSize):
        twin.without_stored(memoryview(content), 2, memoryview(b""))
    content += b"rest"
    with pytest.raises(InvalidMessagesSize):
        twin.without_stored(memoryview(content), 1, memoryview(b""))
