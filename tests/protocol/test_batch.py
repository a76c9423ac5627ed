"""Stamping, scanning and comparing, against a slow reference that shares no code with them.

`loops` is each of the implementations in turn (conftest.py).
"""

import uuid
from collections.abc import Callable
from typing import Any

import pytest
import xxhash
from hypothesis import given, settings
from hypothesis import strategies as st

from borzoi.protocol import batch as running
from borzoi.protocol.batch import (
    INDEX_ENTRY_SIZE,
    Scan,
    clear_first_checksum,
    first_stamped_offset,
)
from borzoi.protocol.errors import InvalidMessagesSize
from borzoi.protocol.message import (
    MESSAGE_HEADER,
    MESSAGE_PAYLOAD_SIZE_MAX,
    STORED_HEADERS_SIZE_MAX,
    Message,
    checksum_of,
    decode_messages,
    encode_message,
    encode_messages,
)
from tests.protocol import values

NOW = 1_700_000_000_000_000


def counting(size: int) -> bytes:
    """Randomness that is not."""
    return bytes(number % 251 for number in range(size))


def little(number: int, size: int) -> bytes:
    return number.to_bytes(size, "little")


def stamped_slowly(
    batch: list[Message], first_offset: int, timestamp: int, random: bytes
) -> list[bytes]:
    whole = []
    for number, message in enumerate(batch):
        identity = little(message.id, 16)
        if message.id == 0:
            identity = uuid.UUID(bytes=random[:16], version=4).bytes
            random = random[16:]
        rest = (
            identity
            + little(first_offset + number, 8)
            + little(timestamp, 8)
            + little(message.origin_timestamp, 8)
            + little(len(message.user_headers), 4)
            + little(len(message.payload), 4)
            + bytes(8)
            + message.payload
            + message.user_headers
        )
        whole.append(little(xxhash.xxh3_64_intdigest(rest), 8) + rest)
    return whole


def index_slowly(whole: list[bytes], relative_offset: int, position: int, timestamp: int) -> bytes:
    entries = b""
    for number, message in enumerate(whole):
        position += len(message)
        entries += little(relative_offset + number, 4) + little(position, 4) + little(timestamp, 8)
    return entries


@pytest.mark.slow
@settings(max_examples=60)
@given(
    batch=values.batches,
    first_offset=st.integers(5, 2**40),
    timestamp=values.u64,
    position=st.integers(0, 2**31),
    noise=st.binary(min_size=8, max_size=8),
)
def test_stamping(
    loops: Any,
    batch: list[Message],
    first_offset: int,
    timestamp: int,
    position: int,
    noise: bytes,
) -> None:
    sent = bytearray(encode_messages(batch))
    at = 0
    for message in batch:  # what a client may leave in the fields that are not its own
        sent[at : at + 8] = noise
        sent[at + 24 : at + 32] = noise
        sent[at + 32 : at + 40] = noise
        sent[at + 56 : at + 64] = noise
        at += message.size_bytes
    entries = loops.stamp_batch(
        memoryview(sent),
        len(batch),
        first_offset,
        timestamp,
        counting,
        segment_first_offset=first_offset - 5,
        position=position,
    )
    nameless = sum(message.id == 0 for message in batch)
    expected = stamped_slowly(batch, first_offset, timestamp, counting(16 * nameless))
    assert bytes(sent) == b"".join(expected)
    assert bytes(entries) == index_slowly(expected, 5, position, timestamp)

    scan = loops.scan_log(
        memoryview(sent), first_offset, segment_first_offset=first_offset - 5, position=position
    )
    assert scan == Scan(entries, len(sent), len(batch), timestamp)
    assert loops.first_bad_message(memoryview(sent), len(batch), first_offset) is None


def test_the_known_checksums(loops: Any) -> None:
    """Two messages as an official client sent them, stamped as the frames of the poll say."""
    origins = (0x0006_605B_8ECD_778D, 0x0006_605B_8ECD_7797)
    sent = bytearray(
        encode_messages(
            [
                Message(b"hello", origin_timestamp=origins[0]),
                Message(b"world!", origin_timestamp=origins[1]),
            ]
        )
    )
    # Ids that are no version 4: given instead of drawn.
    sent[8:24] = bytes(range(16))
    sent[69 + 8 : 69 + 24] = bytes(range(16, 32))
    stamp(loops, sent, 2, 0)
    first, second = decode_messages(memoryview(sent))
    assert (first.checksum, second.checksum) == (0x2AEE85DDBC743BD4, 0x4AB29BDE367810C6)


def stamp(
    loops: Any,
    batch: bytearray,
    count: int,
    first_offset: int,
    random_bytes: Callable[[int], bytes] = counting,
    position: int = 0,
) -> bytearray:
    entries: bytearray = loops.stamp_batch(
        memoryview(batch),
        count,
        first_offset,
        NOW,
        random_bytes,
        segment_first_offset=0,
        position=position,
    )
    return entries


