"""The compiled loops against the plain ones: same results, same errors, same bytes afterwards.

Also which of them a process runs. Whatever the compiled loops are given here lies directly before
or behind memory that must not be touched.
"""

import ast
import importlib
import struct
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from borzoi import protocol
from borzoi.protocol import loops
from borzoi.protocol.batch import LOOPS
from borzoi.protocol.identifiers import U32_MAX, U64_MAX, PartitionId
from borzoi.protocol.loops_xxh3 import xxh3_address
from borzoi.protocol.message import Message, encode_messages
from borzoi.protocol.send_messages import encode_send_messages
from tests.protocol import values
from tests.protocol.fenced import Fence
from tests.protocol.twins import compiled_loops, plain_loops

compiled = compiled_loops()

COMPILED = (
    "_arriving",
    "_client",
    "_heads",
    "_leaving",
    "_log",
    "_requests",
    "_seals",
    "_seen_ids",
    "_websocket",
)

SIZE_MAX = 16 * 1024
PLAIN_FENCE, COMPILED_FENCE, OTHER_FENCE = Fence(SIZE_MAX), Fence(SIZE_MAX), Fence(SIZE_MAX)

CHANGING = ("find_send", "stamp_batch")

Function = Callable[..., Any]


def outcome(function: Function, *arguments: Any, **named: Any) -> tuple[Any, ...]:
    """What came of a call, in a form that can be compared."""
    try:
        return "returned", function(*arguments, **named)
    except Exception as error:
        return "raised", type(error), getattr(error, "status", None)


def placed(fence: Fence, content: bytes, at_the_start: bool) -> memoryview:
    return fence.at_the_start(content) if at_the_start else fence.at_the_end(content)


def agree(name: str, content: bytes, *arguments: Any, **named: Any) -> tuple[Any, ...]:
    """Both loops of this name do the same with the content; what that is."""
    plain_view = PLAIN_FENCE.at_the_end(content)
    expected = outcome(getattr(plain_loops, name), plain_view, *arguments, **named)
    for at_the_start in (True, False):
        view = placed(COMPILED_FENCE, content, at_the_start)
        given_view = view if name in CHANGING else view.toreadonly()
        assert outcome(getattr(compiled, name), given_view, *arguments, **named) == expected
        assert bytes(view) == bytes(plain_view)
    return expected


# Batches with faults in them. Most mutations hit a header: that is where decisions are made.

interesting = st.sampled_from(
    [0, 1, 63, 64, 65, 100_000, 100_001, 64_000_000, 64_000_001, 2**31, U32_MAX - 64, U32_MAX]
)


@st.composite
def header_changes(draw: st.DrawFn) -> tuple[int, bytes]:
    field_at, size = draw(
        st.sampled_from([(0, 8), (8, 8), (16, 8), (24, 8), (32, 8), (48, 4), (52, 4), (56, 8)])
    )
    number = draw(interesting | st.integers(0, 300) | st.integers(0, 256**size - 1))
    return field_at, number.to_bytes(size, "little")


@st.composite
def damaged(draw: st.DrawFn, sound: bytes, starts: list[int]) -> bytes:
    """The bytes with a few faults; `starts` is where headers begin."""
    content = bytearray(sound)
    for _ in range(draw(st.integers(0, 3))):
        start = draw(st.sampled_from(starts))
        field_at, field = draw(header_changes())
        content[start + field_at : start + field_at + len(field)] = field
    if draw(st.integers(0, 3)) == 0:
        del content[draw(st.integers(0, len(content))) :]
    if draw(st.integers(0, 3)) == 0:
        content += draw(st.binary(max_size=80))
    return bytes(content[:SIZE_MAX])


def starts_of(batch: list[Message]) -> list[int]:
    starts, at = [], 0
    for message in batch:
        starts.append(at)
        at += message.size_bytes
    return starts


def stamped(batch: list[Message], first_offset: int, timestamp: int) -> bytearray:
    log = bytearray(encode_messages(batch))
    plain_loops.stamp_batch(
        memoryview(log),
        len(batch),
        first_offset,
        timestamp,
        bytes,
        segment_first_offset=first_offset,
        position=0,
    )
    return log


def counting(size: int) -> bytes:
    return bytes(number * 7 % 251 for number in range(size))


counts_off = st.sampled_from([0, 0, 0, 1, -1, 2, 1000, U32_MAX])


