"""Messages as they are stored and come back; their bytes against those of protobuf."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from borzoi.liftbridge.acks import AckForm, ack_of, times_field
from borzoi.liftbridge.bridge import Route
from borzoi.liftbridge.calls import messages_in
from borzoi.liftbridge.delivery import framed_messages
from borzoi.liftbridge.ports import StreamView
from borzoi.liftbridge.publishing import STORED_SIZE_MAX, stored_for, stored_with
from borzoi.liftbridge.schema import Message, PublishRequest, PublishResponse
from borzoi.liftbridge.stored import Received, TooLarge, delivered, stored_message, subject_pair
from borzoi.protocol.headers import (
    HeaderKind,
    decode_user_headers,
    encode_user_headers,
    header_field,
)
from borzoi.protocol.message import MESSAGE_HEADER, decode_message

NAMES = st.text(max_size=12) | st.sampled_from(["lb.key", "lb.x.0", "", "n" * 255, "n" * 256])
VALUES = st.binary(max_size=20) | st.sampled_from([b"", b"v" * 255, b"v" * 256, b"v" * 3000])


def route(subject: str = "foo", partition: int = 0) -> Route:
    view = StreamView("a stream", "foo", "", 3, 0, {}, frozenset(), False, frozenset(), {}, {})
    return Route(view, partition, object(), subject, subject_pair(subject), ())


@given(
    VALUES,
    VALUES,
    st.dictionaries(NAMES, VALUES, max_size=4),
    st.sampled_from(["foo", "a.b", "s" * 300]),
    NAMES,
    NAMES,
)
def test_what_is_published_comes_back(
    value: bytes, key: bytes, headers: dict[str, bytes], subject: str, reply: str, correlation: str
) -> None:
    sent = Received(value, key, headers, subject, reply, correlation)
    stored = stored_message(sent, 7)
    found, end = delivered(memoryview(stored), 0, "another")
    assert end == len(stored)
    assert (found.value, found.key, found.subject, found.reply) == (value, key, subject, reply)
    assert found.correlation_id == correlation
    expected = {**headers, "subject": subject.encode(), "reply": reply.encode()}
    assert dict(found.headers) == expected


@given(VALUES, VALUES, st.dictionaries(NAMES, VALUES, max_size=2), NAMES)
def test_the_short_way_of_a_publish_stores_what_the_long_one_does(
    value: bytes, key: bytes, headers: dict[str, bytes], correlation: str
) -> None:
    request = PublishRequest(value=value, key=key, headers=headers, correlationId=correlation)
    short = stored_for(route(), request, 9)
    long = stored_message(Received(value, key, headers, "foo", "", correlation), 9)
    assert delivered(memoryview(short), 0, "") == delivered(memoryview(long), 0, "")


@given(
    st.lists(st.tuples(VALUES, VALUES, st.dictionaries(NAMES, VALUES, max_size=3)), max_size=4),
    st.integers(0, 2),
)
def test_delivered_bytes_are_those_of_protobuf(
    sent: list[tuple[bytes, bytes, dict[str, bytes]]], partition: int
) -> None:
    to = route("foo.1", partition)
    data = b"".join(
        stored_message(Received(value, key, headers, "foo.1", "r", "c"), 3)
        for value, key, headers in sent
    )
    pieces = b"".join(framed_messages([memoryview(data)], to, 100))
    found = [Message.FromString(one) for one in messages_in(pieces)]
    at = 0
    for message in found:
        wanted, at = delivered(memoryview(data), at, "")
        assert message == Message(
            offset=wanted.offset,
            key=wanted.key,
            value=wanted.value,
            timestamp=wanted.timestamp,
            stream="a stream",
            partition=partition,
            subject=wanted.subject,
            replySubject=wanted.reply,
            headers=wanted.headers,
            correlationId=wanted.correlation_id,
        )
    assert len(found) == len(sent)


@given(
    st.integers(0, 2**40),
    st.lists(NAMES, min_size=1, max_size=3),
    st.sampled_from([0, 1]),
    st.integers(0, 2),
)
def test_acks_are_those_of_protobuf(
    first: int, correlation_ids: list[str], policy: int, partition: int
) -> None:
    to = route("foo", partition)
    times = (1_700_000_000_000_000_000, 1_700_000_000_000_001_000)
    framed = AckForm(to, "inbox", policy).responses(first, correlation_ids, times_field(*times))
    found = [PublishResponse.FromString(one) for one in messages_in(framed)]
    assert found == [
        PublishResponse(
            ack=ack_of(to, first + number, correlation_id, "inbox", policy, times),
            correlationId=correlation_id,
        )
        for number, correlation_id in enumerate(correlation_ids)
    ]


def test_user_headers_say_what_iggy_clients_and_spark_read() -> None:
    request = PublishRequest(value=b"v", key=b"k", headers={"h": b"\1"}, correlationId="c")
    stored = decode_message(memoryview(stored_for(route(), request, 9)))
    headers = {key.data: value for key, value in decode_user_headers(stored.user_headers).items()}
    assert stored.payload == b"v"
    assert headers == {
        b"lb.key": (HeaderKind.RAW, b"k"),
        b"lb.subject": (HeaderKind.STRING, b"foo"),
        b"lb.correlation": (HeaderKind.STRING, b"c"),
        b"h": (HeaderKind.RAW, b"\1"),
    }


def test_messages_of_iggy_clients_have_the_subject_of_their_partition() -> None:
    headers = encode_user_headers(
        {header_field("text"): header_field("é"), header_field(7): header_field(True)}
    )
    stored = MESSAGE_HEADER.pack(0, bytes(16), 3, 5, 0, len(headers), 2, 0) + b"hi" + headers
    found, _ = delivered(memoryview(stored), 0, "foo.2")
    assert (found.offset, found.timestamp, found.value, found.key) == (3, 5000, b"hi", b"")
    assert found.headers == {
        "text": "é".encode(), "7": b"\1", "subject": b"foo.2", "reply": b"",
    }  # fmt: skip


def test_user_headers_that_are_none_say_nothing() -> None:
    stored = MESSAGE_HEADER.pack(0, bytes(16), 0, 0, 0, 3, 1, 0) + b"v" + b"???"
    found, end = delivered(memoryview(stored), 0, "foo")
    assert (found.value, found.headers, end) == (b"v", {"subject": b"foo", "reply": b""}, 68)


def test_a_message_has_a_bound() -> None:
    stored_with(b"v" * (STORED_SIZE_MAX - 1), b"h", 0)
    with pytest.raises(TooLarge, match="1048577 bytes, 1048576 are allowed"):
        stored_with(b"v" * STORED_SIZE_MAX, b"h", 0)
    with pytest.raises(TooLarge, match="100000 are allowed"):
        stored_message(Received(b"v", b"k" * 100_000), 0)
