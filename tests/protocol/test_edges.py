"""Messages of other client generations, as they arrive and as they leave."""

import struct
from collections.abc import Iterator
from functools import partial
from itertools import pairwise
from typing import Any

import pytest
import xxhash
from hypothesis import given
from hypothesis import strategies as st

from borzoi.protocol.bare_headers import bare_headers, key_text, keyed_headers
from borzoi.protocol.edge_layouts import (
    BATCH_HEADER,
    BATCH_HEADER_SIZE,
    FRAME_HEADER_SIZE,
    PIECE_SIZE_MAX,
    RECORD_SIZE_MAX,
    EdgeLayout,
)
from borzoi.protocol.edges import BARE_KEYS_FORM, CONSENSUS_FORM, HYBRID_FORM, OLD_FORM, uncut
from borzoi.protocol.errors import (
    BrokerError,
    CannotReadIndexPosition,
    CannotReadMessage,
    InvalidBatchChecksum,
    InvalidCommand,
    InvalidHeaderKey,
    InvalidHeaderValue,
    InvalidMessageChecksum,
    InvalidMessagesCount,
    InvalidMessagesSize,
    InvalidMessageTimestampDelta,
    InvalidOffset,
    MissingIndex,
    TooBigMessagePayload,
    TooBigUserHeaders,
)
from borzoi.protocol.headers import (
    HeaderField,
    HeaderKind,
    encode_user_headers,
    header_field,
)
from borzoi.protocol.identifiers import U32_MAX, U64_MAX
from borzoi.protocol.message import Message, decode_messages, encode_messages
from tests.protocol import foreign

CONSENSUS, OLD, SHORT = EdgeLayout
SERVER_TIME = 1_700_000_000_000_000


@pytest.fixture(scope="module")
def edges(loops: Any) -> Any:
    return loops


# Bytes captured from real clients.


def test_a_captured_consensus_send(edges: Any) -> None:
    batch = edges.stored_from_consensus(memoryview(foreign.SENT_BATCH), 2)
    assert list(decode_messages(memoryview(batch))) == foreign.SENT_MESSAGES


def test_a_captured_consensus_poll(edges: Any) -> None:
    stored = foreign.stamped(foreign.SENT_MESSAGES, 0, SERVER_TIME)
    assert edges.converted(CONSENSUS, [memoryview(stored)], 1) == foreign.POLLED_RECORD


def test_a_captured_old_send(edges: Any) -> None:
    count, batch = edges.stored_from_old(memoryview(foreign.OLD_SENT), 77)
    assert count == 2
    assert list(decode_messages(memoryview(batch))) == [
        Message(b"m0", origin_timestamp=77),
        Message(b"m1", origin_timestamp=77),
    ]


def test_an_old_send_with_user_headers(edges: Any) -> None:
    count, batch = edges.stored_from_old(memoryview(foreign.OLD_SENT_WITH_HEADERS))
    (message,) = decode_messages(memoryview(batch))
    assert (count, message) == (1, Message(b"hi", 42, foreign.KEYED_HEADERS))


def test_a_captured_old_poll(edges: Any) -> None:
    stored = foreign.stamped([Message(b"m0", 7), Message(b"m1", 8)], 0, SERVER_TIME)
    assert edges.converted(OLD, [memoryview(stored)], 0) == foreign.OLD_POLLED


def test_user_headers_of_both_kinds() -> None:
    assert keyed_headers(memoryview(foreign.BARE_HEADERS)) == foreign.KEYED_HEADERS
    assert bare_headers(memoryview(foreign.KEYED_HEADERS)) == foreign.BARE_HEADERS


# What is refused of a consensus batch. Each batch has this one fault, its checksums are right.


def sent(*messages: Message, **faults: Any) -> memoryview:
    return memoryview(foreign.consensus_batch(messages, **faults))


FAULTS: list[tuple[dict[str, Any], type[BrokerError]]] = [
    ({"count": 3}, InvalidMessagesCount),
    ({"length": 1}, InvalidMessagesSize),
    ({"reserved": b"\1" + bytes(203)}, InvalidCommand),
    ({"reserved": bytes(203) + b"\1"}, InvalidCommand),
    ({"frame_reserved": 1}, InvalidCommand),
    ({"ids": (1, 0)}, InvalidCommand),
    ({"deltas": (0, 2)}, InvalidOffset),
    ({"deltas": (1, 2)}, InvalidOffset),
    ({"origin": U64_MAX, "timestamp_delta": 1}, InvalidMessageTimestampDelta),
    ({"frame_checksum": 1}, InvalidMessageChecksum),
    ({"batch_checksum": 1}, InvalidBatchChecksum),
    ({"behind": b"\0"}, InvalidMessagesSize),
    ({"payload_length": U32_MAX}, InvalidMessagesSize),
]