def test_new_ids_are_random_uuids_drawn_at_once(loops: Any) -> None:
    drawn: list[int] = []

    def random_bytes(size: int) -> bytes:
        drawn.append(size)
        return b"\xff" * size

    sent = bytearray(encode_messages([Message(b"a"), Message(b"b", id=9), Message(b"c")]))
    stamp(loops, sent, 3, 0, random_bytes)
    assert drawn == [32]
    ids = [little(message.id, 16) for message in decode_messages(memoryview(sent))]
    assert ids[1] == little(9, 16)
    for new in (ids[0], ids[2]):
        assert uuid.UUID(bytes=new).version == 4
        assert uuid.UUID(bytes=new).variant == uuid.RFC_4122


def test_no_randomness_is_drawn_when_every_message_has_an_id(loops: Any) -> None:
    sent = bytearray(encode_messages([Message(b"a", id=1)]))
    stamp(loops, sent, 1, 0, lambda size: pytest.fail(f"{size} bytes drawn"))


@pytest.mark.parametrize("count", [0, 1, 2, 4, 2**32 - 1])
def test_a_wrong_count_changes_nothing(loops: Any, count: int) -> None:
    sent = bytearray(encode_messages([Message(b"a"), Message(b"b"), Message(b"c")]))
    before = bytes(sent)
    with pytest.raises(InvalidMessagesSize):
        stamp(loops, sent, count, 100)
    assert bytes(sent) == before


def test_a_batch_cut_at_every_byte_changes_nothing(loops: Any) -> None:
    whole = encode_messages([Message(b"abc", user_headers=b"hh"), Message(b"d")])
    for size in range(len(whole)):
        sent = bytearray(whole[:size])
        with pytest.raises(InvalidMessagesSize):
            stamp(loops, sent, 2, 0)
        assert bytes(sent) == whole[:size]


@pytest.mark.parametrize("length_at", [48, 52])
@pytest.mark.parametrize("length", [0, 4, 2**31, 2**32 - 1])
def test_hostile_lengths_change_nothing(loops: Any, length_at: int, length: int) -> None:
    sent = bytearray(encode_messages([Message(b"abc", user_headers=b"hhh"), Message(b"d")]))
    sent[length_at : length_at + 4] = little(length, 4)
    before = bytes(sent)
    with pytest.raises(InvalidMessagesSize):
        stamp(loops, sent, 2, 0)
    assert bytes(sent) == before


def test_the_end_of_what_an_index_can_say(loops: Any) -> None:
    size = len(encode_message(Message(b"a")))
    entries = stamp(
        loops, bytearray(encode_message(Message(b"a"))), 1, 0, position=2**32 - 1 - size
    )
    assert entries[4:8] == b"\xff" * 4
    with pytest.raises(AssertionError):
        stamp(loops, bytearray(encode_message(Message(b"a"))), 1, 0, position=2**32 - size)


# A small log: offsets 10, 11, 12 at position 1000 of a segment that starts with offset 7.

LOG = bytearray(
    encode_messages(
        [
            Message(b"first", origin_timestamp=1),
            Message(b"second", user_headers=b"headers", origin_timestamp=2),
            Message(b"", id=3),
        ]
    )
)
stamp(running, LOG, 3, 10)
ENDS = (69, 69 + 77, 69 + 77 + 64)


def scan(
    loops: Any, view: bytes | bytearray, first_offset: int = 10, timestamp_min: int = 0
) -> Scan:
    found: Scan = loops.scan_log(
        memoryview(view),
        first_offset,
        segment_first_offset=7,
        position=1000,
        timestamp_min=timestamp_min,
    )
    return found


def index_of(count: int) -> bytes:
    return b"".join(
        little(3 + number, 4) + little(1000 + ENDS[number], 4) + little(NOW, 8)
        for number in range(count)
    )


def test_a_sound_log(loops: Any) -> None:
    assert len(LOG) == ENDS[-1]
    assert scan(loops, LOG) == Scan(bytearray(index_of(3)), len(LOG), 3, NOW)


def test_every_truncation(loops: Any) -> None:
    for size in range(len(LOG)):
        whole = sum(end <= size for end in ENDS)
        valid = ENDS[whole - 1] if whole else 0
        last = NOW if whole else 0
        assert scan(loops, LOG[:size]) == Scan(bytearray(index_of(whole)), valid, whole, last)
        assert loops.first_bad_message(memoryview(LOG)[:size], 3, 10) == 10 + whole


@pytest.mark.parametrize("flip", [0x01, 0x80, 0xFF])
def test_every_flipped_byte(loops: Any, flip: int) -> None:
    for at in range(len(LOG)):
        damaged = bytearray(LOG)
        damaged[at] ^= flip
        sound = sum(end <= at for end in ENDS)
        assert scan(loops, damaged).message_count == sound
        assert scan(loops, damaged).valid_size == (ENDS[sound - 1] if sound else 0)
        assert loops.first_bad_message(memoryview(damaged), 3, 10) == 10 + sound


