"""Payloads and messages on their way into a batch."""

from typing import Any

import pytest

from borzoi.client.arguments import InvalidArgument
from borzoi.client.outgoing import (
    BATCH_SIZE_MAX,
    MESSAGE_ID_MAX,
    check_batch_size,
    new_message,
    prepare_outgoing,
)
from borzoi.protocol.errors import InvalidHeaderValue
from borzoi.protocol.headers import header_field
from borzoi.protocol.identifiers import Balanced
from borzoi.protocol.message import (
    MESSAGE_PAYLOAD_SIZE_MAX,
    USER_HEADERS_SIZE_MAX,
    Message,
    decode_messages,
)
from borzoi.protocol.send_messages import decode_send_messages, encode_prepared_messages

NOW_US = 1_700_000_000_000_000


def sent(*messages: bytes | str | Message) -> list[Message]:
    """What the server makes of them."""
    prepared = prepare_outgoing(messages, NOW_US)
    payload = encode_prepared_messages(0, 0, Balanced(), prepared)
    return list(decode_messages(decode_send_messages(memoryview(payload)).batch))


def test_payloads_become_messages_with_a_time() -> None:
    assert sent(b"bytes", "tést") == [
        Message(b"bytes", origin_timestamp=NOW_US),
        Message("tést".encode(), origin_timestamp=NOW_US),
    ]


def test_a_message_keeps_what_is_its_own() -> None:
    message = Message(b"x", id=MESSAGE_ID_MAX, user_headers=b"raw", origin_timestamp=5)
    assert sent(message) == [message]


def test_polled_messages_can_be_sent_on_in_any_order() -> None:
    polled = [
        Message(b"late", 1, b"", 5, offset=9, timestamp=7, checksum=3),
        Message(b"early", 2, b"", 6, offset=1, timestamp=7, checksum=3),
    ]
    assert sent(*polled) == [Message(b"late", 1, b"", 5), Message(b"early", 2, b"", 6)]


def test_new_messages_have_headers_of_python_values() -> None:
    message = new_message("text", id=7, headers={"k": 1, "flag": True, b"raw": 0.5})
    assert (message.payload, message.id) == (b"text", 7)
    assert message.headers == {
        header_field("k"): header_field(1),
        header_field("flag"): header_field(True),
        header_field(b"raw"): header_field(0.5),
    }
    assert new_message(b"plain") == Message(b"plain")


def test_headers_that_do_not_fit() -> None:
    with pytest.raises(InvalidHeaderValue):
        new_message("text", headers={"k": "v" * 256})


def test_the_largest_user_headers() -> None:
    assert sent(Message(b"x", user_headers=bytes(USER_HEADERS_SIZE_MAX), origin_timestamp=1))


@pytest.mark.slow
def test_the_largest_payload() -> None:
    prepared = prepare_outgoing([bytes(MESSAGE_PAYLOAD_SIZE_MAX)], NOW_US)
    assert len(prepared.index_and_messages) == 16 + 64 + MESSAGE_PAYLOAD_SIZE_MAX


WRONG: Any = [1]
BIG = MESSAGE_PAYLOAD_SIZE_MAX + 1


@pytest.mark.parametrize(
    ("messages", "reason"),
    [
        ([], "^messages has no message; at least 1 is needed$"),
        ("one text", "^messages is one str; a list is needed$"),
        (b"one", "^messages is one bytes; a list is needed$"),
        (WRONG, "^message 0 is of type int; bytes, str or Message is needed$"),
        ([b"x", ""], "^message 1 has a payload of 0 bytes; 1 to 64000000 are needed$"),
        ([Message(b"")], "^message 0 has a payload of 0 bytes"),
        ([Message(b"x", id=-1)], "^message 0: id is -1; 0 to 340282366920938463463374607431768211"),
        ([Message(b"x", id=MESSAGE_ID_MAX + 1)], "^message 0: id is 3402823669"),
        ([Message(b"x", origin_timestamp=-1)], "^message 0: origin_timestamp is -1"),
        (
            [Message(b"x", user_headers=bytes(USER_HEADERS_SIZE_MAX + 1))],
            "^message 0 has 100001 bytes of user headers; at most 100000 are allowed$",
        ),
    ],
)
def test_what_cannot_be_sent(messages: Any, reason: str) -> None:
    with pytest.raises(InvalidArgument, match=reason):
        prepare_outgoing(messages, NOW_US)


def test_a_payload_one_byte_too_large() -> None:
    with pytest.raises(InvalidArgument, match=f"payload of {BIG} bytes"):
        prepare_outgoing([bytes(BIG)], NOW_US)


def test_batches_that_no_frame_can_hold() -> None:
    check_batch_size(BATCH_SIZE_MAX)
    with pytest.raises(InvalidArgument, match="4294966513 bytes; at most 4294966512 fit"):
        check_batch_size(BATCH_SIZE_MAX + 1)


def test_a_batch_of_too_many_large_messages_is_not_even_encoded() -> None:
    payload = bytes(MESSAGE_PAYLOAD_SIZE_MAX)
    with pytest.raises(InvalidArgument, match="the batch has 4352005440 bytes"):
        prepare_outgoing([payload] * 68, NOW_US)