@pytest.mark.parametrize(("faults", "error"), FAULTS, ids=str)
def test_a_consensus_batch_with_a_fault(
    edges: Any, faults: dict[str, Any], error: type[BrokerError]
) -> None:
    with pytest.raises(error):
        edges.stored_from_consensus(sent(Message(b"a", 1), Message(b"b", 2), **faults), 2)


def test_a_consensus_batch_without_messages(edges: Any) -> None:
    with pytest.raises(InvalidMessagesCount):
        edges.stored_from_consensus(sent(), 0)


def test_more_consensus_messages_than_their_bytes_can_hold(edges: Any) -> None:
    body = sent(Message(b"a", 1), count=U32_MAX)
    with pytest.raises(InvalidMessagesSize):
        edges.stored_from_consensus(body, U32_MAX)


def test_the_limits_of_a_consensus_message(edges: Any) -> None:
    edges.stored_from_consensus(sent(Message(b"", 1, bytes(100_000))), 1)
    with pytest.raises(TooBigUserHeaders):
        edges.stored_from_consensus(sent(Message(b"", 1, bytes(100_001))), 1)


@pytest.mark.slow
def test_the_limit_of_a_payload(edges: Any) -> None:
    for size in (64_000_000, 64_000_001):
        body = sent(Message(bytes(size), 1))
        old = foreign.old_batch([Message(bytes(size), 1)])
        short = foreign.short_batch([Message(bytes(size), 1)])
        if size == 64_000_000:
            assert len(edges.stored_from_consensus(body, 1)) == 64 + size
            assert len(edges.stored_from_old(memoryview(old))[1]) == 64 + size
            assert len(edges.stored_from_short(*short, 1)) == 64 + size
            continue
        for refused in (
            partial(edges.stored_from_consensus, body, 1),
            partial(edges.stored_from_old, memoryview(old)),
            partial(edges.stored_from_short, *short, 1),
        ):
            with pytest.raises(TooBigMessagePayload):
                refused()


def test_consensus_batches_cut_at_every_byte(edges: Any) -> None:
    body = foreign.SENT_BATCH
    for size in range(len(body)):
        with pytest.raises(BrokerError):
            edges.stored_from_consensus(memoryview(body[:size]), 2)
        # Also with a length that matches the cut.
        if size >= BATCH_HEADER_SIZE:
            cut = bytearray(body[:size])
            struct.pack_into("<Q", cut, 32, size)
            with pytest.raises(BrokerError):
                edges.stored_from_consensus(memoryview(cut), 2)


def test_a_consensus_send_to_a_known_place(edges: Any) -> None:
    payload = bytearray(foreign.SENT_PAYLOAD)
    route = object()
    assert edges.find_consensus_send(memoryview(payload), {}) is None
    for place in (payload[: payload[0]], payload[: payload[0] + 1]):
        found = edges.find_consensus_send(memoryview(payload), {bytes(place): route})
        if len(place) > payload[0]:
            assert found is None
            continue
        assert found[0] is route
        assert found[1] == 2
        assert len(found) == 3
        assert list(decode_messages(found[2])) == foreign.SENT_MESSAGES
    routes = {bytes(payload[: payload[0]]): route}
    for size in range(len(payload)):
        try:
            assert edges.find_consensus_send(memoryview(payload)[:size], routes) is None
        except BrokerError:
            assert size >= 4 + payload[0]


# What is refused of an old batch.


def test_old_batches_cut_at_every_byte(edges: Any) -> None:
    whole = foreign.OLD_SENT
    with pytest.raises(InvalidMessagesCount):
        edges.stored_from_old(memoryview(b""))
    for size in range(1, len(whole)):
        if size == len(whole) // 2:
            assert edges.stored_from_old(memoryview(whole[:size]))[0] == 1
            continue
        with pytest.raises(InvalidCommand):
            edges.stored_from_old(memoryview(whole[:size]))