def count_near(batch: list[Message], off: int) -> int:
    return max(0, len(batch) + off)


first_offsets = values.u64 | st.integers(0, 100) | st.integers(U64_MAX - 3, U64_MAX)
positions = st.integers(0, U32_MAX) | st.integers(U32_MAX - 500, U32_MAX + 500)


@pytest.mark.slow
@settings(max_examples=150)
@given(st.data(), values.batches, counts_off, first_offsets, values.u64, positions)
def test_stamping(
    data: st.DataObject,
    batch: list[Message],
    off: int,
    first_offset: int,
    timestamp: int,
    position: int,
) -> None:
    content = data.draw(damaged(encode_messages(batch), starts_of(batch)))
    distance = data.draw(st.sampled_from([0, 1, U32_MAX - 1, U32_MAX, U32_MAX + 1]))
    # Offsets behind the last one there is are for no partition to reach.
    first_offset = min(first_offset, U64_MAX - len(content))
    agree(
        "stamp_batch",
        content,
        count_near(batch, off),
        first_offset,
        timestamp,
        counting,
        segment_first_offset=max(0, first_offset - distance),
        position=position,
    )


@pytest.mark.slow
@settings(max_examples=150)
@given(
    st.data(),
    st.integers(7, 12),
    st.sampled_from([0, 1, 8, 16, 100, 104]),
    st.sampled_from([0, 8]),
    st.sampled_from([0, 1, 1 << 64]),
    first_offsets,
    values.u64,
    positions,
)
def test_messages_of_one_size(
    data: st.DataObject,
    count: int,
    payload_size: int,
    user_headers_size: int,
    id_step: int,
    first_offset: int,
    timestamp: int,
    position: int,
) -> None:
    """The plain loops treat them as columns; that must make no difference."""
    batch = [
        Message(bytes([number]) * payload_size, number * id_step, bytes(user_headers_size))
        for number in range(data.draw(st.sampled_from([0, 1])), count + 1)
    ]
    content = data.draw(damaged(encode_messages(batch), starts_of(batch)))
    index = data.draw(changed_index(batch))
    for at_the_start in (True, False):
        agree("check_sent_batch", index, placed(OTHER_FENCE, content, at_the_start), len(batch))
    first_offset = min(first_offset, U64_MAX - len(content))
    distance = data.draw(st.sampled_from([0, 1, 10, U32_MAX - len(batch), U32_MAX]))
    segment = max(0, first_offset - distance)
    agree("stamp_batch", content, len(batch), first_offset, timestamp, counting, segment, position)


@pytest.mark.slow
@settings(max_examples=150)
@given(st.data(), values.batches, first_offsets, values.u64, positions, counts_off)
def test_walks_over_a_log(
    data: st.DataObject,
    batch: list[Message],
    first_offset: int,
    timestamp: int,
    position: int,
    off: int,
) -> None:
    log_offset = min(first_offset, U64_MAX - len(batch) + 1)
    content = data.draw(damaged(bytes(stamped(batch, log_offset, timestamp)), starts_of(batch)))
    for expected_offset in {first_offset, log_offset}:
        agree("first_bad_message", content, count_near(batch, off), expected_offset)
        for distance in (0, 5, U32_MAX):
            agree(
                "scan_log",
                content,
                expected_offset,
                segment_first_offset=max(0, expected_offset - distance),
                position=position,
                timestamp_min=data.draw(values.u64),
            )


def test_a_walk_that_begins_before_its_segment() -> None:
    content = bytes(stamped([Message(b"a")], 5, 1))
    kind, error, _status = agree("scan_log", content, 5, segment_first_offset=6, position=0)
    assert (kind, error) == ("raised", AssertionError)


def test_no_offset_follows_the_last_one() -> None:
    # The second message has the offset that an unsigned number wraps to.
    content = bytes(stamped([Message(b"a")], U64_MAX, 1) + stamped([Message(b"b")], 0, 1))
    found = agree("scan_log", content, U64_MAX, segment_first_offset=U64_MAX, position=0)
    assert found[1].message_count == 1
    assert agree("first_bad_message", content, 2, U64_MAX) == ("returned", U64_MAX + 1)


