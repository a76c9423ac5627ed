"""Seals, compiled and plain: same results, and what was taken apart comes together again."""

import random
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from borzoi.protocol.batch import first_bad_message, stamp_batch
from borzoi.protocol.message import ENCRYPTED_MARK, Message, encode_messages
from borzoi.protocol.plain_seals import BESIDE_SIZE, TAIL_SIZE, Split
from tests.protocol.fenced import Fence
from tests.protocol.twins import compiled_loops, plain_loops

compiled = compiled_loops()

ROOM = 1024
MESSAGES_MAX = 8
TAIL = bytes(range(TAIL_SIZE))
BATCHES = st.lists(st.tuples(st.binary(max_size=300), st.binary(max_size=40)), max_size=12)

# What the compiled loops are given lies directly before memory that must not be touched.
FENCES = [Fence(16 * 1024) for _ in range(3)]


def stamped(bodies: list[tuple[bytes, bytes]], first_offset: int) -> bytes:
    """A batch as it is before it is encrypted."""
    messages = [Message(payload, 7, headers) for payload, headers in bodies]
    batch = memoryview(bytearray(encode_messages(messages)))
    stamp_batch(batch, len(messages), first_offset, 99, random.randbytes, first_offset, 0)
    return bytes(batch)


def fenced(number: int, size: int | bytes) -> memoryview:
    content = bytes(size) if isinstance(size, int) else size
    return FENCES[number].at_the_end(content)


def sealed(twin: Any, batch: bytes) -> tuple[bytes, list[Split]]:
    """The stored form of a batch, not encrypted, and its seals."""
    stored = memoryview(bytearray(len(batch) + len(batch) // 64 * TAIL_SIZE))
    at = end = 0
    seals: list[Split] = []
    while at < len(batch):
        bodies, beside = fenced(0, ROOM), fenced(1, MESSAGES_MAX * BESIDE_SIZE)
        seal = twin.split_plain(fenced(2, batch), at, bodies, beside)
        assert 0 < seal.message_count <= MESSAGES_MAX
        assert seal.size <= ROOM
        end = twin.join_sealed(stored, end, beside, seal.message_count, bodies[: seal.size], TAIL)
        seals.append(seal)
        at = seal.end
    return bytes(stored[:end]), seals


@given(BATCHES, st.integers(0, 1 << 40))
def test_the_twins_seal_alike_and_a_walk_finds_every_message(
    bodies: list[tuple[bytes, bytes]], first_offset: int
) -> None:
    batch = stamped(bodies, first_offset)
    stored, seals = sealed(compiled, batch)
    assert (stored, seals) == sealed(plain_loops, batch)
    assert sum(seal.message_count for seal in seals) == len(bodies)
    marked = first_offset | ENCRYPTED_MARK
    for twin in (compiled, plain_loops):
        view = memoryview(bytearray(stored))
        twin.stamp_batch(view, len(bodies), marked, 99, random.randbytes, marked, 0)
        assert first_bad_message(view, len(bodies), marked) is None
        # Only the checksums were missing.
        assert _without_checksums(view) == _without_checksums(stored)


@given(BATCHES, st.integers(0, 1 << 40), st.data())
def test_what_was_sealed_comes_back(
    bodies: list[tuple[bytes, bytes]], first_offset: int, data: st.DataObject
) -> None:
    batch = stamped(bodies, first_offset)
    stored, seals = sealed(plain_loops, batch)
    for twin in (compiled, plain_loops):
        at, number, plain = 0, 0, b""
        for seal in seals:
            bodies_room, beside = fenced(0, ROOM), fenced(1, MESSAGES_MAX * BESIDE_SIZE)
            found = twin.split_sealed(
                fenced(2, stored), at, first_offset + number, bodies_room, beside
            )
            assert (found.message_count, found.size) == (seal.message_count, seal.size)
            out = memoryview(bytearray(ROOM + MESSAGES_MAX * 64))
            size = twin.join_plain(beside, bodies_room[: found.size], 0, found.message_count, out)
            plain += out[:size]
            first = data.draw(st.integers(0, found.message_count))
            last = data.draw(st.integers(first, found.message_count))
            part = memoryview(bytearray(size))
            part_size = twin.join_plain(beside, bodies_room[: found.size], first, last, part)
            assert bytes(part[:part_size]) in bytes(out[:size])
            at, number = found.end, number + found.message_count
        assert plain == batch


@given(
    st.lists(st.tuples(st.binary(max_size=60), st.binary(max_size=9)), min_size=1, max_size=6),
    st.data(),
)
def test_the_twins_judge_changed_seals_alike(
    bodies: list[tuple[bytes, bytes]], data: st.DataObject
) -> None:
    stored, _ = sealed(plain_loops, stamped(bodies, 5))
    changed = bytearray(stored)
    for _ in range(data.draw(st.integers(0, 3))):
        changed[data.draw(st.integers(0, len(changed) - 1))] = data.draw(st.integers(0, 255))
    content = bytes(changed[: data.draw(st.integers(0, len(changed)))])
    room = data.draw(st.sampled_from([0, 50, ROOM]))
    headers = data.draw(st.sampled_from([0, 2, MESSAGES_MAX]))
    results = []
    for twin in (compiled, plain_loops):
        bodies_room, beside = fenced(0, room), fenced(1, headers * BESIDE_SIZE)
        found = twin.split_sealed(fenced(2, content), 0, 5, bodies_room, beside)
        taken = bytes(bodies_room[: found.size]), bytes(beside[: found.message_count * BESIDE_SIZE])
        results.append((found, taken))
    assert results[0] == results[1]


@pytest.mark.parametrize("twin", [compiled, plain_loops])
@pytest.mark.parametrize(
    "call",
    [
        lambda twin, beside: twin.join_sealed(bytearray(10), 0, beside, 1, memoryview(b""), TAIL),
        lambda twin, beside: twin.join_sealed(bytearray(900), 0, beside, 1, memoryview(b""), b""),
        lambda twin, beside: twin.join_plain(beside, memoryview(b""), 0, 1, bytearray(900)),
        lambda twin, beside: twin.join_plain(bytes(BESIDE_SIZE), b"x", 0, 1, bytearray(900)),
    ],
)
def test_what_does_not_fit_is_refused(twin: Any, call: Callable[[Any, memoryview], object]) -> None:
    beside = memoryview(bytearray(BESIDE_SIZE))
    twin.split_plain(memoryview(stamped([(b"payload", b"")], 0)), 0, bytearray(99), beside)
    with pytest.raises(AssertionError):
        call(twin, beside)


def _without_checksums(stored: bytes | memoryview) -> list[bytes]:
    found, at = [], 0
    while at < len(stored):
        size = 64 + int.from_bytes(stored[at + 48 : at + 52], "little")
        size += int.from_bytes(stored[at + 52 : at + 56], "little")
        found.append(bytes(stored[at + 8 : at + size]))
        at += size
    return found