def test_an_old_message_needs_a_payload(edges: Any) -> None:
    with pytest.raises(InvalidCommand):
        edges.stored_from_old(memoryview(foreign.old_batch([Message(b"")])))


BAD_HEADERS: list[tuple[bytes, type[BrokerError]]] = [
    (foreign.bare_pair(b"", 2, b"v"), InvalidHeaderKey),
    (foreign.bare_pair(bytes(256), 2, b"v"), InvalidHeaderKey),
    (foreign.bare_pair(b"\xff", 2, b"v"), InvalidHeaderKey),
    (foreign.bare_pair(b"\xed\xa0\x80", 2, b"v"), InvalidHeaderKey),
    (foreign.bare_pair(b"k", 0, b"v"), InvalidCommand),
    (foreign.bare_pair(b"k", 16, b"v"), InvalidCommand),
    (foreign.bare_pair(b"k", 2, b""), InvalidHeaderValue),
    (foreign.bare_pair(b"k", 2, bytes(256)), InvalidHeaderValue),
    (foreign.bare_pair(b"k", 11, b"123"), InvalidHeaderValue),
    (foreign.BARE_HEADERS + b"\1", InvalidCommand),
    (foreign.KEYED_HEADERS, InvalidHeaderKey),
]


@pytest.mark.parametrize(("block", "error"), BAD_HEADERS, ids=str)
def test_bad_user_headers_are_refused(edges: Any, block: bytes, error: type[BrokerError]) -> None:
    message = Message(b"p", 1, block)
    with pytest.raises(error):
        edges.stored_from_old(memoryview(foreign.old_batch([message])))
    with pytest.raises(error):
        edges.stored_from_short(*foreign.short_batch([message]), 1)


def test_user_headers_cut_at_every_byte(edges: Any) -> None:
    block = foreign.BARE_HEADERS + foreign.bare_pair("ключ".encode(), 11, b"1234")
    for size in range(1, len(block)):
        if size == len(foreign.BARE_HEADERS):
            continue
        with pytest.raises(BrokerError):
            edges.stored_from_old(memoryview(foreign.old_batch([Message(b"p", 1, block[:size])])))


def test_user_headers_may_be_too_large_once_their_keys_have_kinds(edges: Any) -> None:
    pair = foreign.bare_pair(b"key", 2, b"1234567")  # 19 bytes, 20 with a kind
    for count in (5000, 5001):
        message = Message(b"p", 1, pair * count)
        old, short = foreign.old_batch([message]), foreign.short_batch([message])
        if count == 5000:
            assert len(edges.stored_from_old(memoryview(old))[1]) == 65 + 100_000
            assert len(edges.stored_from_short(*short, 1)) == 65 + 100_000
            continue
        with pytest.raises(TooBigUserHeaders):
            edges.stored_from_old(memoryview(old))
        with pytest.raises(TooBigUserHeaders):
            edges.stored_from_short(*short, 1)


def test_short_batches(edges: Any) -> None:
    messages = [Message(b"one", 1, foreign.BARE_HEADERS, 5), Message(b"", 0, b"", 6)]
    stored = edges.stored_from_short(*foreign.short_batch(messages), 2)
    assert list(decode_messages(memoryview(stored))) == [
        Message(b"one", 1, foreign.KEYED_HEADERS, 5),
        Message(b"", 0, b"", 6),
    ]


def test_short_batches_cut_at_every_byte(edges: Any) -> None:
    indexes, messages = foreign.short_batch([Message(b"one", 1), Message(b"two", 2)])
    for size in range(len(messages)):
        with pytest.raises((MissingIndex, InvalidMessagesSize)):
            edges.stored_from_short(indexes, messages[:size], 2)


def test_the_last_position_of_a_short_batch(edges: Any) -> None:
    indexes, messages = foreign.short_batch([Message(b"one", 1), Message(b"two", 2)])
    changed = bytearray(indexes)
    for position in (0, 58, 59, 1000):
        struct.pack_into("<I", changed, 20, position)
        if position >= 59:
            edges.stored_from_short(memoryview(changed), messages, 2)
            continue
        with pytest.raises(CannotReadIndexPosition):
            edges.stored_from_short(memoryview(changed), messages, 2)


# Batch records.


def view_of(*messages: Message) -> memoryview:
    return memoryview(encode_messages(messages))