def test_a_scan_of_more_messages_than_entries_have_room_at_first() -> None:
    # Twice beyond what one growth gives.
    batch = [Message(b"")] * 1100
    log = memoryview(stamped(batch, 0, 9))
    found = compiled.scan_log(log, 0, segment_first_offset=0, position=7)
    assert found == plain_loops.scan_log(log, 0, segment_first_offset=0, position=7)
    assert found.message_count == 1100


@pytest.mark.slow
@settings(max_examples=150)
@given(st.data(), values.batches)
def test_matching(data: st.DataObject, batch: list[Message]) -> None:
    sound = bytes(stamped(batch, 3, 4))
    ours = data.draw(damaged(sound, starts_of(batch)))
    stored = data.draw(damaged(sound, starts_of(batch)))
    for at_the_start in (True, False):
        agree("matching_messages", ours, placed(OTHER_FENCE, stored, at_the_start))


@pytest.mark.slow
@settings(max_examples=150)
@given(st.data(), values.batches, counts_off)
def test_walks_over_a_batch(data: st.DataObject, batch: list[Message], off: int) -> None:
    content = data.draw(damaged(encode_messages(batch), starts_of(batch)))
    agree("message_start", content, count_near(batch, off))
    agree("sent_index", content, count_near(batch, off))
    agree("decode_batch", content)
    agree("decode_batch", content, data.draw(st.integers(0, len(content) + 2)))


@pytest.mark.slow
@settings(max_examples=150)
@given(values.batches)
def test_encoding(batch: list[Message]) -> None:
    encoded = compiled.encode_batch(batch)
    assert encoded == plain_loops.encode_batch(batch)
    assert compiled.decode_batch(memoryview(encoded), 16 * len(batch)) == batch
    loose = [Message(bytearray(one.payload), one.id) for one in batch]  # type: ignore[arg-type]  # not bytes
    assert compiled.encode_batch(loose) == plain_loops.encode_batch(loose)


@pytest.mark.slow
@settings(max_examples=150)
@given(
    outgoing=st.lists(st.binary(max_size=40) | values.messages, max_size=6),
    origin_timestamp=values.u64,
    with_ids=st.booleans(),
)
def test_encoding_what_is_sent(
    outgoing: list[bytes | Message], origin_timestamp: int, with_ids: bool
) -> None:
    new_ids = bytes(range(1, 1 + 16 * len(outgoing))) if with_ids else b""
    encoded = compiled.encode_outgoing(outgoing, origin_timestamp, new_ids)
    assert encoded == plain_loops.encode_outgoing(outgoing, origin_timestamp, new_ids)
    decoded = plain_loops.decode_batch(memoryview(encoded), 16 * len(outgoing))
    assert encoded[: 16 * len(outgoing)] == plain_loops.sent_index(
        memoryview(encoded)[16 * len(outgoing) :], len(outgoing)
    )
    for number, (sent, read) in enumerate(zip(outgoing, decoded, strict=True)):
        message = Message(sent) if isinstance(sent, bytes) else sent
        new_id = int.from_bytes(new_ids[16 * number : 16 * number + 16], "little")
        assert (read.payload, read.user_headers) == (message.payload, message.user_headers)
        assert read.id == (message.id or new_id)
        assert read.origin_timestamp == (message.origin_timestamp or origin_timestamp)
        assert (read.offset, read.timestamp, read.checksum) == (0, 0, 0)


@pytest.mark.parametrize("twin", [compiled, plain_loops])
def test_too_few_new_ids(twin: Any) -> None:
    with pytest.raises(AssertionError, match="one new id per message"):
        twin.encode_outgoing([b"x", b"y"], 1, bytes(16))


def test_a_message_that_cannot_be_encoded() -> None:
    for message in (
        Message(b"", id=2**128),
        Message(b"", id=-1),
        Message("text"),  # type: ignore[arg-type]  # what is tested
        Message(b"", offset=2**64),
    ):
        for twin in (compiled, plain_loops):
            with pytest.raises((OverflowError, TypeError, struct.error)):
                twin.encode_batch([message])


@pytest.mark.slow
@settings(max_examples=150)
@given(st.data(), values.batches)
def test_checking(data: st.DataObject, batch: list[Message]) -> None:
    messages = data.draw(damaged(encode_messages(batch), starts_of(batch)))
    index = data.draw(changed_index(batch))
    for at_the_start in (True, False):
        view = placed(OTHER_FENCE, messages, at_the_start)
        agree("check_sent_batch", index, view, len(batch))
        agree("check_sent_batch", index, view, data.draw(st.integers(0, 9)))


