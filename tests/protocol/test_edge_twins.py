"""The compiled loops at the edge against the plain ones, on sound and on damaged messages.

What the compiled loops are given lies directly before or behind memory that must not be touched.
"""

import struct
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import xxhash
from hypothesis import given, settings
from hypothesis import strategies as st

from borzoi.protocol.edge_layouts import EdgeLayout
from borzoi.protocol.errors import CannotReadMessage
from borzoi.protocol.headers import FIXED_SIZES, HeaderKind
from borzoi.protocol.identifiers import U32_MAX, U64_MAX
from borzoi.protocol.message import Message, decode_messages, encode_messages
from tests.protocol import foreign
from tests.protocol.fenced import Fence
from tests.protocol.twins import compiled_loops, plain_loops

compiled = compiled_loops()

SIZE_MAX = 16 * 1024
FENCES = Fence(SIZE_MAX), Fence(SIZE_MAX), Fence(SIZE_MAX)

Outcome = tuple[Any, ...]


def outcome(function: Callable[..., Any], *arguments: Any) -> Outcome:
    """What came of a call, in a form that can be compared."""
    try:
        return "returned", function(*arguments)
    except Exception as error:
        return "raised", type(error), getattr(error, "status", None)


def fenced(contents: list[bytes], at_the_start: bool) -> list[memoryview]:
    """Each in a fence of its own, and not to be written to."""
    return [
        (fence.at_the_start(one) if at_the_start else fence.at_the_end(one)).toreadonly()
        for fence, one in zip(FENCES, contents, strict=False)
    ]


# User headers: mostly sound pairs, some with a wrong kind or size, some cut or grown.

kinds = st.sampled_from([1, 2, 2, 2, 3, 4, 8, 11, 13, 14, 15]) | st.integers(0, 17)
field_bytes = (
    st.text(min_size=1, max_size=8).map(str.encode)
    | st.binary(max_size=9)
    | st.sampled_from([bytes(255), bytes(256), b"\xff" * 255, b"\xed\xa0\x80", b"\xf4\x90\x80\x80"])
)


@st.composite
def fields(draw: st.DrawFn) -> tuple[int, bytes]:
    kind = draw(kinds)
    fixed = FIXED_SIZES.get(HeaderKind(kind)) if 1 <= kind <= 15 else None
    if fixed is not None and draw(st.integers(0, 9)):
        return kind, draw(st.binary(min_size=fixed, max_size=fixed))
    return kind, draw(field_bytes)


@st.composite
def blocks(draw: st.DrawFn, *, has_key_kinds: bool) -> bytes:
    block = b""
    for _ in range(draw(st.integers(0, 4))):
        (key_kind, key), (kind, value) = draw(fields()), draw(fields())
        if has_key_kinds:
            block += bytes((key_kind,))
        block += foreign.bare_pair(key, kind, value)
    if draw(st.integers(0, 5)) == 0:
        block = block[: draw(st.integers(0, len(block)))] + draw(st.binary(max_size=6))
    return block


times = st.sampled_from([0, 5, U32_MAX, U32_MAX + 5, 2 * U32_MAX, U64_MAX]) | st.integers(0, 20)


def batches(user_headers: st.SearchStrategy[bytes]) -> st.SearchStrategy[list[Message]]:
    return st.lists(
        st.builds(
            Message,
            payload=st.binary(max_size=40),
            id=st.sampled_from([0, 1, 2**64, 2**128 - 1]),
            user_headers=user_headers,
            origin_timestamp=times,
            offset=st.sampled_from([0, U64_MAX]) | st.integers(0, 3),
            timestamp=st.integers(7, 8),
        ),
        max_size=6,
    )


bare_batches = batches(blocks(has_key_kinds=False))
stored_batches = batches(blocks(has_key_kinds=True))
any_batches = batches(st.binary(max_size=20))

numbers = st.sampled_from(
    [0, 1, 24, 48, 56, 64, 100_000, 100_001, 64_000_001, 2**31, U32_MAX - 48, U32_MAX]
) | st.integers(0, 300)


@st.composite
def damaged(draw: st.DrawFn, sound: bytes, places: list[int], room: int = SIZE_MAX) -> bytes:
    """The bytes with a few faults, most of them in the u32 at one of these places."""
    content = bytearray(sound)
    for _ in range(draw(st.integers(0, 2)) if places else 0):
        at = draw(st.sampled_from(places))
        if at + 4 <= len(content):
            content[at : at + 4] = draw(numbers).to_bytes(4, "little")
    if content and draw(st.integers(0, 5)) == 0:
        content[draw(st.integers(0, len(content) - 1))] ^= 1 << draw(st.integers(0, 7))
    if draw(st.integers(0, 5)) == 0:
        del content[draw(st.integers(0, len(content))) :]
    if draw(st.integers(0, 5)) == 0:
        content += draw(st.binary(max_size=70))
    return bytes(content[:room])


# What arrives.


def starts(sizes: list[int], first: int = 0) -> list[int]:
    return [first + sum(sizes[:number]) for number in range(len(sizes))]