def records_of(shown: bytes) -> list[tuple[int, int, int, int, int]]:
    """Partition, base offset, timestamp, origin timestamp and count of each record."""
    found, at = [], 0
    while at < len(shown):
        *places, length, _, count, _ = BATCH_HEADER.unpack_from(shown, at)
        found.append((*places, count))
        at += length
    assert at == len(shown)
    return found


def made(offset: int, timestamp: int = 9, origin: int = 5, size: int = 3) -> Message:
    return Message(bytes(size), offset + 1, b"", origin, offset, timestamp)


SPLITS: list[tuple[str, list[Message], list[tuple[int, int, int, int]]]] = [
    ("nothing", [], []),
    ("one", [made(4)], [(4, 9, 5, 1)]),
    ("a run", [made(4), made(5), made(6)], [(4, 9, 5, 3)]),
    ("another timestamp", [made(4), made(5, 10)], [(4, 9, 5, 1), (5, 10, 5, 1)]),
    ("a gap", [made(4), made(6)], [(4, 9, 5, 1), (6, 9, 5, 1)]),
    ("backwards", [made(4), made(3)], [(4, 9, 5, 1), (3, 9, 5, 1)]),
    ("around", [made(U64_MAX), made(0)], [(U64_MAX, 9, 5, 1), (0, 9, 5, 1)]),
    ("smaller origin", [made(4, 9, 5), made(5, 9, 2)], [(4, 9, 2, 2)]),
    ("widest", [made(0, 9, 1), made(1, 9, U32_MAX + 1)], [(0, 9, 1, 2)]),
    ("too wide", [made(0, 9, 1), made(1, 9, U32_MAX + 2)], [(0, 9, 1, 1), (1, 9, U32_MAX + 2, 1)]),
    (
        "too wide below",
        [made(0, 9, U32_MAX), made(1, 9, 2 * U32_MAX), made(2, 9, U32_MAX - 1)],
        [(0, 9, U32_MAX, 2), (2, 9, U32_MAX - 1, 1)],
    ),
]


@pytest.mark.parametrize(("name", "messages", "records"), SPLITS, ids=[row[0] for row in SPLITS])
def test_where_records_end(
    edges: Any, name: str, messages: list[Message], records: list[tuple[int, int, int, int]]
) -> None:
    shown = edges.converted(CONSENSUS, [view_of(*messages)], 3)
    assert records_of(shown) == [(3, *record) for record in records]
    assert edges.converted_size(CONSENSUS, [view_of(*messages)]) == len(shown)


def test_a_record_ends_with_its_view(edges: Any) -> None:
    views = [view_of(made(4)), view_of(), view_of(made(5))]
    assert records_of(edges.converted(CONSENSUS, views, 0)) == [(0, 4, 9, 5, 1), (0, 5, 9, 5, 1)]


def test_the_size_of_a_record_is_bounded(edges: Any) -> None:
    room = RECORD_SIZE_MAX - BATCH_HEADER_SIZE - FRAME_HEADER_SIZE
    whole = made(0, size=room)
    assert records_of(edges.converted(CONSENSUS, [view_of(whole)], 0))[0][-1] == 1
    for size, counts in ((room - 100, [2]), (room - FRAME_HEADER_SIZE, [1, 1]), (2 * room, [1, 1])):
        shown = edges.converted(CONSENSUS, [view_of(made(0, size=size), made(1, size=52))], 0)
        assert [record[-1] for record in records_of(shown)] == counts


def test_frames_and_records_match_their_checksums(edges: Any) -> None:
    messages = [Message(b"payload", 7, b"headers", 4, 20, 9), Message(b"", 8, b"", 6, 21, 9)]
    shown = edges.converted(CONSENSUS, [view_of(*messages)], 2)
    arrived = edges.stored_from_consensus(memoryview(shown), 2)
    again = [Message(b"payload", 7, b"headers", 4), Message(b"", 8, b"", 6)]
    assert list(decode_messages(memoryview(arrived))) == again


# Messages for older clients.


def test_old_messages(edges: Any) -> None:
    message = Message(b"123456789", 7, foreign.KEYED_HEADERS, 4, 20, 9)
    shown = edges.converted(OLD, [view_of(message)], 0)
    assert shown == (
        struct.pack("<QBQ16sII", 20, 1, 9, (7).to_bytes(16, "little"), 0xCBF43926, 17)
        + foreign.BARE_HEADERS
        + struct.pack("<I", 9)
        + b"123456789"
    )