@st.composite
def changed_index(draw: st.DrawFn, batch: list[Message]) -> bytes:
    index = bytearray(plain_loops.sent_index(memoryview(encode_messages(batch)), len(batch)))
    for _ in range(draw(st.integers(0, 2))):
        entry = 16 * draw(st.integers(0, len(batch) - 1))
        at, layout = draw(st.sampled_from([(0, "<I"), (4, "<I"), (4, "<I"), (8, "<Q")]))
        number = draw(interesting | st.integers(0, 300))
        struct.pack_into(layout, index, entry + at, number)
    return bytes(index)


@pytest.mark.slow
@settings(max_examples=150)
@given(st.data(), values.identifiers, values.identifiers, values.partitionings, values.batches)
def test_reading_a_request(
    data: st.DataObject, stream: Any, topic: Any, partitioning: Any, batch: list[Message]
) -> None:
    payload = bytearray(encode_send_messages(stream, topic, partitioning, batch))
    (metadata_size,) = struct.unpack_from("<I", payload)
    assert agree("read_sent_batch", bytes(payload), 4, 4 + metadata_size)[0] == "returned"
    for _ in range(data.draw(st.integers(1, 3))):
        near = data.draw(st.sampled_from([metadata_size + 4 + 16 * len(batch), len(payload)]))
        payload[data.draw(st.integers(4, near - 1))] = data.draw(values.u8)
    if data.draw(st.booleans()):
        del payload[data.draw(st.integers(0, len(payload))) :]
    end = data.draw(st.sampled_from([metadata_size + 4, 16, 779]) | st.integers(16, 779))
    agree("read_sent_batch", bytes(payload), 4, end)


@pytest.mark.slow
@settings(max_examples=150)
@given(st.data(), values.identifiers, values.identifiers, values.partitionings, values.batches)
def test_finding_a_send(
    data: st.DataObject, stream: Any, topic: Any, partitioning: Any, batch: list[Message]
) -> None:
    payload = bytearray(encode_send_messages(stream, topic, partitioning, batch))
    (metadata_size,) = struct.unpack_from("<I", payload)
    batch_start = 4 + metadata_size + 16 * len(batch)
    routes = {bytes(payload[:metadata_size]): "route"}
    found = agree("find_send", bytes(payload), routes)
    assert found == ("returned", ("route", len(batch), batch_start))
    assert agree("find_send", bytes(payload), {}) == ("returned", None)
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, batch_start - 1) | st.integers(0, len(payload) - 1))
        payload[at] = data.draw(values.u8)
    if data.draw(st.booleans()):
        del payload[data.draw(st.integers(0, len(payload))) :]
    agree("find_send", bytes(payload), routes)


def test_a_send_or_poll_cut_at_every_byte_is_found_or_not() -> None:
    payload = encode_send_messages("stream", 7, PartitionId(3), [Message(b"a"), Message(b"bc")])
    sends = {bytes(payload[:size]): size for size in range(len(payload))}
    for size in range(len(payload) + 1):
        agree("find_send", payload[:size], sends)
    # Every length that the first word can claim.
    for claimed in (*range(len(payload) + 8), 774, 775, 776, U32_MAX - 4, U32_MAX):
        lying = struct.pack("<I", claimed) + payload[4:]
        agree("find_send", lying, {lying[:claimed]: "route"})
    tail = plain_loops.POLL_TAIL.pack(2, U64_MAX, U32_MAX, 1)
    poll = b"consumer, stream, topic, partition" + tail
    polls = {poll[:size]: size for size in range(len(poll))}
    for size in range(len(poll) + 1):
        agree("find_poll", poll[:size], polls)
    assert agree("find_poll", poll, polls) == (
        "returned",
        (len(poll) - len(tail), 2, U64_MAX, U32_MAX, 1),
    )


def test_a_request_cut_at_every_byte_and_with_every_end_of_the_metadata() -> None:
    payload = encode_send_messages("stream", 7, PartitionId(3), [Message(b"a"), Message(b"bc")])
    for size in range(len(payload)):
        agree("read_sent_batch", payload[:size], 4, 29)
        agree("read_sent_batch", payload, 4, size)


