"""The test's own book: what producers sent, how each batch ended, and what must be true afterwards.

A payload names its producer, its number and nothing else that could repeat, and its length and
filling follow from these; so a survivor tells which batch it belongs to, and a payload that was
never sent is recognised. Producers never repeat a batch: whatever appears twice is the server's.

    acknowledged   all of it is there, once, in the order of sending
    refused        nothing of it is there: an error says that nothing was appended
    unknown        the connection ended: the beginning of it may be there, or all, once
"""

import time
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Final, NamedTuple

FILLING: Final = b"borzoi runs with the pack. " * 40
LARGE_EVERY: Final = 97
LARGE_SIZE: Final = 100_000
SMALL_PREFIX: Final = "small"
"""A producer with such a name sends nothing large: ten messages to each of 10,000 partitions."""


class Outcome(Enum):
    ACKNOWLEDGED = auto()
    REFUSED = auto()
    UNKNOWN = auto()


@dataclass(slots=True)
class Batch:
    """Consecutive messages of one producer for one partition."""

    partition: int
    first: int
    count: int
    started: float
    ended: float = 0.0
    outcome: Outcome = Outcome.UNKNOWN


@dataclass
class ProducerBook:
    """Everything one producer sent, in order. Written by that producer alone."""

    name: str
    batches: list[Batch] = field(default_factory=list)
    sent: int = 0

    def begin(self, partition: int, count: int) -> tuple[Batch, list[bytes]]:
        """A batch about to be sent, and its payloads."""
        batch = Batch(partition, self.sent, count, time.monotonic())
        self.sent += count
        self.batches.append(batch)
        numbers = range(batch.first, batch.first + count)
        return batch, [payload_of(self.name, number) for number in numbers]

    def end(self, batch: Batch, outcome: Outcome) -> None:
        batch.ended = time.monotonic()
        batch.outcome = outcome


class Verdict(NamedTuple):
    """What a reading says about a book."""

    acknowledged: int
    lost: int
    lost_of_partition_max: int
    survivors: int
    unknown_survivors: int


def payload_of(producer: str, number: int) -> bytes:
    head = f"{producer}/{number}/".encode()
    seed = zlib.crc32(head)
    if seed % LARGE_EVERY == 0 and not producer.startswith(SMALL_PREFIX):
        return head + bytes(LARGE_SIZE)
    return head + FILLING[: seed % 300]


def sender_of(payload: bytes) -> tuple[str, int]:
    """Producer and number; AssertionError for a payload that no producer sends."""
    producer, number, _ = payload.split(b"/", 2)
    sender = producer.decode(), int(number)
    assert payload == payload_of(*sender), f"damaged payload of {sender}: {payload[:80]!r}"
    return sender


def judge(
    books: Sequence[ProducerBook],
    contents: Mapping[int, Sequence[bytes]],
    *,
    loss_allowed: bool = False,
) -> Verdict:
    """Compare what was sent with what is there; every broken promise raises AssertionError."""
    by_name = {book.name: book for book in books}
    places = _places(by_name, contents)
    acknowledged = lost = survivors = unknown_survivors = 0
    lost_by_partition: dict[int, int] = {}
    for book in books:
        newest: dict[int, int] = {}
        for batch in book.batches:
            found = [
                places.get((book.name, number))
                for number in range(batch.first, batch.first + batch.count)
            ]
            present = sum(place is not None for place in found)
            assert all(place is not None for place in found[:present]), (
                f"of a batch of {book.name} a message survived behind one that did not: {batch}"
            )
            survivors += present
            for place in found[:present]:
                assert place is not None
                assert place[0] == batch.partition, f"{batch} of {book.name} is in {place}"
            if batch.outcome is Outcome.REFUSED:
                assert present == 0, f"refused, and yet there: {batch} of {book.name}"
            elif batch.outcome is Outcome.UNKNOWN:
                unknown_survivors += present
            else:
                acknowledged += batch.count
                missing = batch.count - present
                lost += missing
                lost_by_partition[batch.partition] = (
                    lost_by_partition.get(batch.partition, 0) + missing
                )
                offsets = [place[1] for place in found[:present] if place is not None]
                before = newest.get(batch.partition, -1)
                assert offsets == sorted(offsets), f"not in order: {batch} of {book.name}"
                assert not offsets or offsets[0] > before, f"swapped: {batch} of {book.name}"
                newest[batch.partition] = offsets[-1] if offsets else before
    worst = max(lost_by_partition.values(), default=0)
    assert loss_allowed or lost == 0, f"{lost} acknowledged messages are lost"
    return Verdict(acknowledged, lost, worst, survivors, unknown_survivors)


def assert_prefix(books: Sequence[ProducerBook], contents: Mapping[int, Sequence[bytes]]) -> None:
    """After the death of everything: of each producer, the beginning of what it sent is there."""
    present = {sender_of(payload) for payloads in contents.values() for payload in payloads}
    for book in books:
        missing_from: dict[int, int] = {}
        for batch in book.batches:
            for number in range(batch.first, batch.first + batch.count):
                if (book.name, number) not in present:
                    missing_from.setdefault(batch.partition, number)
                else:
                    assert batch.partition not in missing_from, (
                        f"{book.name}: message {number} survived in partition {batch.partition}, "
                        f"{missing_from[batch.partition]} before it did not"
                    )


def _places(
    by_name: Mapping[str, ProducerBook], contents: Mapping[int, Sequence[bytes]]
) -> dict[tuple[str, int], tuple[int, int]]:
    """Where each message lies; nothing lies twice and nothing lies there that was not sent."""
    places: dict[tuple[str, int], tuple[int, int]] = {}
    for partition, payloads in contents.items():
        for offset, payload in enumerate(payloads):
            sender = sender_of(payload)
            book = by_name.get(sender[0])
            assert book is not None, f"a payload of an unknown producer: {sender}"
            assert sender[1] < book.sent, f"a payload that was never sent: {sender}"
            assert sender not in places, (
                f"{sender} lies twice: at {places[sender]} and {(partition, offset)}"
            )
            places[sender] = partition, offset
    return places
