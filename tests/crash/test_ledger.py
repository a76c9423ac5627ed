"""The judge itself: it must see every kind of broken promise."""

import pytest

from tests.crash.ledger import Outcome, ProducerBook, Verdict, assert_prefix, judge, payload_of

ACKNOWLEDGED, REFUSED, UNKNOWN = Outcome.ACKNOWLEDGED, Outcome.REFUSED, Outcome.UNKNOWN


def book_of(*batches: tuple[int, int, Outcome]) -> ProducerBook:
    """Of (partition, count, outcome)."""
    book = ProducerBook("p")
    for partition, count, outcome in batches:
        batch, _ = book.begin(partition, count)
        book.end(batch, outcome)
    return book


def messages(*numbers: int) -> list[bytes]:
    return [payload_of("p", number) for number in numbers]


def test_everything_is_as_it_should_be() -> None:
    book = book_of((0, 2, ACKNOWLEDGED), (1, 1, REFUSED), (0, 3, UNKNOWN), (0, 1, ACKNOWLEDGED))
    contents = {0: messages(0, 1, 3, 4, 6), 1: []}
    assert judge([book], contents) == Verdict(3, 0, 0, 5, 2)


@pytest.mark.parametrize(
    ("contents", "complaint"),
    [
        ({0: messages(0), 1: []}, "1 acknowledged messages are lost"),
        ({0: messages(1), 1: []}, "behind one that did not"),
        ({0: messages(0, 1, 1), 1: []}, "lies twice"),
        ({0: messages(0, 1), 1: messages(1)}, "lies twice"),
        ({0: messages(1, 0), 1: []}, "not in order"),
        ({0: messages(0, 1, 2), 1: []}, "refused, and yet there"),
        ({0: messages(0), 1: messages(1)}, "is in"),
        ({0: messages(0, 1, 9), 1: []}, "never sent"),
        ({0: [*messages(0, 1), payload_of("q", 0)], 1: []}, "unknown producer"),
        ({0: [*messages(0), payload_of("p", 1) + b"!"], 1: []}, "damaged payload"),
    ],
)
def test_broken_promises(contents: dict[int, list[bytes]], complaint: str) -> None:
    book = book_of((0, 2, ACKNOWLEDGED), (0, 1, REFUSED))
    with pytest.raises(AssertionError, match=complaint):
        judge([book], contents)


def test_two_batches_that_swapped_their_places() -> None:
    book = book_of((0, 1, ACKNOWLEDGED), (0, 1, ACKNOWLEDGED))
    with pytest.raises(AssertionError, match="swapped"):
        judge([book], {0: messages(1, 0)})


def test_allowed_losses_are_counted_per_partition() -> None:
    book = book_of((0, 2, ACKNOWLEDGED), (1, 2, ACKNOWLEDGED), (0, 2, ACKNOWLEDGED))
    verdict = judge([book], {0: messages(0), 1: messages(2)}, loss_allowed=True)
    assert verdict == Verdict(6, 4, 3, 2, 0)


def test_a_hole_is_no_prefix() -> None:
    book = book_of((0, 1, ACKNOWLEDGED), (0, 1, ACKNOWLEDGED), (1, 1, ACKNOWLEDGED))
    assert_prefix([book], {0: messages(0), 1: messages(2)})
    assert_prefix([book], {0: [], 1: messages(2)})
    with pytest.raises(AssertionError, match="survived"):
        assert_prefix([book], {0: messages(1), 1: []})
