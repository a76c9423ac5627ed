"""Requests that kill: recognised by their bytes, refused after two deaths, for a minute."""

import os
from typing import Final

from borzoi.protocol.batch import stamp_batch
from borzoi.protocol.codes import Code
from borzoi.protocol.identifiers import PartitionId
from borzoi.protocol.message import Message
from borzoi.protocol.send_messages import encode_send_messages
from borzoi.shards.faults.in_work import HEAD_SIZE_MAX
from borzoi.shards.faults.poison import (
    DEATHS_MIN,
    REFUSED_S,
    SUSPECTS_MAX,
    Guard,
    Refusal,
    Suspects,
    digest_of,
)

POLL: Final = int(Code.POLL_MESSAGES)


def digest(code: int, payload: bytes) -> int:
    return digest_of(code, len(payload), payload)


def test_code_length_and_the_first_bytes_make_a_request() -> None:
    payload = os.urandom(HEAD_SIZE_MAX + 100)
    assert digest(1, payload) == digest(1, payload[:HEAD_SIZE_MAX] + bytes(100))
    others = [
        digest(2, payload),
        digest(1, payload[:-1]),
        digest(1, b"x" + payload[1:]),
        digest(1, payload[: HEAD_SIZE_MAX - 1] + b"" + bytes([payload[HEAD_SIZE_MAX - 1] ^ 1])),
    ]
    assert len({digest(1, payload), *others}) == 5


def test_a_batch_is_the_same_before_and_after_it_was_stamped() -> None:
    for sizes in ([0], [10, 0, 3000, 5], [4000, 1], [1] * 150):
        messages = [Message(os.urandom(size)) for size in sizes]
        payload = bytearray(encode_send_messages("s", "t", PartitionId(1), messages))
        before = digest(Code.SEND_MESSAGES, bytes(payload))
        batch_size = sum(64 + size for size in sizes)
        batch = memoryview(payload)[-batch_size:]
        stamp_batch(batch, len(sizes), 100, 12345, os.urandom, segment_first_offset=0, position=0)
        assert digest(Code.SEND_MESSAGES, bytes(payload)) == before
        payload[-batch_size + 52] ^= 1  # the length of the first payload
        assert digest(Code.SEND_MESSAGES, bytes(payload)) != before


def test_a_batch_of_garbage_has_a_digest() -> None:
    for size in (0, 1, 3, 4, 5, 8, 63, 64, 100, HEAD_SIZE_MAX, HEAD_SIZE_MAX + 1):
        for start in (b"", bytes(8), b"\xff" * 8, b"\x04\0\0\0\xff\xff\xff\xff"):
            digest(Code.SEND_MESSAGES, start + os.urandom(size))


def test_two_deaths_make_a_refusal_and_another_one_renews_it() -> None:
    suspects = Suspects()
    assert DEATHS_MIN == 2
    assert suspects.note(7, 10.0) is None
    assert suspects.refused(10.0) == ()
    assert suspects.note(8, 11.0) is None
    assert suspects.note(7, 20.0) == Refusal(7, 20.0 + REFUSED_S)
    assert suspects.refused(20.0) == (Refusal(7, 20.0 + REFUSED_S),)
    assert suspects.refused(20.0 + REFUSED_S) == ()
    assert suspects.note(7, 500.0) == Refusal(7, 500.0 + REFUSED_S)


def test_suspects_are_bounded() -> None:
    suspects = Suspects()
    suspects.note(0, 0.0)
    suspects.note(0, 0.0)
    for digest in range(1, SUSPECTS_MAX + 1):
        suspects.note(digest, 0.0)
    assert suspects.refused(0.0) == ()
    assert suspects.note(0, 0.0) is None


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def test_a_guard_forgets_what_is_over() -> None:
    clock = Clock()
    guard = Guard(clock)
    poison, harmless = memoryview(b"poison"), memoryview(b"harmless")
    assert guard.ends_in_s() == 0
    guard.refuse([Refusal(digest(POLL, b"poison"), 160.0)])
    assert guard.ends_in_s() == 60
    assert guard.refuses(POLL, poison)
    assert not guard.refuses(POLL, harmless)
    assert not guard.refuses(POLL + 1, poison)
    clock.now = 160.0
    assert not guard.refuses(POLL, poison)
    assert guard.ends_in_s() == 0