def test_a_last_message_without_payload_is_seen_by_old_clients(edges: Any) -> None:
    empty, full = made(1, size=0), made(0)
    assert len(edges.converted(OLD, [view_of(full, empty)], 0)) == 48 + 45 + 1
    assert len(edges.converted(OLD, [view_of(full), view_of(empty), view_of()], 0)) == 94
    assert len(edges.converted(OLD, [view_of(empty, full)], 0)) == 48 + 45
    assert edges.converted_size(OLD, [view_of(full, empty)]) == 94
    with_headers = Message(b"", 1, foreign.KEYED_HEADERS)
    assert len(edges.converted(OLD, [view_of(with_headers)], 0)) == 45 + 17


def test_short_messages(edges: Any) -> None:
    message = Message(b"payload", 7, foreign.KEYED_HEADERS, 4, 20, 9)
    shown = edges.converted(SHORT, [view_of(message)], 0)
    rest = struct.pack("<16sQQQII", (7).to_bytes(16, "little"), 20, 9, 4, 17, 7)
    rest += b"payload" + foreign.BARE_HEADERS
    assert shown == struct.pack("<Q", xxhash.xxh3_64_intdigest(rest)) + rest


KEYS: list[tuple[HeaderField, bytes]] = [
    (header_field("name"), b"name"),
    (header_field("ключ"), "ключ".encode()),
    (header_field(b"raw"), b"raw"),
    (header_field(b"\xff\0"), b"ff00"),
    (HeaderField(HeaderKind.STRING, b"\xff"), b"ff"),
    (header_field(b"\xff" * 255), b"f" * 255),
    (header_field(True), b"true"),
    (header_field(False), b"false"),
    (header_field(-128, HeaderKind.INT8), b"-128"),
    (header_field(2**128 - 1, HeaderKind.UINT128), b"340282366920938463463374607431768211455"),
    (header_field(0.5), b"0.5"),
    (header_field(0.5, HeaderKind.FLOAT32), b"0.5"),
]


@pytest.mark.parametrize(("key", "text"), KEYS, ids=str)
def test_keys_of_any_kind_leave_as_text(edges: Any, key: HeaderField, text: bytes) -> None:
    assert key_text(key) == text
    block = encode_user_headers({key: header_field("v")})
    bare = foreign.bare_pair(text, 2, b"v")
    for layout, head in ((OLD, 45), (SHORT, 56)):
        shown = edges.converted(layout, [view_of(Message(b"p", 1, block))], 0)
        assert len(shown) == head + 1 + len(bare)
        assert bare in shown


NOT_HEADERS: list[bytes] = [
    b"\1",
    foreign.KEYED_HEADERS[:-1],
    foreign.KEYED_HEADERS + b"\2",
    foreign.BARE_HEADERS,
    b"\x10" + foreign.KEYED_HEADERS[1:],
    b"\0" + foreign.KEYED_HEADERS[1:],
    b"\3" + foreign.KEYED_HEADERS[1:],
    b"\2" + foreign.bare_pair(b"k", 11, b"123"),
    b"\2" + foreign.bare_pair(b"k", 16, b"123"),
    b"\2" + foreign.bare_pair(b"k", 2, bytes(256)),
    b"\2" + foreign.bare_pair(bytes(256), 2, b"v"),
]


@pytest.mark.parametrize("block", NOT_HEADERS, ids=str)
def test_a_block_that_does_not_parse_leaves_as_no_headers(edges: Any, block: bytes) -> None:
    message, plain = Message(b"p", 1, block), Message(b"p", 1)
    for layout in (OLD, SHORT):
        shown = edges.converted(layout, [view_of(message)], 0)
        assert shown == edges.converted(layout, [view_of(plain)], 0)
        assert edges.converted_size(layout, [view_of(message)]) == len(shown)


@pytest.mark.parametrize("layout", EdgeLayout)
def test_a_message_that_leaves_its_view_cannot_be_read(edges: Any, layout: EdgeLayout) -> None:
    whole = encode_messages([made(0), Message(b"payload", 2, foreign.KEYED_HEADERS, 5, 1, 9)])
    for size in range(1, len(whole)):
        if size == 67:
            continue
        view = memoryview(whole)[:size]
        for convert in (
            partial(edges.converted, layout, [view], 0),
            partial(edges.converted_size, layout, [view]),
            partial(edges.converted_piece, layout, view, 0, 0, True),
        ):
            with pytest.raises(CannotReadMessage):
                convert()