def signed(body: bytes, message_count: int) -> bytes:
    """The batch with checksums that match, as far as its frames can be found."""
    batch, checksums, at = bytearray(body), b"", 256
    for _ in range(message_count):
        if at + 48 > len(batch):
            return bytes(batch)
        headers_size, payload_size = struct.unpack_from("<II", batch, at + 32)
        end = at + 48 + headers_size + payload_size
        if end > len(batch):
            return bytes(batch)
        struct.pack_into("<Q", batch, at, xxhash.xxh3_64_intdigest(batch[at + 8 : end]))
        checksums += batch[at : at + 8]
        at = end
    if at == len(batch):
        struct.pack_into("<Q", batch, 32, at)
    covered = batch[:40] + batch[48:52] + checksums
    struct.pack_into("<Q", batch, 40, xxhash.xxh3_64_intdigest(covered))
    return bytes(batch)


@pytest.mark.slow
@settings(max_examples=200)
@given(st.data(), any_batches, st.booleans(), st.booleans())
def test_consensus_batches(
    data: st.DataObject, batch: list[Message], is_signed: bool, at_the_start: bool
) -> None:
    origin = data.draw(st.sampled_from([0, 1, U64_MAX]))
    body = foreign.consensus_batch(batch, origin=origin, timestamp_delta=data.draw(numbers))
    frames = starts([message.size_bytes - 16 for message in batch], 256)
    places = [32, 48, 52, 252, *(start + at for start in frames for at in (0, 24, 28, 32, 36, 40))]
    body = data.draw(damaged(body, places))
    if is_signed and len(body) >= 256:
        body = signed(body, len(batch))
    count = max(0, len(batch) + data.draw(st.sampled_from([0, 0, 0, 0, 1, -1])))
    expected = outcome(plain_loops.stored_from_consensus, memoryview(body), count)
    (view,) = fenced([body], at_the_start)
    assert outcome(compiled.stored_from_consensus, view, count) == expected


@pytest.mark.slow
@settings(max_examples=100)
@given(st.data(), st.booleans())
def test_looked_up_consensus_sends(data: st.DataObject, at_the_start: bool) -> None:
    payload = data.draw(damaged(foreign.SENT_PAYLOAD, [0, 4, 26, 30 + 32, 30 + 48]))
    routes = {foreign.SENT_METADATA: "here", payload[:12]: "there"}
    expected = outcome(plain_loops.find_consensus_send, memoryview(payload), routes)
    (view,) = fenced([payload], at_the_start)
    assert outcome(compiled.find_consensus_send, view, routes) == expected


@pytest.mark.slow
@settings(max_examples=200)
@given(st.data(), bare_batches, times, st.booleans())
def test_old_batches(
    data: st.DataObject, batch: list[Message], origin: int, at_the_start: bool
) -> None:
    sizes = [24 + len(message.payload) + len(message.user_headers) for message in batch]
    lengths = [start + 16 for start in starts(sizes)]
    lengths += [
        at + 4 + len(message.user_headers) for at, message in zip(lengths, batch, strict=True)
    ]
    content = data.draw(damaged(foreign.old_batch(batch), lengths))
    expected = outcome(plain_loops.stored_from_old, memoryview(content), origin)
    (view,) = fenced([content], at_the_start)
    assert outcome(compiled.stored_from_old, view, origin) == expected


@pytest.mark.slow
@settings(max_examples=200)
@given(st.data(), bare_batches, st.booleans())
def test_short_batches(data: st.DataObject, batch: list[Message], at_the_start: bool) -> None:
    indexes, messages = map(bytes, foreign.short_batch(batch))
    sizes = [message.size_bytes - 8 for message in batch]
    places = [start + at for start in starts(sizes) for at in (24, 48, 52)]
    content = data.draw(damaged(messages, places))
    index = data.draw(damaged(indexes, list(range(0, len(indexes), 4)), len(indexes)))
    expected = outcome(
        plain_loops.stored_from_short, memoryview(index), memoryview(content), len(batch)
    )
    views = fenced([index, content], at_the_start)
    assert outcome(compiled.stored_from_short, *views, len(batch)) == expected


# What leaves.


def in_pieces(loops: Any, layout: int, views: list[memoryview]) -> bytes:
    def pieces() -> Iterator[bytes]:
        filled = [view for view in views if len(view)]
        for number, view in enumerate(filled, start=1):
            at = 0
            while at < len(view):
                before = at
                piece, at = loops.converted_piece(layout, view, at, 5, number == len(filled))
                assert at > before
                yield piece

    return b"".join(pieces())


def in_offset_order(batch: list[Message], data: st.DataObject) -> list[Message]:
    """Most messages of a log follow one another."""
    if data.draw(st.integers(0, 3)) == 0:
        return batch
    return [
        Message(
            message.payload,
            message.id,
            message.user_headers,
            message.origin_timestamp,
            number,
            message.timestamp,
        )
        for number, message in enumerate(batch)
    ]