def test_zeros_are_no_messages(loops: Any) -> None:
    assert scan(loops, bytes(4096), first_offset=0).message_count == 0
    assert scan(loops, LOG + bytes(100)).valid_size == len(LOG)


def test_bytes_left_over_are_bad(loops: Any) -> None:
    assert loops.first_bad_message(memoryview(LOG), 2, 10) == 12
    assert loops.first_bad_message(memoryview(LOG + b"\0"), 3, 10) == 13
    assert loops.first_bad_message(memoryview(b""), 0, 10) is None


def test_an_offset_that_is_not_the_next(loops: Any) -> None:
    assert scan(loops, LOG, first_offset=11).message_count == 0
    assert scan(loops, LOG[: ENDS[0]] + LOG[ENDS[1] :]).message_count == 1
    assert loops.first_bad_message(memoryview(LOG), 3, 9) == 9


def sealed(user_headers_length: int, payload_length: int, reserved: int = 0) -> bytearray:
    """One message with a right checksum, whatever else it is."""
    log = bytearray(64 + user_headers_length + payload_length)
    MESSAGE_HEADER.pack_into(
        log, 0, 0, b"", 0, NOW, 0, user_headers_length, payload_length, reserved
    )
    log[:8] = little(checksum_of(memoryview(log)), 8)
    return log


@pytest.mark.slow
def test_limits(loops: Any) -> None:
    def count(log: bytearray) -> int:
        found: Scan = loops.scan_log(memoryview(log), 0, segment_first_offset=0, position=0)
        return found.message_count

    assert count(sealed(0, 0)) == 1
    assert count(sealed(0, 0, reserved=1)) == 0
    assert count(sealed(STORED_HEADERS_SIZE_MAX, 0)) == 1
    assert count(sealed(STORED_HEADERS_SIZE_MAX + 1, 0)) == 0
    assert count(sealed(0, MESSAGE_PAYLOAD_SIZE_MAX)) == 1
    assert count(sealed(0, MESSAGE_PAYLOAD_SIZE_MAX + 1)) == 0


def test_a_scan_stops_where_the_index_cannot_follow(loops: Any) -> None:
    log = memoryview(LOG)
    end = 2**32 - 1
    for position, count in ((end - len(LOG), 3), (end - len(LOG) + 1, 2)):
        found = loops.scan_log(log, 10, segment_first_offset=7, position=position)
        assert found.message_count == count


def test_times_in_the_index_never_run_backwards(loops: Any) -> None:
    later = NOW + 5
    assert scan(loops, LOG, timestamp_min=later).last_timestamp == later
    entries = scan(loops, LOG, timestamp_min=later).index_entries
    for at in range(0, len(entries), INDEX_ENTRY_SIZE):
        assert entries[at + 8 : at + 16] == little(later, 8)
    assert scan(loops, b"", timestamp_min=later).last_timestamp == later


def test_matching_messages(loops: Any) -> None:
    view = memoryview(LOG)
    for size in range(len(LOG) + 1):
        assert loops.matching_messages(view, view[:size]) == sum(end <= size for end in ENDS)
        assert loops.matching_messages(view[:size], view) == sum(end <= size for end in ENDS)
    assert loops.matching_messages(view, memoryview(LOG + LOG)) == 3
    for number, start in enumerate((0, *ENDS[:-1])):
        for at in range(start, start + 64):
            other = bytearray(LOG)
            other[at] ^= 1
            assert loops.matching_messages(view, memoryview(other)) == number


def test_where_messages_start(loops: Any) -> None:
    assert [loops.message_start(memoryview(LOG), number) for number in range(4)] == [0, *ENDS]
    with pytest.raises(InvalidMessagesSize):
        loops.message_start(memoryview(LOG), 4)
    with pytest.raises(InvalidMessagesSize):
        loops.message_start(memoryview(LOG)[:-1], 3)


def test_stamped_or_not() -> None:
    assert first_stamped_offset(memoryview(LOG)) == 10
    received = bytearray(LOG)
    clear_first_checksum(memoryview(received))
    assert first_stamped_offset(memoryview(received)) is None
    assert received[8:] == LOG[8:]


def test_offsets_an_index_cannot_say_are_our_own_fault(loops: Any) -> None:
    def stamp_at(first_offset: int) -> bytearray:
        sent = memoryview(bytearray(encode_messages([Message(b"a"), Message(b"b")])))
        entries: bytearray = loops.stamp_batch(
            sent, 2, first_offset, NOW, counting, segment_first_offset=9, position=0
        )
        return entries

    assert stamp_at(9 + 2**32 - 2)[16:20] == b"\xff" * 4
    for first_offset in (8, 9 + 2**32 - 1):
        with pytest.raises(AssertionError):
            stamp_at(first_offset)