@given(st.lists(values.u64, max_size=40).map(sorted), values.u64)
@example([], 0)
@example([5, 5, 5], 5)
def test_searching_by_time(times: list[int], wanted: int) -> None:
    entries = b"".join(struct.pack("<IIQ", 0, 0, time) for time in times)
    for timestamp in {wanted, *times, *(time + 1 for time in times if time < U64_MAX)}:
        found = agree("first_at_or_after", entries, len(times), timestamp)
        assert found == ("returned", sum(time < timestamp for time in times))
    assert agree("first_at_or_after", entries, len(times) + 1, 0)[0] == "raised"


def test_a_view_that_must_not_be_written_is_not_stamped() -> None:
    sent = encode_messages([Message(b"a")])
    for twin in (compiled, plain_loops):
        with pytest.raises((BufferError, TypeError)):
            twin.stamp_batch(memoryview(sent), 1, 0, 0, bytes, segment_first_offset=0, position=0)


def test_too_little_randomness_is_refused_before_anything_changes() -> None:
    sent = bytearray(encode_messages([Message(b"a")]))
    with pytest.raises(AssertionError):
        compiled.stamp_batch(
            memoryview(sent), 1, 3, 4, lambda _: b"short", segment_first_offset=0, position=0
        )
    assert bytes(sent) == encode_messages([Message(b"a")])


def test_views_are_released_after_success_and_failure() -> None:
    sent = bytearray(encode_messages([Message(b"a")]))
    for count in (1, 2):
        outcome(
            compiled.stamp_batch,
            sent,
            count,
            0,
            0,
            bytes,
            segment_first_offset=0,
            position=0,
        )
        sent.append(0)  # a bytearray with a memoryview of it cannot grow
        sent.pop()


# Which loops run.


@pytest.mark.parametrize("name", COMPILED)
def test_the_twins_have_the_same_version(name: str) -> None:
    version = importlib.import_module(f"borzoi.protocol.{name}").LOOPS_VERSION
    assert version == loops.LOOPS_VERSION, "build again: pip install -e ."


def test_compiled_loops_run_when_they_can(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(loops.PLAIN_LOOPS_VARIABLE, raising=False)
    assert loops.compiled_loops_can_run()
    monkeypatch.setenv(loops.PLAIN_LOOPS_VARIABLE, "0")
    assert loops.compiled_loops_can_run()
    assert LOOPS in ("compiled", "plain")


def test_plain_loops_run_on_big_endian_machines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(loops.PLAIN_LOOPS_VARIABLE, raising=False)
    monkeypatch.setattr(sys, "byteorder", "big")
    assert not loops.compiled_loops_can_run()


def test_plain_loops_can_be_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(loops.PLAIN_LOOPS_VARIABLE, "1")
    assert not loops.compiled_loops_can_run()


@pytest.mark.parametrize("name", COMPILED)
def test_plain_loops_run_where_something_was_not_compiled(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(loops.PLAIN_LOOPS_VARIABLE, raising=False)
    monkeypatch.delattr(protocol, name)
    monkeypatch.setitem(sys.modules, f"borzoi.protocol.{name}", None)
    assert not loops.compiled_loops_can_run()


@pytest.mark.parametrize("name", COMPILED)
def test_plain_loops_run_beside_a_compiled_module_of_another_version(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(loops.PLAIN_LOOPS_VARIABLE, raising=False)
    older = SimpleNamespace(LOOPS_VERSION=loops.LOOPS_VERSION - 1)
    monkeypatch.setattr(protocol, name, older)
    assert not loops.compiled_loops_can_run()


def test_the_hash_function_is_found() -> None:
    assert xxh3_address() != 0


@pytest.mark.parametrize("name", ["no_such_name", "XXH3_128bits", "XXH32"])
def test_a_function_that_is_not_xxh3_is_not_taken(name: str) -> None:
    assert xxh3_address([name]) == 0


def test_only_the_choice_of_loops_looks_at_the_world_outside() -> None:
    outside = {"os", "socket", "asyncio", "time", "ctypes", "pathlib", "mmap"}
    found = set()
    for path in Path(protocol.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom) and node.module:
                names.append(node.module)
            found |= {(path.name, name) for name in names if name.split(".")[0] in outside}
    assert found == {("loops.py", "os"), ("loops_xxh3.py", "ctypes")}