@pytest.mark.slow
@settings(max_examples=300)
@given(
    st.data(),
    st.lists(stored_batches, max_size=3),
    st.sampled_from(EdgeLayout),
    st.booleans(),
)
def test_leaving(
    data: st.DataObject, batches: list[list[Message]], layout: EdgeLayout, at_the_start: bool
) -> None:
    contents = []
    for batch in batches:
        content = encode_messages(in_offset_order(batch, data))
        places = [
            start + at
            for start in starts([message.size_bytes for message in batch])
            for at in (48, 52)
        ]
        if data.draw(st.integers(0, 3)) == 0:
            content = data.draw(damaged(content, places))
        contents.append(content)
    plain_views = [memoryview(content) for content in contents]
    expected = outcome(plain_loops.converted, layout, plain_views, 5)
    assert expected[0] == "returned" or expected[1] is CannotReadMessage
    views = fenced(contents, at_the_start)
    assert outcome(compiled.converted, layout, views, 5) == expected
    assert outcome(in_pieces, compiled, layout, views) == expected
    assert outcome(in_pieces, plain_loops, layout, plain_views) == expected
    sizes = [outcome(loops.converted_size, layout, views) for loops in (compiled, plain_loops)]
    assert sizes[0] == sizes[1]
    if expected[0] == "returned":
        assert sizes[0] == ("returned", len(expected[1]))
    else:
        assert sizes[0] == expected


# Round trips.

clean_pairs = st.builds(
    foreign.bare_pair,
    st.text(min_size=1, max_size=20).map(str.encode),
    st.just(2),
    st.binary(min_size=1, max_size=255),
)
clean_batches = st.lists(
    st.builds(
        Message,
        payload=st.binary(min_size=1, max_size=40),
        id=st.integers(1, 2**128 - 1),
        user_headers=st.lists(clean_pairs, max_size=3).map(b"".join),
        origin_timestamp=st.integers(0, U32_MAX),
    ),
    min_size=1,
    max_size=5,
)


@pytest.mark.slow
@settings(max_examples=100)
@given(clean_batches)
def test_what_arrived_leaves_as_it_came(batch: list[Message]) -> None:
    sent = foreign.consensus_batch(batch)
    stored = compiled.stored_from_consensus(memoryview(sent), len(batch))
    assert list(decode_messages(memoryview(stored))) == batch
    # As new: on the partition 0, at offset 0, at time 0.
    for number in range(len(batch)):
        at = sum(message.size_bytes for message in batch[:number])
        struct.pack_into("<Q", stored, at + 24, number)
    assert compiled.converted(EdgeLayout.CONSENSUS, [memoryview(stored)], 0) == sent


@pytest.mark.slow
@settings(max_examples=100)
@given(clean_batches)
def test_bare_keys_arrive_and_leave(batch: list[Message]) -> None:
    indexes, messages = foreign.short_batch(batch)
    stored = compiled.stored_from_short(indexes, messages, len(batch))
    shown = bytearray(compiled.converted(EdgeLayout.SHORT, [memoryview(stored)], 0))
    for start in starts([message.size_bytes - 8 for message in batch]):
        shown[start : start + 8] = bytes(8)
    assert shown == messages
    count, old = compiled.stored_from_old(memoryview(foreign.old_batch(batch)))
    assert count == len(batch)
    kept = [(m.id, m.payload, m.user_headers) for m in decode_messages(memoryview(stored))]
    assert [(m.id, m.payload, m.user_headers) for m in decode_messages(memoryview(old))] == kept


@pytest.mark.parametrize("layout", EdgeLayout)
def test_a_piece_begins_within_its_view(layout: EdgeLayout) -> None:
    view = memoryview(encode_messages([Message(b"a", 1)]))
    assert compiled.converted_piece(layout, view, len(view), 0, True) == (b"", len(view))
    with pytest.raises(AssertionError):
        compiled.converted_piece(layout, view, len(view) + 1, 0, True)


@given(st.binary(max_size=70))
def test_checksums_of_old_messages_are_those_of_zlib(payload: bytes) -> None:
    view = memoryview(encode_messages([Message(payload, 1)]))
    assert compiled.converted(EdgeLayout.OLD, [view], 0) == plain_loops.converted(
        EdgeLayout.OLD, [view], 0
    )


def test_views_are_released_after_success_and_failure() -> None:
    stored = bytearray(encode_messages([Message(b"a", 1)]))
    sent = bytearray(foreign.SENT_BATCH)
    for size in (len(stored), len(stored) - 1):
        outcome(compiled.converted, EdgeLayout.OLD, [memoryview(stored)[:size]], 0)
        outcome(compiled.converted_piece, EdgeLayout.OLD, memoryview(stored)[:size], 0, 0, True)
        outcome(compiled.stored_from_consensus, sent, size)
        outcome(compiled.stored_from_old, stored)
        outcome(compiled.stored_from_short, stored[:16], sent, 1)
        for content in (stored, sent):
            content.append(0)  # a bytearray with a memoryview of it cannot grow
            content.pop()