# Views that end in the middle of a message.


@given(
    sizes=st.lists(st.integers(0, 90), min_size=1, max_size=6),
    cuts=st.lists(st.integers(0, 1000), max_size=8),
)
def test_messages_may_be_cut_by_the_ends_of_views(sizes: list[int], cuts: list[int]) -> None:
    messages = [
        Message(bytes(size), number + 1, b"", 5, number, 9) for number, size in enumerate(sizes)
    ]
    whole = memoryview(encode_messages(messages))
    places = sorted({min(cut, len(whole)) for cut in cuts})
    views = [whole[a:b] for a, b in pairwise((0, *places, len(whole)))]
    assert b"".join(uncut(views)) == whole
    for form in (OLD_FORM, HYBRID_FORM):
        shown = form.whole([whole], 0)
        assert form.whole(views, 0) == shown
        assert b"".join(form.pieces(views, 0)) == shown
        assert form.size(views, 0) == len(shown)
    records = CONSENSUS_FORM.whole(views, 0)
    assert b"".join(CONSENSUS_FORM.pieces(views, 0)) == records
    assert CONSENSUS_FORM.size(views, 0) == len(records)


def test_a_message_whose_end_is_in_no_view_cannot_be_read() -> None:
    whole = memoryview(encode_messages([made(0), made(1)]))
    for cut in (1, 70, len(whole) - 1):
        with pytest.raises(CannotReadMessage):
            OLD_FORM.whole([whole[:cut], whole[cut:-1]], 0)


# Pieces.


def pieces(edges: Any, layout: int, views: list[memoryview]) -> Iterator[bytes]:
    for number, view in enumerate(views, start=1):
        at = 0
        while at < len(view):
            piece, at = edges.converted_piece(layout, view, at, 3, number == len(views))
            yield piece


@pytest.mark.parametrize("layout", EdgeLayout)
def test_pieces_are_the_whole(edges: Any, layout: EdgeLayout) -> None:
    half = PIECE_SIZE_MAX // 2
    sizes = [half // 2, 0, half + 9000, half - 9, 300_000, 0, half // 2, half - 64, half - 64, 0]
    views = [
        view_of(*(made(number, size=size) for number, size in enumerate(sizes))),
        view_of(made(90), made(91, 10, size=0)),
    ]
    parts = list(pieces(edges, layout, views))
    assert b"".join(parts) == edges.converted(layout, views, 3)
    assert len(b"".join(parts)) == edges.converted_size(layout, views)
    assert len(parts) > 3
    assert all(len(part) <= PIECE_SIZE_MAX + 256 or len(part) > 300_000 for part in parts)


@pytest.mark.parametrize("layout", EdgeLayout)
def test_where_a_piece_ends(edges: Any, layout: EdgeLayout) -> None:
    half = PIECE_SIZE_MAX // 2
    for size, end in ((half - 64, PIECE_SIZE_MAX), (half - 63, half)):
        # Another timestamp: never one record with the message before.
        view = view_of(made(0, size=half - 64), made(1, 10, size=size), made(2, 11))
        assert edges.converted_piece(layout, view, 0, 0, True)[1] == end


def test_only_the_last_message_of_all_is_followed_by_a_zero(edges: Any) -> None:
    view = view_of(made(0, size=0), made(1, size=PIECE_SIZE_MAX))
    first, end = edges.converted_piece(OLD, view, 0, 0, True)
    assert (len(first), end) == (45, 64)
    for is_last in (False, True):
        empty = edges.converted_piece(OLD, view[:64], 0, 0, is_last)
        assert empty == (first + bytes(is_last), 64)


def test_the_forms(edges: Any) -> None:
    views = [view_of(made(0), made(1, 10)), view_of(), view_of(made(2, size=0)), view_of()]
    bases = []
    for form, layout in (
        (CONSENSUS_FORM, CONSENSUS),
        (OLD_FORM, OLD),
        (HYBRID_FORM, SHORT),
        (BARE_KEYS_FORM, SHORT),
    ):
        whole = edges.converted(layout, views, 6)
        assert form.whole(views, 6) == whole
        assert b"".join(form.pieces(views, 6)) == whole
        assert form.size(views, 6) == len(whole)
        assert form.size([], 6) == 0
        assert list(form.pieces([], 6)) == []
        bases.append(form.partition_base)
    assert bases == [0, 1, 1, 0]
